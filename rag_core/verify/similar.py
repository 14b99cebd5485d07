"""The second layer: how like the claim the passage is, in words and, with an embedding model, in meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rag_core.doors.embed import Embedder
from rag_core.verify.matching import has_name, word_for_word
from rag_core.verify.rules import Checked
from rag_core.verify.valued import same_value
from rag_core.verify.weights import WEIGHTS, Weights

__all__ = ["agreeing", "by_meaning", "by_words", "features"]

_LONG = 30  # words of a sentence: no longer one tells more
_ENOUGH = 0.5  # of the claim's words in the passage: with fewer it is in proportion less likely
_ONLY = frozenset("only solely exclusively merely только лишь исключительно".split())


def features(checked: Checked) -> tuple[float, ...]:
    """What the weights of `weights.py` are for, in the order of `Weights.names`."""
    claim, best = checked.claim, checked.nearest
    if best is None:
        return (0.0,) * len(Weights.NAMES)
    stems = [word.stem for word in best.words]
    pairs = list(pairwise(claim.words))
    there = set(pairwise(stems))
    everywhere = {word.stem for one in checked.post for word in one.words}
    sorts = {objection.sort for objection in checked.objections}
    return (
        checked.near,
        checked.met,
        checked.met**3,
        float(checked.met >= 1.0),
        sum((a.stem, b.stem) in there for a, b in pairs) / max(1, len(pairs)),
        word_for_word(claim, best),
        float(bool(claim.words) and claim.words[-1].stem in everywhere),
        float(bool(claim.denied)),
        float(len(claim.denied) != len(best.denied)),
        float("denial" in sorts),
        float("opposite" in sorts),
        float("name" in sorts),
        float("moment" in sorts),
        float("number" in sorts),
        float(any(word.low in _ONLY for word in claim.all_words)),
        math.log1p(min(_LONG, len(best.words))),
    )


def agreeing(checked: Checked) -> int:
    """How many of the claim's numbers, dates and names stand in the sentence that is most like it."""
    claim, best = checked.claim, checked.nearest
    if best is None:
        return 0
    numbers = sum(any(same_value(mine, one) for one in best.numbers) for mine in claim.numbers)
    moments = sum(any(mine.fields().items() & one.fields().items() for one in best.moments) for mine in claim.moments)
    return numbers + moments + sum(not name.weak and has_name(name.word, [best]) for name in claim.names)


def by_words(checked: Checked, lang: str, fitted: Weights | None = None) -> float:
    """How likely the passage supports the claim, 0..1, from words, numbers, names and denials."""
    weights = fitted or WEIGHTS[lang]
    z = weights.shift + sum(w * f for w, f in zip(weights.values, features(checked), strict=True))
    return min(1.0, checked.met / _ENOUGH) / (1 + math.exp(-max(-30.0, min(30.0, z))))


async def by_meaning(text: str, others: Sequence[str], embedder: Embedder) -> list[float]:
    """The cosine of a claim and each of these sentences. Raises ModelUnavailable."""
    if not others:
        return []
    vectors = await embedder.passages([text, *others])
    return [float(cosine) for cosine in vectors[1:] @ vectors[0]]
