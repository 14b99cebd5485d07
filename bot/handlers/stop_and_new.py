"""Handlers of /stop and the stop buttons, and of /new, which starts a new conversation.

Readers stop their own questions, and nobody else's. /new off and /new on switch the memory of a whole chat.
"""

from __future__ import annotations

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import CallbackQuery, Message, MessageGenerationStopped

from bot.access import Refusal, check_may_change_settings, get_reader_id
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ChatCommand, get_thread
from bot.worker.streaming import StopCallback
from rag_core.conversation.memory import is_memory_enabled, set_memory_enabled, start_new_conversation
from rag_core.storage.conversation_turns import ConversationKey

router = Router()

_MEMORY_SWITCHES = {"on": True, "off": False}


@router.message(ChatCommand("new", addressed_only=True))
async def _on_new(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    wanted = (command.args or "").strip().casefold()
    if wanted and wanted not in _MEMORY_SWITCHES:
        raise Refusal(words("talk-unknown"))
    if wanted:
        await check_may_change_settings(context.admins, message.chat, get_reader_id(message), words("talk-not-yours"))
        await set_memory_enabled(message.chat.id, context.rag, to=_MEMORY_SWITCHES[wanted])
    here = ConversationKey(message.chat.id, get_reader_id(message), get_thread(message) or 0)
    await start_new_conversation(here, context.rag)
    remembers = await is_memory_enabled(message.chat.id, context.rag)
    await message.reply(words("talk-new" if remembers else "talk-off"))


@router.message(ChatCommand("stop"))
async def _on_stop(message: Message, addressed: bool, context: AppContext, words: Translator) -> None:
    running, waited = await context.queue.halt(message.chat.id, get_reader_id(message))
    if waited:
        await message.reply(words("stopped-waiting", count=waited))
    elif not running and addressed:  # a running question shows its own end
        await message.reply(words("stop-nothing"))


@router.stopped_message_generation()
async def _on_draft_stopped(event: MessageGenerationStopped, context: AppContext, words: Translator) -> None:
    """Handle the client's own stop button: private chats only, where the chat id is the reader's."""
    _, waited = await context.queue.halt(event.chat.id, event.chat.id, event.draft_id)
    if waited:
        assert event.bot is not None
        text = words("stopped-waiting", count=waited)
        await event.bot.send_message(event.chat.id, text, message_thread_id=event.message_thread_id)


@router.callback_query(StopCallback.filter())
async def _press_stop(
    pressed: CallbackQuery, callback_data: StopCallback, context: AppContext, words: Translator
) -> None:
    message = pressed.message
    if message is None:
        await pressed.answer()
        return
    running, waited = await context.queue.halt(message.chat.id, pressed.from_user.id, callback_data.question)
    await pressed.answer() if running or waited else await pressed.answer(words("stop-not-yours"), show_alert=True)
