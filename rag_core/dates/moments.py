"""Dates, weekdays and times of day in a text, as fields that can be compared.

12.08 is 12 августа, 7:30 pm is 19:30; also in words: "с понедельника по пятницу", "без четверти восемь", "half past
six". Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_core.dates.date_tokenizer import DAY_AFTER, MONTH, MONTH_SHORT, parse_day_number, parse_month
from rag_core.text.numbers import CARDINALS, CURRENCY
from rag_core.text.tokens import CYRILLIC

_LONG_WEEKDAY_NAMES = (
    r"(?:понедельник|вторник|четверг)(?:а|у|ом|е|и|ам|ами|ах|ов)?|(?:сред|пятниц|суббот)(?:а|у|ы|е|ой|ей|ам|ами|ах)|"
    r"воскресень(?:е|я|ю|ем|ям|ями|ях)|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
)
_SHORT_WEEKDAY_NAMES = r"(?:пн|вт|ср|чт|пт|сб|вс|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b\.?"
_ANY_WEEKDAY = rf"(?<![\w-])(?:{_LONG_WEEKDAY_NAMES}|{_SHORT_WEEKDAY_NAMES})(?!\w)"
_WEEKDAY_RANGE = re.compile(
    rf"(?P<a>{_ANY_WEEKDAY})\s*(?:[-–—]|по|до|to|through|till|until)\s*(?P<b>(?:{_LONG_WEEKDAY_NAMES}|{_SHORT_WEEKDAY_NAMES})(?!\w))"
)
_LONG_WEEKDAY = re.compile(rf"(?<![\w-])(?:{_LONG_WEEKDAY_NAMES})(?![\w-])")
_SHORT_WEEKDAY = re.compile(rf"(?<![\w-]){_SHORT_WEEKDAY_NAMES}(?!\w)")
_WEEKDAY_NEIGHBOUR = re.compile(
    rf"\s*(?:[,/&+]|and|и)\s*(?:{_ANY_WEEKDAY})|[,:]?\s*\d"
)  # after a short name that is a weekday
_WEEKDAY_BEFORE = re.compile(rf"(?:{_LONG_WEEKDAY_NAMES}|{_SHORT_WEEKDAY_NAMES})\s*(?:[,/&+]|and|и)\s*$")
_WORKING_DAYS = re.compile(
    r"(?<!\w)(?:(?:по|в) (?:будн(?:ям|и|ие дни|им дням)|рабочи[ем]х?(?: дням| дни))|weekdays?)(?!\w)"
)
_WEEKEND_DAYS = re.compile(r"(?<!\w)(?:(?:по|в|на) выходн(?:ым|ые|ых)|weekends?)(?!\w)")
_EVERY_DAY = re.compile(
    r"(?<!\w)(?:ежедневно|каждый день|без выходных|daily|every day|seven days a week)(?!\w)(?!,?\s*(?:кроме|за исключением|except|but))"
)
_EXCEPT_WORDS = re.compile(r"(?:кроме|за исключением|except(?: for)?(?: on)?)\s+(?:the\s+)?$")
_RESCHEDULED_FROM = re.compile(
    r"(?:mov|postpon|shift|reschedul|chang|switch|перен|сдвин)\w*(?:\s+\w+){0,4}\s*(?:from|с|со)?\s*$"
)
_WEEKDAY_NUMBERS = {
    "по": 0, "пн": 0, "mo": 0, "вт": 1, "tu": 1, "ср": 2, "we": 2, "че": 3, "чт": 3, "th": 3, "пя": 4, "пт": 4, "fr": 4,
    "су": 5, "сб": 5, "sa": 5, "во": 6, "вс": 6, "su": 6,
}  # fmt: skip

_NIGHTS = {"две", "одной", "обе", "both"}  # "две ночи" are two nights
_HOUR_VALUES = {word: int(n) for word, n in CARDINALS.items() if n in range(1, 13) and word not in _NIGHTS}
_HOUR_VALUES |= dict.fromkeys(("час", "часу", "часа"), 1)
_HOUR_NUMBER = rf"(?:1[0-2]|[1-9]|{'|'.join(_HOUR_VALUES)})(?!\w)"
_HOUR_VALUES |= {"half": 30, "четверти": 15, "quarter": 15, "двадцать": 20, "двадцати": 20, "twenty": 20}
_MINUTES_RU = r"(?:пяти|пять|десяти|десять|двадцат[иь](?: пят[иь])?|\d{1,2})"
_HALF_OF_DAY = r"(?:(?P<half>\s*(?:a\.?m\b\.?|p\.?m\b\.?|утра|дня|вечера|ночи|in the (?:morning|afternoon|evening)|at night))(?!\w))"
_NEXT_HOUR = rf"(?P<next>{DAY_AFTER})(?!\w)"
_PAST_HOUR_RU = re.compile(
    rf"(?<!\w)(?:(?P<thirty>половин[аеуы]\s+|пол[- ]?)|(?P<fifteen>четверть\s+)|(?P<n>{_MINUTES_RU})\s+минут\w?\s+){_NEXT_HOUR}{_HALF_OF_DAY}?"
)
_TO_HOUR_RU = re.compile(
    rf"(?<!\w)без\s+(?P<n>четверти|{_MINUTES_RU})(?:\s+минут\w?)?\s+(?P<h>{_HOUR_NUMBER}){_HALF_OF_DAY}?"
)
_MINUTES_EN = r"(?:a\s+)?(?P<n>half|quarter|five|ten|twenty(?:[- ]five)?)(?:\s+minutes)?"
_PAST_HOUR_EN = re.compile(rf"(?<!\w){_MINUTES_EN}\s+past\s+(?P<h>{_HOUR_NUMBER}){_HALF_OF_DAY}?")
_TO_HOUR_EN = re.compile(
    rf"(?<!\w)(?:(?<=at )|(?=a?\s*quarter)){_MINUTES_EN}\s+to\s+(?P<h>{_HOUR_NUMBER}){_HALF_OF_DAY}?"
)
_FULL_HOUR = re.compile(rf"(?<!\w)(?P<h>(?!\d){_HOUR_NUMBER})\s*(?P<hour>час(?:а|ов)?\s+)?{_HALF_OF_DAY}")
_NOON = re.compile(
    r"(?<!\w)(?P<noon>noon|midday|полдень|полудн(?:я|ю|ем|е))(?!\w)|(?<!\w)(?:midnight|полночь|пол(?:у)?ночи)(?!\w)"
)
_HOUR_RANGE = re.compile(
    r"(?<!\w)с\s+(?P<a>[01]?\d|2[0-4])\s+до\s+(?P<b>[01]?\d|2[0-4])(?![\d:]|[.,]\d)(?=\s*(?:$|[.,;!?)\n]|час|ч\b))"
)

_LONGEST_BEFORE = 100  # characters of context before a weekday


@dataclass(frozen=True, slots=True)
class Moment:
    """Date or time of day at [start:end]; unnamed fields are None. Monday is weekday 0; `minute` is from midnight."""

    start: int
    end: int
    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    minute: int | None = None
    decade: int | None = None  # 197: the 1970s
    either: bool = False  # "half past six": morning or evening

    def fields(self) -> dict[str, int]:
        """Fields that are set; a year has its decade."""
        named = {
            "year": self.year, "month": self.month, "day": self.day, "weekday": self.weekday, "minute": self.minute,
            "decade": self.decade if self.year is None else self.year // 10,
        }  # fmt: skip
        return {name: value for name, value in named.items() if value is not None}


def _find_weekdays(low: str, text: str) -> Iterator[list[Moment]]:
    """Find the weekdays of a folded text; "Sat" and "сб" only beside another weekday or a number."""
    for pattern, days in ((_WORKING_DAYS, range(5)), (_WEEKEND_DAYS, range(5, 7)), (_EVERY_DAY, range(7))):
        for m in pattern.finditer(low):
            yield [Moment(*m.span(), weekday=day) for day in days]
    for m in _WEEKDAY_RANGE.finditer(low):
        first, last = _WEEKDAY_NUMBERS[m["a"][:2]], _WEEKDAY_NUMBERS[m["b"][:2]]
        named = not m[0].isascii() or text[m.start()].isupper()  # an English name in small letters is another word
        if named and not _found_before(_RESCHEDULED_FROM, low, m.start()):
            yield [Moment(*m.span(), weekday=(first + n) % 7) for n in range((last - first) % 7 + 1)]
    for m in _LONG_WEEKDAY.finditer(low):
        number = _WEEKDAY_NUMBERS[m[0][:2]]
        left_out = _found_before(_EXCEPT_WORDS, low, m.start())  # "except Mondays": all other days
        yield [Moment(*m.span(), weekday=day) for day in range(7) if (day == number) != left_out]
    for m in _SHORT_WEEKDAY.finditer(low):
        beside = _WEEKDAY_NEIGHBOUR.match(low, m.end()) or _found_before(_WEEKDAY_BEFORE, low, m.start())
        if beside and (not m[0].isascii() or text[m.start()].isupper()):
            yield [Moment(*m.span(), weekday=_WEEKDAY_NUMBERS[m[0][:2]])]


def _found_before(what: re.Pattern[str], low: str, at: int) -> bool:
    return what.search(low, max(0, at - _LONGEST_BEFORE), at) is not None


def _find_hours(low: str) -> Iterator[list[Moment]]:
    found = list[tuple[re.Match[str], int]]()
    for m in _PAST_HOUR_RU.finditer(low):
        hour = parse_day_number(m["next"]) - 1
        if 0 <= hour <= 11:
            found.append((m, hour * 60 + (30 if m["thirty"] else 15 if m["fifteen"] else _parse_count(m["n"]))))
    for pattern, sign in ((_TO_HOUR_RU, -1), (_PAST_HOUR_EN, 1), (_TO_HOUR_EN, -1)):
        found += [(m, _parse_count(m["h"]) * 60 + sign * _parse_count(m["n"])) for m in pattern.finditer(low)]
    for m in _FULL_HOUR.finditer(low):
        if m["half"].strip() != "дня" or m["hour"] or m["h"] == "час":  # "три дня" is three days, not three o'clock
            found.append((m, _parse_count(m["h"]) * 60))
    for m, minute in found:
        time = _compute_minute_of_day(*divmod(minute % 720, 60), m["half"])
        yield [Moment(*m.span(), minute=time, either=m["half"] is None)]
    for m in _HOUR_RANGE.finditer(low):
        yield [Moment(*m.span(), minute=int(m[name]) % 24 * 60) for name in ("a", "b")]
    for m in _NOON.finditer(low):
        yield [Moment(*m.span(), minute=720 if m["noon"] else 0)]


def _parse_count(said: str) -> int:
    return int(said) if said.isdecimal() else sum(_HOUR_VALUES[word] for word in re.split(r"[ -]", said))


def _compute_minute_of_day(hour: int, minute: int, half: str | None) -> int:
    said = (half or "").strip()
    later = said.startswith("p") or said in {"дня", "вечера", "in the afternoon", "in the evening", "at night"}
    if later and hour < 12:
        hour += 12
    if hour == 12 and (said.startswith("a") or said == "ночи"):
        hour = 0
    return (hour % 24) * 60 + minute


_YEAR_GROUP = r"(?P<y>(?:1\d|20)\d\d)(?!\d)"
_DAY_RANGE_SEPARATOR = r"\s*(?:по|до|-|–|—|to|and|и|through|until)\s*"
_DAY_GROUP = rf"(?P<d>(?<![\d.,:]){DAY_AFTER})"
_DAY_MONTH = re.compile(
    rf"(?:(?P<d0>(?<![\d.,:]){DAY_AFTER}){_DAY_RANGE_SEPARATOR})?{_DAY_GROUP}\s+(?:of\s+)?(?P<m>{MONTH_SHORT})(?!\w)(?:,?\s+{_YEAR_GROUP})?"
)
_MONTH_DAY = re.compile(
    rf"(?<!\w)(?P<m>{MONTH_SHORT})\s+(?:the\s+)?(?P<d0>{DAY_AFTER})(?:{_DAY_RANGE_SEPARATOR}(?P<d>{DAY_AFTER}))?(?!\w|:\d)(?:\s*,?\s+{_YEAR_GROUP})?"
)
_MONTH_YEAR = re.compile(rf"(?<!\w)(?P<m>{MONTH_SHORT})\s*,?\s+(?:of\s+)?{_YEAR_GROUP}")
_MONTH_ALONE = re.compile(rf"(?<![\w-])(?P<m>{MONTH})(?![\w-])")
_ISO = re.compile(r"(?<!\d)(?P<y>(?:1\d|20)\d\d)-(?P<m>0?[1-9]|1[0-2])-(?P<d>3[01]|[12]\d|0?[1-9])(?!\d)")
_DOTTED = re.compile(
    r"(?<![\d.,])(?P<d>3[01]|[12]\d|0?[1-9])\.(?P<m>0[1-9]|1[0-2])(?:\.(?P<y>(?:19|20)?\d\d))?(?![\d%]|[.,]\d|\s*(?:%|млн|млрд|тыс|процент|percent|million|кг|км|руб))"
)
_SLASHED = re.compile(r"(?<![\d/])(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>(?:19|20)\d\d)(?!\d)")
_YEAR_ALONE = re.compile(
    rf"(?<!costs )(?<!cost )(?<!стоит )(?<!стоят )(?<![\w.,$€£№#:/]){_YEAR_GROUP}(?![.,]\d|[%\w])(?!\s*(?:{CURRENCY}|человек|чел\b|тонн|км\b|кг\b|people|km\b|kg\b|метр|met(?:er|re)|мест\b|тыс|млн))"
)
_DECADE = re.compile(r"(?<![\w.,])(?P<y>(?:1\d|20)\d0)(?:\s?['’]?s\b|-?(?:е|х|ых)\b(?:\s+год\w*)?)")
_CLOCK = re.compile(
    r"(?<![\d:])(?P<h>[01]?\d|2[0-4])[:.](?P<min>[0-5]\d)(?![\d:]|\.\d)(?P<half>\s*(?:a\.?m\b|p\.?m\b|утра|дня|вечера|ночи|in the (?:morning|afternoon|evening)))?"
)
_HOUR = re.compile(
    r"(?<![\d:.,])(?P<h>[01]?\d|2[0-4])\s*(?:час(?:а|ов)?\s+)?(?P<half>a\.?m\b|p\.?m\b|утра|вечера|ночи|o'clock)(?!\w)"
)

_HALF_BEHIND = re.compile(r"\s*(?:утра|вечера|a\.?m\b|p\.?m\b)")
_AT_BEFORE = re.compile(r"(?:^|\s)(?:в|с|до|к|at|from|until)\s$")
_MEASURE_BEHIND = re.compile(r"\s*(?:%|млн|млрд|тыс|процент|руб|раз|percent|million|billion|°)")
_LONGEST_AT = 8  # characters of the longest match of `_AT_BEFORE`


def parse_moments(low: str, text: str) -> list[Moment]:
    """Parse the dates and times of a folded text, in order; the original `text` tells "May" from "may"."""
    taken = bytearray(len(low))
    found: list[Moment] = []
    for moments in _scan_moments(low, text):
        start, end = moments[0].start, moments[0].end
        if not any(taken[start:end]):
            taken[start:end] = b"\1" * (end - start)
            found.extend(moments)
    return sorted(found, key=lambda moment: moment.start)


def _scan_moments(low: str, text: str) -> Iterator[list[Moment]]:
    """Scan for the moments of each expression, which all have its place; of overlapping expressions the first counts."""
    for m in (*_ISO.finditer(low), *_DOTTED.finditer(low)):
        year = int(m["y"]) if m["y"] else None
        year = year + 2000 if year is not None and year < 100 else year
        if not _HALF_BEHIND.match(low, m.end()):  # "в 10.11" beside a word for a part of the day is a time
            yield [Moment(*m.span(), year, int(m["m"]), int(m["d"]))]
    russian = bool(CYRILLIC.search(low))
    for m in _SLASHED.finditer(low):
        a, b = int(m["a"]), int(m["b"])
        month, day = (a, b) if a <= 12 and not russian else (b, a)
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield [Moment(*m.span(), int(m["y"]), month, day)]
    for m in (*_DAY_MONTH.finditer(low), *_MONTH_DAY.finditer(low)):
        year = int(m["y"]) if m["y"] else None
        days = [parse_day_number(m[name].strip()) for name in ("d0", "d") if m[name]]
        yield [Moment(*m.span(), year, parse_month(m["m"]), day) for day in days]
    for m in _MONTH_YEAR.finditer(low):
        yield [Moment(*m.span(), int(m["y"]), parse_month(m["m"]))]
    yield from _find_hours(low)
    for m in _CLOCK.finditer(low):
        dotted = "." in m[0].split()[0]
        named = m["half"] or _AT_BEFORE.search(low, max(0, m.start() - _LONGEST_AT), m.start())
        if not dotted or (named and not _MEASURE_BEHIND.match(low, m.end())):
            yield [Moment(*m.span(), minute=_compute_minute_of_day(int(m["h"]), int(m["min"]), m["half"]))]
    for m in _HOUR.finditer(low):
        yield [Moment(*m.span(), minute=_compute_minute_of_day(int(m["h"]), 0, m["half"]))]
    for m in _MONTH_ALONE.finditer(low):
        if not m[0].isascii() or text[m.start()].isupper():
            yield [Moment(*m.span(), month=parse_month(m["m"]))]
    yield from ([Moment(*m.span(), decade=int(m["y"]) // 10)] for m in _DECADE.finditer(low))
    yield from ([Moment(*m.span(), int(m["y"]))] for m in _YEAR_ALONE.finditer(low))
    yield from _find_weekdays(low, text)
