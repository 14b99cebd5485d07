"""Digest job: each chat that planned a digest is sent what is new, at its hour; nothing where nothing is new.

What the reader may read is worked out when a digest is due, and again before each attempt to send. A digest is
rescheduled after it was sent: a process that dies in between sends it again. The next one begins at Telegram's time of
this one: this machine's clock may be ahead.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramForbiddenError, TelegramMigrateToChat
from aiogram.utils.formatting import Italic, as_list

from bot import access
from bot.access import Reader
from bot.app_context import AppContext
from bot.handlers.chat_settings import move_group_settings
from bot.i18n import get_translator
from bot.repeated_job import repeat_job
from bot.telegram.recheck_before_sending import (
    ContentWithdrawn,
    RecheckUnavailable,
    SendingRefused,
    recheck_before_sending,
)
from bot.telegram.sending_backoff import ChatTasks, get_backoff, send_in_background
from bot.views.digest_message import render_digest
from bot.views.post_formatting import RenderContext
from rag_core.retrieval.period_digest import build_period_digest
from rag_core.storage import subscriptions
from rag_core.storage.subscriptions import DigestPlan
from rag_core.types import Post
from rag_core.writing.write import write_heading

_INTERVAL_SECONDS, _MAX_PAUSE_SECONDS = 20.0, 300.0
_MAX_RENDERINGS = 3  # of one digest; the last has no new heading, so that nothing takes seconds
_RETRY_AFTER = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(hours=6)  # for Telegram to say which channels the reader is a member of
_JOB = "digests"


async def run_digests(bot: Bot, context: AppContext) -> None:
    """Send what is due until cancelled, to chats side by side."""
    job_log, chats = context.indexing.job_log, ChatTasks()

    async def send_due() -> None:
        due = await subscriptions.list_due_digests(context.archive, datetime.now(UTC))
        ready = [plan for plan in due if not get_backoff(bot).get_wait(plan.chat_id)]
        await chats.run({plan.chat_id: partial(_send_and_reschedule, bot, context, plan) for plan in ready})

    try:
        await repeat_job(job_log, _JOB, send_due, _INTERVAL_SECONDS, _MAX_PAUSE_SECONDS)
    finally:
        await chats.stop()


async def _send_and_reschedule(bot: Bot, context: AppContext, plan: DigestPlan) -> None:
    archive, now = context.archive, datetime.now(UTC)
    since = max(plan.since, now - timedelta(days=plan.days + 1))
    try:
        with send_in_background():
            sent_at = await send_digest(bot, context, plan, since, now, wait=True)
    except TelegramForbiddenError:  # the bot was blocked or removed
        await subscriptions.delete_digest_plan(archive, plan.chat_id)
    except TelegramMigrateToChat as exc:
        await move_group_settings(context, plan.chat_id, exc.migrate_to_chat_id)
    except (SendingRefused, TelegramAPIError, ClientDecodeError) as exc:
        context.indexing.job_log.record_failure(_JOB, f"A digest was not sent: {type(exc).__name__}.")
        if isinstance(exc, RecheckUnavailable):  # Telegram's refusals have pauses of their own
            await subscriptions.reschedule_digest(archive, plan.chat_id, plan.since, now + _RETRY_AFTER)
    else:
        due = compute_next_due(now.astimezone(await context.load_zone(plan.chat_id)), plan.hour, plan.days)
        await subscriptions.reschedule_digest(archive, plan.chat_id, min(now, sent_at or plan.since), due)


async def send_digest(
    bot: Bot, context: AppContext, plan: DigestPlan, since: datetime, until: datetime, *, wait: bool = False
) -> datetime | None:
    """Send the digest of a period to the chat of a plan; Telegram's time of the message, None where nothing is new.

    What changes while headings are written or Telegram is away withdraws the digest: it is made anew without it. What
    could not be looked at is said below it; with `wait` RecheckUnavailable is raised instead for some hours.
    """
    reader = Reader(plan.user_id, plan.chat_id, plan.private)
    words = get_translator(plan.lang)
    shown = RenderContext(words, await context.load_zone(plan.chat_id))
    headings: dict[tuple[Post, ...], str] = {}
    for attempt in range(_MAX_RENDERINGS):
        found = await access.resolve_channel_access(context.admins, reader)
        viewer = found.build_viewer(plan.user_id)
        viewer = viewer if plan.channels is None else viewer.narrow(plan.channels)
        missed = access.describe_shortfalls(viewer, words)
        if missed and wait and until - plan.since < timedelta(days=plan.days) + _LONGEST_WAIT:
            raise RecheckUnavailable("Telegram did not say which channels the reader is a member of.")
        wanted = {chat: one for chat, one in found.open.items() if chat in viewer.channels}
        lines = await build_period_digest(context.archive, wanted, since, until)
        if not lines:
            return None
        for n, line in enumerate(lines):
            subject = (line.post, *line.related)
            if line.related and subject not in headings and attempt + 1 < _MAX_RENDERINGS:
                headings[subject] = await write_heading(subject, plan.user_id, context.rag)
            lines[n] = replace(line, heading=headings.get(subject, ""))
        view = render_digest(lines, wanted, shown, since, until)
        if missed:
            view = replace(view, text=as_list(view.text, Italic(missed), sep="\n\n"))
        with suppress(ContentWithdrawn), recheck_before_sending(view.content, reader, context.admins):
            return (await bot.send_message(plan.chat_id, **view.as_kwargs())).date
    raise ContentWithdrawn


def compute_next_due(now: datetime, hour: int, days: int) -> datetime:
    """Compute when the next digest is due: at the hour, in the zone of `now`, tomorrow or in a week at the latest."""
    due = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if days > 1:
        due += timedelta(days=days)
    return due if due > now else due + timedelta(days=1)
