"""Stored vectors of passages, read for one question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import VectorsUnavailable
from rag_core.index.vector_store import VectorStore
from rag_core.models.onnx_models import Embedder
from rag_core.types import PassageRef

Vector = NDArray[np.float32]


class VectorReader:
    """Reader of stored vectors for one question: each is read once, and some ahead of their use."""

    def __init__(self, store: VectorStore, embedder: Embedder) -> None:
        """`embedder` is the model of the store: further queries of the question are embedded with it."""
        self.embedder, self._store, self._known = embedder, store, dict[PassageRef, Vector]()
        self._ahead: asyncio.Task[None] | None = None

    def start_reading(self, places: Sequence[PassageRef]) -> None:
        """Read vectors while other work goes on; where that fails, `read` tries again and tells it."""
        self._ahead = asyncio.create_task(self._read_ahead(places))

    async def read(self, places: Sequence[PassageRef]) -> dict[PassageRef, Vector]:
        """Read the stored vectors of passages; those without one are left out. Raises VectorsUnavailable."""
        if self._ahead:
            await asyncio.wait({self._ahead})  # not the task itself: a stage that runs out of time would end it
        await self._add(places)
        return {place: self._known[place] for place in places if place in self._known}

    def cancel(self) -> None:
        """Cancel what is still being read ahead."""
        if self._ahead:
            self._ahead.cancel()

    async def _read_ahead(self, places: Sequence[PassageRef]) -> None:
        with suppress(VectorsUnavailable):
            await self._add(places)

    async def _add(self, places: Sequence[PassageRef]) -> None:
        if unknown := [place for place in places if place not in self._known]:
            self._known |= await self._store.vectors_of(unknown)
