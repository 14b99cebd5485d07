"""Error handler: an exception of a handler becomes a sentence for the reader; and buttons that no handler takes.

Expected errors have a sentence by class, bugs a general one, with a traceback in the log. The reason may name
files, so that only an admin sees it. Unknown buttons (of an earlier version, or made up) are answered, because
Telegram shows a button as busy until it is.
"""

import logging
from contextlib import suppress

from aiogram import Router
from aiogram.exceptions import TelegramAPIError
from aiogram.types import CallbackQuery, ErrorEvent, Message

from bot.access import AdminRegistry, Refusal, get_reader_id
from bot.i18n import Translator, choose_interface_language, get_translator
from bot.settings import Settings
from bot.telegram.ephemeral import get_asker_address, send_to_asker
from bot.telegram.recheck import ContentWithdrawn, RecheckUnavailable, SendingRefused
from bot.telegram.session import respond
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, StageTimeout

router = Router()

log = logging.getLogger(__name__)

_ERROR_SENTENCES: dict[type, str] = {
    ArchiveUnavailable: "trouble-archive",
    IndexUnavailable: "trouble-index",
    StageTimeout: "trouble-timeout",
    ContentWithdrawn: "answer-withdrawn",
    RecheckUnavailable: "trouble-unchecked",
}


def format_error(exc: Exception, words: Translator, *, admin: bool) -> str:
    """Format an error for the reader. Its reason may name files: only admins see it."""
    # the most specific class wins, in whatever order the rows stand
    found = next((_ERROR_SENTENCES[kind] for kind in type(exc).__mro__ if kind in _ERROR_SENTENCES), "trouble-general")
    if admin and isinstance(exc, RagError):
        return f"{words(found)}\n\n{words('trouble-reason', reason=words.error(exc))}"
    return words(found)


@router.error()
async def _on_error(event: ErrorEvent, settings: Settings, admins: AdminRegistry) -> bool:
    exc, pressed = event.exception, event.update.callback_query
    message = pressed.message if pressed else event.update.message
    user = pressed.from_user if pressed else message.from_user if isinstance(message, Message) else None
    words = get_translator(choose_interface_language(user.language_code if user else None, settings.bot.language))
    who = pressed or message
    address = get_asker_address(who, words.lang, always=True) if isinstance(who, Message | CallbackQuery) else None
    if isinstance(exc, Refusal):
        with suppress(TelegramAPIError, Refusal), send_to_asker(address):
            if pressed:
                await pressed.answer(str(exc)[:200] or None, show_alert=bool(str(exc)))
            elif isinstance(message, Message) and str(exc):
                await respond(message, str(exc))
        return True
    bug = None if isinstance(exc, RagError) else exc  # only a bug needs a traceback
    log.error("update %d failed: %s", event.update.update_id, exc, exc_info=bug)
    if not isinstance(message, Message):  # nobody waits for an answer, or the message is too old
        return True
    asker = pressed.from_user.id if pressed else get_reader_id(message)
    admin = message.chat.type == "private" and asker in admins
    try:
        with suppress(Refusal), send_to_asker(address):
            await message.answer(format_error(exc, words, admin=admin))
        if pressed and isinstance(exc, SendingRefused):
            await pressed.answer()  # ends the button's loading state; refused where the handler has done it
    except TelegramAPIError as failed:
        log.warning("update %d: the reader could not be told: %s", event.update.update_id, failed)
    return True


@router.callback_query()
async def _on_unknown_button(pressed: CallbackQuery, words: Translator) -> None:
    await pressed.answer(words("button-stale"), show_alert=True)
