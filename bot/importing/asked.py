"""/import in a private chat: with a document, as a reply to one, or by the button offered for one."""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePath

from aiogram import Bot, F, Router
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.filters import Command, CommandObject
from aiogram.types import CallbackQuery, Document, Message
from aiogram.utils.formatting import Code

from bot.access import is_admin
from bot.channels.buttons import refused
from bot.desk import Desk
from bot.importing.fetching import MOST_BYTES
from bot.importing.running import Imports, Order
from bot.importing.telling import Go, Stop, go_button
from bot.titles import one_line
from bot.words import Words
from ingest.admission import chat_of
from rag_core.doors.archive import Archive, channels
from rag_core.errors import ImportRefused

__all__ = ["routes"]

_PRIVATE = F.chat.type == "private"
_EXPORTS = frozenset({".json", ".html", ".htm", ".zip"})
_USERNAME = re.compile(r"(?:https?://)?(?:t\.me/|@)?(?P<name>[A-Za-z]\w{3,31})/?", re.ASCII)
_PATIENCE_S = 3.0


async def _on_import(message: Message, command: CommandObject, bot: Bot, desk: Desk, imports: Imports, words: Words
                     ) -> None:  # fmt: skip
    if not is_admin(message, desk.admins):
        await message.answer(words("admins-only", start="/start"))
        return
    document = message.document or (message.reply_to_message.document if message.reply_to_message else None)
    if document is None:
        await message.answer(**words.rich("import-how", example=Code("/import")).as_kwargs())
        return
    asked = (command.args or "").strip()
    chat, username = await _whose(bot, desk.archive, asked) if asked else (None, None)
    await _begin(Order(document, message, words, chat, username), imports)


async def _begin(order: Order, imports: Imports) -> None:
    words = order.words
    if (order.document.file_size or 0) > MOST_BYTES:
        await order.message.reply(words("import-too-big", file=order.file), allow_sending_without_reply=True)
    elif not imports.begin(order):
        await order.message.reply(words("import-busy"), allow_sending_without_reply=True)


async def _whose(bot: Bot, archive: Archive, asked: str) -> tuple[str, str | None]:
    """The channel that was named, by its id where that can be found out, and its username where it is one."""
    name = found["name"] if (found := _USERNAME.fullmatch(asked)) else None
    try:
        known = chat_of(asked, await channels.known(archive))
    except ImportRefused:  # names nothing: the child says so
        return asked, None
    if known is not None or name is None:
        return str(known or asked), name
    try:
        async with asyncio.timeout(_PATIENCE_S):
            chat = await bot.get_chat(f"@{name}")
    except (TelegramAPIError, ClientDecodeError, TimeoutError):
        return asked, name
    return (str(chat.id), chat.username) if chat.type in ("channel", "supergroup") else (asked, name)


def _is_export(document: Document) -> bool:
    return PurePath(document.file_name or "").suffix.lower() in _EXPORTS


async def _exports(message: Message, desk: Desk) -> bool:
    """A filter: an admin sent something that looks like an export, and said nothing."""
    document = message.document
    return bool(document and not message.caption and _is_export(document) and is_admin(message, desk.admins))


async def _on_document(message: Message, words: Words) -> None:
    assert message.document is not None
    file = one_line(message.document.file_name or "") or words("import-file")
    offer = words("import-offer", file=file)
    await message.reply(offer, reply_markup=go_button(words), allow_sending_without_reply=True)


async def _on_go(pressed: CallbackQuery, desk: Desk, imports: Imports, words: Words) -> None:
    if await refused(pressed, desk, words):
        return
    offer = pressed.message if isinstance(pressed.message, Message) else None
    sent = offer.reply_to_message if offer else None
    if sent is None or sent.document is None or not is_admin(sent, desk.admins):
        await pressed.answer(words("import-gone", command="/import"), show_alert=True)
        return
    await pressed.answer()
    await _begin(Order(sent.document, sent, words), imports)


async def _on_stop(pressed: CallbackQuery, callback_data: Stop, desk: Desk, imports: Imports, words: Words) -> None:
    if await refused(pressed, desk, words):
        return
    stopped = imports.cancel(callback_data.run)
    await pressed.answer(words("import-stopping" if stopped else "import-over"))


def routes() -> Router:
    """Handlers of /import and its buttons; before those of questions, which take every caption."""
    router = Router(name="importing")
    router.message.register(_on_import, Command("import", ignore_case=True), _PRIVATE)
    router.message.register(_on_document, _PRIVATE, _exports)
    router.callback_query.register(_on_go, Go.filter())
    router.callback_query.register(_on_stop, Stop.filter())
    return router
