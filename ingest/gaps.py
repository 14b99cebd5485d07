"""Notices when the bot was out of touch for longer than Telegram keeps updates, and has admins told of gaps once.

Being in touch is more than running: it is that Telegram answered and that what it sent was kept. Down time is
measured by a clock that nobody sets; only from one life of the process to the next there is none but the wall's.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ingest.clock import Clock
from ingest.notices import GapsFound, Tell
from rag_core.doors.archive import Archive, channels, gaps

__all__ = ["Pulse", "look"]

# A wall clock that differs so much from the time that has passed is wrong, or was.
_OFF = timedelta(minutes=10)
# It is believed when it has said the same for so many beats: 100 s.
_BELIEVED_AFTER = 5

log = logging.getLogger(__name__)


class _Beat(NamedTuple):
    """A sign of life: seconds that only ever pass, and the time of day."""

    passed: float
    at: datetime


class Pulse:
    """`heard` whenever Telegram answered, `beat` a few times a minute."""

    def __init__(self, archive: Archive, clock: Clock | None = None) -> None:
        self._archive = archive
        self._clock = clock or Clock()
        self._heard: _Beat | None = None
        self._last: _Beat | None = None
        self._doubted: _Beat | None = None  # the first beat of this life, where it would mean a gap
        self._odd = 0

    def heard(self) -> None:
        """Telegram answered, and what it sent is in the archive."""
        self._heard = _Beat(self._clock.elapsed(), datetime.fromtimestamp(self._clock.wall(), UTC))

    async def beat(self) -> int:
        """Write a sign of life if there was one since the last; returns how many gaps were noted.

        Raises ArchiveUnavailable.
        """
        now, last = self._heard, self._last
        seen = last or self._doubted
        if now is None or (seen and now.passed <= seen.passed):
            return 0
        if last is None:
            return await self._first(now)
        now = now._replace(at=self._believed(now, last))
        return await self._write(now, last.at, timedelta(seconds=now.passed - last.passed))

    async def _first(self, now: _Beat) -> int:
        """The first beat of this life: the time since the last one of the life before is the wall clock's word."""
        before = await gaps.last_beat(self._archive)
        silence = now.at - before if before else timedelta()
        if silence < -_OFF:
            log.warning("the clock was set back by %s: how long the bot was down is not known", -silence)
        if before and silence > gaps.KEPT:
            doubted, self._doubted = self._doubted, now
            # A clock that is wrong for a moment at the start must not make up a gap: a second look is taken.
            if doubted is None or abs(_apart(now, doubted)) > _OFF:
                return 0
        return await self._write(now, before or now.at, silence)

    def _believed(self, now: _Beat, last: _Beat) -> datetime:
        """The wall clock's time; the time that has passed while that one is not believed."""
        self._odd = self._odd + 1 if abs(_apart(now, last)) > _OFF else 0
        if self._odd >= _BELIEVED_AFTER:
            self._odd = 0
        return now.at if not self._odd else last.at + timedelta(seconds=now.passed - last.passed)

    async def _write(self, now: _Beat, since: datetime, silence: timedelta) -> int:
        noted = await gaps.note(self._archive, since, now.at) if silence > gaps.KEPT else 0
        await gaps.beat(self._archive, now.at)
        self._last, self._doubted = now, None
        if noted:
            log.warning("the bot was out of touch since %s: posts may be missing in %d channels", since, noted)
        return noted


def _apart(now: _Beat, before: _Beat) -> timedelta:
    """By how much the wall clock differs from the time that has passed."""
    return now.at - before.at - timedelta(seconds=now.passed - before.passed)


async def look(archive: Archive, tell: Tell) -> str:
    """Close gaps that turned out to be none and have admins told of new ones; what there is to say.

    Raises ArchiveUnavailable.
    """
    for chat_id in await gaps.unnoted(archive):
        await gaps.before_joining(archive, chat_id)
    closed = await gaps.close_counted(archive)
    known = await channels.known(archive)
    new = [gap for gap in await gaps.untold(archive) if gap.chat_id in known]
    if new and await tell(GapsFound(tuple((known[gap.chat_id], gap) for gap in new))):
        await gaps.told(archive, new)
    return f"{closed} closed" if closed else ""
