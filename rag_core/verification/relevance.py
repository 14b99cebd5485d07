"""Relevance of passages to a claim: only those about the same thing may support or contradict it.

Different numbers of different things are no disagreement. Entailment compares one claim with one sentence; here the
rest of the post counts too, and the other posts of its channel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_core.text.query_terms import TermWeight, is_asking_word
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import measure_stem_similarity, tokenize
from rag_core.types import Passage
from rag_core.verification.types import Claim, Label, Support

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


_MAX_QUOTE_SENTENCES = 3  # sentences of a quote: the deciding one may depend on the one before


@dataclass(frozen=True, slots=True)
class AssessedPassage:
    """Passage with its support for the claim."""

    passage: Passage
    support: Support

    @property
    def sure(self) -> float:
        """Confidence in the label, 0..1."""
        return self.support.likely if self.support.label is Label.SUPPORTED else 1.0 - self.support.likely


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
