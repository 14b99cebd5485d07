"""Digests: sends each chat what is new since the last one, at its hour; nothing where nothing is new.

What the reader may read is worked out when a digest is due, and again before each attempt to send. A digest is
rescheduled after it was sent: a process that dies in between sends it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramForbiddenError
from aiogram.utils.formatting import Bold, Text, as_list

from bot import access
from bot.access import Reader
from bot.app_context import AppContext
from bot.i18n import get_translator
from bot.telegram.pre_send_check import (
    ContentWithdrawn,
    RecheckUnavailable,
    collect_content_of_posts,
    recheck_before_sending,
)
from bot.views.answer import link_author
from bot.views.message_formatting import neutralize_links, style_text
from bot.views.post_formatting import RenderContext, join_lines
from rag_core.retrieval.period_digest import DigestLine, build_period_digest
from rag_core.storage import channels
from rag_core.storage.subscriptions import DigestPlan, delete_digest_plan, list_due_digests, reschedule_digest
from rag_core.types import Channel
from rag_core.writing.digest_headings import write_heading

_INTERVAL_SECONDS, _MAX_PAUSE_SECONDS = 20.0, 300.0
_RETRY_AFTER = timedelta(minutes=10)
_JOB = "digests"


class DigestSender:
    """Digest sender. One per process."""

    def __init__(self, bot: Bot, context: AppContext) -> None:
        self._bot, self._context, self._archive = bot, context, context.archive

    async def run(self) -> None:
        """Send what is due until cancelled."""
        job_log = self._context.indexing.job_log
        await job_log.repeat(_JOB, self._send_all_due, _INTERVAL_SECONDS, _MAX_PAUSE_SECONDS)

    async def _send_all_due(self) -> None:
        for plan in await list_due_digests(self._archive, datetime.now(UTC)):
            now = datetime.now(UTC)
            since = max(plan.since, now - timedelta(days=plan.days + 1))
            try:
                await send_digest(self._bot, self._context, plan, since, now)
            except TelegramForbiddenError:  # the bot was blocked or removed
                await delete_digest_plan(self._archive, plan.chat_id)
            except (ContentWithdrawn, RecheckUnavailable, TelegramAPIError, ClientDecodeError) as exc:
                self._context.indexing.job_log.record_failure(_JOB, f"A digest was not sent: {type(exc).__name__}.")
                await reschedule_digest(self._archive, plan.chat_id, plan.since, now + _RETRY_AFTER)
            else:
                zone = await self._context.load_zone(plan.chat_id)
                due = compute_next_due(now.astimezone(zone), plan.hour, plan.days)
                await reschedule_digest(self._archive, plan.chat_id, now, due)


async def send_digest(bot: Bot, context: AppContext, plan: DigestPlan, since: datetime, until: datetime) -> bool:
    """Send the digest of a period to the chat of a plan; False where nothing is new."""
    reader = Reader(plan.user_id, plan.chat_id, plan.private)
    viewer = await access.build_viewer(context.admins, reader)
    wanted = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    lines = await build_period_digest(context.archive, wanted, since, until)
    if not lines:
        return False
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
        await bot.send_message(plan.chat_id, **text.as_kwargs())
    return True


def render_digest(
    lines: Sequence[DigestLine], known: dict[int, Channel], shown: RenderContext, since: datetime, until: datetime
) -> Text:
    """Render a digest: each line in the words of its post, with the link and the number of channels that carry it."""
    words = shown.words
    first, last = words.date(since, shown.zone), words.date(until, shown.zone)
    head = words("digest-title", since=first, until=last) if first != last else words("digest-day", date=last)
    items = []
    for line in lines:
        channel, post = known[line.post.key.chat_id], line.post
        link = link_author(post.key, channel, post.origin, words)
        tail = [f" · {words('digest-channels', count=line.channels)}"] if line.channels > 1 else []
        tail += [f" · {words('digest-related', count=len(line.related))}"] if line.related else []
        sign = "⚠️ " if line.changed else "• "
        heading = [style_text(Bold, line.heading), "\n"] if line.heading else []
        items.append(Text(sign, *heading, neutralize_links(format_digest_quote(line)), "\n", link, *tail))
    return as_list(Bold(head), *items, sep="\n\n")


def format_digest_quote(line: DigestLine) -> str:
    """Format the words of a line; what is cut within a sentence ends with an ellipsis."""
    quote = join_lines(line.quote)
    whole = quote[-1:] in ".!?…)»\"'" or line.end == len(line.post.text.rstrip())
    return quote if whole else f"{quote.rstrip(' ,;:—–-')}…"


def compute_next_due(now: datetime, hour: int, days: int) -> datetime:
    """Compute when the next digest is due: at the hour, in the zone of `now`, tomorrow or in a week at the latest."""
    due = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if days > 1:
        due += timedelta(days=days)
    return due if due > now else due + timedelta(days=1)
