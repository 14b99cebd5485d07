"""MMR: drop hits that are too similar to others, and compute the cosine of each hit and the question.

The first 20 texts are exempt: with them MMR cost 2 to 6 points of recall@20 on MuSiQue. Similarity is the cosine of
stored vectors, or the overlap of words where there are none.
"""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from rag_core.context.evidence import build_text_key
from rag_core.engine import Engine
from rag_core.retrieval.fusion import select_by_mmr
from rag_core.settings import SearchSettings
from rag_core.types import Passage, PassageRef

_PROTECTED_HITS = 20  # first texts exempt from MMR, which cost 2 to 6 points of recall@20 on MuSiQue among them

RankedPlaces = list[tuple[PassageRef, float]]
Vector = NDArray[np.float32]


async def diversify_hits(
    fused: RankedPlaces, vector: Vector | None, passages: dict[PassageRef, Passage], rag: Engine
) -> tuple[dict[PassageRef, float], RankedPlaces]:
    """Select diverse hits by MMR; returns the cosine of each hit to the question vector, and the kept hits.

    Raises VectorsUnavailable.
    """
    stored: dict[PassageRef, Vector] = {}
    if vector is not None and rag.dense is not None:
        stored = await rag.dense.vectors.vectors_of([place for place, _ in fused])
    likeness = {place: float(v @ vector) for place, v in stored.items()} if vector is not None else {}
    return likeness, await asyncio.to_thread(_select_diverse, fused, stored, passages, rag.settings.retrieval)


def _select_diverse(
    fused: RankedPlaces, stored: dict[PassageRef, Vector], passages: dict[PassageRef, Passage], settings: SearchSettings
) -> RankedPlaces:
    """Select by MMR, with stored vectors or else shared terms; identical texts count once.

    Copies stay with their text, because they show in how many channels it was posted.
    """
    text_keys = {place: build_text_key(passages[place].text) for place, _ in fused}
    groups: dict[str, RankedPlaces] = {}
    for place, score in fused:
        groups.setdefault(text_keys[place] or str(place), []).append((place, score))
    firsts = [group[0] for group in groups.values()]
    if len(firsts) <= settings.keep:
        return fused
    protected = min(_PROTECTED_HITS, settings.keep)
    exempt, rest = firsts[:protected], firsts[protected:]
    ranked = [(place, 1 - n / len(rest)) for n, (place, _) in enumerate(rest)]
    number = {place: n for n, (place, _) in enumerate(rest)}
    shared = (
        _compute_jaccard([text_keys[place].split() for place in number]) if any(p not in stored for p in number) else []
    )

    def alike(one: PassageRef, other: PassageRef) -> float:
        return shared[number[one]][number[other]]

    chosen = select_by_mmr(ranked, stored, settings.keep - len(exempt), settings.diversity, alike)
    kept = {place for place, _ in (*exempt, *chosen)}
    selected = {place for group in groups.values() if group[0][0] in kept for place, _ in group}
    return [pair for pair in fused if pair[0] in selected]


def _compute_jaccard(texts: list[list[str]]) -> list[list[float]]:
    """Jaccard similarity of each pair of texts, given by their words, 0..1."""
    columns: dict[str, int] = {}
    word_columns = [{columns.setdefault(word, len(columns)) for word in words} for words in texts]
    has = np.zeros((len(texts), max(1, len(columns))), np.float32)
    for row, numbers in zip(has, word_columns, strict=True):
        row[list(numbers)] = 1.0
    both, sizes = has @ has.T, has.sum(axis=1)
    shares: list[list[float]] = (both / np.maximum(sizes[:, None] + sizes[None, :] - both, 1.0)).tolist()
    return shares
