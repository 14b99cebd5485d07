"""Handlers of /token: admins make, list and revoke the tokens with which other programs ask over HTTP (bot/api).

A token is shown once, to who made it. Whose rights it has is told to that person, if it is somebody else.
"""

import json
import logging

from aiogram import Bot, Router
from aiogram.filters import CommandObject
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Code, Pre, as_list

from bot.access import Refusal
from bot.admin_notifications import get_user_translator, send_notice
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.settings import parse_person_id
from bot.telegram.recheck import View
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, on_press, redraw_message
from bot.views.text import join_lines
from rag_core.storage import tokens

router = Router()

_MAX_NAME_LENGTH = 40

log = logging.getLogger(__name__)


@router.message(ChatCommand("token", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_token(message: Message, command: CommandObject, bot: Bot, context: AppContext, words: Translator) -> None:
    """Make a token for the named program, with the rights of its admin or of the person whose id comes last."""
    maker, settings = message.chat.id, context.settings.mcp
    name, _, last = join_lines(command.args or "").rpartition(" ")
    who = parse_person_id(last) if name else None
    name, who = (name, who) if who else (f"{name} {last}".strip(), maker)
    if not settings.listen:
        raise Refusal(words("token-off"))
    if not name:
        await message.answer(**(await _render_tokens(context, words)).as_kwargs())
        return
    if len(name) > _MAX_NAME_LENGTH:
        raise Refusal(words("token-name", limit=_MAX_NAME_LENGTH))
    secret = await tokens.create_token(context.archive, name, user_id=who, made_by=maker)
    if secret is None:
        raise Refusal(words("token-full", count=tokens.MAX_TOKENS))
    log.info("admin %d made a token for a program that reads as %d", maker, who)
    server = {
        "type": "http",
        "url": f"http://{settings.listen}/mcp",
        "headers": {"Authorization": f"Bearer {secret}"},
    }
    entry = Pre(json.dumps({"mcpServers": {"citegram": server}}, indent=2), language="json")
    head, use = words("token-made", name=name), words.rich("token-use", who=Code(str(who)))
    await message.answer(**as_list(neutralize_links(head), entry, use, sep="\n\n").as_kwargs())
    if who != maker:
        spoken = await get_user_translator(context.archive, who, context.settings.bot.language)
        await send_notice(bot, who, neutralize_links(spoken("token-made-told", name=name)))


async def _render_tokens(context: AppContext, words: Translator) -> View:
    zone, made = context.settings.bot.zone, await tokens.list_tokens(context.archive)
    lines = [
        words.rich(
            "token-line",
            name=one.name,
            who=Code(str(one.user_id)),
            by=Code(str(one.made_by)),
            date=words.date(one.made_at, zone),
            used=words.date(one.used_at, zone) if one.used_at else "never",
        )
        for one in made
    ]
    rows = [[(words("token-revoke", name=one.name), Press(to="token-revoke", token=one.handle))] for one in made]
    how = words.rich("token-how", own=Code("/token Claude"), other=Code("/token Claude 123456789"))
    return View(as_list(how, *lines, sep="\n\n"), buttons=build_keyboard(*rows))


@router.callback_query(on_press("token-revoke"), flags=ADMINS_ONLY)
async def _press_revoke(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    revoked = await tokens.revoke_token(context.archive, callback_data.token)
    log.info("admin %d revoked a token: %s", pressed.from_user.id, "done" if revoked else "it was gone")
    await redraw_message(
        pressed, await _render_tokens(context, words), words("token-revoked" if revoked else "token-gone")
    )
