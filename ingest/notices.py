"""Admin notices of background work, as data; the bot words them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rag_core.storage.gaps import Gap
from rag_core.types import Channel

__all__ = ["AdminNotice", "ErrorsLogged", "GapsFound", "IndexesRepaired", "JobFailing", "NotifyAdmins"]


@dataclass(frozen=True, slots=True)
class GapsFound:
    """Admin notice: periods for which posts of a channel may be missing from the archive."""

    gaps: tuple[tuple[Channel, Gap], ...]


@dataclass(frozen=True, slots=True)
class IndexesRepaired:
    """Admin notice: the indexes differed from the archive; `again` posts are indexed again, `out` removed."""

    again: int
    out: int


@dataclass(frozen=True, slots=True)
class JobFailing:
    """Admin notice: a job that worked before has failed; `reason` is a sentence."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class ErrorsLogged:
    """Admin notice: recent errors, each a log line with its count."""

    lines: tuple[tuple[str, int], ...]


AdminNotice = GapsFound | IndexesRepaired | JobFailing | ErrorsLogged
# Returns True if at least one admin was reached.
NotifyAdmins = Callable[[AdminNotice], Awaitable[bool]]
