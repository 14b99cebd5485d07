"""The dense leg against the archive: every post by its number, some by the texts their vectors were made of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ingest.comparing import Numbers, differing, passages_now, slices
from ingest.dense import Prepared, prepared
from rag_core.dense import Dense
from rag_core.doors.archive import Archive, backlog
from rag_core.doors.archive.inventory import queued
from rag_core.doors.lexical import Place
from rag_core.doors.vectors.contract import Floats
from rag_core.types import PostKey

__all__ = ["vectors_amiss", "wrong_vectors"]

_BREATH_S = 0.01  # between pages, for questions
_ALIKE = 0.999  # cosine of one vector kept twice in 16 bits


@dataclass(slots=True)
class _Shelf:
    """What the store holds: posts by number, and of some the texts. Not frozen: it is filled page by page."""

    marks: dict[PostKey, set[str]]
    there: dict[int, set[int]] = field(default_factory=dict)
    count: int = 0


async def wrong_vectors(
    archive: Archive, dense: Dense, expected: Numbers, some: Sequence[PostKey]
) -> tuple[list[PostKey], int]:
    """The posts that the store does not hold as the archive does, and how many vectors there are.

    What waits in the queue is not wrong but on its way. Raises ArchiveUnavailable, VectorsUnavailable,
    ModelUnavailable.
    """
    shelf = await _looked_at(dense, some)
    suspects = await asyncio.to_thread(differing, expected, shelf.there)
    for part in slices(some):
        for key, passages in (await passages_now(archive, part)).items():
            if shelf.marks[key] != {prepared(p, dense.embedder.name).mark for p in passages}:
                suspects.append(key)
    await backlog.follow(archive, dense.vectors.identity)
    wrong: list[PostKey] = []
    for part in slices(list(dict.fromkeys(suspects))):
        on_their_way = await queued(archive, part)
        wrong += await vectors_amiss(archive, dense, [key for key in part if key not in on_their_way])
    return wrong, shelf.count


async def _looked_at(dense: Dense, some: Sequence[PostKey]) -> _Shelf:
    shelf = _Shelf({key: set() for key in some})
    async for page in dense.vectors.held():
        for held in page:
            key = held.place.key
            shelf.there.setdefault(key.chat_id, set()).add(key.message_id)
            if key in shelf.marks:
                shelf.marks[key].add(held.text_hash)
        shelf.count += len(page)
        await asyncio.sleep(_BREATH_S)
    return shelf


async def vectors_amiss(archive: Archive, dense: Dense, keys: Sequence[PostKey]) -> list[PostKey]:
    """Those of the posts whose vectors the store has not, or has other ones of."""
    ready = {
        key: [prepared(p, dense.embedder.name) for p in passages]
        for key, passages in (await passages_now(archive, keys)).items()
    }
    # The first part there is none of, too: a post that became shorter may have left it.
    beyond = {key: Place(key, len(parts), 0, 0) for key, parts in ready.items()}
    every = [one for parts in ready.values() for one in parts]
    stored = await dense.vectors.vectors_of([*(one.held.place for one in every), *beyond.values()])
    right = await _right_vectors(dense, every)
    return [
        key
        for key, parts in ready.items()
        if beyond[key] in stored or not all(_alike(stored.get(one.held.place), right.get(one.mark)) for one in parts)
    ]


async def _right_vectors(dense: Dense, every: Sequence[Prepared]) -> Mapping[str, Floats]:
    """The vectors these texts should have, by mark. A text without meaning has none."""
    texts = {one.mark: one.text for one in every}
    known = await dense.vectors.by_hash(list(texts)) if texts else {}
    missing = [mark for mark in texts if mark not in known]
    if missing:
        rows = await dense.embedder.passages([texts[mark] for mark in missing])
        known |= {mark: row for mark, row in zip(missing, rows, strict=True) if np.any(row)}
    return known


def _alike(stored: Floats | None, right: Floats | None) -> bool:
    if stored is None or right is None:
        return stored is right
    return float(stored @ right) > _ALIKE * float(np.linalg.norm(stored) * np.linalg.norm(right))
