"""The lexical leg against the archive: every post by its number, some by all their words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np

from ingest.comparing import Numbers, differing, passages_now, slices
from ingest.index import Indexer, entry
from rag_core.doors.archive import Archive
from rag_core.doors.lexical import Filter
from rag_core.doors.words import WordIndex
from rag_core.types import Passage, PostKey

__all__ = ["words_amiss", "words_held", "wrong_words"]


async def wrong_words(
    archive: Archive, lexical: WordIndex, indexer: Indexer, expected: Numbers, some: Sequence[PostKey]
) -> list[PostKey]:
    """The posts that the index does not hold as the archive does: all compared by number, `some` by words.

    A post that changes meanwhile seems wrong for a moment, so what seems wrong is looked at a second time.
    Raises ArchiveUnavailable, IndexUnavailable.
    """
    there = await asyncio.to_thread(words_held, lexical)
    suspects = list(dict.fromkeys([*await asyncio.to_thread(differing, expected, there), *some]))
    for _ in range(2):
        await indexer.catch_up()
        suspects = [key for part in slices(suspects) for key in await words_amiss(archive, lexical, part)]
    return suspects


def words_held(lexical: WordIndex) -> Numbers:
    """The posts the index holds, by number; blocking."""
    return {chat: set(np.unique(lexical.parts_of(chat)[0]).tolist()) for chat in list(lexical.chats)}


async def words_amiss(archive: Archive, lexical: WordIndex, keys: Sequence[PostKey]) -> list[PostKey]:
    """Those of the posts of which the index holds other parts or other words than the archive."""
    ready = await passages_now(archive, keys)
    return await asyncio.to_thread(_differently_held, lexical, ready)


def _differently_held(lexical: WordIndex, ready: Mapping[PostKey, Sequence[Passage]]) -> list[PostKey]:
    """The posts of which the index holds other parts, or other words."""
    parts: dict[PostKey, set[int]] = {key: set() for key in ready}
    for chat in {key.chat_id for key in ready}:
        messages, numbers = lexical.parts_of(chat)
        ours = np.isin(messages, [key.message_id for key in ready if key.chat_id == chat])
        for message, part in zip(messages[ours].tolist(), numbers[ours].tolist(), strict=True):
            parts[PostKey(chat, message)].add(part)
    return [
        key
        for key, passages in ready.items()
        if parts[key] != {p.part for p in passages} or not all(_found(lexical, p) for p in passages)
    ]


def _found(lexical: WordIndex, passage: Passage) -> bool:
    """Whether a search for all words of a passage, in the second it was written, finds it at its place."""
    wanted = entry(passage)
    if not wanted.terms:
        return True
    second = Filter(frozenset({passage.key.chat_id}), passage.date, passage.date + timedelta(seconds=1))
    return wanted.place in lexical.matching(sorted(set(wanted.terms)), second)
