"""Stance detection: whether a post supports a claim, contradicts it, or says nothing of it, read in its context.

Entailment compares the claim with one sentence. Here the sentences around it count too: a heading that names the
thing, a question and its answer, a rumour and the "not true" after it, a plan, an item of a price list. A sentence
supports only what it asserts, and a number decides only where it stands at the claim's own words. Pure functions.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime

from rag_core.text.numbers import CURRENCIES, Number
from rag_core.text.query_terms import TermWeight, is_asking_word, measure_stem_similarity
from rag_core.text.tokens import stem
from rag_core.verification.claims import is_verb
from rag_core.verification.compare import (
    contains_name,
    find_moment_differences,
    find_nearest_word,
    is_same_name,
    is_same_value,
)
from rag_core.verification.contradictions import find_opposite_statements, find_opposite_words
from rag_core.verification.facts import SentenceFacts, extract_facts
from rag_core.verification.rules import MOST_FIGURES, RuleCheck
from rag_core.verification.types import Label, Support
from rag_core.verification.vocabulary import Word, fold_text

__all__ = ["ClaimTerms", "detect_stance"]

# Shares of the claim's terms in a sentence and around it. It speaks of the claim's subject; for another value to
# contradict the claim; for a "not Y" to correct it; for a later post to change what an earlier one of the channel said.
_MIN_EXPLICIT, _MIN_ABOUT, _MIN_ABOUT_VALUE, _MIN_CORRECTED, _MIN_LEANING = 0.45, 0.55, 0.5, 0.3, 0.3
_MIN_OWN_SUPPORTING = 0.3  # share in the sentence itself, for support
_MIN_OWN = 0.4  # share of the claim's terms in the sentence itself, for another value
_MIN_SUPPORTING, _VALUE_BONUS = 0.78, 0.2  # share for support, less with each number or moment that agrees
_MIN_ABOUT_NEAREST = 0.48  # share in the sentence nearest to the claim, where entailment decides
_MIN_REPLACED_OWN = 0.6  # share in the sentence where another word stands in the place of the claim's
_MOST_ITEM_WORDS = 40  # words of an item that are compared
_LONG_VALUE = 100  # from which a number with its unit seldom agrees by chance
_FACT_BONUS = 0.1  # of a score
_SAME_WORD = 0.7  # similarity from which two words count as the same
_ASKING_WEIGHT = 0.3  # weight of a word like "costs": price lists do without it
_DAMPING = 0.5  # exponent of a term's weight: a rare word of the claim may be a synonym of the post's
_LIGHT_STEMS = frozenset(
    map(
        stem,
        "обходится обойдется удалось можно может get gets can may held carries around теперь now уже already".split(),
    )
)
_TOO_LITTLE = "too little is said"
_VERB_WEIGHT = 0.6  # of a verb beside a number: the number says more
_IDENTIFIER_WEIGHT = 2.0  # of "27" in "bus 27", as a multiple of the claim's heaviest term
_CONTEXT_WEIGHT = 0.8  # of a term that stands beside the sentence, not in it
_SUPPORTED, _OPEN, _CONTRADICTED = 0.7, 0.45, 0.05  # likelihoods of support that a stance stands for

_WORDS = re.compile(r"[^\W\d_]+")
_DIGITS, _GROUPED = re.compile(r"\d+"), re.compile(r"(?<=\d)[\s\u00a0\u202f,](?=\d{3}(?!\d))")
_CORRECTION = re.compile(
    r"(?:(?<!\w)а не|,\s*not|(?<!\w)instead of|(?<!\w)rather than|(?<!\w)вместо)\s+(?:(?:с|со|в|по|on|at|the)\s+)?(.{1,20})"
)
_FALSE_REPLY = re.compile(
    r"\W*(?:но |but )?(?:это |все это |that is |that's |this is |it is |it's )?(?:неправда|не правда|не так|неверно|ложь|фейк|выдумка|not (?:true|so)|untrue|false|nonsense)(?!\w)"
)
_NEGATIVE_REPLY = re.compile(
    r"\W*(?:нет|неа|no|nope|nah|not at all|вовсе нет|ничего подобного)(?=\s*(?:[,.:;!—–-]|and no|$))"
)
_POSITIVE_REPLY = re.compile(r"\W*(?:да|yes|yep|именно|верно|правда)(?!\w)")
_FALSE_WORDS = re.compile(
    r"(?<!\w)(?:неправда|не правда|неверно, что|не соответству(?:ет|ют) действительности|вопреки слухам|фейк\w*|выдумк[аи]|вранье|"
    r"опроверг\w*|опроверга\w+|(?:это|[-–—]) (?:ложь|миф|утка)|not true|untrue|no truth|contrary to|"
    r"(?:is|are|was|were|it's|that's|all|both|[-–—:]) (?:simply |quite |just )?(?:false|a (?:lie|myth|hoax)|nonsense)|"
    r"unfounded|groundless|denied|denies|refuted|debunked)(?!\w)"
)
_RUMOUR_WORDS = re.compile(
    r"(?<!\w)(?:слух\w{0,3}|поговаривают|сплетни|якобы|будто|будто бы|говорят,? (?:что|будто|его|ее|их)|(?<!не )говорят,|ходят разговоры|"
    r"rumou?rs?|rumou?red|gossip|hearsay|word has it|allegedly|reportedly|supposedly|people say|they say)(?!\w)"
)
_CEASED_WORDS = re.compile(
    r"(?<!\w)(?:больше не|уже не(?! в первый)|перест\w+|прекра[тщ]\w+|переезжа\w+|переех\w+|сложил\w* полномочия|уволи\w+|съехал\w*|no longer|not any ?more|"
    r"step(?:s|ped)? down|resign\w*|hand(?:s|ed) over|lost|cancel\w+|called off)(?!\w)"
)
_FAILED_PLAN = re.compile(
    r"(?<!\w)(?:не (?:успе(?:л\w*|ют|ет|ем)|состо\w+|получ\w+|откро\w+|выйдет|буд\w+)|перен[ео]с\w*|отложи\w+|will not|won['’]t|"
    r"did(?: not|n['’]t) (?:make|happen|take place|work)|postponed|delayed)(?!\w)"
)
_COPULA = re.compile(r"\W*(?:(?:is|was|are|became|becomes|является|стал|стала|был|была|the|our|a|new)\W+){0,4}")
_LONGEST_MEASURE = 10  # characters between a number and "old"
_LONGEST_COPULA = 30  # characters
_NEW_HOLDER = re.compile(r"(?:нов\w+|new|избра\w+|назнач\w+|elected|appointed)$")
_PIECE_BREAK = re.compile(r"[,;.!?\n•|()]\s|\n")


def detect_stance(checked: RuleCheck, support: Support, header: str, date: datetime, weight: TermWeight) -> Support:
    """Correct the entailment of a passage by what stands around its sentences; `header` may name the subject."""
    if not checked.post or not checked.claim.all_words:
        return support
    claim = ClaimTerms(checked.claim, header, weight)
    readings = [one for n in range(len(checked.post)) if (one := _read_sentence(claim, checked.post, n, header, date))]
    best = max(readings, key=lambda one: one.priority, default=None)
    if best is None:
        return replace(support, label=Label.NOT_FOUND, likely=min(support.likely, _OPEN))
    start, end = best.sentence.start, best.sentence.start + len(best.sentence.text)
    objections = [one for one in checked.objections if one.sort in {"name", "role"} and one.label is Label.CONTRADICTED]
    if objections and best.sentence is checked.nearest and best.label is Label.SUPPORTED:
        why = objections[0].why
        return Support(Label.CONTRADICTED, _CONTRADICTED, "rules", why, start, end, best.about, Label.CONTRADICTED)
    blocked = any(one.blocks for one in readings)
    open_ones = [one.about for one in readings if one.why == _TOO_LITTLE and one.about >= _MIN_ABOUT_NEAREST]
    if best.label is Label.NOT_FOUND and open_ones and support.label is not Label.NOT_FOUND and not blocked:
        return replace(support, about=max(open_ones))
    if best.label is Label.NOT_FOUND:
        likely = min(support.likely, _OPEN)
        return Support(Label.NOT_FOUND, likely, "context", best.why, start, end, best.about, best.leaning)
    if best.label is support.label and (support.start, support.end) == (start, end):
        return replace(support, about=best.about, leaning=best.label)
    likely = _SUPPORTED if best.label is Label.SUPPORTED else _CONTRADICTED
    return Support(best.label, likely, "context", best.why, start, end, best.about, best.label)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How one sentence stands to the claim; `leaning` is its label if another post has named the subject."""

    label: Label
    sentence: SentenceFacts
    about: float
    score: float
    why: str
    leaning: Label = Label.NOT_FOUND
    blocks: bool = False

    @property
    def priority(self) -> tuple[bool, bool, bool, float]:
        """Order of the readings of a post: what decides before what may decide, then what is said for certain."""
        decides, may = self.label is not Label.NOT_FOUND, self.leaning is not Label.NOT_FOUND
        return decides, may, self.why != _TOO_LITTLE, self.score


class ClaimTerms:
    """Terms of a claim with their weights; numbers that name a thing ("bus 27") are terms, the others are values."""

    def __init__(self, facts: SentenceFacts, header: str, weight: TermWeight) -> None:
        self.facts = facts
        self.low = fold_text(facts.text)
        self.title = extract_facts(header.partition(" · ")[0], "ru")
        self.names = [name.word for name in facts.names if not name.weak]
        units = _list_unit_words(facts)
        self.dated = any(moment.day or moment.month or moment.year for moment in facts.moments)
        self.terms = [
            (
                word,
                weight(word.stem) ** _DAMPING
                * (_ASKING_WEIGHT if is_asking_word(word.low) or word.stem in _LIGHT_STEMS else 1.0),
            )
            for word in facts.words
            if word.start not in units
        ]
        # names in the channel's title need not stand in a post
        self.optional = {
            w.start for w, _ in self.terms if w.capital and find_nearest_word(w, self.title.all_words)[0] >= _SAME_WORD
        }
        self.identifiers = [number for number in facts.numbers if self._is_identifier(number)]
        self.values = [number for number in facts.numbers if number not in self.identifiers and not number.weak]
        self.values = self.values[:MOST_FIGURES]
        self.heaviest = max((each for _, each in self.terms), default=1.0)
        self.total = (
            sum(each for word, each in self.terms if word.start not in self.optional)
            + len(self.identifiers) * self.heaviest * _IDENTIFIER_WEIGHT
        )
        self.stems = frozenset(word.stem for word in facts.all_words if word.stem)

    def _is_identifier(self, number: Number) -> bool:
        """Check for a number that names a thing: "bus 27", "27-й автобус", "Tawny 1.0", "No. 4"."""
        ordinal = number.unit == "ordinal" and self.low[number.start].isdigit()
        if not ordinal and (number.unit or number.hedge or number.weak):
            return False
        before = [word for word in self.facts.all_words if word.end <= number.start]
        if ordinal:
            return len(before) <= 1
        last = before[-1] if before else None
        if last is None or number.start - last.end > 3 or not last.stem or is_asking_word(last.low):
            return False
        return last.capital or len(before) <= 2

    def is_measure_word(self, word: Word) -> bool:
        """Check for "old" in "sixty years old", "high" in "46 metres high"."""
        return any(0 <= word.start - number.end <= _LONGEST_MEASURE for number in self.facts.numbers if number.unit)

    def share(self, opposites: Sequence[tuple[Word, Word]]) -> float:
        """Share of the claim's terms that stand in a sentence as antonyms."""
        starts = {word.start for word, _ in opposites}
        return sum(each for word, each in self.terms if word.start in starts) / self.total if self.total else 0.0

    def find_holder(self, role: Word) -> Word | None:
        """Find the name that the claim gives to a role: "Priya Raman is the president", "Галина — председатель"."""
        for name in self.facts.names:
            for word in self.facts.words:
                between = self.low[name.word.end : word.start]
                if word.stem == role.stem and 0 < len(between) <= _LONGEST_COPULA and _COPULA.fullmatch(between):
                    return name.word
        return None

    def measure_about(
        self, here: SentenceFacts, around: Sequence[SentenceFacts], opposed: AbstractSet[int]
    ) -> tuple[float, float]:
        """Share of the claim's terms in a sentence, and in it and around it; `opposed` words are there as antonyms."""
        total = self.total
        own = near = 0.0
        for word, each in self.terms:
            inside = find_nearest_word(word, here.words)[0]
            if inside >= _SAME_WORD or word.start in opposed:
                own, near = own + each, near + each
                total += each if word.start in self.optional else 0.0
            elif word.start in self.optional:
                continue
            elif any(find_nearest_word(word, one.words)[0] >= _SAME_WORD for one in around):
                near += each * _CONTEXT_WEIGHT
        each = self.heaviest * _IDENTIFIER_WEIGHT
        for number in self.identifiers:
            for n in (n for one in (here, *around) for n in one.numbers):
                if n.unit in {"", "ordinal"} and set(n.values) & set(number.values):
                    near += each
                    own += each if n in here.numbers else 0.0
                    break
        return (own / total, near / total) if self.total else (0.0, 0.0)


def _read_sentence(
    claim: ClaimTerms, post: Sequence[SentenceFacts], n: int, header: str, date: datetime
) -> _Reading | None:
    here, following = post[n], post[n + 1] if n + 1 < len(post) else None
    parent = extract_facts(header.partition(" · ")[2], "ru")
    around = [*post[max(0, n - 3) : n], *post[n + 1 : n + 2], *post[: min(2, n)], parent]
    opposites = [pair for pair in find_opposite_words(claim.facts, here) if not claim.is_measure_word(pair[0])]
    own, about = claim.measure_about(here, around, {word.start for word, _ in opposites})
    moments = list(find_moment_differences(claim.facts, here, post, date))
    lacking = [mine for mine in claim.values if not any(is_same_value(mine, other) for other in here.numbers)]
    matched = len(claim.values) - len(lacking) + len(claim.facts.moments) - len(moments)
    if own == 0.0 and not matched:
        return None
    items = _PricedItems(claim, here)
    found = [items.find_difference(), *(why for differs, why in moments if differs)]
    found += [why for differs, why in find_opposite_statements(claim.facts, here, 1.0) if differs and opposites]
    value = next(filter(None, found), "")
    denial = _find_denial(claim, here)
    subject = (
        about >= _MIN_ABOUT_VALUE
        and (own >= _MIN_OWN or matched > 1)
        and own - claim.share(opposites) >= _MIN_LEANING * bool(opposites)
    )
    known = (
        about >= _MIN_LEANING and len(lacking) <= 1 and not opposites and not claim.dated and items.is_same_attribute()
    )
    against, near = Label.CONTRADICTED, about >= _MIN_ABOUT_NEAREST
    if about >= _MIN_EXPLICIT and (why := _find_explicit_denial(claim, here, following, denial, about)):
        return _Reading(against, here, about, own + about / 2 + 1, why)
    if why := _find_correction(claim, here):
        label = against if about >= _MIN_CORRECTED else Label.NOT_FOUND
        return _Reading(label, here, about, own + about / 2 + 1, why, against)
    score = own + about / 2 + _FACT_BONUS * matched
    if why := _find_unasserted(claim, here, following):
        return _Reading(Label.NOT_FOUND, here, about, score, why, blocks=near)
    if why := value or denial:
        label = against if (value and subject) or (denial and about >= _MIN_ABOUT) else Label.NOT_FOUND
        return _Reading(label, here, about, score, why, against if known and value else Label.NOT_FOUND, near)
    plain = [mine for mine in claim.values if not mine.unit]  # "room 214" may be what ended
    if not (matched and not lacking and not moments and not plain) and (why := _find_end(claim, here)):
        return _Reading(Label.NOT_FOUND, here, about, score, why, against if known else Label.NOT_FOUND, near)
    if lacking or moments:
        return _Reading(Label.NOT_FOUND, here, about, score / 2, "a value is not there")
    if why := _find_replaced_word(claim, here):
        return _Reading(against if own >= _MIN_REPLACED_OWN else Label.NOT_FOUND, here, about, score, why, blocks=near)
    long = any(mine.unit and max(mine.values) >= _LONG_VALUE for mine in claim.values)
    least = _MIN_SUPPORTING - _VALUE_BONUS * min(2, matched + long)
    odd = len(here.denied) % 2 != len(claim.facts.denied) % 2
    named = all(contains_name(name, [here, *around, claim.title]) for name in claim.names)
    if about < least or own < _MIN_OWN_SUPPORTING or odd or not named:
        leaning = (
            Label.SUPPORTED
            if known and any(mine.unit for mine in claim.values) and named and not odd
            else Label.NOT_FOUND
        )
        return _Reading(Label.NOT_FOUND, here, about, score, _TOO_LITTLE if named else "a name is not there", leaning)
    return _Reading(Label.SUPPORTED, here, about, score, "", Label.SUPPORTED)


def _find_replaced_word(claim: ClaimTerms, here: SentenceFacts) -> str:
    """Find another word after the same two words: "to the accountants" where the claim says "to the physicists"."""
    mine, theirs = claim.facts.all_words, here.all_words
    places = {(a.low, b.low): c for a, b, c in zip(theirs, theirs[1:], theirs[2:], strict=False)}
    for a, b, word in zip(mine, mine[1:], mine[2:], strict=False):
        other = places.get((a.low, b.low))
        if other is None or b.stem or not word.stem or not other.stem or word.low.isdigit():
            continue
        strange = find_nearest_word(other, claim.facts.words)[0] < _SAME_WORD
        if strange and find_nearest_word(word, here.words)[0] < _SAME_WORD and word in claim.facts.words:
            return f"{word.low} ≠ {other.low}"
    return ""


def _find_explicit_denial(
    claim: ClaimTerms, here: SentenceFacts, following: SentenceFacts | None, denial: str, about: float
) -> str:
    """Find that the sentence, or the one after it, calls the claim false, answers no, or says that a plan failed."""
    low, reply = fold_text(here.text), fold_text(following.text) if following else ""
    if claim.facts.denied or _FALSE_WORDS.search(claim.low):
        return ""
    if _FALSE_WORDS.search(low) or _FALSE_REPLY.match(reply):
        return "called false"
    if _is_question(here) and _NEGATIVE_REPLY.match(reply):
        return "asked and denied"
    if about >= _MIN_ABOUT_VALUE and _NEGATIVE_REPLY.match(low):
        denied = [
            word for scope in here.denied for word in here.words if scope.at < word.start and word.stem in scope.wide
        ]
        if any(find_nearest_word(word, claim.facts.words)[0] >= _SAME_WORD for word in denied):
            return "answered no"
    if _FAILED_PLAN.search(low) and not _FAILED_PLAN.search(claim.low):
        return "did not come to be"
    if denial and _RUMOUR_WORDS.search(low):
        return "a rumour denied"
    return ""


def _is_predicate(word: Word) -> bool:
    """Check whether a word looks like a verb; an English word in "s" may be a plural."""
    return is_verb(word) and not (word.low.isascii() and word.low.endswith("s"))


def _is_question(here: SentenceFacts) -> bool:
    return here.text.rstrip(' "»”)').endswith("?")


def _find_correction(claim: ClaimTerms, here: SentenceFacts) -> str:
    """Find "X, not Y" where Y is a number or a day of the claim."""
    values = [claim.low[one.start : one.end] for one in claim.facts.numbers]
    values += [claim.low[one.start : one.end] for one in claim.facts.moments]
    digits = {digit for value in values for digit in _DIGITS.findall(_GROUPED.sub("", value))}
    weekdays = {stem(word) for value in values for word in value.split()} - {""}
    if _CORRECTION.search(claim.low):
        return ""
    for found in _CORRECTION.finditer(fold_text(here.text)):
        after = _GROUPED.sub("", found[1])
        if digits & set(_DIGITS.findall(after)[:1]) or weekdays & {stem(word) for word in _WORDS.findall(after)[:1]}:
            return f"corrected: not {found[1].strip()}"
    return ""


def _find_denial(claim: ClaimTerms, here: SentenceFacts) -> str:
    """Find that the sentence denies a word of the claim, or the claim one of the sentence."""
    for scopes, other, back in (
        (here.denied, claim.facts, claim.facts.denied),
        (claim.facts.denied, here, here.denied),
    ):
        if back:
            continue
        for scope in scopes:
            if scope.first and find_nearest_word(scope.first, other.words)[0] >= _SAME_WORD:
                return f"not {scope.first.low}"
    return ""


def _find_unasserted(claim: ClaimTerms, here: SentenceFacts, following: SentenceFacts | None) -> str:
    """Find that the sentence asks, or tells a rumour, a plan or a possibility, where the claim states a fact."""
    if _is_question(here) and not (following and _POSITIVE_REPLY.match(fold_text(following.text))):
        return "only asked"
    if _RUMOUR_WORDS.search(fold_text(here.text)) and not _RUMOUR_WORDS.search(claim.low):
        return "rumour"
    for scope in here.modal:
        if scope.kind != "must" and not claim.facts.modal and not claim.stems.isdisjoint(scope.wide):
            return f"{scope.kind} {scope.first.low if scope.first else ''}"
    return ""


def _find_end(claim: ClaimTerms, here: SentenceFacts) -> str:
    """Find that something ended which the claim says still holds, or that somebody else has the role now."""
    low = fold_text(here.text)
    if (found := _CEASED_WORDS.search(low)) and not _CEASED_WORDS.search(claim.low):
        return f"ended: {found[0]}"
    words = here.all_words
    for n, word in enumerate(words[1:], 1):
        if _NEW_HOLDER.match(words[n - 1].low) and (name := claim.find_holder(word)):
            others = [w for w in words[n + 1 :] if w.capital and w.stem]
            if others and not any(is_same_name(name, w) for w in others):
                return f"new {word.low}"
    return ""


class _PricedItems:
    """Items of a sentence, such as a price list: the words that each of its numbers belongs to."""

    def __init__(self, claim: ClaimTerms, here: SentenceFacts) -> None:
        self._claim, self._here = claim, here
        starts = [0, *(found.end() for found in _PIECE_BREAK.finditer(here.text))]
        units = _list_unit_words(here)
        pieces: list[list[Word]] = [[] for _ in starts]
        for word in here.words:
            light = is_asking_word(word.low) or word.start in units or (_is_predicate(word) and not word.capital)
            if not light:
                pieces[bisect_right(starts, word.start) - 1].append(word)
        self._size: dict[int, int] = {}
        self._claimed: dict[int, int] = {}
        for number in here.numbers:
            at = bisect_right(starts, number.start) - 1
            words = pieces[at] or pieces[max(0, at - 1)]  # a number that stands alone belongs to the piece before
            self._size[number.start] = len(words)
            self._claimed[number.start] = sum(
                find_nearest_word(word, claim.facts.words)[0] >= _SAME_WORD for word in words[:_MOST_ITEM_WORDS]
            )

    def find_rival(self, number: Number) -> Number | None:
        """Find a number of the same unit that stands at the claim's own words."""
        numbers, mine = self._here.numbers, self._claim.values
        others = [n for n in numbers if _have_same_unit(number, n) and not any(is_same_value(m, n) for m in mine)]
        if own := next((n for n in others if self._claimed[n.start]), None):
            return own
        return others[0] if len(others) == 1 and not any(is_same_value(number, n) for n in numbers) else None

    def is_bound_elsewhere(self, number: Number) -> bool:
        """Check whether the number stands only at other things, while the claim's thing has another number."""
        same = [n for n in self._here.numbers if is_same_value(number, n)]
        if not same or any(self._claimed[n.start] == self._size[n.start] for n in same):
            return False
        most = max(self._claimed[n.start] for n in same)
        others = (n for n in self._here.numbers if _have_same_unit(number, n) and n not in same)
        return any(self._claimed[n.start] > most for n in others)

    def find_difference(self) -> str:
        """Find a number of the claim in whose place the sentence has another."""
        for number in self._claim.values:
            here = any(is_same_value(number, other) for other in self._here.numbers)
            if (not here or self.is_bound_elsewhere(number)) and (rival := self.find_rival(number)):
                quoted = self._claim.facts.text[number.start : number.end]
                return f"{quoted} ≠ {self._here.text[rival.start : rival.end]}"
        return ""

    def is_same_attribute(self) -> bool:
        """Check that what differs may be the same attribute later: the price of the same item, or no number at all."""
        rivals = [rival for number in self._claim.values if (rival := self.find_rival(number))]
        return all(rival.unit and self._claimed[rival.start] == self._size[rival.start] for rival in rivals)


def _list_unit_words(facts: SentenceFacts) -> frozenset[int]:
    """Offsets of the words that are units: "roubles" in "40 roubles"."""
    ends = {number.end for number in facts.numbers if number.unit and number.unit != "ordinal"}
    return frozenset(word.start for word in facts.words if not ends.isdisjoint(range(word.start - 2, word.start + 1)))


def _have_same_unit(one: Number, other: Number) -> bool:
    if one.unit or other.unit:
        bare_price = not (one.unit and other.unit) and not other.noun and bool({one.unit, other.unit} & CURRENCIES)
        return one.unit == other.unit or bare_price
    mine, theirs = (stem(number.noun.split()[0]) if number.noun else "" for number in (one, other))
    return mine == theirs or measure_stem_similarity(mine, (theirs,)) >= _SAME_WORD
