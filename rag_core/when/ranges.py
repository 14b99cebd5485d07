"""From times to a period: "с марта по май", "between 3 and 9 June", "since Monday", "до Нового года"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import chain, pairwise

from rag_core.when.days import Days, latest
from rag_core.when.odd import odd_date
from rag_core.when.points import Point, points

__all__ = ["Period", "period"]


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days in the asker's time zone, `until` exclusive, None open; and the words of the question that say so.

    `slack` is how many days around it are meant as well: "two weeks ago" is no single day. `recent`: it counts
    back from `now`.
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
_WHOLE = re.compile(r"\W*")
_NEAR = 60  # characters before a time that may say what it is: all before it would be read again for each time
# What may stand before a time that is one only there.
_BEFORE_IT = {
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


def period(text: str, now: datetime) -> Period | None:
    """The days the text speaks of, seen from `now` in the asker's time zone; None where it speaks of none."""
    low = text.lower().replace("ё", "е")
    today = now.date()
    found = list(points(low))
    if all(point.fields and point.fields[2] is None for point in found) and (odd := odd_date(low, today)):
        return Period(_moment(odd[0].since, now), _moment(odd[0].until, now), odd[1])
    spans = (_two(low, one, other, today) for one, other in pairwise(found))
    singles = (_one(low, point, today) for point in found)
    for span in chain(spans, singles):
        if span is not None and _has_begun(span[0], today):
            days, (at, to), slack, recent = span
            return Period(_moment(days.since, now), _moment(days.until, now), low[at:to].strip(), slack, recent)
    return None


def _has_begun(days: Days, today: date) -> bool:
    return days.since is None or days.since <= today


def _moment(one: date | None, now: datetime) -> datetime | None:
    return datetime.combine(one, time(), now.tzinfo) if one else None


_Found = tuple[Days, tuple[int, int], int, bool]  # days, place in the text, slack, whether it counts back


def _before(text: str, at: int, words: re.Pattern[str]) -> re.Match[str] | None:
    """Whether the text goes on from these words to the place."""
    return words.search(text, max(0, at - _NEAR), at)


def _two(text: str, one: Point, other: Point, today: date) -> _Found | None:
    """A range of two times, where the words between and before them say so."""
    between = text[one.to : other.at]
    opened, both = _before(text, one.at, _FROM), _before(text, one.at, _BETWEEN)
    # "5.10 - 5.11" may be anything
    loose = {one.needs, other.needs} & {"range", "bound"} or {one.needs, other.needs} == {"on"}
    dashed = _DASH.fullmatch(between) and not loose
    if not ((opened and _TO.fullmatch(between)) or (both and _AND.fullmatch(between)) or dashed):
        return None
    first, last = _ends(one, other, today)
    if first is None or last is None or first.since is None or last.until is None or last.until <= first.since:
        return None
    start = opened or both
    return Days(first.since, last.until), (start.start() if start else one.at, other.to), 0, one.recent


def _ends(one: Point, other: Point, today: date) -> tuple[Days | None, Days | None]:
    """Both ends; the year that one of them lacks is such that the second comes after the first."""
    if one.fields is None or other.fields is None:
        return one.read(today), other.read(today)
    (y, m, d), (y2, m2, d2) = one.fields, other.fields
    if y is None and y2 is not None:
        last = latest(y2, m2, d2, today)
        return (latest(None, m, d, last.since) if last and last.since else None), last
    first = one.read(today)
    if y2 is None and first and first.since:
        years = range(first.since.year, first.since.year + 2)
        lasts = (latest(year, m2, d2, today) for year in years) if m2 else (None,)
        return first, next((last for last in lasts if last and last.since and last.since >= first.since), None)
    return first, other.read(today)


def _one(text: str, point: Point, today: date) -> _Found | None:
    """A time by itself, or open to one side: since, after, before."""
    days = point.read(today)
    if days is None:
        return None
    if point.needs == "range":
        return None
    if later := _ONWARDS.match(text, point.to):
        return Days(days.since, None), (point.at, later.end()), 0, point.recent
    if point.pair and (opened := _before(text, point.at, _FROM) or _before(text, point.at, _BETWEEN)):
        return days, (opened.start(), point.to), 0, point.recent
    for words, open_days in ((_SINCE, Days(days.since, None)), (_AFTER, Days(days.until, None)),
                             (_BEFORE, Days(None, days.since))):  # fmt: skip
        if opened := _before(text, point.at, words):
            return open_days, (opened.start(), point.to), 0, point.recent
    ends = _WHOLE.fullmatch(text, point.to)
    alone = ends and _WHOLE.fullmatch(text, 0, point.at) and point.needs != "bound"
    if point.needs and not alone:
        ended = point.needs == "year" and ends  # "за 2024", but not "за 2024 рубля"
        opened = _before(text, point.at, _BEFORE_IT["in" if ended else point.needs])
        if not opened:
            return None
        return days, (opened.start(), point.to), point.slack, point.recent
    opened = _before(text, point.at, _BEFORE_IT["in"])
    return days, (opened.start() if opened else point.at, point.to), point.slack, point.recent
