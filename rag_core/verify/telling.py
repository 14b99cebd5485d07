"""Which of the weighed passages tell something of a claim: those that are about the same thing.

What is weighed is one claim against one sentence; here the rest of the post counts too, and the posts beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rag_core.analysis import terms
from rag_core.asked import Weigh
from rag_core.sentences import LONGEST, Span, pieces, sentences
from rag_core.types import Passage
from rag_core.verify.related import other_thing, related
from rag_core.verify.repriced import priced_anew
from rag_core.verify.verdict import Claim, Label, Support

__all__ = ["Weighed", "telling", "widened"]

# Two posts may name different numbers because they are about different things. So much of what the claim is about must
# stand around the words that speak against it, and nearly as much as around those that meet most of it.
_ABOUT, _AS_MUCH = 0.5, 0.75
# The same of the whole post where words alone speak for the claim, and where no check objects to it.
_BORNE_OUT, _UNOBJECTED = 0.45, 0.45
_TELLING, _SHORT = 0.35, 2  # a number of more digits than this stands in a post of something else by chance seldom
_BARELY, _LEAST = 0.55, 0.3  # likely
_CORRECTED = 0.3  # of what the claim is about, in a post that takes just its words back
_BY_WORDS = frozenset({"rules", "words"})  # layers
_TAKEN_BACK, _ANEW = "corrected", "repriced"  # layers that need no more words
_DIFFERS = "≠"  # in what a check says of numbers that differ
_ABSENT = "is not there"
_FIGURE = re.compile(r"\d+")
_JOINED = 3  # sentences of a quote: what decides may lean on the one before
_NOT_THAT = re.compile(r"(?:\bа не|,\s*not|\binstead of|\brather than|\bвместо)\s+((?:[^\W_]+[\s.,:-]*){1,3})", re.I)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A passage and what it says of the claim."""

    passage: Passage
    support: Support

    @property
    def sure(self) -> float:
        """How sure the label is, 0..1."""
        return self.support.likely if self.support.label is Label.SUPPORTED else 1.0 - self.support.likely


def telling(claim: Claim, weighed: Sequence[Weighed], weight: Weigh) -> list[Weighed]:
    """Those that support or contradict, surest first."""
    told = [_retold(claim, one, weight) for one in weighed]
    spoken = [one for one in told if one.support.label is not Label.NOT_FOUND]
    told = [_gone_on(claim, one, spoken, weight) for one in told]
    met = {id(one): _met(claim, one, weight) for one in told}
    told = [one for one in told if one.support.label is not Label.NOT_FOUND]
    most = max((met[id(one)] for one in told), default=0.0)
    kept = [
        one for one in told if one.support.layer in {_TAKEN_BACK, _ANEW} or _is_about(claim, one, met[id(one)], most)
    ]
    return sorted(kept, key=lambda one: (-round(one.sure, 2), -met[id(one)], -one.passage.date.timestamp()))


def _gone_on(claim: Claim, one: Weighed, spoken: Sequence[Weighed], weight: Weigh) -> Weighed:
    """A channel that has spoken of it before need not say all of it again when the number changes."""
    support, passage = one.support, one.passage
    if support.label is not Label.NOT_FOUND or support.layer != "rules":
        return one
    before = [b for b in spoken if b.passage.key.chat_id == passage.key.chat_id and b.passage.date < passage.date]
    if before and priced_anew(claim.text, passage.text[support.start : support.end], claim.lang):
        return replace(one, support=replace(support, label=Label.CONTRADICTED, layer=_ANEW))
    other = _DIFFERS in support.why or (
        _ABSENT in support.why and _FIGURE.search(passage.text[support.start : support.end])
    )
    if other and _FIGURE.search(support.why) and before and _met(claim, one, weight) >= _ABOUT:
        return replace(one, support=replace(support, label=Label.CONTRADICTED))
    return one


def _retold(claim: Claim, one: Weighed, weight: Weigh) -> Weighed:
    """A post that says what the claim says in other places, or takes it back, beside the sentence nearest to it."""
    support, passage = one.support, one.passage
    met = related(claim.text, support, passage.text, passage.header, weight)
    if met >= _CORRECTED and (place := _taken_back(claim, passage.text)):
        return replace(one, support=Support(Label.CONTRADICTED, 0.05, _TAKEN_BACK, "taken back", *place))
    if support.label is not Label.NOT_FOUND or support.layer != "words" or support.likely < _LEAST:
        return one
    figures = _FIGURE.findall(claim.text)
    if figures and met >= (_TELLING if max(map(len, figures)) > _SHORT else _UNOBJECTED):
        return replace(one, support=replace(support, label=Label.SUPPORTED, likely=max(_BARELY, support.likely)))
    return one


def _taken_back(claim: Claim, text: str) -> Span | None:
    """Where a post says "X, not Y", and Y is what is claimed; None in a claim that says so itself."""
    if _NOT_THAT.search(claim.text):
        return None
    said = frozenset(terms(claim.text))
    for found in _NOT_THAT.finditer(text):
        words = terms(found[1])
        if words and words[0] in said:
            inside = [(a, b) for a, b in sentences(text) if a <= found.start() < b]
            return inside[0] if inside else found.span()
    return None


def _is_about(claim: Claim, one: Weighed, met: float, most: float) -> bool:
    if one.support.label is Label.CONTRADICTED:
        return met >= max(_ABOUT, _AS_MUCH * most) and not other_thing(claim.text, one.support)
    return (
        met >= _BORNE_OUT or one.support.layer not in _BY_WORDS or bool(_FIGURE.search(claim.text) and met >= _TELLING)
    )


def _met(claim: Claim, one: Weighed, weight: Weigh) -> float:
    """How much the post is about the claim; of one that speaks against it only the words that do, and those beside."""
    start, end = 0, len(one.passage.text)
    if one.support.label is Label.CONTRADICTED or one.support.layer == "rules":
        start, end = widened(claim, one.passage.text, (one.support.start, one.support.end))
    return related(claim.text, one.support, one.passage.text[start:end], one.passage.header, weight)


def widened(claim: Claim, text: str, span: Span) -> Span:
    """The words that decide, with neighbouring sentences where more of the claim stands there; short enough to show."""
    said = frozenset(terms(claim.text))
    if span[1] - span[0] > LONGEST:
        found = pieces(text, span, LONGEST)
        return max(found, key=lambda piece: len(said & frozenset(terms(text[slice(*piece)]))), default=span)
    found = sentences(text)
    here = [n for n, (start, end) in enumerate(found) if start < span[1] and span[0] < end]
    if not here:
        return span
    first, last = here[0], here[-1]
    windows = [
        (found[a][0], found[b][1])
        for a in range(max(0, last - _JOINED + 1), first + 1)
        for b in range(last, min(len(found), a + _JOINED))
        if found[b][1] - found[a][0] <= LONGEST
    ]
    return max(windows, key=lambda w: (len(said & frozenset(terms(text[slice(*w)]))), w[0] - w[1]), default=span)
