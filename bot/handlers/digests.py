"""Digests: each chat that planned one (/digest) is sent what is new, at its hour; nothing where nothing is new.

What the reader may read is worked out when a digest is due, and again before each attempt to send. A digest is
rescheduled after it was sent: a process that dies in between sends it again. In a group its admins decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial

from aiogram import Bot, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramForbiddenError
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Bold, Code, Text, as_list

from bot import access
from bot.access import Reader, check_may_change_settings, get_reader
from bot.app_context import AppContext
from bot.filters import ChatCommand
from bot.i18n import Translator, get_translator
from bot.telegram.pre_send_check import (
    ContentWithdrawn,
    RecheckUnavailable,
    collect_content_of_posts,
    recheck_before_sending,
)
from bot.views.answer import link_author
from bot.views.message_formatting import neutralize_links, style_text
from bot.views.post_formatting import RenderContext, format_moment, join_lines
from rag_core.retrieval.period_digest import DigestLine, build_period_digest, parse_digest_command
from rag_core.storage import channels, subscriptions
from rag_core.storage.subscriptions import DigestPlan
from rag_core.types import Channel
from rag_core.watch_matching import split_channels
from rag_core.writing.digest_headings import write_heading

_INTERVAL_SECONDS, _MAX_PAUSE_SECONDS = 20.0, 300.0
_RETRY_AFTER = timedelta(minutes=10)
_JOB = "digests"
_NOW_DAYS, _NOW_HOUR = 7, 9  # of "now" in a chat without a plan


async def _on_digest(
    message: Message, command: CommandObject, bot: Bot, context: AppContext, words: Translator
) -> None:
    given, reader = " ".join((command.args or "").split()), get_reader(message)
    archive, chat = context.archive, message.chat.id
    await check_may_change_settings(context.admins, message.chat, reader.user_id, words("group-admins-only"))
    zone, now = await context.load_zone(chat), datetime.now(UTC)
    plan, wanted = await subscriptions.fetch_digest_plan(archive, chat), parse_digest_command(given)
    if wanted == "off":
        await message.answer(
            words("digest-off" if await subscriptions.delete_digest_plan(archive, chat) else "digest-none")
        )
        return
    if wanted == "now":
        asked = plan or DigestPlan(
            chat, reader.user_id, reader.private, _NOW_DAYS, _NOW_HOUR, None, words.lang, now, now
        )
        if not await send_digest(bot, context, asked, now - timedelta(days=asked.days), now):
            await message.answer(words("digest-nothing"))
        return
    if wanted:
        readable = await access.get_readable_channels(context.admins, reader)
        rest, named = split_channels(wanted.rest, readable)
        if not rest.strip():
            due = compute_next_due(now.astimezone(zone), wanted.hour, 1)
            since = due - timedelta(days=wanted.days)
            plan = DigestPlan(
                chat, reader.user_id, reader.private, wanted.days, wanted.hour, named, words.lang, since, due
            )
            await subscriptions.save_digest_plan(archive, plan)
            await message.answer(_describe_digest(plan, words, zone))
            return
    # how the command is used, and when the next digest is due
    state = _describe_digest(plan, words, zone) if plan else words("digest-none")
    daily, at_once, off = Code(words("digest-example")), Code("/digest now"), Code("/digest off")
    await message.answer(**words.rich("digest-how", state=state, daily=daily, now=at_once, off=off).as_kwargs())


def _describe_digest(plan: DigestPlan, words: Translator, zone: tzinfo) -> str:
    return words("digest-on", days=plan.days, due=format_moment(plan.due, RenderContext(words, zone)))


async def run_digests(bot: Bot, context: AppContext) -> None:
    """Send what is due until cancelled."""
    job_log = context.indexing.job_log
    await job_log.repeat(_JOB, partial(_send_due_digests, bot, context), _INTERVAL_SECONDS, _MAX_PAUSE_SECONDS)


async def _send_due_digests(bot: Bot, context: AppContext) -> None:
    archive = context.archive
    for plan in await subscriptions.list_due_digests(archive, datetime.now(UTC)):
        now = datetime.now(UTC)
        since = max(plan.since, now - timedelta(days=plan.days + 1))
        try:
            await send_digest(bot, context, plan, since, now)
        except TelegramForbiddenError:  # the bot was blocked or removed
            await subscriptions.delete_digest_plan(archive, plan.chat_id)
        except (ContentWithdrawn, RecheckUnavailable, TelegramAPIError, ClientDecodeError) as exc:
            context.indexing.job_log.record_failure(_JOB, f"A digest was not sent: {type(exc).__name__}.")
            await subscriptions.reschedule_digest(archive, plan.chat_id, plan.since, now + _RETRY_AFTER)
        else:
            due = compute_next_due(now.astimezone(await context.load_zone(plan.chat_id)), plan.hour, plan.days)
            await subscriptions.reschedule_digest(archive, plan.chat_id, now, due)


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


def routes() -> Router:
    """Router of /digest."""
    router = Router(name="digests")
    router.message.register(_on_digest, ChatCommand("digest", addressed_only=True))
    return router
