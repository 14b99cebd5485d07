"""/stats: how the bot is, on one screen for its admins: what it holds, what waits, what failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta

from aiogram import F, Router
from aiogram.filters import Command
from aiogram.types import Message
from aiogram.utils.formatting import Bold, Text, as_list

from bot import footprint
from bot.access import is_admin
from bot.desk import Desk
from bot.plain import plain
from bot.words import Words
from rag_core.doors.archive import backlog, channels, feedback, figures, gaps, posts, talks, updates
from rag_core.doors.archive.jobs import Job
from rag_core.doors.archive.snapshots import found, made_at
from rag_core.errors import IndexUnavailable

__all__ = ["ago", "routes"]

_REASONS = 3  # why updates were set aside
_LONGEST = 200  # characters of a sentence that failed
_RECENT = timedelta(days=1)  # a failure since mended is told for so long

_Block = Callable[[Desk, Words], AsyncIterator[str | Text]]


async def _on_stats(message: Message, desk: Desk, words: Words) -> None:
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    blocks: tuple[_Block, ...] = (_held, _waiting, _asked, _machine, _worked)
    shown = [as_list(*[line async for line in block(desk, words)]) for block in blocks]
    await message.answer(**as_list(*shown, sep="\n\n").as_kwargs())


async def _held(desk: Desk, words: Words) -> AsyncIterator[str | Text]:
    """Channels, posts, indexes."""
    known, rag = await channels.known(desk.archive), desk.rag
    count = await posts.count(desk.archive)
    yield Bold(words("channels-title", count=len(known)), " · ", words("channel-posts", count=count))
    behind = max(0, await posts.last_seq(desk.archive) - rag.lexical.watermark)
    yield words("stats-words", count=len(rag.lexical), waiting=behind)
    if rag.dense is None:
        yield words("stats-no-vectors")
        return
    vectors = rag.dense.vectors
    try:
        count = await vectors.count()
    except IndexUnavailable as exc:
        yield words("stats-vectors-fail", reason=exc.reason)
    else:
        yield words("stats-vectors", count=count, waiting=await backlog.waiting(desk.archive, vectors.identity))


async def _waiting(desk: Desk, words: Words) -> AsyncIterator[str | Text]:
    """The inbox, what was set aside in it, and gaps."""
    aside = (await updates.counts(desk.archive))["poison"]
    yield words("stats-inbox", waiting=await figures.waiting(desk.archive), aside=aside)
    for poison in await figures.latest_poison(desk.archive, _REASONS) if aside else ():
        yield f"• {poison.update_id}: {_cut(poison.error)}"
    number = sum(map(len, (await gaps.open_gaps(desk.archive)).values()))
    yield words("stats-gaps", count=number, channels="/channels")


async def _asked(desk: Desk, words: Words) -> AsyncIterator[str | Text]:
    """Questions of today and of the last seven days, and what readers say of the answers."""
    now = datetime.now(desk.settings.bot.zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for name, since in (("stats-today", midnight), ("stats-week", now - timedelta(days=7))):
        asked = await figures.asked_since(desk.archive, since)
        done = {"answered": asked.answered, "refused": asked.refused, "failed": asked.failed}
        yield words(name, count=asked.asked, waiting=asked.asked - sum(done.values()), **done)
    votes = await feedback.votes_since(desk.archive, now - timedelta(days=7))
    wrong, outdated, other, source = votes.reasons
    yield words("stats-votes", good=votes.good, bad=votes.bad, wrong=wrong, outdated=outdated, other=other,
                source=source)  # fmt: skip
    talked = await talks.figures(desk.archive, now - timedelta(days=7))
    if understood := talked.get("rules", 0) + talked.get("model", 0):
        yield words("stats-talks", count=understood, model=talked.get("model", 0))
    bar = desk.rag.calibration.claims
    yield words("stats-claims", target=words.number(100 * bar.target, 1), passed=words.number(100 * bar.passed, 1),
                kept=words.number(100 * bar.kept, 1), data=bar.data, date=bar.date)  # fmt: skip


async def _machine(desk: Desk, words: Words) -> AsyncIterator[str | Text]:
    """Memory, disk, the last backup."""
    folder = desk.archive.folder
    disk = await asyncio.to_thread(footprint.disk, folder)
    yield words("stats-memory", size=_size(footprint.memory(), words))
    archive, indexes = _size(disk.archive, words), _size(disk.indexes, words)
    kept, free = _size(disk.backups, words), _size(disk.free, words)
    yield words("stats-disk", archive=archive, indexes=indexes, backups=kept, free=free)
    backups = await asyncio.to_thread(found, folder)
    if backups:
        yield words("stats-backup", ago=ago(made_at(backups[0]), words), count=len(backups))
    else:
        yield words("stats-no-backup" if desk.settings.data.backups else "stats-backups-off")


async def _worked(desk: Desk, words: Words) -> AsyncIterator[str | Text]:
    """Jobs: those that are fine in one line, those that fail or failed with their sentence."""
    jobs = [job for _, job in sorted(desk.indexing.ledger.jobs.items())]
    fine = [f"{_named(job, words)} {ago(job.ran_at, words)}" for job in jobs if job.ran_at and not job.failing]
    if fine:
        yield words("stats-jobs", jobs=" · ".join(fine))
    for line in _failures(jobs, words):
        yield line


def _failures(jobs: list[Job], words: Words) -> Iterator[str]:
    for job in jobs:
        if job.failed_at and (job.failing or datetime.now(UTC) - job.failed_at < _RECENT):
            said = "stats-job-fails" if job.failing else "stats-job-failed"
            moment, reason = ago(job.failed_at, words), _cut(job.error or "")
            yield words(said, job=_named(job, words), ago=moment, count=job.failures, reason=reason)


def _named(job: Job, words: Words) -> str:
    return words("job", name=job.name)


def _cut(text: str) -> str:
    line = " ".join(plain(text).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def ago(moment: datetime, words: Words) -> str:
    """How long ago, in the largest unit that says something; a moment to come is now."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return words("ago", unit=unit, number=seconds // size)
    return words("ago", unit="s", number=seconds)


def _size(size: int, words: Words) -> str:
    if size >= 1 << 30:
        return words("size", unit="gb", number=words.number(size / (1 << 30), 1))
    return words("size", unit="mb", number=str(max(1, size >> 20)))


def routes() -> Router:
    """The handler of /stats."""
    router = Router(name="stats")
    router.message.register(_on_stats, Command("stats", ignore_case=True), F.chat.type == "private")
    return router
