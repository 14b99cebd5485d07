"""Stocktaking: what the vector store holds against what it should hold.

The store is read by its owner and written down; the comparison, which has every text cut and hashed again, is
for another process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ingest.dense import prepared
from rag_core.doors.vectors import Held, Vectors
from rag_core.doors.vectors.points import hash_number
from rag_core.doors.words import WordIndex
from rag_core.errors import IndexUnavailable, raised_as
from rag_core.types import Passage, PostKey

__all__ = ["Stock", "written_down"]

# `mark` stands for everything that is known of a vector: its place, date, language and text.
_ROW = np.dtype([("chat", "<i8"), ("message", "<i8"), ("part", "<i8"), ("mark", "<i8")])
_MOST_PARTS = 1 << 12  # a post of 4,096 characters has fewer
_BREATH_S = 0.02  # between pages, for questions


async def written_down(vectors: Vectors, file: Path) -> int:
    """Write down what the store holds; returns how many vectors. Raises VectorsUnavailable, IndexUnavailable."""
    pages: list[NDArray[np.void]] = []
    async for page in vectors.held():
        pages.append(np.array([(*held.place.key, held.place.part, _mark(held)) for held in page], _ROW))
        await asyncio.sleep(_BREATH_S)
    rows = np.concatenate([np.zeros(0, _ROW), *pages])
    with raised_as(IndexUnavailable, OSError, say="The index cannot be written to disk ({}): free some space."):
        await asyncio.to_thread(file.write_bytes, rows.tobytes())
    return len(rows)


class Stock:
    """What was written down, of one channel or of all. Posts that changed since seem to differ: that does no harm."""

    def __init__(self, file: Path, chat_id: int | None = None) -> None:
        """Read the file; without it nothing is in the store. Raises IndexUnavailable."""
        with raised_as(IndexUnavailable, OSError, say="The list of stored vectors cannot be read ({}): start again."):
            rows = np.frombuffer(file.read_bytes(), _ROW)
        self._rows = rows if chat_id is None else rows[rows["chat"] == chat_id]
        self._marks = np.sort(self._rows["mark"])

    def differing(self, ready: Mapping[PostKey, Sequence[Passage]], model: str) -> list[PostKey]:
        """The posts that do not have each of their passages in the store, as it is now."""
        pairs = [(key, _mark(prepared(p, model).held)) for key, passages in ready.items() for p in passages]
        marks = np.array([mark for _, mark in pairs], np.int64)
        at = np.minimum(np.searchsorted(self._marks, marks), max(0, len(self._marks) - 1))
        there = self._marks[at] == marks if len(self._marks) else np.zeros(len(marks), np.bool_)
        return list(dict.fromkeys(key for (key, _), found in zip(pairs, there.tolist(), strict=True) if not found))

    def surplus(self, lexical: WordIndex) -> list[PostKey]:
        """The posts that have more parts in the store than in the lexical index, which is complete."""
        found: list[PostKey] = []
        for chat in np.unique(self._rows["chat"]).tolist():
            rows = self._rows[self._rows["chat"] == chat]
            messages, parts = lexical.parts_of(chat)
            known = np.isin(_code(rows["message"], rows["part"]), _code(messages, parts))
            found += (PostKey(chat, message) for message in np.unique(rows["message"][~known]).tolist())
        return found


def _code(messages: NDArray[np.int64], parts: NDArray[np.int64] | NDArray[np.int16]) -> NDArray[np.int64]:
    return messages * _MOST_PARTS + parts.astype(np.int64)


def _mark(held: Held) -> int:
    return hash_number(repr(tuple(held)))
