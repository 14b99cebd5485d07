"""The jobs of a running bot: what, when, and how late it may be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta, tzinfo

from ingest import integrity
from ingest.gaps import Pulse, look
from ingest.index import Indexer
from ingest.notices import Tell
from ingest.schedule import Every, Job, daily, once
from ingest.unapproved import forget_unapproved
from rag_core.doors import heap
from rag_core.doors.archive import feedback, figures, linked, talks, updates
from rag_core.doors.archive.backup import make, prune
from rag_core.doors.archive.gaps import last_beat
from rag_core.doors.archive.snapshots import in_thread
from rag_core.rag import Rag
from rag_core.settings import DataSettings

__all__ = ["Chores"]

# After a day without power the second heartbeat tells of the gap: within a minute.
_INBOX_S, _BEAT_S, _GAPS_S = 3.0, 20.0, 600.0
# A bot whose first life is short must know later when that was.
_FIRST_BEAT_S = 3.0
_SAVE_S, _FORGET_S, _MEMORY_S = 6 * 3600.0, 3600.0, 120.0
# Nobody asks at night; and a machine that is off at night does it in the morning.
_BACKUP_AT, _CHECK_AT = (3, 15), (3, 45)
_AT_REST = timedelta(seconds=5)  # after the start
_LATE, _OVERDUE = timedelta(hours=12), timedelta(hours=25)


@dataclass(frozen=True, slots=True)
class Chores:
    """What the jobs work on. `wake` rings for posts that wait in the inbox, `tell` reaches admins."""

    rag: Rag
    indexer: Indexer
    pulse: Pulse
    wake: Callable[[], None]
    tell: Tell

    def jobs(self, settings: DataSettings, zone: tzinfo) -> tuple[Job, ...]:
        """All jobs, with their times in this time zone."""

        def nightly(name: str, work: Callable[[], Awaitable[str]], hour: int, minute: int) -> Job:
            return Job(name, work, daily(hour, minute, zone), _LATE, _OVERDUE, loud=True)

        async def backup() -> str:
            return await self.backup(settings.backups)

        async def forget() -> str:
            return await self.forget(timedelta(days=settings.keep_questions_days))

        jobs = [
            Job("inbox", self.inbox, Every(_INBOX_S)),
            Job("heartbeat", self.heartbeat, Every(_BEAT_S, min(_BEAT_S, _FIRST_BEAT_S))),
            Job("gaps", self.gaps, Every(_GAPS_S)),
            Job("save", self.save, Every(_SAVE_S)),
            Job("forget", forget, Every(_FORGET_S)),
            Job("memory", self.memory, Every(_MEMORY_S)),
            nightly("check", self.check, *_CHECK_AT),
        ]
        if self.rag.archive.large:
            jobs.append(Job("damage", self.damage, once(_AT_REST), loud=True))
        if settings.backups:
            jobs.append(nightly("backup", backup, *_BACKUP_AT))
        return tuple(jobs)

    async def inbox(self) -> str:
        """Have posts taken in whose wake-up was lost."""
        self.wake()
        return ""

    async def heartbeat(self) -> str:
        """Note that the bot is in touch with Telegram; where it was not for too long, have admins told."""
        noted = await self.pulse.beat()
        if noted:
            await self.gaps()
        return f"{noted} gaps" if noted else ""

    async def gaps(self) -> str:
        """Have admins told of gaps they do not know of."""
        return await look(self.rag.archive, self.tell)

    async def save(self) -> str:
        """Compact the lexical leg and write it to disk, so that a start after a crash is quick."""
        await self.indexer.save()
        return ""

    async def forget(self, kept: timedelta) -> str:
        """Forget the numbers of updates that cannot come again, and the posts of channels that nobody approved; of
        what is older than `kept` the texts of questions and of updates that could not be read, whose votes they
        are, and links to questions; and what talks have remembered for longer than they may.

        The time is that of the last heartbeat: a clock that has just jumped ahead makes nothing old.
        """
        now = await last_beat(self.rag.archive)
        if now is None:
            return ""
        numbers = await updates.forget_old(self.rag.archive, now)
        texts = await figures.forget_texts(self.rag.archive, now - kept)
        unread = await updates.forget_unread(self.rag.archive, now - kept)
        votes = await feedback.forget_voters(self.rag.archive, now - kept)
        links = await linked.forget_old(self.rag.archive, now - kept)
        talked = await talks.expire(self.rag.archive, now - timedelta(minutes=self.rag.settings.memory.minutes))
        posts = await forget_unapproved(self.rag.archive, now)
        gone = ((numbers + unread, "updates"), (texts, "questions"), (votes, "votes"), (links, "links"),
                (talked, "remembered questions"), (posts, "posts"))  # fmt: skip
        return ", ".join(f"{number} {what}" for number, what in gone if number)

    async def memory(self) -> str:
        """Give what is free in the heap back to the machine."""
        await asyncio.to_thread(heap.give_back)
        return ""

    async def damage(self) -> str:
        """Look through an archive that is too large to be looked through when it is opened."""
        await self.rag.archive.look_through()
        return ""

    async def check(self) -> str:
        """Compare the archive with both indexes and repair them."""
        return str(await integrity.check(self.rag, self.indexer, self.tell))

    async def backup(self, keep: int) -> str:
        """Make a backup and keep so many."""
        folder = self.rag.archive.folder

        def work(stop: threading.Event) -> str:
            made = make(folder, stop)
            prune(folder, keep)
            return made.name

        return await in_thread(work)
