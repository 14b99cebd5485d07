"""Whether the numbers and times of a claim are those of a post. Pure.

Each function yields (differs, why): differs where the sentence has another value in the same role, else it is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime

from rag_core.analysis import stem
from rag_core.verify.facts import Stated
from rag_core.verify.matching import COPIED, word_for_word
from rag_core.verify.moments import Moment
from rag_core.verify.numerals import CURRENCIES, Number
from rag_core.verify.words import folded

__all__ = ["moments_differ", "numbers_differ", "same_value", "weekdays_differ"]

_EXACT, _ROUGH = 1e-6, 0.1
_HOUR, _HALF_DAY = 60, 720  # minutes
_WEEK = 7  # days
_BESIDE = 80  # characters that tell what a number or a day is said of
_BEYOND = 3.0  # "more than 100" is not said of 5 000

_PRICED = re.compile(r"(?:(?<!\w)(?:теперь|уже|сейчас|по|стоит|стоят|costs?|now)|:|\s[-—–])\s*$")
_SHUT = re.compile(r"(?:(?<!\w)|^)(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)(?! дн)|closed|shut)(?!\w)")
_SHUT_ON = re.compile(
    r"(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)|closed|shut)(?:\s+(?:по|в|во|on|at|every))?[\s:—–-]*$"
)

Found = Iterator[tuple[bool, str]]


def same_value(claimed: Number, said: Number) -> bool:
    """Whether a number says what another says, as exactly as the claim wants it."""
    if claimed.unit and said.unit and claimed.unit != said.unit:
        return False
    return any(_equal(a, b, claimed, said) for a in claimed.values for b in said.values)


def _equal(a: float, b: float, claimed: Number, said: Number) -> bool:
    if abs(a - b) <= _EXACT * max(1.0, abs(b)):
        return True
    if claimed.hedge == said.hedge == "":
        return False
    if claimed.hedge == "about":
        return abs(a - b) <= _ROUGH * abs(b)
    if claimed.hedge == "over":
        return a < b <= _BEYOND * a and said.hedge != "under"
    return claimed.hedge == "under" and b < a <= _BEYOND * b and said.hedge != "over"


def numbers_differ(claim: Stated, best: Stated, post: Sequence[Stated]) -> Found:
    """The numbers of the claim that the post does not have, and those that belong to something else in it."""
    spare = [n for n in best.numbers if not any(same_value(mine, n) for mine in claim.numbers)]
    dated = {float(value) for one in post for m in one.moments for value in _bare(m)}
    copied = word_for_word(claim, best) >= COPIED
    low = folded(best.text)
    prices = {n.start for n in spare if _is_price(n, low)}
    for number in claim.numbers:
        priced = number.unit in CURRENCIES
        rivals = [n for n in spare if _same_role(number, n) or (priced and n.start in prices)]
        if any(same_value(number, n) for n in best.numbers) or (not number.unit and max(number.values) in dated):
            continue
        elsewhere = any(same_value(number, n) for one in post for n in one.numbers)
        said = claim.text[number.start : number.end]
        if elsewhere:  # said of something else, unless it stands where the sentence has another
            rivals = [n for n in rivals if copied or (number.noun and stem(_noun(number)) == stem(_noun(n)))]
        if rivals and (not number.weak or any(not n.weak for n in rivals)):
            yield True, f"{said} ≠ {best.text[rivals[0].start : rivals[0].end]}"
        elif not elsewhere and not number.weak:
            yield False, f"{said} is not there"


def _bare(moment: Moment) -> Iterator[int]:
    """The numbers a claim may name without saying that they are a year, a day or an hour."""
    yield from (value for value in (moment.year, moment.day) if value is not None)
    if moment.minute is not None and moment.minute % _HOUR == 0:
        yield moment.minute // _HOUR


def _noun(number: Number) -> str:
    return number.noun.split()[0] if number.noun else ""


def _same_role(one: Number, other: Number) -> bool:
    if one.unit and other.unit:
        return one.unit == other.unit or {one.unit, other.unit} <= CURRENCIES or set(one.values) == set(other.values)
    if "ordinal" in (one.unit, other.unit):
        return False
    return (not one.unit and not other.unit) or set(one.values) == set(other.values)


def _is_price(number: Number, low: str) -> bool:
    """Whether a number is a price said without its unit: "теперь 820", "по 900 за килограмм"."""
    if number.unit or not _counts_nothing(number):
        return False
    return _PRICED.search(low, max(0, number.start - _BESIDE), number.start) is not None


def _counts_nothing(number: Number) -> bool:
    """Whether a number stands without a thing it counts."""
    return not number.weak and not stem(_noun(number))


def moments_differ(claim: Stated, best: Stated, post: Sequence[Stated], date: datetime | None) -> Found:
    """The dates and times of the claim that the post does not have."""
    here = _different(best.moments)
    everywhere = _different(moment for one in post for moment in one.moments)
    own = _own(date, everywhere)
    unnamed = _unnamed(here, claim)
    bare = {v for one in post for n in one.numbers if not n.unit and _counts_nothing(n) for v in n.values}
    copied = word_for_word(claim, best) >= COPIED
    for moment in claim.moments:
        if _shut_then(moment, claim, best):
            yield True, f"{claim.text[moment.start : moment.end]} ≠ closed"
            continue
        near = any(_meets(moment, other, date) for other in (*here, *own))
        if near or (not copied and any(_meets(moment, other, date) for other in everywhere)):
            continue
        if _is_number(moment, bare):
            continue
        said = claim.text[moment.start : moment.end]
        rival = _rival(moment, unnamed)
        if _one_of(moment, claim, _WEEK):  # "daily" may be said in other words, but not of some days only
            rival = rival or next((one for one in here if one.weekday is not None), None)
            if rival is None:
                continue
        if rival:
            yield True, f"{said} ≠ {best.text[rival.start : rival.end]}"
        else:
            yield False, f"{said} is not there"


def _shut_then(moment: Moment, claim: Stated, best: Stated) -> bool:
    """Whether the sentence names this weekday only to say that it is closed then, and the claim does not say so."""
    if moment.weekday is None or _SHUT.search(folded(claim.text)):
        return False
    same, low = [one for one in best.moments if one.weekday == moment.weekday], folded(best.text)
    return bool(same) and all(
        _SHUT.match(low[one.end : one.end + _BESIDE].lstrip(" -–—:"))
        or _SHUT_ON.search(low, max(0, one.start - _BESIDE), one.start)
        for one in same
    )


def _one_of(moment: Moment, claim: Stated, many: int) -> bool:
    """Whether this is one of so many weekdays that the same words name."""
    return moment.weekday is not None and sum(one.start == moment.start for one in claim.moments) == many


def weekdays_differ(claim: Stated, best: Stated, post: Sequence[Stated]) -> Found:
    """Another weekday beside the very hours or numbers of the claim, in a sentence next to it: "Суббота, с 13 до 17"."""
    said = [moment.weekday for one in post for moment in one.moments if moment.weekday is not None]
    for moment in claim.moments:
        if moment.weekday is None or moment.weekday in said or any(one.weekday is not None for one in best.moments):
            continue
        for one in post:
            hours = any(_agrees("minute", a, b) for a in claim.moments for b in one.moments)
            alike = hours or any(same_value(a, b) for a in claim.numbers for b in one.numbers)
            if alike and (rival := _rival(moment, _unnamed(one.moments, claim))):
                yield True, f"{claim.text[moment.start : moment.end]} ≠ {one.text[rival.start : rival.end]}"
                return


def _own(date: datetime | None, said: Sequence[Moment]) -> list[Moment]:
    """When the post was written; its weekday tells nothing where the post names one."""
    if date is None:
        return []
    weekday = None if any(moment.weekday is not None for moment in said) else date.weekday()
    return [Moment(0, 0, date.year, date.month, date.day, weekday, date.hour * 60 + date.minute)]


def _agrees(name: str, one: Moment, other: Moment) -> bool:
    """Whether both say the same of this field; a time in words may be in the morning or in the evening."""
    mine, theirs = one.fields().get(name), other.fields().get(name)
    if mine is None or theirs is None:
        return False
    return mine == theirs or (name == "minute" and (one.either or other.either) and (mine - theirs) % _HALF_DAY == 0)


def _meets(claimed: Moment, said: Moment, date: datetime | None) -> bool:
    mine, theirs = claimed.fields(), said.fields()
    if date is not None and "year" not in theirs and "month" in theirs:
        theirs["year"] = mine.get("year", date.year) if abs(mine.get("year", date.year) - date.year) <= 1 else date.year
    shared = mine.keys() & theirs.keys()
    if any(name in mine and name not in theirs for name in ("day", "year")) and not _lent(mine, theirs):
        return False
    return bool(shared) and all(mine[name] == theirs[name] or _agrees(name, claimed, said) for name in shared)


def _lent(mine: Mapping[str, int], theirs: Mapping[str, int]) -> bool:
    """Whether a post need not say the year: it names the day, or the month."""
    return "month" in theirs and ("day" in theirs or "day" not in mine)


def _different(moments: Iterable[Moment]) -> list[Moment]:
    """The moments, each that says the same once, in order."""
    return list({(*one.fields().items(), one.either): one for one in reversed(list(moments))}.values())[::-1]


def _unnamed(here: Sequence[Moment], claim: Stated) -> list[Moment]:
    """The moments that the claim does not name."""
    mine = _different(claim.moments)
    return [
        other for other in here if not any(all(_agrees(name, one, other) for name in other.fields()) for one in mine)
    ]


def _rival(claimed: Moment, unnamed: Sequence[Moment]) -> Moment | None:
    """A moment of the sentence of the same sort that the claim does not name."""
    mine = claimed.fields()
    for other in unnamed:
        shared = mine.keys() & other.fields().keys()
        if shared and any(not _agrees(name, claimed, other) for name in shared):
            return other
    return None


def _is_number(moment: Moment, bare: AbstractSet[float]) -> bool:
    """Whether a year or an hour stands there as a bare number."""
    if moment.day is not None or moment.month is not None or moment.either:
        return False
    return not bare.isdisjoint(float(value) for value in _bare(moment))
