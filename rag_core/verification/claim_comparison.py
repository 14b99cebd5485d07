"""Comparison of a claim with a sentence: words, synonyms and opposites, names, numbers, dates and prices.

Checks that yield (differs, why): `differs` is true where the sentence has another value in the same role, false where
the value is missing. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from rag_core.text.names import matches_initials
from rag_core.text.numbers import Number
from rag_core.text.tokens import stem
from rag_core.verification.date_time_parsing import Moment
from rag_core.verification.facts import SentenceFacts
from rag_core.verification.word_comparison import Vocabulary, Word, fold_text, is_same_name


def measure_covered_share(words: Sequence[Word], there: Vocabulary) -> float:
    """Share of the words that is covered by the other words, 0..1; 1 for no words."""
    met = sum(1.0 if word.stem in there.stems else there.nearest(word)[0] for word in words)
    return met / len(words) if words else 1.0


def contains_name(word: Word, there: Sequence[SentenceFacts]) -> bool:
    """Check whether a name is in the sentences: inflected, in another script, as initials, or as an alias."""
    for sentence in there:
        if any(is_same_name(word, other) for other in sentence.all_words.candidates(word)):
            return True
        if 2 <= len(word.low) <= 6 and matches_initials(word.low, sentence.initials):
            return True
    return False


_EXACT_TOLERANCE, _ROUGH_TOLERANCE = 1e-6, 0.1
_HOUR_MINUTES, _HALF_DAY_MINUTES = 60, 720  # minutes
_WEEK_DAYS = 7  # days
_BESIDE = 80  # characters of context around a number or a day
_MAX_RATIO = 3.0  # "more than 100" is not said of 5 000

_CLOSED_WORDS = re.compile(r"(?:(?<!\w)|^)(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)(?! дн)|closed|shut)(?!\w)")
_CLOSED_ON_WORDS = re.compile(
    r"(?:закрыт\w*|не работа\w+|выходн(?:ой|ые)|closed|shut)(?:\s+(?:по|в|во|on|at|every))?[\s:—–-]*$"
)

Differences = Iterator[tuple[bool, str]]


def is_same_value(claimed: Number, said: Number) -> bool:
    """Check whether two numbers agree, as exactly as the claim's wording ("about", "over") demands."""
    if claimed.unit and said.unit and claimed.unit != said.unit:
        return False
    return any(_values_agree(a, b, claimed, said) for a in claimed.values for b in said.values)


def contains_value(claimed: Number, here: SentenceFacts) -> bool:
    """Check whether a number of the sentence agrees with that of the claim."""
    return any(is_same_value(claimed, other) for other in here.numbers)


def _values_agree(a: float, b: float, claimed: Number, said: Number) -> bool:
    if abs(a - b) <= _EXACT_TOLERANCE * max(1.0, abs(b)):
        return True
    if claimed.hedge == said.hedge == "":
        return False
    if claimed.hedge == "about":
        return abs(a - b) <= _ROUGH_TOLERANCE * abs(b)
    if claimed.hedge == "over":
        return a < b <= _MAX_RATIO * a and said.hedge != "under"
    return claimed.hedge == "under" and b < a <= _MAX_RATIO * b and said.hedge != "over"


def _list_bare_numbers(moment: Moment) -> Iterator[int]:
    """Numbers of a moment that a claim may give without marking them as a year, a day or an hour."""
    yield from (value for value in (moment.year, moment.day) if value is not None)
    if moment.minute is not None and moment.minute % _HOUR_MINUTES == 0:
        yield moment.minute // _HOUR_MINUTES


def _get_counted_noun(number: Number) -> str:
    return number.noun.split()[0] if number.noun else ""


def _counts_nothing(number: Number) -> bool:
    return not number.weak and not stem(_get_counted_noun(number))


def find_moment_differences(
    claim: SentenceFacts, best: SentenceFacts, post: Sequence[SentenceFacts], date: datetime | None
) -> Differences:
    """Find dates and times of the claim that the post lacks."""
    here = _drop_duplicate_moments(best.moments)
    everywhere = _drop_duplicate_moments(moment for one in post for moment in one.moments)
    low, own = fold_text(best.text), list[Moment]()
    if date:
        own = list(_build_post_moments(date, low))
        here += [Moment(*m.span(), date.year + n) for n, words in _YEARS_FROM_POST for m in words.finditer(low)]
    mine = _drop_duplicate_moments(claim.moments)
    unnamed = [
        other
        for other in here
        if not any(all(_fields_agree(name, one, other) for name in other.fields()) for one in mine)
    ]
    bare = {v for one in post for n in one.numbers if not n.unit and _counts_nothing(n) for v in n.values}
    for moment in claim.moments:
        if _is_closed_then(moment, claim, best):
            yield True, f"{claim.text[moment.start : moment.end]} ≠ closed"
            continue
        rival = _find_rival_moment(moment, unnamed)
        elsewhere = () if rival else everywhere
        if any(_moments_agree(moment, other, date) for other in (*here, *own, *elsewhere)):
            continue
        part_of_date = moment.day is not None or moment.month is not None or moment.either
        if not part_of_date and not bare.isdisjoint(map(float, _list_bare_numbers(moment))):
            continue
        quoted = claim.text[moment.start : moment.end]
        if (
            moment.weekday is not None and sum(one.start == moment.start for one in claim.moments) == _WEEK_DAYS
        ):  # "daily" has synonyms, but a list of some days contradicts it
            rival = rival or next((one for one in here if one.weekday is not None), None)
            if rival is None:
                continue
        if rival:  # closed on Mondays says nothing of Sundays
            yield not _is_closed_then(rival, claim, best), f"{quoted} ≠ {best.text[rival.start : rival.end]}"
        else:
            yield False, f"{quoted} is not there"


def _is_closed_then(moment: Moment, claim: SentenceFacts, best: SentenceFacts) -> bool:
    """Check whether the sentence names this weekday only as closed while the claim does not."""
    if moment.weekday is None or _CLOSED_WORDS.search(fold_text(claim.text)):
        return False
    same, low = [one for one in best.moments if one.weekday == moment.weekday], fold_text(best.text)
    return bool(same) and all(
        _CLOSED_WORDS.match(low[one.end : one.end + _BESIDE].lstrip(" -–—:"))
        or _CLOSED_ON_WORDS.search(low, max(0, one.start - _BESIDE), one.start)
        for one in same
    )


# Years and days that a sentence names from the date of its post, as differences.
_YEARS_FROM_POST = (
    (-1, re.compile(r"(?<!\w)(?:в прошлом году|last year)(?!\w)")),
    (0, re.compile(r"(?<!\w)(?:в этом году|this year)(?!\w)")),
    (1, re.compile(r"(?<!\w)(?:в следующем году|next year)(?!\w)")),
)
_DAYS_FROM_POST = (
    (-1, re.compile(r"(?<!\w)(?:вчера\w*|yesterday|last night)(?!\w)")),
    (1, re.compile(r"(?<!\w)(?:завтра\w*|tomorrow)(?!\w)")),
)


def _build_post_moments(date: datetime, low: str) -> Iterator[Moment]:
    """Day of the post as a moment, and the day before or after where the sentence says "yesterday" or "tomorrow"."""
    for days in (0, *(days for days, words in _DAYS_FROM_POST if words.search(low))):
        day = date + timedelta(days=days)
        yield Moment(0, 0, day.year, day.month, day.day, day.weekday() if days else None)


def _fields_agree(name: str, one: Moment, other: Moment) -> bool:
    """Check whether a field is equal in both; an hour in words may be in the morning or in the evening."""
    mine, theirs = one.fields().get(name), other.fields().get(name)
    if mine is None or theirs is None:
        return False
    return mine == theirs or (
        name == "minute" and (one.either or other.either) and (mine - theirs) % _HALF_DAY_MINUTES == 0
    )


def _moments_agree(claimed: Moment, said: Moment, date: datetime | None) -> bool:
    mine, theirs = claimed.fields(), said.fields()
    if date is not None and "year" not in theirs and "month" in theirs:
        theirs["year"] = mine.get("year", date.year) if abs(mine.get("year", date.year) - date.year) <= 1 else date.year
    shared = mine.keys() & theirs.keys()
    if any(name in mine and name not in theirs for name in ("day", "year")) and not (
        "month" in theirs and ("day" in theirs or "day" not in mine)
    ):
        return False
    return bool(shared) and all(mine[name] == theirs[name] or _fields_agree(name, claimed, said) for name in shared)


def _drop_duplicate_moments(moments: Iterable[Moment]) -> list[Moment]:
    return list({(*one.fields().items(), one.either): one for one in reversed(list(moments))}.values())[::-1]


def _find_rival_moment(claimed: Moment, unnamed: Sequence[Moment]) -> Moment | None:
    """Find a moment of the same kind in the sentence that the claim does not name."""
    mine = claimed.fields()
    for other in unnamed:
        shared = mine.keys() & other.fields().keys()
        if shared and any(not _fields_agree(name, claimed, other) for name in shared):
            return other
    return None
