"""The archive: its channels, what waits in the inbox, jobs that failed, and whether its backups are young and whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

from bot.doctor.findings import Case, Finding
from bot.plain import plain
from rag_core.doors.archive import channels, jobs, posts, rebuilds, updates
from rag_core.doors.archive.backup import version_of
from rag_core.doors.archive.snapshots import found, in_thread, made_at
from rag_core.types import Visibility

__all__ = ["archive", "backups", "work"]

_OLD = timedelta(days=2)  # one night may be missed

_POISON = (
    "{poison} updates could not be read and are in quarantine: update Citegram, and report the lines of the log that "
    "name them."
)
_NO_BACKUP = "There is no backup of {count} posts: run citegram backup, and leave the bot running at night."
_LAST = "The last backup is {days} days old: run citegram backup, and leave the bot running at night."
_BROKEN = "The backup {file} cannot be put back: look at the disk, delete the file and run citegram backup."


async def archive(case: Case) -> AsyncIterator[Finding]:
    """Every channel in a line, and the inbox."""
    if case.archive is None:
        return
    known = await channels.known(case.archive)
    if not known:
        yield Finding(None, "no channels yet: citegram import result.json, or make the bot admin of a channel")
    for channel in known.values():
        count = await posts.count(case.archive, channel.chat_id)
        closed = " (admins only: publish it with /channels)" if channel.visibility is Visibility.ADMINS else ""
        yield Finding(
            None, f"{plain(channel.title)}: {count} posts, {channel.state}, {channel.visibility.value}{closed}"
        )
    inbox = await updates.counts(case.archive)
    yield Finding(True, f"inbox: {inbox['pending']} waiting")
    if inbox["poison"]:
        yield Finding(False, _POISON.format(poison=inbox["poison"]))


async def work(case: Case) -> AsyncIterator[Finding]:
    """Work the bot has begun on its own, or was told to."""
    if case.archive is None:
        return
    if (rebuild := await rebuilds.running(case.archive)) is not None:
        now = "is being rebuilt" if case.runs else "is half rebuilt (it goes on when the bot runs)"
        yield Finding(None, f"the index {now}: {rebuild.done} of {rebuild.total} posts")
    ran = await jobs.recorded(case.archive)
    for job in ran:
        if job.failing:
            yield Finding(False, f"the job {job.name} failed ({job.failed_at:%Y-%m-%d %H:%M} UTC): {job.error}")
    if ran and not any(job.failing for job in ran):
        yield Finding(True, f"scheduled jobs: {', '.join(job.name for job in ran)}; each ended well")


async def backups(case: Case) -> AsyncIterator[Finding]:
    """How old the newest backup is, and whether it could be put back."""
    if case.archive is None or not (count := await posts.count(case.archive)):
        return
    there, now = found(case.archive.folder), datetime.now(UTC)
    if not there:
        since = await channels.since(case.archive)
        young = since is not None and now - since < _OLD
        said = "no backup yet: the first is made at night, or with citegram backup"
        yield Finding(None, said) if young else Finding(False, _NO_BACKUP.format(count=count))
        return
    newest, age = there[0], now - made_at(there[0])
    if age > _OLD:
        yield Finding(False, _LAST.format(days=age.days))
    if not await in_thread(partial(version_of, newest)):
        yield Finding(False, _BROKEN.format(file=newest))
    elif age <= _OLD:
        yield Finding(True, f"backups: {len(there)}, the last of {made_at(newest):%Y-%m-%d %H:%M} UTC can be put back")
    if not case.settings.data.backups:
        yield Finding(None, "DATA__BACKUPS is 0: no backup is made at night")
