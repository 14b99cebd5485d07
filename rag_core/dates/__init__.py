"""Date parsing: find the dates of a text, Russian and English, and join them to a period of days.

Examples: "в марте 2025", "с марта по май", "since Monday", "до Нового года". Posts lie in the past: a date without a
year, or a bare weekday, means the latest one that has begun, and a future date gives no filter. An order of parts that
no rule covers ("September-2020-23") goes to dateparser, last because it is slow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from babel.dates import format_date

from rag_core.dates.calendar_arithmetic import DateRange, build_day_range, resolve_date_parts
from rag_core.dates.date_reader import find_dates
from rag_core.dates.date_tokenizer import MONTH_SHORT, DateMatch

__all__ = ["Period", "find_dates", "format_day", "parse_coming_period", "parse_period", "read_coming"]

_MAX_CANDIDATES = 3  # candidates for dateparser, 1 to 2 ms each
# A month in words, a day and a four-digit year: dateparser only finds their order.
_CANDIDATE = re.compile(rf"(?<!\w)(?:(?:\d{{1,4}}|{MONTH_SHORT})(?:st|nd|rd|th)?[\s,./-]{{0,3}}){{2,4}}(?!\w)")
_CANDIDATE_PARTS = [re.compile(part) for part in (r"(?<!\d)(?:19|20)\d\d(?!\d)", MONTH_SHORT, r"(?<!\d)\d\d?(?!\d)")]


@dataclass(frozen=True, slots=True)
class Period:
    """Period of whole days in the asker's time zone, `until` exclusive, None an open end; `words` are its text.

    `slack`: tolerance in days on both sides: "two weeks ago" is not one exact day. `yearless`: a month or a season
    of a year that is not named, the latest that has begun.
    """

    since: datetime | None
    until: datetime | None
    words: str
    slack: int = 0
    yearless: bool = False


def _compile_opening(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\s*(?:the\s+)?$")


_OPENING_WORDS = {
    "until": _compile_opening(
        r"не (?:позже|позднее)|no(?:t)? later than|by|по(?=\s*$)|к|(?:до|к|until|till|by)(?=\s(?:the )?(?:end|конц))"
    ),
    "since": _compile_opening(
        r"с|со|since|(?<!will )start(?:ing|s|ed)?(?: from| on| in)|starting|начиная(?: с| со)|as of|"
        r"не (?:раньше|ранее)|no(?:t)? (?:earlier|sooner) than"
    ),
    "after": _compile_opening("после|позже|позднее|after|later than"),
    "before": _compile_opening("до|перед|раньше|ранее|before|earlier than|until|till|prior to|up to"),
}
_BETWEEN, _FROM = _compile_opening("между|between"), _compile_opening("с|со|от|from|since")
_TO = re.compile(r"\s*(?:,\s*)?(?:по|до|-|–|—|to|through|thru|until|till)\s*(?:the\s+)?")
_AND = re.compile(r"\s*(?:and|и|-|–|—)\s*(?:the\s+)?")
_DASH = re.compile(r"\s*(?:-|–|—|to|through|thru|until|till|по)\s*(?:the\s+)?")
_ONWARDS = re.compile(r"\s*(?:,\s*)?(?:or (?:later|after)|and later|onwards?|и (?:позже|далее|позднее))\b")
_NON_WORDS = re.compile(r"\W*")
_CONTEXT_LENGTH = 60  # characters read before a date: the whole text before each date would take quadratic time
# Words required before an expression that is a date only after them, by `DateMatch.needs`.
_DIGEST_WORDS = (
    "итоги|новост(?:и|ей)|событи(?:я|й)|посты|дайджест|обзор|пересказ|сводка|главное|digest|summary|recap|review|"
    "highlights|news|events|posts"
)
_REQUIRED_CONTEXT = {
    "in": _compile_opening(
        "в|во|за|in|during|for|of|throughout|over|from|within|весь|все|всю|всего|на|к|от|" + _DIGEST_WORDS
    ),
    "on": _compile_opening("в|во|за|на|от|к|on|for|of|from|dated|back|posted|happened|written|said"),
    "year": _compile_opening("в|во|in|during|of|from|throughout|" + _DIGEST_WORDS),
    "last": _compile_opening("за|на|с|" + _DIGEST_WORDS),
    "digest": re.compile(rf"\b(?:{_DIGEST_WORDS})\s*(?:(?:за|for|of)\s*)?$"),
}
# A question about what is still to come: a day without a year is then no day of the past.
_FUTURE = re.compile(
    r"\b(?:буд(?:ет|ут|ем)|планиру\w+|предсто\w+|состоится|состоятся|ожида[ею]тся|(?:куда|где|когда|во сколько) (?:пойти|сходить|поехать)|"
    r"(?:what|who|where|when|how|which) will|^will|will there|(?:is|are|what's) planned|plans for|is there an?|where to go)\b"
)


def parse_period(text: str, now: datetime) -> Period | None:
    """Parse the period a text names, relative to `now` in the asker's time zone; None where it names none."""
    return _parse_period(text, now, now.tzinfo)


@lru_cache(maxsize=256)  # the plan of a question, its answer and the order of its pieces read the same text
def _parse_period(text: str, now: datetime, _zone: tzinfo | None) -> Period | None:
    """Parse as `parse_period`; equal moments of two time zones are two keys."""
    low = text.lower().replace("ё", "е")
    today = now.date()
    dates = list(find_dates(low))
    if all(point.fields and point.fields[2] is None for point in dates):
        # a date with its month in words and a four-digit year, in any order
        found = (match[0] for match in _CANDIDATE.finditer(low) if all(p.search(match[0]) for p in _CANDIDATE_PARTS))
        for words in islice(found, _MAX_CANDIDATES):
            import dateparser

            settings = {"STRICT_PARSING": True, "RELATIVE_BASE": datetime.combine(today, time())}
            if parsed := dateparser.parse(words.strip(), languages=["en", "ru"], settings=settings):
                day = build_day_range(parsed.date())
                return Period(_to_midnight(day.since, now), _to_midnight(day.until, now), words.strip())
    spans = [_read_range(low, one, other, today) for one, other in pairwise(dates)]
    past_only = not _FUTURE.search(low)
    spans += [_read_single_date(low, point, today) for point in dates if past_only or not point.recurrence]
    for span in filter(None, spans):
        if span.days.since <= today:
            since, until = _to_midnight(span.days.since, now), _to_midnight(span.days.until, now)
            yearless = span.yearless and bool(since and until)
            return Period(since, until, low[span.at : span.to].strip(), span.slack, yearless)
    return None


_YEAR_AHEAD, _LATER_THIS_WEEK, _SATURDAY = timedelta(days=366), timedelta(days=3), 5
_LAST_ONE = re.compile(r"\b(?:last|past|previous|прошл|минувш|прошедш|предыдущ)")


def read_coming(point: DateMatch, text: str, today: date) -> DateRange | None:
    """Read a date of a lower-case text as a coming one: of what recurs the occurrence that has not ended, or the next."""
    if point.recurrence is None:
        days = point.read(today)
        # on a Monday "this weekend" is the coming one
        over = days is not None and days.until <= today and days.since.weekday() == _SATURDAY
        again = over and not _LAST_ONE.search(text, point.at, point.to)
        return point.read(today + _LATER_THIS_WEEK) if again else days
    latest = point.recurrence.find_latest(today)
    if latest and latest.until > today:
        return latest
    return point.recurrence.find_inside(DateRange(today, today + _YEAR_AHEAD))


def parse_coming_period(text: str, now: datetime) -> Period | None:
    """Parse the first period of a text that has not ended yet, read as a coming one; None where it names none."""
    low, today = text.lower().replace("ё", "е"), now.date()
    for point in find_dates(low):
        context = _REQUIRED_CONTEXT.get(point.needs) if point.needs != "on" else None
        if context and not _match_before(low, point.at, context):
            continue  # the verb "may"
        days = read_coming(point, low, today)
        if days and days.since > date.min and today < days.until:
            opened = _match_before(low, point.at, _REQUIRED_CONTEXT["in"], _REQUIRED_CONTEXT["on"])
            words = low[opened.start() if opened else point.at : point.to].strip()
            return Period(_to_midnight(days.since, now), _to_midnight(days.until, now), words)
    return None


def _to_midnight(one: date, now: datetime) -> datetime | None:
    return datetime.combine(one, time(), now.tzinfo) if date.min < one < date.max else None


def format_day(day: date, lang: str) -> str:
    """A date in words, as everywhere: "3 марта 2025", "3 March 2025"."""
    return format_date(day, "d MMMM y", locale=lang)


class _Candidate(NamedTuple):
    """Days that a text may name, and where in the text."""

    days: DateRange
    at: int
    to: int
    slack: int = 0
    yearless: bool = False


def _match_before(text: str, at: int, *patterns: re.Pattern[str]) -> re.Match[str] | None:
    return next(filter(None, (words.search(text, max(0, at - _CONTEXT_LENGTH), at) for words in patterns)), None)


def _read_range(text: str, one: DateMatch, other: DateMatch, today: date) -> _Candidate | None:
    between = text[one.to : other.at]
    opened, both = _match_before(text, one.at, _FROM), _match_before(text, one.at, _BETWEEN)
    # "5.10 - 5.11" may be numbers, "2010-2015" not
    loose = other.needs == "range" or {one.needs, other.needs} == {"on"}
    loose = loose or (one.needs == "range" and not (other.fields and other.fields[0]))
    dashed = _DASH.fullmatch(between) and not loose
    if not ((opened and _TO.fullmatch(between)) or (both and _AND.fullmatch(between)) or dashed):
        return None
    first, last = _resolve_range_ends(one, other, today)
    if first is None or last is None or last.until <= first.since:
        return None
    start = opened or both
    return _Candidate(DateRange(first.since, last.until), start.start() if start else one.at, other.to)


def _resolve_range_ends(one: DateMatch, other: DateMatch, today: date) -> tuple[DateRange | None, DateRange | None]:
    """Resolve both ends of a range; a missing year is chosen so that the second comes after the first."""
    if one.fields is None or other.fields is None:
        first, last = one.read(today), other.read(today)
        if one.recurrence and other.recurrence and first and last and last.since < first.since:
            first = one.recurrence.find_latest(last.since)  # "from Friday to Sunday", asked on a Monday
        return first, last
    (y, m, d), (y2, m2, d2) = one.fields, other.fields
    if y is None and y2 is not None:
        last = resolve_date_parts(y2, m2, d2, today)
        return last and resolve_date_parts(None, m, d, last.since), last
    first = one.read(today)
    if y2 is None and first:
        years = range(first.since.year, first.since.year + 2) if m2 else ()
        lasts = (resolve_date_parts(year, m2, d2, today) for year in years)
        return first, next((last for last in lasts if last and last.since >= first.since), None)
    return first, other.read(today)


def _read_single_date(text: str, point: DateMatch, today: date) -> _Candidate | None:
    days = point.read(today)
    if days is None or point.needs == "range":
        return None
    # a month, a season or a quarter without a year
    yearless = bool(point.recurrence and point.recurrence.step == "year" and not (point.fields and point.fields[2]))
    if later := _ONWARDS.match(text, point.to):
        return _Candidate(DateRange(days.since, date.max), point.at, later.end(), 0, yearless)
    if point.pair and (opened := _match_before(text, point.at, _FROM, _BETWEEN)):
        return _Candidate(days, opened.start(), point.to, 0, yearless)
    to_the_end = text.startswith(("конц", "end", "the end"), point.at)
    open_days = {
        "until": DateRange(date.min, days.until), "since": DateRange(days.since, date.max),
        "after": DateRange(days.until, date.max), "before": DateRange(date.min, days.until if to_the_end else days.since),
    }  # fmt: skip
    for name, words in _OPENING_WORDS.items():
        if opened := _match_before(text, point.at, words):
            return _Candidate(open_days[name], opened.start(), point.to, 0, yearless)
    if point.needs == "bound":
        return None  # "до Нового года" is a date, "с Новым годом" is none
    ends = _NON_WORDS.fullmatch(text, point.to)
    # "9/11" by itself is a name as often as a day
    named = point.needs == "on" and "/" in text[point.at : point.to]
    alone = ends and _NON_WORDS.fullmatch(text, 0, point.at) and not named
    needed = "in" if alone or not point.needs or (point.needs == "year" and ends) else point.needs
    opened = _match_before(text, point.at, _REQUIRED_CONTEXT[needed])  # "за 2024", but not "за 2024 рубля"
    if point.needs and not alone and not opened:
        return None
    return _Candidate(days, opened.start() if opened else point.at, point.to, point.slack, yearless)
