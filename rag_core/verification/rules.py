"""Rule layer of verification: every number, date, time, name and negation of a claim must be met by the passage.

A different value in the same role, in the sentence that is most like the claim, contradicts it; what is missing makes
it not found. Rules find what is wrong; the absence of objections does not yet make a claim supported: it is where the
passage covers enough of its words. Pure functions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rag_core.text.numbers import CURRENCIES
from rag_core.verification.assertion_cues import find_unasserted, is_called_false
from rag_core.verification.claim_comparison import (
    contains_value,
    find_moment_differences,
    find_number_differences,
    measure_covered_share,
)
from rag_core.verification.contradictions import (
    find_denial_differences,
    find_name_differences,
    find_opposite_statements,
    find_replaced_words,
    find_role_differences,
    has_pronoun,
)
from rag_core.verification.facts import (
    LONGEST_STATED,
    MOST_FIGURES,
    SentenceFacts,
    extract_facts,
    extract_facts_by_sentence,
)
from rag_core.verification.numbers_in_price_lists import NumberedItems
from rag_core.verification.verdict_types import Label, Support
from rag_core.verification.word_comparison import Vocabulary

_MIN_SENTENCE_COVERAGE = 0.4  # share of the claim's words in the sentence: it is about the same thing
_MIN_UNASSERTED_COVERAGE = 0.5  # the same for a rumour, a plan or an explicit denial
_SHOWN_LENGTH = 40  # characters of the denied claim that are shown
_MOST_FACTS = 2  # matching facts counted at most
_FACT_BONUS = 0.15  # weight of a matching fact in choosing the nearest sentence: less than words, more than chance


@dataclass(frozen=True, slots=True)
class Objection:
    """Objection of a rule: its sort and the reason.

    Sorts: number, moment, name, role, denial, opposite, modal, word, link. Of sort "pronoun" the label is None: the
    name is missing, but a "he" or "it" may stand for it.
    """

    sort: str
    label: Label | None
    why: str


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """Result of the rule layer: objections, the sentence nearest to the claim, and the coverage of the claim.

    `near` is the share of the claim's words in that sentence, `met` in the whole passage. `label` is None without
    objections: the rules alone support nothing.
    """

    claim: SentenceFacts
    post: tuple[SentenceFacts, ...]
    nearest: SentenceFacts | None
    near: float
    met: float
    objections: tuple[Objection, ...]

    @property
    def label(self) -> Label | None:
        """Strongest label of the objections: CONTRADICTED before NOT_FOUND."""
        labels = {objection.label for objection in self.objections}
        return next((label for label in (Label.CONTRADICTED, Label.NOT_FOUND) if label in labels), None)

    @property
    def why(self) -> str:
        """Reason of the deciding objection."""
        return next((found.why for found in self.objections if found.label is self.label), "")


def check_by_rules(claim: str, passage: str, lang: str) -> RuleCheck:
    """Check a claim against a passage by rules.

    A claim of more than `LONGEST_STATED` characters or `MOST_FIGURES` numbers and dates is not found in any passage.
    """
    if len(claim.strip()) > LONGEST_STATED:
        return _reject(extract_facts("", lang), "too long to be checked")
    claim_facts = extract_facts(claim.strip(), lang)
    if len(claim_facts.numbers) + len({moment.start for moment in claim_facts.moments}) > MOST_FIGURES:
        return _reject(claim_facts, "too many figures to be checked")
    post = extract_facts_by_sentence(passage, lang)
    if not post or not claim_facts.all_words:
        return _reject(claim_facts, "no text")
    place = max(range(len(post)), key=lambda n: _score_nearness(claim_facts, post[n]))
    near = measure_covered_share(claim_facts.words, post[place].words)
    met = measure_covered_share(claim_facts.words, Vocabulary(word for one in post for word in one.words))
    objections = tuple(_collect_objections(claim_facts, post, place, near))
    return RuleCheck(claim_facts, post, post[place], near, met, objections)


def _reject(said: SentenceFacts, why: str) -> RuleCheck:
    return RuleCheck(said, (), None, 0.0, 0.0, (Objection("text", Label.NOT_FOUND, why),))


def _score_nearness(claim: SentenceFacts, sentence: SentenceFacts) -> float:
    facts = _count_shared((number.values for number in claim.numbers), [number.values for number in sentence.numbers])
    facts += _count_shared((m.fields().items() for m in claim.moments), [m.fields().items() for m in sentence.moments])
    back = measure_covered_share(sentence.words, claim.words)
    return measure_covered_share(claim.words, sentence.words) + 0.2 * back + _FACT_BONUS * min(_MOST_FACTS, facts)


def _count_shared(mine: Iterable[Iterable[Hashable]], theirs: Sequence[Iterable[Hashable]]) -> int:
    """Count the pairs with something in common."""
    others = [frozenset(values) for values in theirs]
    return sum(not other.isdisjoint(values) for values in mine for other in others)


def _collect_objections(
    claim: SentenceFacts, post: Sequence[SentenceFacts], place: int, about: float
) -> Iterator[Objection]:
    """Collect all objections of the nearest sentence, at `place` in the post; `about` is the claim's coverage by it."""
    best, following = post[place], next(iter(post[place + 1 :]), None)
    called_false = is_called_false(claim, best, following) if about >= _MIN_UNASSERTED_COVERAGE else None
    same = Label.CONTRADICTED if about >= _MIN_SENTENCE_COVERAGE else Label.NOT_FOUND
    prices = [number for number in claim.numbers if number.unit in CURRENCIES and contains_value(number, best)]
    misplaced = NumberedItems(claim, claim.numbers, best).find_difference(prices)
    for sort, found in (
        ("number", find_number_differences(claim, best, post)),
        ("number", [(True, misplaced)] if misplaced else []),
        ("moment", find_moment_differences(claim, best, post, None)),
        ("name", find_name_differences(claim, best, post, about)),
        ("role", find_role_differences(claim, best, post)),
        ("denial", _find_denials(claim, best, called_false)),
        ("opposite", find_opposite_statements(claim, best, about)),
    ):
        for differs, why in found:
            if sort == "name" and not differs and about >= _MIN_SENTENCE_COVERAGE and has_pronoun(best):
                yield Objection("pronoun", None, why)
            else:
                yield Objection(sort, same if differs else Label.NOT_FOUND, why)
    stated = about < _MIN_UNASSERTED_COVERAGE or called_false is not None
    if not stated and (why := find_unasserted(claim, best, following)):
        yield Objection("modal", Label.NOT_FOUND, why)
    for why in find_replaced_words(claim, best):
        yield Objection("word", Label.NOT_FOUND, why)
    for link in claim.links - {link for one in post for link in one.links}:
        yield Objection("link", Label.NOT_FOUND, f"{link} is not there")


def _find_denials(claim: SentenceFacts, best: SentenceFacts, called_false: bool | None) -> Iterator[tuple[bool, str]]:
    """Find that the claim is called false, else what one of the two sentences denies and the other states."""
    if called_false:
        yield True, f"{claim.text.strip(' .!')[:_SHOWN_LENGTH]} ≠ called false"
    elif called_false is None:
        yield from find_denial_differences(claim, best)


SUPPORT_THRESHOLD = 0.5  # likelihood from which a claim without objections is supported
# Share of the claim's words in the passage from which it is supported where no rule objects. On terra_ru_nli and
# fever_symmetric this one share separates as well as a regression over sixteen features did.
MIN_COVERAGE = {"ru": 0.55, "en": 0.6}
_MIN_VERBATIM_LENGTH = 12  # characters: shorter runs occur in any text
_VERBATIM_LIKELIHOOD, MAX_LIKELIHOOD = 1.0, 0.99


def assess_text(claim_text: str, evidence_text: str, lang: str) -> Support:
    """Assess a claim against a text, by rules and words only."""
    return assess_rule_check(check_by_rules(claim_text, evidence_text, lang), lang)


def assess_rule_check(checked: RuleCheck, lang: str) -> Support:
    """Apply the rules, then the coverage of the claim's words."""
    best = checked.nearest
    if best is None:
        return Support(Label.NOT_FOUND, 0.0, "rules", checked.why)
    start, end = best.start, best.start + len(best.text)
    likely = round(max(0.0, min(MAX_LIKELIHOOD, checked.met + SUPPORT_THRESHOLD - MIN_COVERAGE[lang])), 4)
    if checked.label is Label.CONTRADICTED:
        likely = round(SUPPORT_THRESHOLD * (1 - checked.near), 4)
        return Support(Label.CONTRADICTED, likely, "rules", checked.why, start, end)
    if checked.label is Label.NOT_FOUND:
        return Support(Label.NOT_FOUND, min(likely, SUPPORT_THRESHOLD - 0.01), "rules", checked.why, start, end)
    if place := _find_verbatim(checked):
        return Support(Label.SUPPORTED, _VERBATIM_LIKELIHOOD, "rules", "", *place)
    label = Label.SUPPORTED if likely >= SUPPORT_THRESHOLD else Label.NOT_FOUND
    return Support(label, likely, "words", "", start, end)


def _find_verbatim(checked: RuleCheck) -> tuple[int, int] | None:
    """Find the claim word for word in the passage; None if it is too short to mean anything."""
    claim_words = [word.low for word in checked.claim.all_words]
    if sum(map(len, claim_words)) < _MIN_VERBATIM_LENGTH:
        return None
    for sentence in checked.post:
        lows = [word.low for word in sentence.all_words]
        for at in range(len(lows) - len(claim_words) + 1):
            if lows[at : at + len(claim_words)] == claim_words:
                words = sentence.all_words
                return sentence.start + words[at].start, sentence.start + words[at + len(claim_words) - 1].end
    return None
