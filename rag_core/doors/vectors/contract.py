"""The contract of the dense leg: what is written, what is found, what is promised; the same for every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_core.doors.lexical import Filter, Place
from rag_core.types import PostKey

__all__ = ["Floats", "Held", "Point", "Vectors"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A passage's vector on its way into the store; `text_hash` names the text it was made of."""

    place: Place
    date: datetime
    lang: str
    text_hash: str
    vector: Floats


class Held(NamedTuple):
    """What is known of a stored vector; the date is in Unix seconds."""

    place: Place
    date: int
    lang: str
    text_hash: str


class Vectors(Protocol):
    """Vectors of passages, searched by cosine; every method raises VectorsUnavailable where the store cannot answer.

    Vectors are brought to length 1 and kept in 16 bits: what comes back differs in the third decimal.
    """

    @property
    def identity(self) -> str:
        """A random id given when the store was created: what is known of its content hangs on it.

        Raises QdrantGone where the store is on a server that has not answered yet.
        """

    @property
    def revision(self) -> int:
        """Grows with every write and removal, after it, also where it failed half way: what was found may be old.

        It counts from the opening of the store, and only what this process does.
        """

    @property
    def model(self) -> str:
        """The embedding model the store was created for."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    async def upsert(self, points: Sequence[Point]) -> None:
        """Write points, each in place of the one with the same post and part.

        When it returns they survive a kill -9; a power cut only after `flush`. Raises VectorRefused before
        anything is written when a vector is missing, not finite, zero or of the wrong length.
        """

    async def remove(self, keys: Iterable[PostKey], but: Iterable[Place] = ()) -> None:
        """Take out all parts of these posts `but` these; unknown posts are no error."""

    async def search(
        self, vector: Floats, only: Filter, n: int = 50, lang: str | None = None
    ) -> list[tuple[Place, float]]:
        """The n nearest passages among those the filter and the language allow, with their cosine, best first.

        Exact: the same as comparing with every allowed vector, unless a server was told to approximate
        (QDRANT__LINKS, QDRANT__QUANTIZATION). Raises VectorRefused; VectorsUnavailable also
        where the filter names so many single posts that the search would hold up others.
        """

    async def vectors_of(self, places: Sequence[Place]) -> dict[Place, Floats]:
        """The stored vectors of these posts' parts; places that are not in the store are left out."""

    async def by_hash(self, hashes: Sequence[str]) -> dict[str, Floats]:
        """The stored vectors of texts with these hashes; unknown ones are left out."""

    async def count(self) -> int:
        """How many points there are."""

    def held(self) -> AsyncIterator[list[Held]]:
        """All that is stored but the vectors, page by page, each point once.

        What is written or taken out meanwhile may be among it or not.
        """

    async def flush(self) -> None:
        """Bring everything to disk: after it a power cut loses nothing."""

    async def close(self) -> None:
        """Flush and let go. Closing twice is no error."""
