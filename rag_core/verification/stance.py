"""Stance detection: whether a post supports a claim, contradicts it, or says nothing of it, read in its context.

The claim is compared with each sentence; those around it count too: a heading that names the thing, a question and its
answer, a rumour and the "not true" after it, a plan, an item of a price list. A sentence supports only what it asserts,
and a number decides only where it stands at the claim's own words. Of two sentences that are alike one may have another
word in the place of one of the other, beside the same noun or verb: then they speak of two things ("школьный автобус",
"дачный автобус"), and neither says anything of the other's. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from rag_core.text.query_terms import TermWeight
from rag_core.types import Passage
from rag_core.verification import Claim, Label, Support, comparison
from rag_core.verification.comparison import NumberedItems, contains_name, contains_value, has_identifier, is_light
from rag_core.verification.facts import (
    LONGEST_STATED,
    MOST_FIGURES,
    SentenceFacts,
    Word,
    extract_facts,
    extract_facts_by_sentence,
    join_facts,
)
from rag_core.verification.things import find_other_thing

# Shares of the claim's terms in a sentence and around it. It speaks of the claim's subject; for another value to
# contradict the claim; for a "not Y" to correct it; for a later post to change what an earlier one of the channel said.
_MIN_EXPLICIT, _MIN_ABOUT, _MIN_ABOUT_VALUE, _MIN_CORRECTED, _MIN_LEANING = 0.45, 0.55, 0.5, 0.3, 0.3
_MIN_OWN_SUPPORTING, _MIN_OWN = 0.3, 0.4  # share in the sentence itself: for support, and for another value
_MIN_SUPPORTING, _VALUE_BONUS = 0.78, 0.2  # share for support, less with each number or moment that agrees
_LONG_VALUE = 100  # from which a number with its unit seldom agrees by chance
_FACT_BONUS = 0.1  # of a score
_ASKING_WEIGHT = 0.3  # weight of a word like "costs": price lists do without it
_DAMPING = 0.5  # exponent of a term's weight: a rare word of the claim may be a synonym of the post's
_IDENTIFIER_WEIGHT = 2.0  # of "27" in "bus 27", as a multiple of the claim's heaviest term
_CONTEXT_WEIGHT = 0.8  # of a term that stands beside the sentence, not in it
_MIN_SUBJECT = 0.6  # share of the subject's terms in the sentence and around it
# Share of the predicate's terms in the sentence itself; of subject or predicate where a value agrees; of the subject
# in the sentence itself where a value stands for the predicate.
_MIN_PREDICATE, _MIN_VALUED, _MIN_OWN_SUBJECT = 0.5, 0.3, 0.8
_SLIGHT = 0.2  # share of a claim's terms that may be missing from its subject
_SUPPORTED, _OPEN, _CONTRADICTED = 0.7, 0.45, 0.05  # likelihoods of support that a stance stands for
TOO_LITTLE, _NO_VALUE, _NO_NAME = "too little is said", "a value is not there", "a name is not there"
_GAPS = frozenset({TOO_LITTLE, _NO_VALUE, _NO_NAME})  # what another sentence may supply
_TAG = re.compile(r"#(\w+)")  # names what the post is about
_TAGGED_SENTENCES = 3  # last ones of a post, with its hashtags


@dataclass(frozen=True, slots=True)
class _Reading:
    """How one sentence stands to the claim; `leaning` is its label if another post has named the subject."""

    label: Label
    sentence: SentenceFacts
    about: float
    score: float
    why: str
    leaning: Label = Label.NOT_FOUND


class ClaimTerms:
    """Terms of a claim with their weights; numbers that name a thing ("bus 27") are terms, the others are values."""

    def __init__(self, facts: SentenceFacts, title: str, weight: TermWeight) -> None:
        self.facts = facts
        self.title = extract_facts(title, "ru")
        self.names = [name.word for name in facts.names if not name.weak]
        units = comparison.list_unit_words(facts)
        self.scheduled = any(moment.weekday is not None or moment.minute is not None for moment in facts.moments)
        self.dated = any(moment.day or moment.month or moment.year for moment in facts.moments)
        self.terms = [
            (word, weight(word.stem) ** _DAMPING * (_ASKING_WEIGHT if is_light(word) else 1.0))
            for word in facts.words
            if word.start not in units
        ]
        # names in the channel's title need not stand in a post
        self.optional = {word.start for word, _ in self.terms if word.capital and self.title.all_words.has(word)}
        self.identifiers = comparison.list_identifiers(facts)
        values = (number for number in facts.numbers if number not in self.identifiers and not number.weak)
        self.values = [*islice(values, MOST_FIGURES)]
        self.heaviest = max((each for _, each in self.terms), default=1.0)
        self.total = len(self.identifiers) * self.heaviest * _IDENTIFIER_WEIGHT
        self.total += sum(each for word, each in self.terms if word.start not in self.optional)
        # what the claim speaks of, before its verb or a dash, and what it says of that, from there on; each stands for
        # the other where there is nothing
        verb, dash = comparison.find_main_verb(facts), re.search(r"\s[—–-]\s", facts.text)
        joint = verb.start if verb else dash.start() if dash else 0
        before = [pair for pair in self.terms if pair[0].start < joint]
        after = [pair for pair in self.terms if pair[0].start >= joint]
        self.subject, self.predicate = before or after, after or before

    def measure_share(self, terms: Sequence[tuple[Word, float]], sentences: Sequence[SentenceFacts]) -> float:
        """Weight share of these terms in the sentences, light words aside; 1 for no terms."""
        terms = [pair for pair in terms if not is_light(pair[0])]
        total = sum(each for _, each in terms)
        met = sum(each for word, each in terms if any(one.words.has(word) for one in sentences))
        return met / total if total else 1.0

    def is_subject_there(self, sentences: Sequence[SentenceFacts], least: float) -> bool:
        """Check that enough of the subject is there, or that what is missing hardly counts in this claim."""
        share = self.measure_share(self.subject, sentences)
        missing = (1 - share) * sum(each for word, each in self.subject if not is_light(word))
        return share >= least or missing <= _SLIGHT * self.total

    def measure_about(
        self, here: SentenceFacts, around: Sequence[SentenceFacts], opposed: set[int]
    ) -> tuple[float, float]:
        """Share of the claim's terms in a sentence, and in it and around it; `opposed` words are there as antonyms."""
        own, near, total = 0.0, 0.0, self.total
        for word, each in self.terms:
            if here.words.has(word) or word.start in opposed:
                own += each
                total += each if word.start in self.optional else 0.0
            elif word.start not in self.optional and any(one.words.has(word) for one in around):
                near += each * _CONTEXT_WEIGHT
        for number in self.identifiers:
            if has_identifier(number, here):
                own += self.heaviest * _IDENTIFIER_WEIGHT
            elif any(has_identifier(number, one) for one in around):
                near += self.heaviest * _IDENTIFIER_WEIGHT
        return (own / total, (own + near) / total) if self.total else (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A claim beside one sentence and those around it."""

    here: SentenceFacts
    around: Sequence[SentenceFacts]
    own: float
    about: float
    matched: int
    lacking: int
    moments: Sequence[tuple[bool, str]]
    value: str
    denial: str
    subject: bool
    known: bool

    def read(self, label: Label, why: str = "", leaning: Label = Label.NOT_FOUND, bonus: float = 0.0) -> _Reading:
        """Reading of the sentence; its score tells how much it says of the claim."""
        score = self.own + self.about / 2 + _FACT_BONUS * self.matched
        return _Reading(label, self.here, self.about, score + bonus, why, leaning)


def _compare(claim: ClaimTerms, post: Sequence[SentenceFacts], n: int, passage: Passage) -> _Comparison | None:
    here, facts = post[n], claim.facts
    parent = extract_facts(passage.header.partition(" · ")[2], "ru")
    tags = extract_facts(" ".join(_TAG.findall(" ".join(one.text for one in post[-_TAGGED_SENTENCES:]))), "ru")
    around = [*post[max(0, n - 3) : n], *post[n + 1 : n + 2], *post[: min(2, n)], parent, tags]
    opposites = {word.start for word, _ in comparison.find_opposite_words(facts, here)}
    own, about = claim.measure_about(here, around, opposites)
    moments = list(comparison.find_moment_differences(facts, here, post, passage.date))
    absent = [mine for mine in claim.values if not contains_value(mine, here)]
    elsewhere = sum(1 for _ in comparison.find_moment_differences(facts, here, [here], passage.date))
    matched = len(claim.values) - len(absent) + len(facts.moments) - max(elsewhere, len(moments))
    if own == 0.0 and not matched:
        return None
    items = NumberedItems(facts, claim.values, here)
    found = [why for differs, why in moments if differs]
    if not (found and claim.values):  # a number of another time contradicts nothing
        told = any(contains_value(mine, one) for mine in absent for one in post)  # beside the other number
        found = [*([] if told else [items.find_difference(claim.values)]), *found]
    found.append(items.find_moment_elsewhere())
    said, words = ([word.low for word in one.all_words] for one in (here, facts))
    if any(said[at : at + len(words)] == words for at in range(len(said) - len(words) + 1)):
        found = []  # word for word: its values stand where the claim has them
    if opposites and (matched or not claim.dated):
        found += comparison.find_opposite_statements(facts, here)
    enough = own >= _MIN_OWN or matched > 1 or (about >= _MIN_SUPPORTING and own >= _MIN_OWN / 2)
    opposed = sum(each for word, each in claim.terms if word.start in opposites) / claim.total if claim.total else 0.0
    alike = not opposites or (own + about) / 2 - opposed >= _MIN_LEANING
    subject = enough and alike and about >= _MIN_ABOUT_VALUE
    subject = subject and claim.is_subject_there([here, *around, claim.title], _MIN_SUBJECT)
    same = len(absent) <= 1 and not opposites and not claim.dated and items.is_same_attribute()
    return _Comparison(
        here, around, own, about, matched, len(absent), moments, next(filter(None, found), ""),
        comparison.find_denied_word(facts, here), subject, same and about >= _MIN_LEANING,
    )  # fmt: skip


def _read_sentence(claim: ClaimTerms, post: Sequence[SentenceFacts], n: int, passage: Passage) -> _Reading | None:
    if (seen := _compare(claim, post, n, passage)) is None:
        return None
    if other := find_other_thing(claim.facts, seen.here, [*seen.around, claim.title]):
        return seen.read(Label.NOT_FOUND, other)
    following = post[n + 1] if n + 1 < len(post) else None
    return (
        _read_denial(claim, seen, following)
        or _read_doubt(claim, seen, following)
        or _read_gap(claim, seen, post)
        or _read_support(claim, seen)
    )


def _read_denial(claim: ClaimTerms, seen: _Comparison, following: SentenceFacts | None) -> _Reading | None:
    """Read that the claim is called false, answered by no, or corrected."""
    own = seen.matched or (seen.own >= _MIN_OWN_SUPPORTING and not claim.facts.moments)
    close = seen.about >= _MIN_EXPLICIT and own
    why = comparison.find_explicit_denial(claim.facts, seen.here, following, seen.denial) if close else ""
    if close and not why and claim.is_subject_there([seen.here, *seen.around, claim.title], _MIN_SUBJECT):
        why = comparison.find_failed_plan(claim.facts, seen.here)
    if why:
        return seen.read(Label.CONTRADICTED, why, bonus=1)
    if why := comparison.find_correction(claim.facts, seen.here):
        label = Label.CONTRADICTED if seen.about >= _MIN_CORRECTED else Label.NOT_FOUND
        return seen.read(label, why, Label.CONTRADICTED, bonus=1)
    return None


def _read_doubt(claim: ClaimTerms, seen: _Comparison, following: SentenceFacts | None) -> _Reading | None:
    """Read what keeps a sentence from supporting the claim: no assertion, another value, a denial, an end."""
    changed = Label.CONTRADICTED if seen.known else Label.NOT_FOUND
    facts, here = claim.facts, seen.here
    if why := comparison.find_unasserted(facts, here, following):
        return seen.read(Label.NOT_FOUND, why)
    if seen.value and facts.denied:  # another day for what is said not to be on this one any more
        return seen.read(Label.NOT_FOUND, seen.value, Label.SUPPORTED if seen.subject else Label.NOT_FOUND)
    if why := seen.value or seen.denial:
        contradicts = (bool(seen.value) and seen.subject) or (bool(seen.denial) and seen.about >= _MIN_ABOUT)
        label = Label.CONTRADICTED if contradicts else Label.NOT_FOUND
        return seen.read(label, why, changed if seen.value else Label.NOT_FOUND)
    complete = seen.matched and not seen.lacking and not seen.moments
    if not (complete and all(mine.unit for mine in claim.values)) and (why := comparison.find_end(facts, here)):
        # what ended must be the claim's subject; who has its role now names himself
        return seen.read(Label.NOT_FOUND, why, changed if seen.subject or why.startswith("new") else Label.NOT_FOUND)
    return None


def _read_gap(claim: ClaimTerms, seen: _Comparison, post: Sequence[SentenceFacts]) -> _Reading | None:
    """Read what the sentence lacks of the claim: a value, or the name that has its role."""
    if seen.lacking or seen.moments or (not seen.matched and (claim.values or claim.facts.moments)):
        return seen.read(Label.NOT_FOUND, _NO_VALUE)
    if why := comparison.find_role_difference(claim.facts, seen.here, post):
        names = {name.word.start for name in claim.facts.names}
        role = claim.measure_share([pair for pair in claim.terms if pair[0].start not in names], [seen.here])
        return seen.read(Label.CONTRADICTED if max(seen.about, role) >= _MIN_ABOUT else Label.NOT_FOUND, why)
    return None


def _read_support(claim: ClaimTerms, seen: _Comparison) -> _Reading:
    """Read support: the predicate, the names and as many denials are in the sentence, the subject in or around it."""
    long = any(mine.unit and max(mine.values) >= _LONG_VALUE for mine in claim.values)
    least = _MIN_SUPPORTING - _VALUE_BONUS * min(2, seen.matched + long)
    stems = claim.facts.all_words.stems
    odd = sum(not stems.isdisjoint(scope.wide) for scope in seen.here.denied) % 2 != len(claim.facts.denied) % 2
    everywhere = [seen.here, *seen.around, claim.title]
    named = all(contains_name(name, everywhere) for name in claim.names)
    own = _MIN_OWN_SUPPORTING if seen.matched else _MIN_ABOUT
    if seen.matched > 1 and claim.scheduled and not any(map(comparison.is_predicate_verb, seen.here.all_words)):
        own = 0.0  # a timetable without a verb is of what the sentences around it speak of
    own_subject = claim.measure_share(claim.subject, [seen.here])
    said = claim.measure_share(claim.predicate, [seen.here]) >= (_MIN_VALUED if seen.matched else _MIN_PREDICATE)
    said = said or (bool(seen.matched) and not claim.values and own_subject >= _MIN_OWN_SUBJECT) or seen.matched > 1
    subject = claim.is_subject_there(everywhere, _MIN_VALUED if seen.matched else _MIN_SUBJECT)
    if seen.about >= least and seen.own >= own and named and said and subject and not odd:
        return seen.read(Label.SUPPORTED, leaning=Label.SUPPORTED)
    leans = seen.known and named and not odd and any(mine.unit for mine in claim.values)
    return seen.read(Label.NOT_FOUND, TOO_LITTLE if named else _NO_NAME, Label.SUPPORTED if leans else Label.NOT_FOUND)


def assess_by_words(claim: Claim, passages: Sequence[Passage], weight: TermWeight = lambda _: 1.0) -> list[Support]:
    """Assess a claim against each passage by its words alone; `weight` gives the rarity of a term.

    The sentence that says most of it decides; the header may name the subject. Only a sentence that has the claim's
    predicate, names and values supports it, and only one about the same subject contradicts it. Everything else is not
    found.
    """
    facts = extract_facts(claim.text.strip(), claim.lang)
    return [_assess_passage(facts, one, extract_facts_by_sentence(one.text, claim.lang), weight) for one in passages]


def _assess_passage(
    facts: SentenceFacts, passage: Passage, post: Sequence[SentenceFacts], weight: TermWeight
) -> Support:
    claim, nothing = ClaimTerms(facts, passage.title, weight), Label.NOT_FOUND
    too_many = len(facts.numbers) + len({moment.start for moment in facts.moments}) > MOST_FIGURES
    if not post or not facts.all_words or too_many:
        return Support(Label.NOT_FOUND, 0.0, "words")
    by_place = [_read_sentence(claim, post, n, passage) for n in range(len(post))]
    readings = [one for one in by_place if one]
    if all(one.label is Label.NOT_FOUND for one in readings):
        # two neighbouring sentences that each only lack something of the claim may support it together; three in a row
        # speak of several things: "Membership is 1,200 ₽. It pays for … First two visits are free."
        for n, (one, other) in enumerate(pairwise(post)):
            gaps = all(reading and reading.why in _GAPS for reading in by_place[n : n + 2])
            if gaps and other.start + len(other.text) - one.start <= LONGEST_STATED:
                together = [*post[:n], join_facts([one, other]), *post[n + 2 :]]
                found = _read_sentence(claim, together, n, passage)
                readings += [found] if found and found.label is Label.SUPPORTED else []
    if not readings:
        return Support(Label.NOT_FOUND, 0.0, "words")
    # what decides, what may decide, what is said for certain
    best = max(readings, key=lambda r: (r.label is not nothing, r.leaning is not nothing, r.why != TOO_LITTLE, r.score))
    likely = {Label.SUPPORTED: _SUPPORTED, Label.CONTRADICTED: _CONTRADICTED}.get(best.label, _OPEN * best.about)
    leaning = best.leaning if best.label is Label.NOT_FOUND else best.label
    start, end = best.sentence.start, best.sentence.start + len(best.sentence.text)
    following = next((one for one in post if one.start >= end), None)
    if best.label is not Label.NOT_FOUND and following and comparison.needs_reply(best.sentence, following):
        end = following.start + len(following.text)
    return Support(best.label, round(likely, 4), "words", best.why, start, end, best.about, leaning)
