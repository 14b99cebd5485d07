"""Fact binding: whether what a written sentence joins is joined in the post, too.

A model errs by putting the words of posts together anew: the value of one thing with the name of another. Each word of
such a sentence stands in the post, so that the share of known words is high. What tells them apart is where they stand:

- its names, numbers, dates and most of its words stand in one sentence of the post; the rest in an earlier one, as a
  topic stands that goes on, where nothing else has come between;
- they come from one clause, or from clauses that name and count nothing else;
- these clauses deny something exactly where the sentence does.

A sentence that is bound may be too cautious a choice, an unbound one is not shown. Pure functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

from rag_core.text.numbers import Number
from rag_core.text.tokens import is_dictionary_word
from rag_core.types import DropReason
from rag_core.verification.claim_comparison import is_same_value
from rag_core.verification.date_time_parsing import Moment
from rag_core.verification.facts import Name, SentenceFacts, extract_facts, extract_facts_by_sentence
from rag_core.verification.word_comparison import Vocabulary, Word, is_same_name

_MIN_SHARE = 0.55  # of the words and values of the claim that its sentence of the post has
_MIN_SHARE_WITH_VALUE = 0.5  # where it has a number or a date, all of them: they say more than words
_EXACT = 1e-6
_MIN_OWN = 2  # words and values that a sentence of a post has itself where it goes on with the topic of another
_MIN_TOLD_SHARE = 0.5  # of the words that are no names, and the values: what is said of the names
# A comma within a number does not end a clause: a space follows. A conjunction does.
_CLAUSE_BREAK = re.compile(r"[,;()]\s+|\s+(?=[(])|\s+(?:и|а|но|или|зато|and|but|or|while|whereas)\s+|[.!?…]+\s+")


_HEADING = re.compile(r"[^\d:,;]+:\s+")  # of a list: "Rents: a studio 600, a flat 800"


@dataclass(frozen=True, slots=True)
class _Clause:
    """Clause of a post: its content words, its values (names, numbers, moments), and whether it denies something."""

    opening: Word
    words: Vocabulary
    names: tuple[Word, ...]
    numbers: tuple[Number, ...]
    moments: tuple[Moment, ...]
    denies: bool
    is_heading: bool


@dataclass(slots=True)
class _Draw:
    """What a sentence takes from the clauses of one sentence of a post."""

    clauses: list[_Clause] = field(default_factory=list)
    words: set[int] = field(default_factory=set)  # places among the words of the sentence
    values: set[int] = field(default_factory=set)  # places among its numbers and moments


def find_unbound(text: str, said: str, date: datetime, lang: str) -> DropReason | None:
    """Find why a post does not join what a sentence joins; None where it does.

    `said` is the text of the post, `date` its date, which counts as said.
    """
    claim = extract_facts(text.strip(), lang)
    own = Moment(0, 0, date.year, date.month, date.day)
    claim = replace(claim, moments=tuple(one for one in claim.moments if not _is_same_moment(one, own)))
    post = extract_facts_by_sentence(said, lang)
    reasons = {_find_unbound_in(claim, post, place) for place in range(len(post))}
    if None in reasons:
        return None
    return next((reason for reason in _BY_DISTANCE if reason in reasons), DropReason.WORDS)


# From nearly bound to far from it.
_BY_DISTANCE = (
    DropReason.DENIED, DropReason.OTHER, DropReason.APART, DropReason.NAME, DropReason.NUMBER, DropReason.WORDS,
)  # fmt: skip


def _find_unbound_in(claim: SentenceFacts, post: Sequence[SentenceFacts], place: int) -> DropReason | None:
    """Find why the sentence of the post at `place`, with the topic of those before it, does not join the claim."""
    clauses = _split_into_clauses(post[place])
    drawn = _draw(claim, clauses)
    if len(drawn.values) < len(claim.numbers) + len(claim.moments):
        return DropReason.NUMBER
    missing = {n for n in range(len(claim.words)) if n not in drawn.words}
    earlier = Vocabulary(word for one in post[:place] for word in one.words)
    carried = {n for n in missing if earlier.has(claim.words[n])}
    names = {name.word.start for name in claim.names if not _may_be_no_name(name)}
    if any(claim.words[n].start in names for n in missing - carried):
        return DropReason.NAME
    later = Vocabulary(word for one in post[place + 1 :] for word in one.words)
    if any(later.has(claim.words[n]) for n in missing - carried):
        return DropReason.APART
    if carried and not _goes_on(claim, post[place], drawn, len(carried)):
        return DropReason.APART
    if not _says_enough(claim, drawn, carried):
        return DropReason.WORDS
    if _is_said_of_else(claim, post[place], clauses, drawn):
        return DropReason.OTHER
    return DropReason.DENIED if bool(claim.denied) != any(clause.denies for clause in drawn.clauses) else None


def _goes_on(claim: SentenceFacts, sentence: SentenceFacts, drawn: _Draw, carried: int) -> bool:
    """Check whether the sentence may go on with the topic of an earlier one: it has no subject or values of its own."""
    named = any(clause.opening.capital and claim.words.has(clause.opening) for clause in drawn.clauses)
    same = named or all(claim.words.has(word) for word in sentence.words[:1])  # the first word is the subject, mostly
    foreign = any(_has_other_values(claim, clause) for clause in drawn.clauses)
    return same and not foreign and len(drawn.words) + len(drawn.values) >= max(_MIN_OWN, carried)


def _says_enough(claim: SentenceFacts, drawn: _Draw, carried: set[int]) -> bool:
    """Check the share of the claim's words and values that was drawn, and of what it says of its names."""
    values = len(drawn.values)
    share = _MIN_SHARE_WITH_VALUE if values else _MIN_SHARE
    said = {n for n, word in enumerate(claim.words) if not word.capital or word.opens}
    told = values + len(said & (drawn.words | carried))
    enough = len(drawn.words) + values >= share * (len(claim.words) - len(carried) + values)
    return enough and told >= _MIN_TOLD_SHARE * (values + len(said))


def _is_said_of_else(claim: SentenceFacts, sentence: SentenceFacts, clauses: Sequence[_Clause], drawn: _Draw) -> bool:
    """Check whether the sentence of the post says what was drawn of something else than the claim does."""
    several = len(drawn.clauses) > 1
    return (
        _repeats_value(claim, sentence)
        or _turns_names_round(claim, sentence)
        or any(_has_rival_value(claim, clause) for clause in drawn.clauses)
        or any(of not in drawn.clauses for of, value in _list_values_of_clauses(clauses) if value in drawn.clauses)
        or (several and any(_has_other_values(claim, clause) for clause in drawn.clauses))
        or (several and any(_opens_otherwise(claim, one) or _is_about_else(claim, one) for one in drawn.clauses))
    )


def _split_into_clauses(sentence: SentenceFacts) -> list[_Clause]:
    cuts = [0, *(found.end() for found in _CLAUSE_BREAK.finditer(sentence.text)), len(sentence.text)]
    heading = _HEADING.match(sentence.text)
    is_list = heading is not None and len(cuts) > 2 and heading.end() < cuts[1]
    if heading and is_list:
        cuts.insert(1, heading.end())
    clauses = []
    for n, (start, end) in enumerate(pairwise(cuts)):
        words = Vocabulary(word for word in sentence.words if start <= word.start < end)
        names = tuple(name.word for name in sentence.names if start <= name.word.start < end and not name.weak)
        numbers = tuple(number for number in sentence.numbers if start <= number.start < end)
        moments = tuple(moment for moment in sentence.moments if start <= moment.start < end)
        denies = any(start <= scope.at < end for scope in sentence.denied)
        if words or numbers or moments:
            opening = next(word for word in sentence.all_words if word.start >= start)
            clauses.append(_Clause(opening, words, names, numbers, moments, denies, is_list and n == 0))
    return clauses


def _list_values_of_clauses(clauses: Sequence[_Clause]) -> Iterator[tuple[_Clause, _Clause]]:
    """List clauses with the value that follows each as a clause of its own: "first Artur, 38 minutes"."""
    for of, value in pairwise(clauses):
        counted = sum(bool(number.unit) for number in value.numbers)  # the unit is a word
        if not of.is_heading and (value.numbers or value.moments) and len(value.words) <= counted:
            yield of, value


def _draw(claim: SentenceFacts, clauses: Sequence[_Clause]) -> _Draw:
    """Take the words and values of the sentence from as few clauses as possible, the fullest first."""
    found = [_match(claim, clause) for clause in clauses]
    drawn = _Draw()
    while found:
        best = max(range(len(clauses)), key=lambda n: _count_new(found[n], drawn))
        if not _count_new(found[best], drawn):
            break
        drawn.clauses.append(clauses[best])
        drawn.words |= found[best][0]
        drawn.values |= found[best][1]
    return drawn


def _count_new(match: tuple[set[int], set[int]], drawn: _Draw) -> int:
    return len(match[0] - drawn.words) + len(match[1] - drawn.values)


def _match(claim: SentenceFacts, clause: _Clause) -> tuple[set[int], set[int]]:
    words = {n for n, word in enumerate(claim.words) if clause.words.has(word)}
    values = {n for n, one in enumerate(_list_values(claim)) if _find_value(one, clause)}
    return words, values


def _find_value(one: Number | Moment, clause: _Clause | SentenceFacts) -> bool:
    return any(_is_same(one, other) for other in _list_values(clause))


def _list_values(of: _Clause | SentenceFacts) -> list[Number | Moment]:
    return [*of.numbers, *of.moments]


def _is_same(one: Number | Moment, other: Number | Moment) -> bool:
    """Check whether two values agree: of a number and a moment, that the number may be its hour or price: "after 7"."""
    if isinstance(one, Number) and isinstance(other, Number):
        return is_same_value(one, other)
    if isinstance(one, Moment) and isinstance(other, Moment):
        return _is_same_moment(one, other)
    number, moment = (one, other) if isinstance(one, Number) else (other, one)
    assert isinstance(number, Number)
    assert isinstance(moment, Moment)
    if moment.minute is None or number.unit:
        return False
    hour, minute = divmod(moment.minute, 60)
    return any(abs(value - spelt) < _EXACT for value in number.values for spelt in (hour + minute / 100, hour % 12))


def _is_same_moment(one: Moment, other: Moment) -> bool:
    mine, theirs = one.fields(), other.fields()
    shared = mine.keys() & theirs.keys()
    return bool(shared) and all(mine[name] == theirs[name] for name in shared)


def _has_other_values(claim: SentenceFacts, clause: _Clause) -> bool:
    """Check for a name, number or date of the clause that the sentence does not have."""
    return (
        any(not any(is_same_name(word, mine) for mine in claim.all_words) for word in clause.names)
        or any(not one.weak and not _find_value(one, claim) for one in clause.numbers)
        or any(not _find_value(one, claim) for one in clause.moments)
    )


def _has_rival_value(claim: SentenceFacts, clause: _Clause) -> bool:
    """Check for another day or number of the same unit in the clause, of which the claim has only one: from, to."""
    days = [one for one in clause.moments if not _find_value(one, claim)]
    counts = [one for one in clause.numbers if one.unit and not _find_value(one, claim)]
    return any(one.fields().keys() & other.fields().keys() for one in days for other in claim.moments) or any(
        one.unit == other.unit for one in counts for other in claim.numbers
    )


def _repeats_value(claim: SentenceFacts, sentence: SentenceFacts) -> bool:
    """Check for a name or number that the claim has more often than the sentence of the post."""
    said = Counter([*(word.stem for word in sentence.words), *(max(number.values) for number in sentence.numbers)])
    mine = Counter([*(name.word.stem for name in claim.names), *(max(number.values) for number in claim.numbers)])
    return any(1 < mine[one] > said[one] for one in mine)


def _turns_names_round(claim: SentenceFacts, sentence: SentenceFacts) -> bool:
    """Check whether names stand in another order: who did it to whom may be another, too."""
    starts: list[int] = []
    for n, name in enumerate(claim.names):
        if n and name.word.start - claim.names[n - 1].word.end <= 1:
            continue  # a surname
        place = next((word.start for word in sentence.all_words if is_same_name(name.word, word)), None)
        if place is not None:
            starts.append(place)
    return starts != sorted(starts)


def _opens_otherwise(claim: SentenceFacts, clause: _Clause) -> bool:
    """Check whether the clause opens the sentence of the post with a word that the claim lacks: its subject, mostly."""
    return not clause.is_heading and any(not claim.words.has(word) for word in clause.words[:1] if word.opens)


def _is_about_else(claim: SentenceFacts, clause: _Clause) -> bool:
    """Check whether a clause says at least as much else as it says of the claim."""
    own = sum(claim.words.has(word) for word in clause.words)
    values = sum(_find_value(one, claim) for one in _list_values(clause))
    return not clause.is_heading and len(clause.words) - own >= max(1, own + values)


def _may_be_no_name(name: Name) -> bool:
    """Check for the capital letter of a sentence's first word, which may be followed by a name."""
    return name.weak or (name.word.opens and is_dictionary_word(name.word.low))
