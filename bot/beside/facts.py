"""What only the process that has the indexes open can say of them, for `citegram doctor`."""

from __future__ import annotations

import time
from typing import TypedDict

from bot.beside.language_facts import language_facts
from ingest.dense import DenseIndexer
from ingest.glance import glance
from rag_core.doors.archive import posts
from rag_core.rag import Rag

__all__ = ["Compared", "DenseFacts", "Facts", "facts"]

_SAMPLES = 16  # texts that are embedded to say how long a backlog takes
_SAMPLE = "Паром уходит в половине восьмого. The ferry leaves at half past seven, and comes back before dark. " * 2


class DenseFacts(TypedDict):
    """The dense leg; `seconds` is how long the posts that wait take on this machine."""

    model: str
    vectors: int
    waiting: int
    seconds: float


class Compared(TypedDict):
    """Posts compared by number, some of them by words, and how many each leg has wrong."""

    posts: int
    some: int
    words: int
    vectors: int


class Facts(TypedDict):
    """Both legs: what they hold, up to which change, and how many changes are to come (less than 0: the archive's)."""

    passages: int
    watermark: int
    behind: int
    dense: DenseFacts | None
    compared: Compared | None  # None: the indexes were not up to date
    without: list[str]  # why a part could not be opened
    language: list[tuple[bool | None, str]]  # of writer and planner: fine or not, and a sentence
    bar: str


async def facts(rag: Rag) -> Facts:
    """Ask the opened doors. Raises ArchiveUnavailable, VectorsUnavailable, ModelUnavailable."""
    last, dense = await posts.last_seq(rag.archive), await _dense(rag)
    late = rag.lexical.watermark > last or bool(await posts.changes(rag.archive, rag.lexical.watermark, 1))
    return Facts(
        passages=len(rag.lexical),
        watermark=rag.lexical.watermark,
        behind=last - rag.lexical.watermark if late else 0,
        dense=dense,
        compared=await _compared(rag) if not (late or (dense and dense["waiting"])) else None,
        without=[shortfall.reason for shortfall in rag.without if shortfall.stage != "write"],
        language=await language_facts(rag),
        bar=f"{rag.calibration.bar} ({rag.calibration.data})",
    )


async def _compared(rag: Rag) -> Compared | None:
    seen = await glance(rag)
    return Compared(posts=seen.posts, some=seen.some, words=seen.words, vectors=seen.vectors) if seen else None


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
