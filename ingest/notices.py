"""Admin notices of background work, and clocks that measure time whatever happens to the wall clock.

The wording of the notices is the bot's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rag_core.storage.gaps import Gap
from rag_core.types import Channel

__all__ = ["AdminNotice", "ErrorsLogged", "GapsFound", "IndexesRepaired", "JobFailing", "NotifyAdmins"]


@dataclass(frozen=True, slots=True)
class GapsFound:
    """Times in which channels may have had posts that are not in the archive."""

    gaps: tuple[tuple[Channel, Gap], ...]


@dataclass(frozen=True, slots=True)
class IndexesRepaired:
    """The indexes did not hold what the archive holds; so many posts are taken in again, so many taken out."""

    again: int
    out: int


@dataclass(frozen=True, slots=True)
class JobFailing:
    """A job that had worked has failed; `reason` is the sentence."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class ErrorsLogged:
    """What went wrong lately: a line of the log, and how often."""

    lines: tuple[tuple[str, int], ...]


AdminNotice = GapsFound | IndexesRepaired | JobFailing | ErrorsLogged
# True where at least one admin was reached.
NotifyAdmins = Callable[[AdminNotice], Awaitable[bool]]
