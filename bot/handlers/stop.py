"""Handlers of /stop and of the stop buttons: readers stop their own questions, and nobody else's."""

from __future__ import annotations

from aiogram import Router
from aiogram.types import CallbackQuery, Message, MessageGenerationStopped

from bot.access import get_reader_id
from bot.context import AppContext
from bot.filters import ChatCommand
from bot.i18n import Translator
from bot.worker.streaming import StopCallback

__all__ = ["routes"]


async def _on_stop(message: Message, addressed: bool, desk: AppContext, words: Translator) -> None:
    running, waited = await desk.turns.halt(message.chat.id, get_reader_id(message))
    if waited:
        await message.reply(words("stopped-waiting", count=waited), allow_sending_without_reply=True)
    elif not running and addressed:  # a running question shows its own end
        await message.reply(words("stop-nothing"), allow_sending_without_reply=True)


async def _on_draft_stopped(event: MessageGenerationStopped, desk: AppContext, words: Translator) -> None:
    """Handle the client's own stop button: private chats only, where the chat id is the reader's."""
    _, waited = await desk.turns.halt(event.chat.id, event.chat.id, event.draft_id)
    if waited:
        assert event.bot is not None
        text = words("stopped-waiting", count=waited)
        await event.bot.send_message(event.chat.id, text, message_thread_id=event.message_thread_id)


async def _press_stop(pressed: CallbackQuery, callback_data: StopCallback, desk: AppContext, words: Translator) -> None:
    message = pressed.message
    if message is None:
        await pressed.answer()
        return
    running, waited = await desk.turns.halt(message.chat.id, pressed.from_user.id, callback_data.question)
    await pressed.answer() if running or waited else await pressed.answer(words("stop-not-yours"), show_alert=True)


def routes() -> Router:
    """Router of everything that stops an answer."""
    router = Router(name="stopping")
    router.message.register(_on_stop, ChatCommand("stop"))
    router.stopped_message_generation.register(_on_draft_stopped)
    router.callback_query.register(_press_stop, StopCallback.filter())
    return router
