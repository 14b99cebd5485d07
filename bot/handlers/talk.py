"""Small talk in a chat: a friendly line in private, a reaction in groups. It is neither searched nor stored."""

from __future__ import annotations

from aiogram.types import Message, ReactionTypeEmoji

from bot import access
from bot.access import get_reader_id
from bot.context import AppContext
from bot.i18n import Translator
from bot.recheck import Basis, Reader, recheck_before_sending
from bot.views.talk import render_talk
from bot.worker.streaming import call_best_effort
from rag_core.conversation import Talk, TalkKind

__all__ = ["reply_to_talk"]

# Telegram allows bots only some emoji: https://core.telegram.org/bots/api#reactiontypeemoji
_REACTIONS = {
    TalkKind.THANKS: "❤",
    TalkKind.GREETING: "🤗",
    TalkKind.BYE: "🤗",
    TalkKind.JOKE: "😁",
    TalkKind.ABUSE: "😢",
    TalkKind.UNCLEAR: "🤔",
}


async def reply_to_talk(message: Message, talk: Talk, desk: AppContext, words: Translator) -> None:
    """Reply to small talk that was addressed to the bot."""
    assert message.bot is not None
    if message.chat.type != "private":
        reaction = ReactionTypeEmoji(emoji=_REACTIONS.get(talk.kind, "👍"))
        await call_best_effort(message.bot.set_message_reaction(message.chat.id, message.message_id, [reaction]))
        return
    reader = get_reader_id(message)
    channels = await access.get_readable_channels(
        desk.archive, desk.admins, user_id=reader, chat_id=message.chat.id, private=True
    )
    shown = frozenset(channels) if talk.kind is TalkKind.ABOUT_CHANNEL else frozenset[int]()
    here = Reader(reader, message.chat.id, private=True)
    with recheck_before_sending(Basis(counted=shown), here, desk.archive, desk.admins):
        await message.answer(**render_talk(talk, words.lang, channels.values()).as_kwargs())
