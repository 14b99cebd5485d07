"""What only the process that has the indexes open can say of them, for `citegram doctor`."""

from __future__ import annotations

import time
from typing import TypedDict

from ingest.dense import DenseIndexer
from rag_core.doors.archive import posts
from rag_core.rag import Rag

__all__ = ["DenseFacts", "Facts", "facts"]

_SAMPLES = 16  # texts that are embedded to say how long a backlog takes
_SAMPLE = "Паром уходит в половине восьмого. The ferry leaves at half past seven, and comes back before dark. " * 2


class DenseFacts(TypedDict):
    """The dense leg; `seconds` is how long the posts that wait take on this machine."""

    model: str
    vectors: int
    waiting: int
    seconds: float


class Facts(TypedDict):
    """Both legs: what they hold, up to which change, and how many changes are to come."""

    passages: int
    watermark: int
    behind: int
    dense: DenseFacts | None
    without: list[str]  # why a part could not be opened
    bar: str


async def facts(rag: Rag) -> Facts:
    """Ask the opened doors. Raises ArchiveUnavailable, VectorsUnavailable, ModelUnavailable."""
    behind = bool(await posts.changes(rag.archive, rag.lexical.watermark, 1))
    return Facts(
        passages=len(rag.lexical),
        watermark=rag.lexical.watermark,
        behind=await posts.last_seq(rag.archive) - rag.lexical.watermark if behind else 0,
        dense=await _dense(rag),
        without=[shortfall.reason for shortfall in rag.without],
        bar=f"{rag.calibration.bar} ({rag.calibration.data})",
    )


async def _dense(rag: Rag) -> DenseFacts | None:
    if rag.dense is None:
        return None
    model, vectors, embedder = rag.dense.model.name, rag.dense.vectors, rag.dense.embedder
    waiting, seconds = await DenseIndexer(rag.archive, vectors, embedder).waiting(), 0.0
    if waiting:
        started = time.perf_counter()
        await embedder.passages([_SAMPLE] * _SAMPLES)
        seconds = (time.perf_counter() - started) / _SAMPLES * waiting
    return DenseFacts(model=model, vectors=await vectors.count(), waiting=waiting, seconds=seconds)
