"""Handlers of /digest: a chat gets what is new every day or week at its hour; in a group its admins decide."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from aiogram import Bot, Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Code

from bot import access
from bot.access import Refusal, get_reader, may_change_chat_settings
from bot.context import AppContext
from bot.digest_sender import get_first_due, send_digest
from bot.filters import GROUPS, PRIVATE, ChatCommand
from bot.i18n import Translator
from bot.views.post_phrases import RenderContext, format_moment
from rag_core.retrieval.period_digest import parse_digest_command
from rag_core.storage.digests import DigestPlan, delete_digest_plan, fetch_digest_plan, save_digest_plan
from rag_core.watches import split_channels

_NOW_DAYS, _NOW_HOUR = 7, 9  # of "now" in a chat without a plan


async def _on_digest(
    message: Message, command: CommandObject, bot: Bot, context: AppContext, words: Translator
) -> None:
    given, reader = " ".join((command.args or "").split()), get_reader(message)
    archive, chat = context.archive, message.chat.id
    if not await may_change_chat_settings(context.admins, message.chat, reader.user_id):
        raise Refusal(words("group-admins-only"))
    zone, now = await context.load_zone(chat), datetime.now(UTC)
    plan, wanted = await fetch_digest_plan(archive, chat), parse_digest_command(given)
    if wanted == "off":
        await message.answer(words("digest-off" if await delete_digest_plan(archive, chat) else "digest-none"))
    elif wanted == "now":
        asked = plan or DigestPlan(
            chat, reader.user_id, reader.private, _NOW_DAYS, _NOW_HOUR, None, words.lang, now, now
        )
        if not await send_digest(bot, context, asked, now - timedelta(days=asked.days), now):
            await message.answer(words("digest-nothing"))
    elif wanted:
        readable = await access.get_readable_channels(context.admins, reader)
        rest, named = split_channels(wanted.rest, readable)
        if not rest.strip():
            due = get_first_due(now, wanted.hour, zone)
            since = due - timedelta(days=wanted.days)
            plan = DigestPlan(
                chat, reader.user_id, reader.private, wanted.days, wanted.hour, named, words.lang, since, due
            )
            await save_digest_plan(archive, plan)
            await message.answer(_describe_plan(plan, words, zone))
            return
        await _explain(message, plan, words, zone)
    else:
        await _explain(message, plan, words, zone)


def _describe_plan(plan: DigestPlan, words: Translator, zone: tzinfo) -> str:
    return words("digest-on", days=plan.days, due=format_moment(plan.due, RenderContext(words, zone)))


async def _explain(message: Message, plan: DigestPlan | None, words: Translator, zone: tzinfo) -> None:
    """Explain the command, and say when the next digest is due."""
    state = _describe_plan(plan, words, zone) if plan else words("digest-none")
    text = words.rich(
        "digest-how",
        state=state,
        daily=Code(words("digest-example")),
        now=Code("/digest now"),
        off=Code("/digest off"),
    )
    await message.answer(**text.as_kwargs())


def routes() -> Router:
    """Router of /digest."""
    router = Router(name="digest")
    router.message.register(_on_digest, ChatCommand("digest", chats=PRIVATE))
    router.message.register(_on_digest, ChatCommand("digest", chats=GROUPS, addressed_only=True))
    return router
