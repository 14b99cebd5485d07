"""The hits without what is too much like others, and how near in meaning each is to the question."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from rag_core.compose import fingerprint
from rag_core.doors.lexical import Place
from rag_core.fuse import diverse
from rag_core.rag import Rag
from rag_core.settings import SearchSettings
from rag_core.types import Passage

__all__ = ["varied"]

_SURE = 20  # texts that stay: among them MMR cost 2 to 6 points of recall@20 on MuSiQue

Ranked = list[tuple[Place, float]]
Vector = NDArray[np.float32]


async def varied(
    fused: Ranked, vector: Vector | None, passages: dict[Place, Passage], rag: Rag
) -> tuple[dict[Place, float], Ranked]:
    """The cosines of the hits to the question, where it has a vector, and the hits that stay.

    Raises VectorsUnavailable.
    """
    stored: dict[Place, Vector] = {}
    if vector is not None and rag.dense is not None:
        stored = await rag.dense.vectors.vectors_of([place for place, _ in fused])
    likeness = {place: float(v @ vector) for place, v in stored.items()} if vector is not None else {}
    return likeness, await asyncio.to_thread(_unlike, fused, stored, passages, rag.settings.retrieval)


def _unlike(
    fused: Ranked, stored: dict[Place, Vector], passages: dict[Place, Passage], settings: SearchSettings
) -> Ranked:
    """What MMR keeps, by stored vectors, by shared terms where there are none. The same text counts once.

    Copies stay with the text they repeat: they say in how many channels it stands.
    """
    marks = {place: fingerprint(passages[place].text) for place, _ in fused}
    groups: dict[str, Ranked] = {}
    for place, score in fused:
        groups.setdefault(marks[place] or str(place), []).append((place, score))
    firsts = [group[0] for group in groups.values()]
    if len(firsts) <= settings.keep:
        return fused
    sure = min(_SURE, settings.keep)
    stay, rest = firsts[:sure], firsts[sure:]
    ranked = [(place, 1 - n / len(rest)) for n, (place, _) in enumerate(rest)]
    number = {place: n for n, (place, _) in enumerate(rest)}
    shared = _shared([marks[place].split() for place in number]) if any(p not in stored for p in number) else []

    def alike(one: Place, other: Place) -> float:
        return shared[number[one]][number[other]]

    chosen = diverse(ranked, stored, settings.keep - len(stay), settings.diversity, alike)
    kept = {place for place, _ in (*stay, *chosen)}
    found = {place for group in groups.values() if group[0][0] in kept for place, _ in group}
    return [pair for pair in fused if pair[0] in found]


def _shared(texts: list[list[str]]) -> list[list[float]]:
    """For each two texts, given by their words, the share of these that both have (Jaccard), 0..1."""
    columns: dict[str, int] = {}
    found = [{columns.setdefault(word, len(columns)) for word in words} for words in texts]
    has = np.zeros((len(texts), max(1, len(columns))), np.float32)
    for row, numbers in zip(has, found, strict=True):
        row[list(numbers)] = 1.0
    both, sizes = has @ has.T, has.sum(axis=1)
    shares: list[list[float]] = (both / np.maximum(sizes[:, None] + sizes[None, :] - both, 1.0)).tolist()
    return shares
