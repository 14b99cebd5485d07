"""A look at the indexes that changes nothing: whether they hold what the archive says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ingest.comparing import differing, sample
from ingest.vectors_compared import vectors_amiss
from ingest.words_compared import words_amiss, words_held
from rag_core.doors.archive import channels, posts
from rag_core.doors.archive.inventory import indexable, queued
from rag_core.rag import Rag

__all__ = ["Glance", "glance"]

_SAMPLES = 50  # posts compared by their words
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Glance:
    """How many posts were compared by number, how many by words, and how many of them each leg has wrong."""

    posts: int
    some: int
    words: int
    vectors: int


async def glance(rag: Rag, samples: int = _SAMPLES) -> Glance | None:
    """Compare indexes that are up to date; None where posts come so fast that nothing stands still.

    Raises ArchiveUnavailable, IndexUnavailable, ModelUnavailable.
    """
    for _ in range(_TRIES):
        before = await _state(rag)
        seen = await _looked(rag, samples)
        if before == await _state(rag):
            return seen
    return None


async def _state(rag: Rag) -> tuple[int, int]:
    return await posts.last_seq(rag.archive), rag.lexical.watermark


async def _looked(rag: Rag, samples: int) -> Glance:
    chats = {*await channels.known(rag.archive), *rag.lexical.chats}
    expected = {chat: await indexable(rag.archive, chat) for chat in sorted(chats)}
    some = await asyncio.to_thread(sample, expected, samples)
    there = await asyncio.to_thread(words_held, rag.lexical)
    words = {*await asyncio.to_thread(differing, expected, there), *await words_amiss(rag.archive, rag.lexical, some)}
    vectors = 0
    if rag.dense is not None:
        coming = await queued(rag.archive, some)
        vectors = len(await vectors_amiss(rag.archive, rag.dense, [key for key in some if key not in coming]))
    return Glance(sum(map(len, expected.values())), len(some), len(words), vectors)
