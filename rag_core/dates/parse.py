"""Date parsing: find all dates of a text, join them to a period ("с марта по май", "since Monday", "до Нового года").

Nested dates are read too: the first week of July, two weeks starting May 20th. An order of parts that no rule covers
("September-2020-23") goes to dateparser, last because it is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from itertools import chain, islice, pairwise

from rag_core.dates import absolute, relative
from rag_core.dates.grammar import (
    MONTH_SHORT,
    NUMBER,
    ONE_DAY,
    PAST_GROUP,
    THIS_GROUP,
    UNIT,
    WEEKDAY,
    YEAR,
    DateMatch,
    DateRange,
    DateRule,
    Match,
    build_day_range,
    parse_cardinal,
    parse_day_number,
    parse_unit,
    parse_weekday,
    resolve_date_parts,
)
from rag_core.dates.relative import add_units, resolve_nth_unit

__all__ = ["DateMatch", "Period", "find_dates", "parse_period", "parse_unusual_date"]

_MAX_CANDIDATES = 3  # candidates for dateparser, 1 to 2 ms each
# A month in words, a day and a four-digit year: dateparser only finds their order.
_SEPARATOR = r"[\s,./-]{0,3}"
_CANDIDATE = re.compile(rf"(?<!\w)(?:(?:\d{{1,4}}|{MONTH_SHORT})(?:st|nd|rd|th)?{_SEPARATOR}){{2,4}}(?!\w)")
_FOUR_DIGIT_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_MONTH_WORD = re.compile(MONTH_SHORT)
_DAY_DIGITS = re.compile(r"(?<!\d)\d\d?(?!\d)")


def parse_unusual_date(text: str, today: date) -> tuple[DateRange, str] | None:
    """Parse a date with its month in words and a four-digit year, in any order; also returns its words."""
    candidates = (
        match
        for match in _CANDIDATE.finditer(text)
        if all(p.search(match[0]) for p in (_FOUR_DIGIT_YEAR, _MONTH_WORD, _DAY_DIGITS))
    )
    for match in islice(candidates, _MAX_CANDIDATES):
        import dateparser

        settings = {"STRICT_PARSING": True, "RELATIVE_BASE": datetime.combine(today, time())}
        parsed = dateparser.parse(match[0].strip(), languages=["en", "ru"], settings=settings)
        if parsed:
            return build_day_range(parsed.date()), match[0].strip()
    return None


NTH_GROUP = (
    r"(?P<nth>перв(?:ый|ая|ое|ые|ых|ую|ом|ой)|втор(?:ой|ая|ое|ую)|трет(?:ий|ья|ье|ью)|последн(?:ий|яя|ее|ие|их|юю|ей|ем)|"
    r"first|second|third|fourth|last|[1-5](?:st|nd|rd|th))"
)
CONTAINING_PERIOD = (
    rf"(?:{THIS_GROUP.replace('?P<this>', '?:')}|{PAST_GROUP.replace('?P<past>', '?:')})\s+(?:year|month|quarter|год|месяц|квартал)|"
    rf"{MONTH_SHORT}(?!\w)|{YEAR}"
)


def _match_following_date(found: Match, rules: Sequence[DateRule]) -> DateMatch | None:
    """Longest date that begins right after the match."""
    here = (rule(match) for pattern, rule in rules if (match := pattern.match(found.string, found.end())))
    return max(filter(None, here), key=lambda point: point.to, default=None)


def _read_nth_unit(found: Match) -> DateMatch | None:
    """Nth unit of a period: the first week of, the last three days of. The period after it is resolved in `read`."""
    rest = _match_following_date(found, _SIMPLE_RULES)
    if rest is None:
        return None
    word = found["nth"]
    last = word.startswith(("последн", "last"))
    nth = 1 if last else parse_day_number(word)
    n = parse_cardinal(found["n"]) if found["n"] else 1
    wd = parse_weekday(found["wd"]) if found["wd"] else None
    name = parse_unit(found["unit"]) if found["unit"] else "day"
    return DateMatch(
        found.start(), rest.to, lambda today: resolve_nth_unit(rest.read(today), name, wd, nth, n, last), None
    )


def _read_week_of(found: Match) -> DateMatch | None:
    rest = _match_following_date(found, (*_SIMPLE_RULES, *_NTH_RULES))

    def read(today: date) -> DateRange | None:
        days = rest.read(today) if rest else None
        return DateRange(days.since, days.since + 7 * ONE_DAY) if days and days.since and days.until else None

    return DateMatch(found.start(), rest.to, read) if rest else None


def _read_units_from(found: Match) -> DateMatch | None:
    rest, n, name = (
        _match_following_date(found, (*_SIMPLE_RULES, *_NTH_RULES)),
        parse_cardinal(found["n"]),
        parse_unit(found["unit"]),
    )

    def read(today: date) -> DateRange | None:
        days = rest.read(today) if rest else None
        return DateRange(days.since, add_units(n, name, days.since)) if days and days.since else None

    return DateMatch(found.start(), rest.to, read) if rest else None


# Nesting is two levels deep: unlimited nesting would make a text of nested dates take for ever.
_SIMPLE_RULES = (
    *absolute.WRITTEN_DATE_RULES,
    *absolute.NUMERIC_DATE_RULES,
    *relative.CALENDAR_UNIT_RULES,
    *relative.RELATIVE_DATE_RULES,
)
_NTH_RULES: tuple[DateRule, ...] = (
    (re.compile(rf"\b(?:{NTH_GROUP})\s+(?:(?P<n>{NUMBER})\s+)?(?:(?P<unit>{UNIT})|(?P<wd>{WEEKDAY}))\s*(?:of|in)?\s*(?:the\s+)?(?={CONTAINING_PERIOD})"), _read_nth_unit),
)  # fmt: skip
_DURATION_RULES: tuple[DateRule, ...] = (
    (re.compile(r"\b(?:w/c|week (?:commencing|beginning|starting|of))\s+(?:the\s+)?(?=\S)"), _read_week_of),
    (re.compile(rf"\b(?:for\s+)?(?P<n>{NUMBER})\s+(?P<unit>{UNIT}),?\s+(?:starting|beginning|начиная)\s+(?:from\s+|on\s+|с\s+)?(?=\S)"), _read_units_from),
)  # fmt: skip
# Of two rules that match the same words, the first wins.
_ALL_RULES = (*_SIMPLE_RULES, *_NTH_RULES, *_DURATION_RULES)
_RECENT_PATTERNS = {id(pattern) for pattern, _ in (*relative.CALENDAR_UNIT_RULES, *relative.RELATIVE_DATE_RULES)}


def find_dates(text: str) -> Iterator[DateMatch]:
    """Find the dates of a lower-case text from left to right; of overlapping ones the first and longest."""
    end = 0
    for point in sorted(_match_all_rules(text), key=lambda p: (p.at, -p.to)):
        if point.at >= end:
            yield point
            end = point.to


def _match_all_rules(text: str) -> Iterator[DateMatch]:
    for pattern, rule in _ALL_RULES:
        for found in pattern.finditer(text):
            if point := rule(found):
                counts_back = id(pattern) in _RECENT_PATTERNS and not found.groupdict().get("y")
                yield replace(point, recent=True) if counts_back else point


@dataclass(frozen=True, slots=True)
class Period:
    """Period of whole days in the asker's time zone, `until` exclusive, None an open end; `words` are its text.

    `slack`: tolerance in days on both sides: "two weeks ago" is not one exact day. `recent`: the period is
    relative to `now`.
    """

    since: datetime | None
    until: datetime | None
    words: str
    slack: int = 0
    recent: bool = False


_ARTICLE = r"\s*(?:the\s+|(?:начал|середин|конц)\w\s+)?$"
_SINCE = re.compile(r"(?:\bс|\bсо|\bsince|\bfrom|\bstarting(?: from| on| in)?|\bначиная с|\bначиная со)" + _ARTICLE)
_AFTER = re.compile(r"(?:\bпосле|\bпозже|\bafter|\blater than)" + _ARTICLE)
_BEFORE = re.compile(
    r"(?:\bдо|\bперед|\bраньше|\bранее|\bbefore|\buntil|\btill|\bprior to|\bno later than|\bup to|\bby)" + _ARTICLE
)
_BETWEEN = re.compile(r"(?:\bмежду|\bbetween)" + _ARTICLE)
_FROM = re.compile(r"(?:\bс|\bсо|\bот|\bfrom|\bsince)" + _ARTICLE)
_TO = re.compile(r"\s*(?:,\s*)?(?:по|до|-|–|—|to|through|thru|until|till)\s*(?:the\s+)?")
_AND = re.compile(r"\s*(?:and|и|-|–|—)\s*(?:the\s+)?")
_DASH = re.compile(r"\s*(?:-|–|—|to|through|thru|until|till|по)\s*(?:the\s+)?")
_ONWARDS = re.compile(r"\s*(?:,\s*)?(?:or (?:later|after)|and later|onwards?|и (?:позже|далее|позднее))\b")
_NON_WORDS = re.compile(r"\W*")
_CONTEXT_LENGTH = 60  # characters read before a date: the whole text before each date would take quadratic time
# Words required before an expression that is a date only after them, by `DateMatch.needs`.
_REQUIRED_CONTEXT = {
    "in": re.compile(
        r"(?:\bв|\bво|\bза|\bin|\bduring|\bfor|\bof|\bthroughout|\bвесь|\bвсе|\bвсю|\bвсего|\bитоги|\bновости|\bсобытия|"
        r"\bпосты|\bна|\bк)\s*(?:the\s+)?$"
    ),
    "on": re.compile(r"(?:\bв|\bво|\bза|\bна|\bот|\bк|\bon|\bfor|\bof|\bdated|\bback)\s*(?:the\s+)?$"),
    "year": re.compile(
        r"(?:\bв|\bво|\bin|\bduring|\bof|\bthroughout|\bитоги|\bновости|\bсобытия|\bпосты)\s*(?:the\s+)?$"
    ),
    "last": re.compile(r"(?:\bза|\bна|\bс|\bитоги|\bновости|\bсобытия|\bпосты)\s*$"),
    "bound": re.compile(r"(?!)"),
    "range": re.compile(r"(?!)"),
}


def parse_period(text: str, now: datetime) -> Period | None:
    """Parse the period a text names, relative to `now` in the asker's time zone; None where it names none."""
    low = text.lower().replace("ё", "е")
    today = now.date()
    dates = list(find_dates(low))
    if all(point.fields and point.fields[2] is None for point in dates) and (unusual := parse_unusual_date(low, today)):
        return Period(_to_midnight(unusual[0].since, now), _to_midnight(unusual[0].until, now), unusual[1])
    spans = (_read_range(low, one, other, today) for one, other in pairwise(dates))
    singles = (_read_single_date(low, point, today) for point in dates)
    for span in chain(spans, singles):
        if span is not None and _has_begun(span[0], today):
            days, (at, to), slack, recent = span
            return Period(
                _to_midnight(days.since, now), _to_midnight(days.until, now), low[at:to].strip(), slack, recent
            )
    return None


def _has_begun(days: DateRange, today: date) -> bool:
    return days.since is None or days.since <= today


def _to_midnight(one: date | None, now: datetime) -> datetime | None:
    return datetime.combine(one, time(), now.tzinfo) if one else None


# days, place in the text, slack, whether relative to today
_PeriodCandidate = tuple[DateRange, tuple[int, int], int, bool]


def _match_before(text: str, at: int, words: re.Pattern[str]) -> re.Match[str] | None:
    """Match the words directly before a place in the text."""
    return words.search(text, max(0, at - _CONTEXT_LENGTH), at)


def _read_range(text: str, one: DateMatch, other: DateMatch, today: date) -> _PeriodCandidate | None:
    """Range of two dates, by the words between and before them."""
    between = text[one.to : other.at]
    opened, both = _match_before(text, one.at, _FROM), _match_before(text, one.at, _BETWEEN)
    # "5.10 - 5.11" may be numbers
    loose = {one.needs, other.needs} & {"range", "bound"} or {one.needs, other.needs} == {"on"}
    dashed = _DASH.fullmatch(between) and not loose
    if not ((opened and _TO.fullmatch(between)) or (both and _AND.fullmatch(between)) or dashed):
        return None
    first, last = _resolve_range_ends(one, other, today)
    if first is None or last is None or first.since is None or last.until is None or last.until <= first.since:
        return None
    start = opened or both
    return DateRange(first.since, last.until), (start.start() if start else one.at, other.to), 0, one.recent


def _resolve_range_ends(one: DateMatch, other: DateMatch, today: date) -> tuple[DateRange | None, DateRange | None]:
    """Resolve both ends of a range; a missing year is chosen so that the second comes after the first."""
    if one.fields is None or other.fields is None:
        return one.read(today), other.read(today)
    (y, m, d), (y2, m2, d2) = one.fields, other.fields
    if y is None and y2 is not None:
        last = resolve_date_parts(y2, m2, d2, today)
        return (resolve_date_parts(None, m, d, last.since) if last and last.since else None), last
    first = one.read(today)
    if y2 is None and first and first.since:
        years = range(first.since.year, first.since.year + 2)
        lasts = (resolve_date_parts(year, m2, d2, today) for year in years) if m2 else (None,)
        return first, next((last for last in lasts if last and last.since and last.since >= first.since), None)
    return first, other.read(today)


def _read_single_date(text: str, point: DateMatch, today: date) -> _PeriodCandidate | None:
    """Single date, or a range open to one side: since, after, before."""
    days = point.read(today)
    if days is None:
        return None
    if point.needs == "range":
        return None
    if later := _ONWARDS.match(text, point.to):
        return DateRange(days.since, None), (point.at, later.end()), 0, point.recent
    if point.pair and (opened := _match_before(text, point.at, _FROM) or _match_before(text, point.at, _BETWEEN)):
        return days, (opened.start(), point.to), 0, point.recent
    for words, open_days in ((_SINCE, DateRange(days.since, None)), (_AFTER, DateRange(days.until, None)),
                             (_BEFORE, DateRange(None, days.since))):  # fmt: skip
        if opened := _match_before(text, point.at, words):
            return open_days, (opened.start(), point.to), 0, point.recent
    ends = _NON_WORDS.fullmatch(text, point.to)
    alone = ends and _NON_WORDS.fullmatch(text, 0, point.at) and point.needs != "bound"
    if point.needs and not alone:
        ended = point.needs == "year" and ends  # "за 2024", but not "за 2024 рубля"
        opened = _match_before(text, point.at, _REQUIRED_CONTEXT["in" if ended else point.needs])
        if not opened:
            return None
        return days, (opened.start(), point.to), point.slack, point.recent
    opened = _match_before(text, point.at, _REQUIRED_CONTEXT["in"])
    return days, (opened.start() if opened else point.at, point.to), point.slack, point.recent
