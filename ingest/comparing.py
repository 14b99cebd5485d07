"""What the indexes should hold, for whoever compares: posts by their numbers, passages as they are now."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from ingest.index import again
from rag_core.doors.archive import Archive
from rag_core.types import Passage, PostKey

__all__ = ["Numbers", "differing", "passages_now", "sample", "slices"]

T = TypeVar("T")

Numbers = Mapping[int, set[int]]  # chat_id -> message ids

_SLICE = 500  # posts at a time
_NONE: frozenset[int] = frozenset()


def differing(expected: Numbers, there: Numbers) -> list[PostKey]:
    """Posts that are in one and not in the other."""
    chats = sorted({*expected, *there})
    return [PostKey(c, n) for c in chats for n in sorted(expected.get(c, _NONE) ^ there.get(c, _NONE))]


def sample(expected: Numbers, most: int) -> list[PostKey]:
    """Up to `most` posts by chance, each as likely as the other."""
    sizes = {chat: len(numbers) for chat, numbers in expected.items() if numbers}
    if not sizes:
        return []
    drawn = random.choices([*sizes], [*sizes.values()], k=most)  # noqa: S311 - nobody has to guess it
    return [
        PostKey(chat, number)
        for chat, size in sizes.items()
        for number in random.sample(sorted(expected[chat]), min(size, drawn.count(chat)))
    ]


def slices(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    """The same, some at a time."""
    return (keys[at : at + _SLICE] for at in range(0, len(keys), _SLICE))


async def passages_now(archive: Archive, keys: Sequence[PostKey]) -> dict[PostKey, tuple[Passage, ...]]:
    """The passages the indexes should hold of these posts; none for one that is not to be found."""
    batch = await again(archive, keys)
    return await asyncio.to_thread(lambda: {change.key: batch.passages(change) for change in batch.changes})
