"""Digest command: /digest plans, shows, sends at once and ends the digest of a chat. In a group its admins decide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from aiogram import Bot, Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Code

from bot import access
from bot.access import check_may_change_settings, get_reader
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ChatCommand
from bot.notifications import compute_next_due, send_digest
from bot.views.post_formatting import RenderContext, format_moment
from rag_core.retrieval.digests import parse_digest_command
from rag_core.storage import subscriptions
from rag_core.storage.subscriptions import DigestPlan
from rag_core.watch_matching import split_channels

router = Router()

_NOW_DAYS, _NOW_HOUR = 7, 9  # of "now" in a chat without a plan


@router.message(ChatCommand("digest", addressed_only=True))
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
        until = now + timedelta(seconds=1)  # posts have whole seconds: those of this one are new as well
        if not await send_digest(bot, context, asked, now - timedelta(days=asked.days), until):
            viewer = await access.build_viewer(context.admins, reader)
            asked_of = viewer if asked.channels is None else viewer.narrow(asked.channels)
            await message.answer(access.describe_shortfalls(asked_of, words) or words("digest-nothing"))
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
