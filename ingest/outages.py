"""Outage detection by a heartbeat: gaps in the reception, clocks, and the notices of background work to admins.

A gap is noted when the bot was out of touch for longer than Telegram keeps updates; admins are told once. To be in
touch, Telegram must have answered, and what it sent must have been kept. Down time is measured by a monotonic clock;
between two runs of the process there is only the wall clock. Notices are data; the bot words them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rag_core.storage import Archive, channel_history, channels
from rag_core.storage.channel_history import Gap
from rag_core.types import Channel

# A wall clock that differs by more than this from the monotonic clock is, or was, wrong.
_MAX_CLOCK_DIFFERENCE = timedelta(minutes=10)
# A changed wall clock is trusted again after this many consistent beats: 100 s.
_TRUSTED_AFTER_BEATS = 5

log = logging.getLogger(__name__)


class _ClockReading(NamedTuple):
    passed: float
    at: datetime

    def differ(self, before: _ClockReading) -> timedelta:
        """Difference between wall time and monotonic time passed since an earlier reading."""
        return abs(self.at - before.at - timedelta(seconds=self.passed - before.passed))


class Heartbeat:
    """Record of contact with Telegram: call `heard` after each reply, `beat` a few times a minute."""

    def __init__(self, archive: Archive, clock: Clock | None = None) -> None:
        self._archive = archive
        self._clock = clock or Clock()
        self._heard: _ClockReading | None = None
        self._last: _ClockReading | None = None
        self._doubted: _ClockReading | None = None  # first beat after the start, if it would mean a gap
        self._odd_beats = 0

    def heard(self) -> None:
        """Note that Telegram replied and its updates are in the archive."""
        self._heard = _ClockReading(self._clock.elapsed(), datetime.fromtimestamp(self._clock.wall(), UTC))

    async def beat(self) -> int:
        """Write a heartbeat if Telegram replied since the last one; return the number of gaps noted."""
        now, last = self._heard, self._last
        seen = last or self._doubted
        if now is None or (seen and now.passed <= seen.passed):
            return 0
        if last is None:
            # the first beat after the start: the downtime is known from the wall clock only
            before = await channel_history.get_last_heartbeat(self._archive)
            since, silence = before or now.at, now.at - before if before else timedelta()
            if silence < -_MAX_CLOCK_DIFFERENCE:
                log.warning("the clock was set back by %s: how long the bot was down is not known", -silence)
            if silence > channel_history.UPDATE_RETENTION:
                doubted, self._doubted = self._doubted, now
                # A clock that is briefly wrong at the start must not create a gap: a second reading is required.
                if doubted is None or now.differ(doubted) > _MAX_CLOCK_DIFFERENCE:
                    return 0
        else:
            since, silence = last.at, timedelta(seconds=now.passed - last.passed)
            odd = now.differ(last) > _MAX_CLOCK_DIFFERENCE
            self._odd_beats = self._odd_beats + 1 if odd and self._odd_beats + 1 < _TRUSTED_AFTER_BEATS else 0
            if self._odd_beats:
                now = now._replace(at=last.at + silence)
        noted = 0
        if silence > channel_history.UPDATE_RETENTION:
            noted = await channel_history.note_outage_gaps(self._archive, since, now.at)
        await channel_history.record_heartbeat(self._archive, now.at)
        self._last, self._doubted = now, None
        if noted:
            log.warning("the bot was out of touch since %s: posts may be missing in %d channels", since, noted)
        return noted


async def report_gaps(archive: Archive, tell: NotifyAdmins) -> str:
    """Close gaps that turned out complete and notify admins of new ones; return a line for the job log."""
    for chat_id in await channel_history.list_channels_without_gaps(archive):
        await channel_history.note_gap_before_joining(archive, chat_id)
    closed = await channel_history.close_complete_gaps(archive)
    known = await channels.load_channels(archive)
    new = [gap for gap in await channel_history.list_unreported_gaps(archive) if gap.chat_id in known]
    if new and await tell(GapsFound(tuple((known[gap.chat_id], gap) for gap in new))):
        await channel_history.mark_gaps_reported(archive, new)
    return f"{closed} closed" if closed else ""


# Sleep must count: a laptop closed for three days was offline for three days. macOS has no CLOCK_BOOTTIME, and its
# CLOCK_MONOTONIC counts sleep.
_BOOT_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def get_monotonic_time() -> float:
    """Monotonic seconds from an arbitrary start; time asleep counts."""
    return time.clock_gettime(_BOOT_CLOCK_ID)


@dataclass(frozen=True, slots=True)
class Clock:
    """Pair of clocks: wall clock in Unix seconds, and monotonic seconds."""

    wall: Callable[[], float] = time.time
    elapsed: Callable[[], float] = get_monotonic_time


@dataclass(frozen=True, slots=True)
class GapsFound:
    """Admin notice: periods for which posts of a channel may be missing from the archive."""

    gaps: tuple[tuple[Channel, Gap], ...]


@dataclass(frozen=True, slots=True)
class PostsMissing:
    """Admin notice: so many posts of a channel seem deleted that they wait for a second look."""

    channel: Channel
    count: int


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


AdminNotice = GapsFound | PostsMissing | IndexesRepaired | JobFailing | ErrorsLogged
# Returns True if at least one admin was reached.
NotifyAdmins = Callable[[AdminNotice], Awaitable[bool]]
