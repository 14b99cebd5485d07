"""Dates and times of day in a text as fields that can be compared: 12.08 is 12 августа, 7:30 pm is 19:30. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_core.verify.spoken import hours, minute_of, weekdays
from rag_core.when.lexicon import DAY_AFTER, MONTH, MONTH_SHORT, day_number, month_of

__all__ = ["Moment", "moments_of"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or a time of day at [start:end]; what is not said is None. Monday is weekday 0; `minute` counts the day's."""

    start: int
    end: int
    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    minute: int | None = None
    decade: int | None = None  # 197: the 1970s
    either: bool = False  # "half past six": in the morning or in the evening

    def fields(self) -> dict[str, int]:
        """What is said of it."""
        named = (
            ("year", self.year),
            ("month", self.month),
            ("day", self.day),
            ("weekday", self.weekday),
            ("minute", self.minute),
            ("decade", self.decade if self.year is None else self.year // 10),
        )
        return {name: value for name, value in named if value is not None}


_YEAR = r"(?P<y>(?:1\d|20)\d\d)(?!\d)"
_TO = r"\s*(?:по|до|-|–|—|to|and|и|through|until)\s*"
_D = rf"(?P<d>(?<![\d.,:]){DAY_AFTER})"
_DAY_MONTH = re.compile(
    rf"(?:(?P<d0>(?<![\d.,:]){DAY_AFTER}){_TO})?{_D}\s+(?:of\s+)?(?P<m>{MONTH_SHORT})(?!\w)(?:,?\s+{_YEAR})?"
)
_MONTH_DAY = re.compile(
    rf"(?<!\w)(?P<m>{MONTH_SHORT})\s+(?:the\s+)?(?P<d0>{DAY_AFTER})(?:{_TO}(?P<d>{DAY_AFTER}))?(?!\w|:\d)(?:\s*,?\s+{_YEAR})?"
)
_MONTH_YEAR = re.compile(rf"(?<!\w)(?P<m>{MONTH_SHORT})\s*,?\s+(?:of\s+)?{_YEAR}")
_MONTH_ALONE = re.compile(rf"(?<![\w-])(?P<m>{MONTH})(?![\w-])")
_ISO = re.compile(r"(?<!\d)(?P<y>(?:1\d|20)\d\d)-(?P<m>0?[1-9]|1[0-2])-(?P<d>3[01]|[12]\d|0?[1-9])(?!\d)")
_DOTTED = re.compile(
    r"(?<![\d.,])(?P<d>3[01]|[12]\d|0?[1-9])\.(?P<m>0[1-9]|1[0-2])(?:\.(?P<y>(?:19|20)?\d\d))?(?![\d%]|[.,]\d|\s*(?:%|млн|млрд|тыс|процент|percent|million|кг|км|руб))"
)
_SLASHED = re.compile(r"(?<![\d/])(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>(?:19|20)\d\d)(?!\d)")
_YEAR_ALONE = re.compile(
    rf"(?<![\w.,$€£№#:/]){_YEAR}(?![.,]\d|[%\w])(?!\s*(?:руб|₽|доллар|евро|человек|чел\b|тонн|км\b|кг\b|people|dollars|euros|km\b|kg\b|метр|met(?:er|re)|мест\b|тыс|млн))"
)
_DECADE = re.compile(r"(?<![\w.,])(?P<y>(?:1\d|20)\d0)(?:\s?['’]?s\b|-?(?:е|х|ых)\b(?:\s+год\w*)?)")
_CLOCK = re.compile(
    r"(?<![\d:])(?P<h>[01]?\d|2[0-4])[:.](?P<min>[0-5]\d)(?![\d:]|\.\d)(?P<half>\s*(?:a\.?m\b|p\.?m\b|утра|дня|вечера|ночи|in the (?:morning|afternoon|evening)))?"
)
_HOUR = re.compile(
    r"(?<![\d:.,])(?P<h>[01]?\d|2[0-4])\s*(?:час(?:а|ов)?\s+)?(?P<half>a\.?m\b|p\.?m\b|утра|вечера|ночи|o'clock)(?!\w)"
)


def moments_of(low: str, text: str) -> list[Moment]:
    """The dates and times of a folded text, in order; `text` as it was written tells "May" from "may"."""
    taken = bytearray(len(low))
    found: list[Moment] = []
    for start, end, moments in _all(low, text):
        if any(taken[start:end]):
            continue
        taken[start:end] = b"\1" * (end - start)
        found.extend(moments)
    return sorted(found, key=lambda moment: moment.start)


Found = tuple[int, int, list[Moment]]


def _all(low: str, text: str) -> Iterator[Found]:
    yield from _figured(low)
    for pattern in (_DAY_MONTH, _MONTH_DAY):
        for m in pattern.finditer(low):
            year = int(m["y"]) if m["y"] else None
            days = [day_number(m[name].strip()) for name in ("d0", "d") if m[name]]
            yield m.start(), m.end(), [Moment(m.start(), m.end(), year, month_of(m["m"]), day) for day in days]
    for m in _MONTH_YEAR.finditer(low):
        yield m.start(), m.end(), [Moment(m.start(), m.end(), int(m["y"]), month_of(m["m"]))]
    yield from _clocks(low)
    for m in _MONTH_ALONE.finditer(low):
        if not m[0].isascii() or text[m.start()].isupper():
            yield m.start(), m.end(), [Moment(m.start(), m.end(), month=month_of(m["m"]))]
    for m in _DECADE.finditer(low):
        yield m.start(), m.end(), [Moment(m.start(), m.end(), decade=int(m["y"]) // 10)]
    for m in _YEAR_ALONE.finditer(low):
        yield m.start(), m.end(), [Moment(m.start(), m.end(), int(m["y"]))]
    for start, end, days in weekdays(low, text):
        yield start, end, [Moment(start, end, weekday=day) for day in days]


def _figured(low: str) -> Iterator[Found]:
    for m in (*_ISO.finditer(low), *_DOTTED.finditer(low)):
        year = int(m["y"]) if m["y"] else None
        year = year + 2000 if year is not None and year < 100 else year
        if not _HALF_BEHIND.match(low, m.end()):  # "в 10.11" beside a word of the day is a time
            yield m.start(), m.end(), [Moment(m.start(), m.end(), year, int(m["m"]), int(m["d"]))]
    russian = bool(_CYRILLIC.search(low))
    for m in _SLASHED.finditer(low):
        a, b = int(m["a"]), int(m["b"])
        month, day = (a, b) if a <= 12 and not russian else (b, a)
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield m.start(), m.end(), [Moment(m.start(), m.end(), int(m["y"]), month, day)]


_CYRILLIC = re.compile("[а-я]")
_HALF_BEHIND = re.compile(r"\s*(?:утра|вечера|a\.?m\b|p\.?m\b)")
_AT_BEFORE = re.compile(r"(?:^|\s)(?:в|с|до|к|at|from|until)\s$")
_MEASURE_BEHIND = re.compile(r"\s*(?:%|млн|млрд|тыс|процент|руб|раз|percent|million|billion|°)")
_LONGEST_AT = 8  # characters of what `_AT_BEFORE` finds


def _clocks(low: str) -> Iterator[Found]:
    for start, end, minutes, either in hours(low):
        yield start, end, [Moment(start, end, minute=minute, either=either) for minute in minutes]
    for m in _CLOCK.finditer(low):
        dotted = "." in m[0].split()[0]
        if dotted and not m["half"] and not _AT_BEFORE.search(low, max(0, m.start() - _LONGEST_AT), m.start()):
            continue
        if dotted and _MEASURE_BEHIND.match(low, m.end()):
            continue
        yield m.start(), m.end(), [Moment(m.start(), m.end(), minute=minute_of(int(m["h"]), int(m["min"]), m["half"]))]
    for m in _HOUR.finditer(low):
        yield m.start(), m.end(), [Moment(m.start(), m.end(), minute=minute_of(int(m["h"]), 0, m["half"]))]
