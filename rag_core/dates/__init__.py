"""Date parsing: find all dates of a text, join them to a period ("с марта по май", "since Monday", "до Нового года").

A recursive descent parser over the tokens of a text: "the first week of last month" is nth(week) of direction(month).
At most two expressions are nested, and an expression has few tokens, so parsing is linear in the length of the text. An order of parts that no rule covers
("September-2020-23") goes to dateparser, last because it is slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from itertools import chain, islice, pairwise

from rag_core.dates.calendar_arithmetic import DateRange, build_day_range, resolve_date_parts
from rag_core.dates.date_reader import DatePartReader, RelativeReader
from rag_core.dates.date_tokenizer import MONTH_SHORT, DateMatch

# Expressions that begin with a token of each kind: the parser tries only these.
_NUMBER_WAYS = "calendar_date day_of_month counted nth quarter decade year iso_week"
_WAYS = {
    **dict.fromkeys(("number", "ordinal", "cardinal"), _NUMBER_WAYS),
    **dict.fromkeys(("month", "weekday", "date"), "calendar_date"),
    **dict.fromkeys(("day", "clock", "moment"), "relative_day"),
    **dict.fromkeys(("to", "till", "на", "под", "other", "of last year", "new year"), "fixed_phrase"),
    **dict.fromkeys(("in", "через", "half a year", "one and a half"), "counted"),
    "short year": "calendar_date quarter year", "season": "season", "weekend": "weekend", "quarter": "quarter",
    "roman": "quarter decade", "decade": "nth decade", "part": "directed part", "holiday": "holiday", "за": "latest_unit", "week start": "week_of",
    "direction": "relative_day directed nth", "unit": "relative_day fixed_phrase counted latest_unit year week_of",
    "the": f"relative_day fixed_phrase directed latest_unit part weekend week_of {_NUMBER_WAYS}",
}  # fmt: skip
_MAX_DEPTH = 2


def find_dates(text: str) -> Iterator[DateMatch]:
    """Find the dates of a lower-case text from left to right; of overlapping ones the first and longest."""
    parser, i = _DateParser(text), 0
    while i < len(parser.tokens):
        found = parser.parse_date(i)
        if found and parser.kind(i - 1) != "place":
            yield found
        i = found.end if found else i + 1


class _DateParser(RelativeReader, DatePartReader):
    """Parser of one text: the longest of the expressions that begin at a token."""

    def parse_date(self, i: int, depth: int = 0, *, inner: bool = False) -> DateMatch | None:
        """Longest date expression at `i`; with `inner` also a unit alone, as after "the start of"."""
        if depth > _MAX_DEPTH or self.kind(i) not in _WAYS:
            return None
        ways = (getattr(self, f"_{name}") for name in _WAYS[self.kind(i)].split())
        found: list[DateMatch] = [one for way in ways if (one := way(i, depth))]
        if inner and self.kind(i) == "unit":
            found.insert(0, self._unit_alone(i))
        best = max(found, key=lambda one: one.end, default=None)
        return self._join_inner_and_outer(best, depth) if best and depth < _MAX_DEPTH else best

    def _join_inner_and_outer(self, one: DateMatch, depth: int) -> DateMatch:
        """Recurring date within another: "March of last year", "в прошлом году в марте"."""
        i = self.skip(one.end, "of", "in", "на", "в", "the", ",", "on")
        if i - one.end > 2 or not (one.recurrence or one.holds):
            return one
        other = self.parse_date(i, _MAX_DEPTH)
        if other is None or other.pair:
            return one
        inner, outer = (one, other) if one.recurrence else (other, one)
        if inner.recurrence is None or not outer.holds:
            return one
        recurrence = inner.recurrence
        return DateMatch(one.at, other.to, other.end, lambda today: recurrence.find_inside(outer.read(today)))


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


_ARTICLE = r"\s*(?:the\s+)?$"
_SINCE = re.compile(
    r"(?:\bс|\bсо|\bsince|\b(?<!will )start(?:ing|s|ed)?(?: from| on| in)|\bstarting|\bначиная(?: с| со)|\bas of|>\s?=)"
    + _ARTICLE
)
_AFTER = re.compile(r"(?:\bпосле|\bпозже|\bпозднее|\bafter|\blater than)" + _ARTICLE)
_BEFORE = re.compile(
    r"(?:\bдо|\bперед|\bраньше|\bранее|\bbefore|\bearlier than|\buntil|\btill|\bprior to|\bup to)" + _ARTICLE
)
_NO_LATER = re.compile(
    r"(?:\bне (?:позже|позднее)|\bno(?:t)? later than|\bby|\bпо(?=\s*$)|\bк|(?:\bдо|\bк|\buntil|\btill|\bby)(?=\s(?:the )?(?:end|конц)))"
    + _ARTICLE
)
_NO_EARLIER = re.compile(r"(?:\bне (?:раньше|ранее)|\bno(?:t)? (?:earlier|sooner) than)" + _ARTICLE)
_BETWEEN = re.compile(r"(?:\bмежду|\bbetween)" + _ARTICLE)
_FROM = re.compile(r"(?:\bс|\bсо|\bот|\bfrom|\bsince)" + _ARTICLE)
_TO = re.compile(r"\s*(?:,\s*)?(?:по|до|-|–|—|to|through|thru|until|till)\s*(?:the\s+)?")
_AND = re.compile(r"\s*(?:and|и|-|–|—)\s*(?:the\s+)?")
_DASH = re.compile(r"\s*(?:-|–|—|to|through|thru|until|till|по)\s*(?:the\s+)?")
_ONWARDS = re.compile(r"\s*(?:,\s*)?(?:or (?:later|after)|and later|onwards?|и (?:позже|далее|позднее))\b")
_NON_WORDS = re.compile(r"\W*")
_CONTEXT_LENGTH = 60  # characters read before a date: the whole text before each date would take quadratic time
# Words required before an expression that is a date only after them, by `DateMatch.needs`.
_DIGEST_WORDS = (
    r"\bитоги|\bновост(?:и|ей)|\bсобыти(?:я|й)|\bпосты|\bдайджест|\bобзор|\bпересказ|\bсводка|\bглавное|\bdigest|\bsummary|\brecap|"
    r"\breview|\bhighlights|\bnews|\bevents|\bposts"
)
_IN = r"\bв|\bво|\bза|\bin|\bduring|\bfor|\bof|\bthroughout|\bover|\bfrom|\bwithin"
_REQUIRED_CONTEXT = {
    "in": re.compile(rf"(?:{_IN}|\bвесь|\bвсе|\bвсю|\bвсего|{_DIGEST_WORDS}|\bна|\bк|\bот)\s*(?:the\s+)?$"),
    "on": re.compile(
        r"(?:\bв|\bво|\bза|\bна|\bот|\bк|\bon|\bfor|\bof|\bfrom|\bdated|\bback|\bposted|\bhappened|\bwritten|\bsaid)\s*(?:the\s+)?$"
    ),
    "year": re.compile(rf"(?:\bв|\bво|\bin|\bduring|\bof|\bfrom|\bthroughout|{_DIGEST_WORDS})\s*(?:the\s+)?$"),
    "last": re.compile(rf"(?:\bза|\bна|\bс|{_DIGEST_WORDS})\s*$"),
    "digest": re.compile(rf"(?:{_DIGEST_WORDS})\s*(?:(?:за|for|of)\s*)?$"),
}
# A question about what is still to come: a day without a year is then no day of the past.
_FUTURE = re.compile(
    r"\b(?:буд(?:ет|ут|ем)|планиру\w+|предсто\w+|состоится|состоятся|ожида[ею]тся|(?:куда|где|когда|во сколько) (?:пойти|сходить|поехать)|"
    r"(?:what|who|where|when|how|which) will|^will|will there|(?:is|are|what's) planned|plans for|is there an?|where to go)\b"
)


def parse_period(text: str, now: datetime) -> Period | None:
    """Parse the period a text names, relative to `now` in the asker's time zone; None where it names none."""
    return _parse_period(text, now, now.tzinfo)


@lru_cache(maxsize=256)  # the plan of a question and the order of its answers read the same text
def _parse_period(text: str, now: datetime, _zone: tzinfo | None) -> Period | None:
    """Parse as `parse_period`; equal moments of two time zones are two keys."""
    low = text.lower().replace("ё", "е")
    today = now.date()
    dates = list(find_dates(low))
    if all(point.fields and point.fields[2] is None for point in dates) and (unusual := parse_unusual_date(low, today)):
        return Period(_to_midnight(unusual[0].since, now), _to_midnight(unusual[0].until, now), unusual[1])
    spans = ((_read_range(low, one, other, today), False) for one, other in pairwise(dates))
    past_only = not _FUTURE.search(low)
    singles = (
        (_read_single_date(low, point, today), _recurs_yearly(point))
        for point in dates
        if past_only or not point.recurrence
    )
    for span, yearless in chain(spans, singles):
        if span is not None and (span[0].since is None or span[0].since <= today):
            days, (at, to), slack = span
            since, until = _to_midnight(days.since, now), _to_midnight(days.until, now)
            return Period(since, until, low[at:to].strip(), slack, yearless and bool(since and until))
    return None


_YEAR_AHEAD, _LATER_THIS_WEEK, _SATURDAY = timedelta(days=366), timedelta(days=3), 5
_LAST_ONE = re.compile(r"\b(?:last|past|previous|прошл|минувш|прошедш|предыдущ)")


def read_coming(point: DateMatch, text: str, today: date) -> DateRange | None:
    """Read a date of a lower-case text as a coming one: of what recurs the occurrence that has not ended, or the next."""
    if point.recurrence is None:
        days = point.read(today)
        if not (days and days.since and days.until and days.until <= today):
            return days
        # on a Monday "this weekend" is the coming one
        again = days.since.weekday() == _SATURDAY and not _LAST_ONE.search(text, point.at, point.to)
        return point.read(today + _LATER_THIS_WEEK) if again else days
    latest = point.recurrence.find_latest(today)
    if latest and latest.until and latest.until > today:
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
        if days and days.since and days.until and days.until > today:
            opened = _match_before(low, point.at, _REQUIRED_CONTEXT["in"]) or _match_before(
                low, point.at, _REQUIRED_CONTEXT["on"]
            )
            start = opened.start() if opened else point.at
            return Period(_to_midnight(days.since, now), _to_midnight(days.until, now), low[start : point.to].strip())
    return None


def _recurs_yearly(point: DateMatch) -> bool:
    """Whether a date is a month, a season or a quarter without a year."""
    return point.recurrence is not None and point.recurrence.step == "year" and not (point.fields and point.fields[2])


def _to_midnight(one: date | None, now: datetime) -> datetime | None:
    return datetime.combine(one, time(), now.tzinfo) if one else None


_PeriodCandidate = tuple[DateRange, tuple[int, int], int]  # days, place in the text, slack


def _match_before(text: str, at: int, words: re.Pattern[str]) -> re.Match[str] | None:
    return words.search(text, max(0, at - _CONTEXT_LENGTH), at)


def _read_range(text: str, one: DateMatch, other: DateMatch, today: date) -> _PeriodCandidate | None:
    between = text[one.to : other.at]
    opened, both = _match_before(text, one.at, _FROM), _match_before(text, one.at, _BETWEEN)
    # "5.10 - 5.11" may be numbers, "2010-2015" not
    loose = (
        other.needs == "range"
        or (one.needs == "range" and not (other.fields and other.fields[0]))
        or {one.needs, other.needs} == {"on"}
    )
    dashed = _DASH.fullmatch(between) and not loose
    if not ((opened and _TO.fullmatch(between)) or (both and _AND.fullmatch(between)) or dashed):
        return None
    first, last = _resolve_range_ends(one, other, today)
    if first is None or last is None or first.since is None or last.until is None or last.until <= first.since:
        return None
    start = opened or both
    return DateRange(first.since, last.until), (start.start() if start else one.at, other.to), 0


def _resolve_range_ends(one: DateMatch, other: DateMatch, today: date) -> tuple[DateRange | None, DateRange | None]:
    """Resolve both ends of a range; a missing year is chosen so that the second comes after the first."""
    if one.fields is None or other.fields is None:
        first, last = one.read(today), other.read(today)
        if (
            one.recurrence
            and other.recurrence
            and first
            and last
            and first.since
            and last.since
            and last.since < first.since
        ):
            first = one.recurrence.find_latest(last.since)  # "from Friday to Sunday", asked on a Monday
        return first, last
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
    days = point.read(today)
    if days is None or point.needs == "range":
        return None
    if later := _ONWARDS.match(text, point.to):
        return DateRange(days.since, None), (point.at, later.end()), 0
    if point.pair and (opened := _match_before(text, point.at, _FROM) or _match_before(text, point.at, _BETWEEN)):
        return days, (opened.start(), point.to), 0
    openings = ((_NO_LATER, DateRange(None, days.until)), (_NO_EARLIER, DateRange(days.since, None)),
                (_SINCE, DateRange(days.since, None)), (_AFTER, DateRange(days.until, None)),
                (_BEFORE, DateRange(None, days.until if text.startswith(("конц", "end", "the end"), point.at) else days.since)))  # fmt: skip
    for words, open_days in openings:
        if opened := _match_before(text, point.at, words):
            return open_days, (opened.start(), point.to), 0
    ends = _NON_WORDS.fullmatch(text, point.to)
    # "9/11" by itself is a name as often as a day
    alone = (
        ends
        and _NON_WORDS.fullmatch(text, 0, point.at)
        and not (point.needs == "on" and "/" in text[point.at : point.to])
    )
    if point.needs == "bound":
        return None  # "до Нового года" is a date, "с Новым годом" is none
    if point.needs and not alone:
        ended = point.needs == "year" and ends  # "за 2024", but not "за 2024 рубля"
        opened = _match_before(text, point.at, _REQUIRED_CONTEXT["in" if ended else point.needs])
        if not opened:
            return None
        return days, (opened.start(), point.to), point.slack
    opened = _match_before(text, point.at, _REQUIRED_CONTEXT["in"])
    return days, (opened.start() if opened else point.at, point.to), point.slack
