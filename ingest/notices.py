"""What admins should be told of work that nobody watches. Words for it are the bot's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rag_core.doors.archive.gaps import Gap
from rag_core.types import Channel

__all__ = ["Errors", "Failing", "GapsFound", "Mended", "Notice", "Tell"]


@dataclass(frozen=True, slots=True)
class GapsFound:
    """Times in which channels may have had posts that are not in the archive."""

    gaps: tuple[tuple[Channel, Gap], ...]


@dataclass(frozen=True, slots=True)
class Mended:
    """The indexes did not hold what the archive holds; so many posts are taken in again, so many taken out."""

    again: int
    out: int


@dataclass(frozen=True, slots=True)
class Failing:
    """A job that had worked has failed; `reason` is the sentence."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Errors:
    """What went wrong lately: a line of the log, and how often."""

    lines: tuple[tuple[str, int], ...]


Notice = GapsFound | Mended | Failing | Errors
# True where at least one admin was reached.
Tell = Callable[[Notice], Awaitable[bool]]
