"""Weekdays and hours as people say them: "с понедельника по пятницу", "без четверти восемь", "half past six". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_core.when.lexicon import DAY_AFTER, day_number

__all__ = ["hours", "minute_of", "weekdays"]

_LONG = (
    r"(?:понедельник|вторник|четверг)(?:а|у|ом|е|и|ам|ами|ах|ов)?|(?:сред|пятниц|суббот)(?:а|у|ы|е|ой|ей|ам|ами|ах)|"
    r"воскресень(?:е|я|ю|ем|ям|ями|ях)|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
)
_SHORT = r"(?:пн|вт|ср|чт|пт|сб|вс|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b\.?"
_DAY = rf"(?<![\w-])(?:{_LONG}|{_SHORT})(?!\w)"
_RUN = re.compile(rf"(?P<a>{_DAY})\s*(?:[-–—]|по|до|to|through|till|until)\s*(?P<b>(?:{_LONG}|{_SHORT})(?!\w))")
_ONE = re.compile(rf"(?<![\w-])(?:{_LONG})(?![\w-])")
_BRIEF = re.compile(rf"(?<![\w-]){_SHORT}(?!\w)")
_BESIDE = re.compile(rf"\s*(?:[,/&+]|and|и)\s*(?:{_DAY})|[,:]?\s*\d")  # behind a short name that is a weekday
_AFTER = re.compile(rf"(?:{_LONG}|{_SHORT})\s*(?:[,/&+]|and|и)\s*$")
_WORKING = re.compile(r"(?<!\w)(?:(?:по|в) (?:будн(?:ям|и|ие дни|им дням)|рабочи[ем]х?(?: дням| дни))|weekdays?)(?!\w)")
_FREE = re.compile(r"(?<!\w)(?:(?:по|в|на) выходн(?:ым|ые|ых)|weekends?)(?!\w)")
_EVERY = re.compile(
    r"(?<!\w)(?:ежедневно|каждый день|без выходных|daily|every day|seven days a week)(?!\w)(?!,?\s*(?:кроме|за исключением|except|but))"
)
_BUT = re.compile(r"(?:кроме|за исключением|except(?: for)?(?: on)?)\s+(?:the\s+)?$")
_MOVED = re.compile(r"(?:mov|postpon|shift|reschedul|chang|switch|перен|сдвин)\w*(?:\s+\w+){0,4}\s*(?:from|с|со)?\s*$")
_NUMBERS = {
    "по": 0, "пн": 0, "mo": 0, "вт": 1, "tu": 1, "ср": 2, "we": 2, "че": 3, "чт": 3, "th": 3, "пя": 4, "пт": 4, "fr": 4,
    "су": 5, "сб": 5, "sa": 5, "во": 6, "вс": 6, "su": 6,
}  # fmt: skip

_WORDS = (
    (1, "час часу часа one"), (2, "два двух two"), (3, "три трех three"), (4, "четыре четырех four"), (5, "пять пяти five"),
    (6, "шесть шести six"), (7, "семь семи seven"), (8, "восемь восьми eight"), (9, "девять девяти nine"),
    (10, "десять десяти ten"), (11, "одиннадцать одиннадцати eleven"), (12, "двенадцать двенадцати twelve"),
)  # fmt: skip
_VALUE = {word: value for value, words in _WORDS for word in words.split()}
_VALUE |= {"четверти": 15, "quarter": 15, "двадцать": 20, "двадцати": 20, "twenty": 20}
_H = "(?:1[0-2]|[1-9]|" + "|".join(w for _, row in _WORDS for w in row.split()) + r")(?!\w)"
_RU_SAID = r"(?:пяти|пять|десяти|десять|двадцат[иь](?: пят[иь])?|\d{1,2})"
_HALF = r"(?:(?P<half>\s*(?:a\.?m\b\.?|p\.?m\b\.?|утра|дня|вечера|ночи|in the (?:morning|afternoon|evening)|at night))(?!\w))"
_NEXT = rf"(?P<next>{DAY_AFTER})(?!\w)"
_PARTS_RU = re.compile(
    rf"(?<!\w)(?:(?P<thirty>половин[аеуы]\s+|пол[- ]?)|(?P<fifteen>четверть\s+)|(?P<n>{_RU_SAID})\s+минут\w?\s+){_NEXT}{_HALF}?"
)
_LESS_RU = re.compile(rf"(?<!\w)без\s+(?P<n>четверти|{_RU_SAID})(?:\s+минут\w?)?\s+(?P<h>{_H}){_HALF}?")
_EN_SAID = r"(?:a\s+)?(?P<n>half|quarter|five|ten|twenty(?:[- ]five)?)(?:\s+minutes)?"
_PAST_EN = re.compile(rf"(?<!\w){_EN_SAID}\s+past\s+(?P<h>{_H}){_HALF}?")
_TO_EN = re.compile(rf"(?<!\w)(?:(?<=at )|(?=a?\s*quarter)){_EN_SAID}\s+to\s+(?P<h>{_H}){_HALF}?")
_FULL = re.compile(rf"(?<!\w)(?P<h>(?!\d){_H})\s*(?P<hour>час(?:а|ов)?\s+)?{_HALF}")
_NOON = re.compile(
    r"(?<!\w)(?P<noon>noon|midday|полдень|полудн(?:я|ю|ем|е))(?!\w)|(?<!\w)(?:midnight|полночь|пол(?:у)?ночи)(?!\w)"
)
_FROM_TO = re.compile(
    r"(?<!\w)с\s+(?P<a>[01]?\d|2[0-4])\s+до\s+(?P<b>[01]?\d|2[0-4])(?![\d:]|[.,]\d)(?=\s*(?:$|[.,;!?)\n]|час|ч\b))"
)

_LONGEST_BEFORE = 100  # characters before a weekday that tell how it is meant

Days = tuple[int, int, list[int]]  # start, end, weekdays; Monday is 0
Hours = tuple[
    int, int, list[int], bool
]  # start, end, minutes of the day, whether half a day earlier or later is meant too


def weekdays(low: str, text: str) -> Iterator[Days]:
    """The weekdays of a folded text; "Sat" and "сб" only where another or a number stands beside."""
    for pattern, days in ((_WORKING, [0, 1, 2, 3, 4]), (_FREE, [5, 6]), (_EVERY, list(range(7)))):
        for m in pattern.finditer(low):
            yield m.start(), m.end(), days
    for m in _RUN.finditer(low):
        first, last = _NUMBERS[m["a"][:2]], _NUMBERS[m["b"][:2]]
        if not _found_before(_MOVED, low, m.start()) and _capital(m, text):
            yield m.start(), m.end(), [(first + n) % 7 for n in range((last - first) % 7 + 1)]
    for m in _ONE.finditer(low):
        day = _NUMBERS[m[0][:2]]
        left_out = _found_before(_BUT, low, m.start())  # "except Mondays": all others
        yield m.start(), m.end(), [n for n in range(7) if n != day] if left_out else [day]
    for m in _BRIEF.finditer(low):
        if _capital(m, text) and (_BESIDE.match(low, m.end()) or _found_before(_AFTER, low, m.start())):
            yield m.start(), m.end(), [_NUMBERS[m[0][:2]]]


def _found_before(what: re.Pattern[str], low: str, at: int) -> bool:
    return what.search(low, max(0, at - _LONGEST_BEFORE), at) is not None


def _capital(m: re.Match[str], text: str) -> bool:
    """English short names are other words in small letters."""
    return not m[0].isascii() or text[m.start()].isupper()


def hours(low: str) -> Iterator[Hours]:
    """The times of day in words of a folded text."""
    for m in _PARTS_RU.finditer(low):
        hour = day_number(m["next"]) - 1
        if 0 <= hour <= 11:
            more = 30 if m["thirty"] else 15 if m["fifteen"] else _count(m["n"])
            yield _timed(m, hour * 60 + more)
    for m in _LESS_RU.finditer(low):
        yield _timed(m, _count(m["h"]) * 60 - _count(m["n"]))
    for m in _PAST_EN.finditer(low):
        yield _timed(m, _count(m["h"]) * 60 + (30 if m["n"] == "half" else _count(m["n"])))
    for m in _TO_EN.finditer(low):
        yield _timed(m, _count(m["h"]) * 60 - (30 if m["n"] == "half" else _count(m["n"])))
    for m in _FULL.finditer(low):
        if m["half"].strip() != "дня" or m["hour"] or m["h"] == "час":  # "три дня" are three days
            yield _timed(m, _count(m["h"]) * 60)
    for m in _FROM_TO.finditer(low):
        yield m.start(), m.end(), [int(m["a"]) % 24 * 60, int(m["b"]) % 24 * 60], False
    for m in _NOON.finditer(low):
        yield m.start(), m.end(), [720 if m["noon"] else 0], False


def _count(said: str) -> int:
    if said.isdecimal():
        return int(said)
    return sum(_VALUE[word] for word in re.split(r"[ -]", said))


def _timed(m: re.Match[str], minute: int) -> Hours:
    return m.start(), m.end(), [minute_of(*divmod(minute % 720, 60), m["half"])], m["half"] is None


def minute_of(hour: int, minute: int, half: str | None) -> int:
    """The minute of the day, from what a clock shows and what half of the day is named."""
    said = (half or "").strip()
    later = said.startswith("p") or said in {"дня", "вечера", "in the afternoon", "in the evening", "at night"}
    if later and hour < 12:
        hour += 12
    if hour == 12 and (said.startswith("a") or said == "ночи"):
        hour = 0
    return (hour % 24) * 60 + minute
