"""Relevance of passages to a claim: only those about the same thing may support or contradict it.

Different numbers of different things are no disagreement. Entailment compares one claim with one sentence; here the
rest of the post counts too, and the other posts of its channel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_core.text.query_terms import TermWeight, is_asking_word, measure_stem_similarity
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Passage
from rag_core.verification.compare import is_repriced
from rag_core.verification.types import Claim, Label, Support

__all__ = ["AssessedPassage", "is_different_subject", "measure_relevance", "select_relevant_passages", "widen_quote"]

_ASKING_WORD_WEIGHT = 0.3  # weight of a word like "costs": price lists do without it
# Units are often written as a sign and do not say what is measured.
_MEASURE_WORDS = r"(?:₽|руб|р\.|\$|€|£|%|процент|percent|тыс|млн|thousand|million|euro|евро|доллар|dollar|minute|минут)"
_UNIT_PATTERN = re.compile(rf"\b{_MEASURE_WORDS}\w*", re.I)
_NUMBERING_WORDS = frozenset("number номер part часть".split())
_MAX_OPENING_WORDS = 2  # words before a number that is part of a name
_WORD = re.compile(r"[^\W_]+")


def measure_relevance(claim: str, support: Support, words: str, header: str, weight: TermWeight) -> float:
    """Relevance of a text to the claim: share of the claim's topic words it holds, 0..1; rare terms weigh more.

    The value that differs ("twelve ≠ fifteen"), other numbers and words of the channel's title are no topic words.
    The rest of the header, such as the excerpt of a replied-to post, counts as text.
    """
    title, _, more = header.partition(" · ")
    aside = frozenset(tokenize(f"{support.why.partition('≠')[0]} {title}"))
    weights: dict[str, float] = {}
    for word in _WORD.findall(_UNIT_PATTERN.sub(" ", claim)):
        for term in tokenize(word):
            if term not in aside and not any(map(str.isdigit, term)):
                weights[term] = weight(term) * (_ASKING_WORD_WEIGHT if is_asking_word(word) else 1.0)
    there = frozenset(tokenize(f"{more}\n{words}"))
    whole = sum(weights.values())
    if not whole:
        return 1.0
    return (
        sum(w * (1.0 if term in there else measure_stem_similarity(term, there)) for term, w in weights.items()) / whole
    )


def is_different_subject(claim: str, support: Support) -> bool:
    """Check whether the differing number names the subject itself: bus 41 is another bus than bus 27."""
    value = support.why.partition("≠")[0].strip()
    if not any(map(str.isdigit, value)):
        return False
    place = re.search(rf"(?<![\w.,]){re.escape(value)}(?!\w)(?!\s*{_MEASURE_WORDS})", claim)
    before = _WORD.findall(claim[: place.start()]) if place else []
    if not before:
        return False
    named = bool(tokenize(before[-1])) and not is_asking_word(before[-1])
    return before[-1].lower() in _NUMBERING_WORDS or (named and len(before) <= _MAX_OPENING_WORDS)


# Two posts may name different numbers because they are about different things. So much of what the claim is about must
# stand around the words that speak against it, and nearly as much as around those that meet most of it.
_MIN_RELEVANCE, _MIN_RELATIVE_RELEVANCE = 0.5, 0.75
# The same of the whole post where words alone speak for the claim, and where no check objects to it.
_MIN_SUPPORTING_RELEVANCE, _MIN_UNOBJECTED_RELEVANCE = 0.45, 0.45
_MIN_NUMERIC_RELEVANCE, _SHORT_NUMBER_DIGITS = (
    0.35,
    2,
)  # longer numbers seldom occur by chance in a post about something else
_BARELY_SUPPORTED, _MIN_LIKELIHOOD = 0.55, 0.3  # likelihoods
_MIN_CORRECTED_RELEVANCE = 0.3  # relevance of a post that only retracts the claim's words
_WORD_LAYERS = frozenset({"rules", "words"})  # layers
_CORRECTED_LAYER, _REPRICED_LAYER = "corrected", "repriced"  # layers that need no relevance check
_DIFFERS_MARK = "≠"  # marks differing values in `Support.why`
_ABSENT_TEXT = "is not there"
_FIGURE = re.compile(r"\d+")
_MAX_QUOTE_SENTENCES = 3  # sentences of a quote: the deciding one may depend on the one before
_CORRECTION_PATTERN = re.compile(
    r"(?:\bа не|,\s*not|\binstead of|\brather than|\bвместо)\s+((?:[^\W_]+[\s.,:-]*){1,3})", re.I
)


@dataclass(frozen=True, slots=True)
class AssessedPassage:
    """Passage with its support for the claim."""

    passage: Passage
    support: Support

    @property
    def sure(self) -> float:
        """Confidence in the label, 0..1."""
        return self.support.likely if self.support.label is Label.SUPPORTED else 1.0 - self.support.likely


def select_relevant_passages(
    claim: Claim, weighed: Sequence[AssessedPassage], weight: TermWeight
) -> list[AssessedPassage]:
    """Select the passages that support or contradict the claim, most confident first."""
    passages = [_promote_context_match(claim, one, weight) for one in weighed]
    labelled = [one for one in passages if one.support.label is not Label.NOT_FOUND]
    passages = [_promote_changed_value(claim, one, labelled, weight) for one in passages]
    met = {id(one): _measure_context_relevance(claim, one, weight) for one in passages}
    passages = [one for one in passages if one.support.label is not Label.NOT_FOUND]
    most = max((met[id(one)] for one in passages), default=0.0)
    kept = [
        one
        for one in passages
        if one.support.layer in {_CORRECTED_LAYER, _REPRICED_LAYER} or _is_relevant(claim, one, met[id(one)], most)
    ]
    return sorted(kept, key=lambda one: (-round(one.sure, 2), -met[id(one)], -one.passage.date.timestamp()))


def _promote_changed_value(
    claim: Claim, one: AssessedPassage, spoken: Sequence[AssessedPassage], weight: TermWeight
) -> AssessedPassage:
    """Relabel a not-found passage as contradicting if it changes the value in a later post of the same channel.

    A channel that has stated the claim before need not repeat all of it when the number changes.
    """
    support, passage = one.support, one.passage
    if support.label is not Label.NOT_FOUND or support.layer != "rules":
        return one
    before = [b for b in spoken if b.passage.key.chat_id == passage.key.chat_id and b.passage.date < passage.date]
    if before and is_repriced(claim.text, passage.text[support.start : support.end], claim.lang):
        return replace(one, support=replace(support, label=Label.CONTRADICTED, layer=_REPRICED_LAYER))
    other = _DIFFERS_MARK in support.why or (
        _ABSENT_TEXT in support.why and _FIGURE.search(passage.text[support.start : support.end])
    )
    if (
        other
        and _FIGURE.search(support.why)
        and before
        and _measure_context_relevance(claim, one, weight) >= _MIN_RELEVANCE
    ):
        return replace(one, support=replace(support, label=Label.CONTRADICTED))
    return one


def _promote_context_match(claim: Claim, one: AssessedPassage, weight: TermWeight) -> AssessedPassage:
    """Relabel a post that supports or retracts the claim outside the sentence nearest to it."""
    support, passage = one.support, one.passage
    met = measure_relevance(claim.text, support, passage.text, passage.header, weight)
    if met >= _MIN_CORRECTED_RELEVANCE and (place := _find_correction(claim, passage.text)):
        return replace(one, support=Support(Label.CONTRADICTED, 0.05, _CORRECTED_LAYER, "taken back", *place))
    if support.label is not Label.NOT_FOUND or support.layer != "words" or support.likely < _MIN_LIKELIHOOD:
        return one
    figures = _FIGURE.findall(claim.text)
    if figures and met >= (
        _MIN_NUMERIC_RELEVANCE if max(map(len, figures)) > _SHORT_NUMBER_DIGITS else _MIN_UNOBJECTED_RELEVANCE
    ):
        return replace(
            one, support=replace(support, label=Label.SUPPORTED, likely=max(_BARELY_SUPPORTED, support.likely))
        )
    return one


def _find_correction(claim: Claim, text: str) -> TextSpan | None:
    """Find "X, not Y" where Y is what is claimed; None if the claim has such a phrase itself."""
    if _CORRECTION_PATTERN.search(claim.text):
        return None
    claim_terms = frozenset(tokenize(claim.text))
    for found in _CORRECTION_PATTERN.finditer(text):
        words = tokenize(found[1])
        if words and words[0] in claim_terms:
            inside = [(a, b) for a, b in split_sentences(text) if a <= found.start() < b]
            return inside[0] if inside else found.span()
    return None


def _is_relevant(claim: Claim, one: AssessedPassage, met: float, most: float) -> bool:
    if one.support.label is Label.CONTRADICTED:
        return met >= max(_MIN_RELEVANCE, _MIN_RELATIVE_RELEVANCE * most) and not is_different_subject(
            claim.text, one.support
        )
    return (
        met >= _MIN_SUPPORTING_RELEVANCE
        or one.support.layer not in _WORD_LAYERS
        or bool(_FIGURE.search(claim.text) and met >= _MIN_NUMERIC_RELEVANCE)
    )


def _measure_context_relevance(claim: Claim, one: AssessedPassage, weight: TermWeight) -> float:
    """Relevance of the post; of a contradicting one only the deciding words and their neighbours count."""
    start, end = 0, len(one.passage.text)
    if one.support.label is Label.CONTRADICTED or one.support.layer == "rules":
        start, end = widen_quote(claim, one.passage.text, (one.support.start, one.support.end))
    return measure_relevance(claim.text, one.support, one.passage.text[start:end], one.passage.header, weight)


def widen_quote(claim: Claim, text: str, span: TextSpan) -> TextSpan:
    """Widen the deciding words by neighbouring sentences that hold more of the claim, up to MAX_SENTENCE_LENGTH."""
    claim_terms = frozenset(tokenize(claim.text))
    if span[1] - span[0] > MAX_SENTENCE_LENGTH:
        found = split_long_span(text, span, MAX_SENTENCE_LENGTH)
        return max(found, key=lambda piece: len(claim_terms & frozenset(tokenize(text[slice(*piece)]))), default=span)
    found = split_sentences(text)
    here = [n for n, (start, end) in enumerate(found) if start < span[1] and span[0] < end]
    if not here:
        return span
    first, last = here[0], here[-1]
    windows = [
        (found[a][0], found[b][1])
        for a in range(max(0, last - _MAX_QUOTE_SENTENCES + 1), first + 1)
        for b in range(last, min(len(found), a + _MAX_QUOTE_SENTENCES))
        if found[b][1] - found[a][0] <= MAX_SENTENCE_LENGTH
    ]
    return max(
        windows, key=lambda w: (len(claim_terms & frozenset(tokenize(text[slice(*w)]))), w[0] - w[1]), default=span
    )
