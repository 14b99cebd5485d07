"""The contract of the lexical leg, the same in the folder and on a server. Calls may block: they belong in a thread.

But `statistics`, `watermark`, `revision`, `chats` and `len` wait for nothing but memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rag_core.doors.places import Entry, Filter, Place
from rag_core.doors.term_statistics import TermStatistics
from rag_core.types import PostKey

__all__ = ["WordIndex"]


class WordIndex(Protocol):
    """BM25 over passages. One writer; searches may run in other threads meanwhile. Raises IndexUnavailable."""

    watermark: int  # the archive's sequence number up to which it is complete

    def __len__(self) -> int:
        """How many passages there are."""

    @property
    def chats(self) -> list[int]:
        """The channels it has passages of, or had."""

    @property
    def revision(self) -> int:
        """Grows whenever a search may find something else than before: after the change, never ahead of it."""

    def replace(self, keys: Iterable[PostKey], entries: Sequence[Entry]) -> int:
        """Put passages in place of all those of these posts; returns how many passages went."""

    def remove_channel(self, chat_id: int) -> None:
        """Take every passage of a channel out."""

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """The passages of a channel: message ids, and which part of the post each is."""

    def adopt(self, other: WordIndex) -> None:
        """Become what another of the same kind is, while searches run; `other` must not be used any more."""

    def fresh(self) -> WordIndex:
        """An empty one of the same kind, beside this one."""

    def saved(self, folder: Path, archive: str) -> WordIndex | None:
        """One of the same kind that was saved there, for this archive; None where there is none."""

    @property
    def told(self) -> str:
        """What another process needs to open one of the same kind (`heard`): it may hold a key. Empty: nothing."""

    def save(self, folder: Path, archive: str = "") -> None:
        """Write what is kept here, so that either the old or the new one is there, whole, whatever happens."""

    def close(self) -> None:
        """Let go of what is held open. Closing twice is no error."""

    def search(self, terms: Sequence[str], only: Filter, n: int = 50) -> list[tuple[Place, float]]:
        """The n best passages that hold a term, best first, with their BM25 scores over the filter's channels."""

    def matching(self, terms: Sequence[str], only: Filter, *others: Sequence[str]) -> list[Place]:
        """Every passage that holds all the terms, or all of one of the others, oldest first: for counts."""

    def all_of(self, only: Filter) -> list[Place]:
        """The first passage of every post that may be found, oldest first."""

    def known(self, term: str, only: Filter) -> bool:
        """Whether a passage that may be found holds the term."""

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """Term statistics over the passages of these channels alone, as a search in them uses."""
