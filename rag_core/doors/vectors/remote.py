"""A collection of vectors on a server that may be gone when the bot begins, or go and come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rag_core.doors.qdrant.late import Late
from rag_core.doors.vectors.contract import Floats
from rag_core.doors.vectors.points import About, Batch, Only
from rag_core.doors.vectors.server import Collection

__all__ = ["Remote"]


class Remote:
    """See `Backing`. Every method raises QdrantGone at once while the collection is not to be had."""

    def __init__(self, opening: Callable[[], Collection]) -> None:
        self._late = Late(opening)

    @property
    def about(self) -> About:
        """What the collection was made for, and its name. Raises QdrantGone: nothing is known of it without it."""
        return self._late.there.about

    def write(self, batch: Batch) -> None:
        """See `Backing`."""
        self._late.do(lambda there: there.write(batch))

    def remove(self, posts: Mapping[int, list[int]], but: list[str]) -> None:
        """See `Backing`."""
        self._late.do(lambda there: there.remove(posts, but))

    def search(self, vector: Floats, only: Only, n: int) -> list[tuple[Mapping[str, Any], float]]:
        """See `Backing`."""
        return self._late.do(lambda there: there.search(vector, only, n))

    def vectors(self, ids: list[str]) -> dict[str, Floats]:
        """See `Backing`."""
        return self._late.do(lambda there: there.vectors(ids))

    def hashed(self, numbers: list[int]) -> list[tuple[str, Floats]]:
        """See `Backing`."""
        return self._late.do(lambda there: there.hashed(numbers))

    def count(self) -> int:
        """See `Backing`."""
        return self._late.do(lambda there: there.count())

    def page(self, after: str | None, n: int) -> tuple[list[Mapping[str, Any]], str | None]:
        """See `Backing`."""
        return self._late.do(lambda there: there.page(after, n))

    def flush(self) -> None:
        """Nothing to do: every write waited until the server had it."""

    def close(self) -> None:
        """See `Backing`."""
        self._late.close()
