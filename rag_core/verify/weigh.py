"""What each passage says of a claim: the layers in their order, one likelihood and one label.

Rules first: what they object to no later layer makes supported. Then words, then meaning where an embedding model
is open, then a language model for what is still undecided.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from rag_core.header import own
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.types import Passage, Shortfall, Viewer
from rag_core.verify.judged import by_judge
from rag_core.verify.matching import Weight
from rag_core.verify.rules import Checked, by_rules
from rag_core.verify.similar import agreeing, by_meaning, by_words
from rag_core.verify.verdict import Claim, Label, Support
from rag_core.verify.weights import AGREED, BAR, MEANING, Weights

__all__ = ["checked_support", "decide", "weigh"]

_OPEN = 0.4  # likely: below it words speak against, whatever agrees
_SAYS = 12  # characters: fewer stand in any text
_HALF = 0.5  # of a claim's words
_VERBATIM, _NEARLY = 1.0, 0.99
_UNDECIDED = (0.3, 0.7)  # likely: there a language model is asked
_JUDGE = 0.5  # of its log odds: small models are too sure
_BARE = "The model only says yes or no, not how sure it is: use a server that tells log-probabilities."


def decide(claim_text: str, evidence_text: str, lang: str) -> Support:
    """What a text says of a claim, from words only."""
    return checked_support(by_rules(claim_text, evidence_text, lang), lang)


async def weigh(claim: Claim, passages: Sequence[Passage], viewer: Viewer, rag: Rag, run: Run) -> list[Support]:
    """What each passage says of the claim, in their order; words weigh as in what the viewer may read. Raises ModelUnavailable, GenerationFailed."""
    weight = rag.lexical.statistics(viewer.channels).weight
    checked = await asyncio.to_thread(lambda: [_checked(claim, passage, weight) for passage in passages])
    found = [checked_support(one, claim.lang) for one in checked]
    found = await _with_meaning(claim, passages, found, rag)
    return await _with_judge(claim, passages, found, rag, run)


def _checked(claim: Claim, passage: Passage, weight: Weight) -> Checked:
    return by_rules(claim.text, passage.text, claim.lang, header=own(passage.header), date=passage.date, weight=weight)


def checked_support(checked: Checked, lang: str, fitted: Weights | None = None) -> Support:
    """The first two layers, rules and words; `fitted` are other weights than the project's own."""
    best = checked.nearest
    if best is None:
        return Support(Label.NOT_FOUND, 0.0, "rules", checked.why)
    start, end = best.start, best.start + len(best.text)
    likely = by_words(checked, lang, fitted)
    if checked.label is Label.CONTRADICTED:
        return Support(Label.CONTRADICTED, round(likely * (1 - checked.near), 4), "rules", checked.why, start, end)
    if checked.label is Label.NOT_FOUND:
        return Support(Label.NOT_FOUND, round(min(likely, BAR - 0.01), 4), "rules", checked.why, start, end)
    if place := _verbatim(checked):
        return Support(Label.SUPPORTED, _VERBATIM, "rules", "", *place)
    if likely >= _OPEN and checked.near >= _HALF and agreeing(checked):
        likely = max(likely, AGREED)
    likely = min(_NEARLY, likely)
    label = Label.SUPPORTED if likely >= BAR else Label.NOT_FOUND
    return Support(label, round(likely, 4), "words", "", start, end)


def _verbatim(checked: Checked) -> tuple[int, int] | None:
    """Where the claim stands word for word, enough of it to say something."""
    asked = [word.low for word in checked.claim.all_words]
    if sum(map(len, asked)) < _SAYS:
        return None
    for sentence in checked.post:
        lows = [word.low for word in sentence.all_words]
        for at in range(len(lows) - len(asked) + 1):
            if lows[at : at + len(asked)] == asked:
                words = sentence.all_words
                return sentence.start + words[at].start, sentence.start + words[at + len(asked) - 1].end
    return None


async def _with_meaning(claim: Claim, passages: Sequence[Passage], found: list[Support], rag: Rag) -> list[Support]:
    likeness = MEANING.get(rag.dense.model.name, {}).get(claim.lang) if rag.dense else None
    open_ones = [n for n, support in enumerate(found) if support.layer == "words"]
    if likeness is None or rag.dense is None or not open_ones:
        return found
    likest = [passages[n].text[found[n].start : found[n].end] for n in open_ones]
    cosines = await by_meaning(claim.text, likest, rag.dense.embedder)
    for n, cosine in zip(open_ones, cosines, strict=True):
        likely = min(_NEARLY, likeness(found[n].likely, cosine))
        found[n] = _relabelled(found[n], likely, "meaning")
    return found


async def _with_judge(
    claim: Claim, passages: Sequence[Passage], found: list[Support], rag: Rag, run: Run
) -> list[Support]:
    low, high = _UNDECIDED
    open_ones = [n for n, s in enumerate(found) if s.layer in {"words", "meaning"} and low < s.likely < high]
    if rag.writer is None or not open_ones:
        return found
    async with run.seated(rag.writer, 0) as seat:
        odds = await by_judge(claim, [passages[n] for n in open_ones], seat)
    if rag.writer.bare_verdicts:
        run.shortfalls.append(Shortfall("judge", _BARE))
    for n, more in zip(open_ones, odds, strict=True):
        z = math.log(found[n].likely / (1 - found[n].likely)) + _JUDGE * more
        found[n] = _relabelled(found[n], min(_NEARLY, 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))), "judge")
    return found


def _relabelled(support: Support, likely: float, layer: str) -> Support:
    label = Label.SUPPORTED if likely >= BAR else Label.NOT_FOUND
    return replace(support, label=label, likely=round(likely, 4), layer=layer)
