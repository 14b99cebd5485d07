"""Handlers of /grant and /revoke: an admin appoints another one by numeric id, or revokes it, after a confirmation.

The admins of the settings stay admins in any case. A button carries a token that only this archive can make, valid
for whoever asked and for ten minutes; the presser is checked every time. All other admins are notified.
"""

from __future__ import annotations

import asyncio
import logging
import time

from aiogram import Bot, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.filters import CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Code, Text, as_list

from bot.access import Refusal
from bot.admin_notifications import get_user_translator, send_notice
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.settings import parse_person_id
from bot.telegram.session import publish_menu, withdraw_menu
from bot.views.answer import format_one_line
from bot.views.keyboards import build_keyboard, make_callback_token, redraw_message
from bot.views.message_formatting import neutralize_links
from rag_core.storage import Archive

router = Router()

_CONFIRMATION_SECONDS = 600  # an older button was probably pressed by mistake
_NAME_TIMEOUT_SECONDS = 3.0  # for looking up the name

log = logging.getLogger(__name__)


class _GrantCallback(CallbackData, prefix="gr"):
    """Callback data of a /grant or /revoke button: action, user, time of the request, token; no token means "no"."""

    on: bool
    who: int
    at: int
    token: str = ""


def _make_grant_token(archive: Archive, press: _GrantCallback, asker: int) -> str:
    content = repr(("grant", press.on, press.who, press.at, asker))
    return make_callback_token(content, archive.identity)


@router.message(ChatCommand("grant", "revoke", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_grant_or_revoke(
    message: Message, command: CommandObject, bot: Bot, context: AppContext, words: Translator
) -> None:
    grants, who = command.command.lower() == "grant", parse_person_id((command.args or "").strip())
    if who is None:
        how = words.rich("grant-how", grant=Code("/grant 123456789"), revoke=Code("/revoke 123456789"))
        lines = [words.rich("grant-line-owner", who=Code(str(owner))) for owner in context.admins.owners]
        for one in context.admins.grants.values():
            date, who_granted = words.date(one.at, context.settings.bot.zone), Code(str(one.by))
            lines.append(words.rich("grant-line", who=Code(str(one.user_id)), by=who_granted, date=date))
        await message.answer(**as_list(how, words("grant-list"), *lines).as_kwargs())
        return
    if refusal := _check_request(who, grants, bot.id, context):
        await message.answer(words(refusal, id=str(who)))
        return
    question = words.rich("grant-ask" if grants else "revoke-ask", who=await _format_person(bot, who))
    press = _GrantCallback(on=grants, who=who, at=int(time.time()))
    yes = press.model_copy(update={"token": _make_grant_token(context.archive, press, message.chat.id)})
    label = words("button-grant" if press.on else "button-revoke")
    buttons = build_keyboard([(label, yes, "danger"), (words("button-cancel"), press)])
    await message.answer(**question.as_kwargs(), reply_markup=buttons)


def _check_request(who: int, grants: bool, bot_id: int, context: AppContext) -> str:
    """Check a /grant or /revoke request; returns the id of the refusal's sentence, "" where it is allowed."""
    if who in context.admins.owners:
        return "grant-owner"
    if grants:
        return "grant-bot" if who == bot_id else "grant-already" if who in context.admins else ""
    return "" if who in context.admins else "revoke-none"


@router.callback_query(_GrantCallback.filter(), flags=ADMINS_ONLY)
async def _press_confirm(
    pressed: CallbackQuery, callback_data: _GrantCallback, bot: Bot, context: AppContext, words: Translator
) -> None:
    actor, who = pressed.from_user.id, callback_data.who
    if not callback_data.token:
        await redraw_message(pressed, Text(words("grant-cancelled")), None)
        return
    in_time = 0 <= time.time() - callback_data.at <= _CONFIRMATION_SECONDS
    genuine = callback_data.token == _make_grant_token(context.archive, callback_data, actor)
    if not (in_time and genuine and _is_button_present(pressed)):
        raise Refusal(words("grant-late"))
    if refusal := _check_request(who, callback_data.on, bot.id, context):
        await redraw_message(pressed, Text(words(refusal, id=str(who))), None)
        return
    await _change_rights(pressed, who, bot, context, words, grants=callback_data.on)


def _is_button_present(pressed: CallbackQuery) -> bool:
    """Check that the button is still on its message: callback data of a used one can be sent again."""
    markup = pressed.message.reply_markup if isinstance(pressed.message, Message) else None
    return markup is not None and any(
        one.callback_data == pressed.data for row in markup.inline_keyboard for one in row
    )


async def _change_rights(
    pressed: CallbackQuery, who: int, bot: Bot, context: AppContext, words: Translator, *, grants: bool
) -> None:
    actor = pressed.from_user.id
    if grants:
        await context.admins.grant(who, actor)
        log.info("admin %d granted admin rights to %d", actor, who)
        reached = await _notify_user(bot, who, "granted-told", context)
        done = "grant-done" if reached else "grant-done-untold"
    else:
        await context.admins.revoke(who)
        log.info("admin %d revoked the admin rights of %d", actor, who)
        done = "revoke-done"
    await redraw_message(pressed, words.rich(done, who=Code(str(who))), None)
    if not grants and actor != who:
        await _notify_user(bot, who, "revoked-told", context)
    await (publish_menu(bot, (who,), readers=False) if grants else withdraw_menu(bot, who))
    said = "granted-others" if grants else "revoked-others"
    others = [admin for admin in context.admins if admin not in (actor, who)]  # nobody gains access unnoticed
    await asyncio.gather(*(_notify_user(bot, one, said, context, who=str(who), by=str(actor)) for one in others))


async def _notify_user(bot: Bot, user_id: int, said: str, context: AppContext, **values: str) -> bool:
    words = await get_user_translator(context.archive, user_id, context.settings.bot.language)
    return await send_notice(bot, user_id, Text(words(said, **values)))


async def _format_person(bot: Bot, who: int) -> Text:
    """Format a user's id, and the name where Telegram reports it: it shows a wrong digit in time."""
    try:
        async with asyncio.timeout(_NAME_TIMEOUT_SECONDS):
            chat = await bot.get_chat(who)
    except (TelegramAPIError, ClientDecodeError, TimeoutError):
        return Text(Code(str(who)))
    return Text(neutralize_links(format_one_line(chat.full_name)), " (", Code(str(who)), ")")
