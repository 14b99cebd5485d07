"""Small talk in a chat: a friendly line with suggested questions in private, a reaction in groups.

Small talk is neither searched nor stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiogram.types import Message, ReactionTypeEmoji
from aiogram.utils.formatting import Text, as_list

from bot import access
from bot.access import get_reader
from bot.app_context import AppContext
from bot.handlers.suggested_question_buttons import send_with_suggestions
from bot.i18n import Translator, get_translator
from bot.telegram.recheck import ShownContent
from bot.views.answer import format_channel_title
from bot.views.message_formatting import neutralize_links
from bot.worker.streaming import call_best_effort
from rag_core.conversation.small_talk import Talk, TalkKind
from rag_core.storage import channels
from rag_core.types import Channel

_MAX_TITLES = 5


def render_talk(talk: Talk, lang: str, channels: Iterable[Channel]) -> Text:
    """Render the reply to small talk; `lang` is the reader's, `channels` those that the reader may read here."""
    words = get_translator(talk.lang or lang)
    if talk.kind is not TalkKind.ABOUT_CHANNEL:
        return Text(words("smalltalk", kind=str(talk.kind), help="/help"))
    titles = sorted((format_channel_title(channel, words) for channel in channels), key=str.casefold)
    listed = as_list(*map(neutralize_links, titles[:_MAX_TITLES] or [""]), sep=", ")
    more = max(0, len(titles) - _MAX_TITLES)
    return words.rich("smalltalk-about-channel", count=len(titles), titles=listed, more=more)


# Telegram allows bots only some emoji: https://core.telegram.org/bots/api#reactiontypeemoji
_REACTIONS = {
    TalkKind.THANKS: "❤",
    TalkKind.GREETING: "🤗",
    TalkKind.BYE: "🤗",
    TalkKind.JOKE: "😁",
    TalkKind.ABUSE: "😢",
    TalkKind.UNCLEAR: "🤔",
}
# Under other kinds a reader does not look for a question.
_SUGGESTING_KINDS = frozenset(TalkKind) - {TalkKind.BYE, TalkKind.ABUSE}


async def reply_to_talk(message: Message, talk: Talk, context: AppContext, words: Translator) -> None:
    """Reply to small talk that was addressed to the bot."""
    assert message.bot is not None
    if message.chat.type != "private":
        reaction = ReactionTypeEmoji(emoji=_REACTIONS.get(talk.kind, "👍"))
        await call_best_effort(message.bot.set_message_reaction(message.chat.id, message.message_id, [reaction]))
        return
    viewer = await access.build_viewer(context.admins, get_reader(message))
    lang = talk.lang or words.lang
    known = await channels.load_channels(context.archive)
    reply = render_talk(talk, lang, [known[chat] for chat in viewer.channels if chat in known])
    named = viewer.channels if talk.kind is TalkKind.ABOUT_CHANNEL else frozenset[int]()
    offered = lang if talk.kind in _SUGGESTING_KINDS else None
    await send_with_suggestions(message, reply, viewer, context, offered, ShownContent(counted=named))
