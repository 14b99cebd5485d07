"""What went wrong, as a sentence for the reader: planned-for failures by their class, bugs in general words."""

from __future__ import annotations

import logging

from aiogram import Router
from aiogram.exceptions import TelegramAPIError
from aiogram.types import ErrorEvent, Message

from bot.access import reader_of
from bot.recheck import CouldNotCheck, Withdrawn
from bot.rights import Rights
from bot.settings import Settings
from bot.words import Words, interface_language, words_for
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, StageTimeout

__all__ = ["routes", "sentence", "surprise"]

_SENTENCES: dict[type[RagError], str] = {
    ArchiveUnavailable: "trouble-archive",
    IndexUnavailable: "trouble-index",
    StageTimeout: "trouble-timeout",
    Withdrawn: "answer-withdrawn",
    CouldNotCheck: "trouble-unchecked",
}

log = logging.getLogger(__name__)


def sentence(exc: Exception, words: Words, *, admin: bool) -> str:
    """What to tell the reader. The reason itself may name files: only an admin sees it."""
    found = next((said for kind, said in _SENTENCES.items() if isinstance(exc, kind)), "trouble-general")
    if admin and isinstance(exc, RagError):
        return f"{words(found)}\n\n{words('trouble-reason', reason=exc.reason)}"
    return words(found)


def surprise(exc: Exception) -> Exception | None:
    """The exception if it is a bug, whose traceback belongs into the log; None if it was planned for."""
    return None if isinstance(exc, RagError) else exc


async def _on_error(event: ErrorEvent, settings: Settings, admins: Rights) -> bool:
    exc = event.exception
    log.error("update %d failed: %s", event.update.update_id, exc, exc_info=surprise(exc))
    pressed = event.update.callback_query
    message = pressed.message if pressed else event.update.message
    if not isinstance(message, Message):  # nobody waits for an answer, or it is too old to be answered
        return True
    user = pressed.from_user if pressed else message.from_user
    words = words_for(interface_language(user.language_code if user else None, settings.bot.language))
    asker = pressed.from_user.id if pressed else reader_of(message)
    admin = message.chat.type == "private" and asker in admins
    try:
        await message.answer(sentence(exc, words, admin=admin))
        if pressed and isinstance(exc, Withdrawn | CouldNotCheck):
            await pressed.answer()  # or the button looks busy; refused where the handler has done it
    except TelegramAPIError as failed:
        log.warning("update %d: the reader could not be told: %s", event.update.update_id, failed)
    return True


def routes() -> Router:
    """The one place where an exception of a handler becomes a sentence."""
    router = Router(name="trouble")
    router.error.register(_on_error)
    return router
