"""Digest job: each chat that planned a digest is sent what is new, at its hour; nothing where nothing is new.

What the reader may read is worked out when a digest is due, and again before each attempt to send. A digest is
rescheduled after it was sent: a process that dies in between sends it again. The next one begins at Telegram's time of
this one: this machine's clock may be ahead.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramForbiddenError, TelegramMigrateToChat

from bot import access
from bot.access import Reader
from bot.app_context import AppContext
from bot.handlers.chat_settings import move_group_settings
from bot.i18n import get_translator
from bot.repeated_job import repeat_job
from bot.telegram.recheck_before_sending import SendingRefused, collect_content_of_posts, recheck_before_sending
from bot.telegram.sending_backoff import ChatTasks, get_backoff, send_in_background
from bot.views.digest_message import render_digest
from bot.views.post_formatting import RenderContext
from rag_core.retrieval.period_digest import build_period_digest
from rag_core.storage import channels, subscriptions
from rag_core.storage.subscriptions import DigestPlan
from rag_core.writing.write import write_heading

_INTERVAL_SECONDS, _MAX_PAUSE_SECONDS = 20.0, 300.0
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
            sent_at = await send_digest(bot, context, plan, since, now)
    except TelegramForbiddenError:  # the bot was blocked or removed
        await subscriptions.delete_digest_plan(archive, plan.chat_id)
    except TelegramMigrateToChat as exc:
        await move_group_settings(context, plan.chat_id, exc.migrate_to_chat_id)
    except (SendingRefused, TelegramAPIError, ClientDecodeError) as exc:
        context.indexing.job_log.record_failure(_JOB, f"A digest was not sent: {type(exc).__name__}.")
    else:
        due = compute_next_due(now.astimezone(await context.load_zone(plan.chat_id)), plan.hour, plan.days)
        await subscriptions.reschedule_digest(archive, plan.chat_id, min(now, sent_at or plan.since), due)


async def send_digest(
    bot: Bot, context: AppContext, plan: DigestPlan, since: datetime, until: datetime
) -> datetime | None:
    """Send the digest of a period to the chat of a plan; Telegram's time of the message, None where nothing is new."""
    reader = Reader(plan.user_id, plan.chat_id, plan.private)
    viewer = await access.build_viewer(context.admins, reader)
    wanted = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    lines = await build_period_digest(context.archive, wanted, since, until)
    if not lines:
        return None
    for n, line in enumerate(lines):
        if line.related:
            heading = await write_heading((line.post, *line.related), plan.user_id, context.rag)
            lines[n] = replace(line, heading=heading)
    stand_on = [post.key for line in lines for post in (line.post, *(line.related if line.heading else ()))]
    content = await collect_content_of_posts(stand_on, viewer, context.archive)
    zone = await context.load_zone(plan.chat_id)
    known = await channels.load_channels(context.archive)
    text = render_digest(lines, known, RenderContext(get_translator(plan.lang), zone), since, until)
    with recheck_before_sending(content, reader, context.admins):
        return (await bot.send_message(plan.chat_id, **text.as_kwargs())).date


def compute_next_due(now: datetime, hour: int, days: int) -> datetime:
    """Compute when the next digest is due: at the hour, in the zone of `now`, tomorrow or in a week at the latest."""
    due = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if days > 1:
        due += timedelta(days=days)
    return due if due > now else due + timedelta(days=1)
