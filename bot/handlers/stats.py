"""Handler of /stats: what an owner needs on one screen: posts, questions, votes, disk, backup, and what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from aiogram import Router
from aiogram.types import Message
from aiogram.utils.formatting import Bold, Text, as_list

from bot import data_folder
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.views.clean_and_shorten_text import join_lines, shorten
from rag_core.errors import IndexUnavailable
from rag_core.storage import (
    channel_history,
    channels,
    history_gaps,
    index_state,
    monitoring_stats,
    post_lookup,
    posts,
    questions,
    raw_updates,
)
from rag_core.storage.backup_listing import get_backup_time, list_backups

router = Router()

_MAX_REASONS = 3  # reasons for quarantined updates that are listed
_MAX_ERROR_LENGTH = 200  # characters of an error message
_RECENT_FAILURE_AGE = timedelta(days=1)  # a failure that has passed is listed this long


@router.message(ChatCommand("stats", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_stats(message: Message, context: AppContext, words: Translator) -> None:
    blocks = (_describe_contents, _describe_questions, _describe_backlog, _describe_jobs, _describe_machine)
    shown = [[line async for line in block(context, words)] for block in blocks]
    await message.answer(**as_list(*(as_list(*lines) for lines in shown if lines), sep="\n\n").as_kwargs())


async def _describe_contents(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    known, rag = await channels.load_channels(context.archive), context.rag
    count = await post_lookup.count_posts(context.archive)
    yield Bold(words("channels-title", count=len(known)), " · ", words("channel-posts", count=count))
    behind = max(0, await posts.get_last_seq(context.archive) - rag.lexical.watermark)
    if behind:
        yield words("stats-words", waiting=behind)
    if rag.dense is None:
        return
    vectors = rag.dense.vectors
    try:
        await vectors.count()
    except IndexUnavailable as exc:
        yield words("stats-vectors-fail", reason=words.error(exc))
        return
    if waiting := await index_state.count_unembedded_changes(context.archive, vectors.identity):
        yield words("stats-vectors", waiting=waiting)


async def _describe_backlog(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    aside = (await raw_updates.count_updates_by_state(context.archive))["poison"]
    if aside:
        yield words("stats-inbox", aside=aside)
    for poison in await monitoring_stats.list_poison_updates(context.archive, _MAX_REASONS) if aside else ():
        yield f"• {poison.update_id}: {shorten(join_lines(poison.error), _MAX_ERROR_LENGTH)}"
    for job in (await channel_history.list_backfills(context.archive)).values():
        if job.state in ("running", "paused", "failed"):
            yield words("stats-history", state=job.state, percent=int(100 * job.share))
    if number := sum(map(len, (await history_gaps.list_open_gaps(context.archive)).values())):
        yield words("stats-gaps", count=number)


async def _describe_questions(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    now = datetime.now(context.settings.bot.zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for name, since in (("stats-today", midnight), ("stats-week", now - timedelta(days=7))):
        asked = await monitoring_stats.count_questions_since(context.archive, since)
        done = {"answered": asked.answered, "refused": asked.refused, "failed": asked.failed}
        yield words(name, count=asked.asked, waiting=asked.asked - sum(done.values()), **done)
    if talk := await monitoring_stats.measure_talks_since(context.archive, now - timedelta(days=7)):
        yield words("stats-talks", talks=talk.talks, questions=words.number(talk.questions, 1),
                    refused=words.number(talk.refused, 1), seconds=words.number(talk.seconds, 1),
                    tokens=words.number(talk.tokens, 1), tools=words.number(talk.tools, 1),
                    reviews=words.number(talk.reviews, 1))  # fmt: skip
    votes = await questions.count_votes_since(context.archive, now - timedelta(days=7))
    wrong, outdated, other, source = votes.reasons
    yield words("stats-votes", good=votes.good, bad=votes.bad, wrong=wrong, outdated=outdated, other=other,
                source=source)  # fmt: skip


async def _describe_machine(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    folder = context.archive.folder
    disk = await asyncio.to_thread(data_folder.measure_disk_usage, folder)
    archive, indexes = _format_size(disk.archive, words), _format_size(disk.indexes, words)
    kept, free = _format_size(disk.backups, words), _format_size(disk.free, words)
    yield words("stats-disk", archive=archive, indexes=indexes, backups=kept, free=free)
    backups = await asyncio.to_thread(list_backups, folder)
    if backups:
        yield words("stats-backup", ago=format_age(get_backup_time(backups[0]), words), count=len(backups))
    else:
        yield words("stats-no-backup" if context.settings.data.backups else "stats-backups-off")


async def _describe_jobs(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    jobs = [job for _, job in sorted(context.indexing.job_log.jobs.items())]
    for job in jobs:
        if job.failed_at and (job.failing or datetime.now(UTC) - job.failed_at < _RECENT_FAILURE_AGE):
            sentence = "stats-job-fails" if job.failing else "stats-job-failed"
            moment, reason = format_age(job.failed_at, words), shorten(join_lines(job.error or ""), _MAX_ERROR_LENGTH)
            yield words(sentence, job=words("job", name=job.name), ago=moment, count=job.failures, reason=reason)


def format_age(moment: datetime, words: Translator) -> str:
    """Format the age of a moment in the largest useful unit; a future moment counts as now."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return words("ago", unit=unit, number=seconds // size)
    return words("ago", unit="s", number=seconds)


def _format_size(size: int, words: Translator) -> str:
    if size >= 1 << 30:
        return words("size", unit="gb", number=words.number(size / (1 << 30), 1))
    return words("size", unit="mb", number=str(max(1, size >> 20)))
