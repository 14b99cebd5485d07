"""/grant and /revoke: an admin makes another one, by numeric id, or takes it back; asked once more, and told.

The admins of the settings stay admins whatever is pressed here. A button carries a mark that only this archive can
make, for whoever asked; the presser is checked every time.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Code, Text, as_list

from bot.access import is_admin
from bot.channels.buttons import redraw, refused
from bot.desk import Desk
from bot.inert import inert
from bot.marks import marked
from bot.settings import is_person
from bot.titles import one_line
from bot.welcome import publish_menu, withdraw_menu
from bot.words import Words, words_for
from rag_core.doors.archive import Archive, figures

__all__ = ["routes"]

_ID = re.compile(r"[1-9][0-9]{0,15}")  # of people: channels and groups have negative ones
_ASKED_FOR_S = 600  # an older "yes" is somebody scrolling back
_PATIENCE_S = 3.0  # for the name

log = logging.getLogger(__name__)


class _Press(CallbackData, prefix="gr"):
    """A button: whether it grants, to whom, when that was asked, and its mark; without one it says no."""

    on: bool
    who: int
    at: int
    mark: str = ""


def _mark(archive: Archive, press: _Press, asker: int) -> str:
    said = repr(("grant", press.on, press.who, press.at, asker))
    return marked(said, archive.identity)


async def _on_command(message: Message, command: CommandObject, bot: Bot, desk: Desk, words: Words) -> None:
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    grants, said = command.command.lower() == "grant", (command.args or "").strip()
    if not _ID.fullmatch(said) or not is_person(int(said)):
        await message.answer(**_listed(desk, words).as_kwargs())
        return
    who = int(said)
    if unfit := _unfit(who, grants, bot.id, desk):
        await message.answer(words(unfit, id=str(who)))
        return
    asked = words.rich("grant-ask" if grants else "revoke-ask", who=await _named(bot, who))
    buttons = _sure(_Press(on=grants, who=who, at=int(time.time())), message.chat.id, desk.archive, words)
    await message.answer(**asked.as_kwargs(), reply_markup=buttons)


def _unfit(who: int, grants: bool, bot_id: int, desk: Desk) -> str:
    """The id of the sentence that says why it cannot be done; "" where it can."""
    if who in desk.admins.owners:
        return "grant-owner"
    if grants:
        return "grant-bot" if who == bot_id else "grant-already" if who in desk.admins else ""
    return "" if who in desk.admins else "revoke-none"


def _sure(press: _Press, asker: int, archive: Archive, words: Words) -> InlineKeyboardMarkup:
    yes = press.model_copy(update={"mark": _mark(archive, press, asker)})
    label = words("button-grant" if press.on else "button-revoke")
    row = [
        InlineKeyboardButton(text=label, callback_data=yes.pack(), style="danger"),
        InlineKeyboardButton(text=words("button-cancel"), callback_data=press.pack()),
    ]
    return InlineKeyboardMarkup(inline_keyboard=[row])


async def _on_press(pressed: CallbackQuery, callback_data: _Press, bot: Bot, desk: Desk, words: Words) -> None:
    if await refused(pressed, desk, words):
        return
    actor, who = pressed.from_user.id, callback_data.who
    if not callback_data.mark:
        await redraw(pressed, Text(words("grant-cancelled")), None)
        return
    late = not 0 <= time.time() - callback_data.at <= _ASKED_FOR_S
    if late or not _hangs(pressed) or callback_data.mark != _mark(desk.archive, callback_data, actor):
        await pressed.answer(words("grant-late", grant="/grant"), show_alert=True)
        return
    if unfit := _unfit(who, callback_data.on, bot.id, desk):
        await redraw(pressed, Text(words(unfit, id=str(who))), None)
        return
    await (_granted if callback_data.on else _revoked)(pressed, who, bot, desk, words)


def _hangs(pressed: CallbackQuery) -> bool:
    """Whether the button is at its message now: one that was used is not, whoever sends what it carried again."""
    markup = pressed.message.reply_markup if isinstance(pressed.message, Message) else None
    return markup is not None and any(
        one.callback_data == pressed.data for row in markup.inline_keyboard for one in row
    )


async def _granted(pressed: CallbackQuery, who: int, bot: Bot, desk: Desk, words: Words) -> None:
    actor = pressed.from_user.id
    await desk.admins.grant(desk.archive, who, actor)
    log.info("admin %d granted admin rights to %d", actor, who)
    reached = await _tell(bot, who, "granted-told", desk)
    done = words.rich("grant-done" if reached else "grant-done-untold", who=Code(str(who)))
    await redraw(pressed, done, None)
    await publish_menu(bot, (who,), readers=False)
    await _tell_others(bot, (actor, who), "granted-others", desk, who=str(who), by=str(actor))


async def _revoked(pressed: CallbackQuery, who: int, bot: Bot, desk: Desk, words: Words) -> None:
    actor = pressed.from_user.id
    await desk.admins.revoke(desk.archive, who)
    log.info("admin %d revoked the admin rights of %d", actor, who)
    await redraw(pressed, words.rich("revoke-done", who=Code(str(who))), None)
    if actor != who:
        await _tell(bot, who, "revoked-told", desk)
    await withdraw_menu(bot, who)
    await _tell_others(bot, (actor, who), "revoked-others", desk, who=str(who), by=str(actor))


async def _tell_others(bot: Bot, but: tuple[int, ...], said: str, desk: Desk, **values: str) -> None:
    """Whoever else is an admin hears of it: nobody should gain the channels unseen."""
    for admin in desk.admins:
        if admin not in but:
            await _tell(bot, admin, said, desk, **values)


async def _tell(bot: Bot, user_id: int, said: str, desk: Desk, **values: str) -> bool:
    """Send somebody a sentence in the language of their questions; False where they cannot be reached."""
    lang = await figures.language_of(desk.archive, user_id) or desk.settings.bot.language
    try:
        await bot.send_message(user_id, words_for(lang)(said, help="/help", **values))
    except (TelegramAPIError, ClientDecodeError) as exc:  # has never written to the bot, or blocked it
        log.info("user %d could not be told: %s", user_id, exc)
        return False
    return True


async def _named(bot: Bot, who: int) -> Text:
    """The id, and the name where Telegram tells it: a wrong digit is seen before it is too late."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            chat = await bot.get_chat(who)
    except (TelegramAPIError, ClientDecodeError, TimeoutError):
        return Text(Code(str(who)))
    return Text(inert(one_line(chat.full_name)), " (", Code(str(who)), ")")


def _listed(desk: Desk, words: Words) -> Text:
    """How it is written, and who is an admin by whom since when."""
    how = words.rich("grant-how", grant=Code("/grant 123456789"), revoke=Code("/revoke 123456789"))
    return as_list(how, words("grant-list"), *_lines(desk, words))


def _lines(desk: Desk, words: Words) -> Iterator[Text]:
    for owner in desk.admins.owners:
        yield words.rich("grant-line-owner", who=Code(str(owner)))
    for one in desk.admins.granted.values():
        date = words.date(one.at, desk.settings.bot.zone)
        yield words.rich("grant-line", who=Code(str(one.user_id)), by=Code(str(one.by)), date=date)


def routes() -> Router:
    """Handlers of /grant, /revoke and their buttons."""
    router = Router(name="granting")
    router.message.register(_on_command, Command("grant", "revoke", ignore_case=True), F.chat.type == "private")
    router.callback_query.register(_on_press, _Press.filter())
    return router
