"""Small talk in a chat: a friendly line with suggested questions in private, a reaction in groups.

Small talk is neither searched nor stored. A press of a suggested question asks it, within the limits of any question.
"""

from __future__ import annotations

from datetime import UTC, datetime

from aiogram import Bot, Router
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, Message, ReactionTypeEmoji, Update

from bot import access, logs
from bot.access import Reader, get_reader
from bot.context import AppContext
from bot.i18n import Translator
from bot.recheck import Basis, ContentWithdrawn, build_posts_basis, recheck_before_sending
from bot.suggestions import SuggestedQuestion
from bot.views.keyboards import build_keyboard
from bot.views.message_text import neutralize_links
from bot.views.talk import render_talk
from bot.worker.limits import format_rate_limit
from bot.worker.streaming import call_best_effort
from rag_core.conversation import Talk, TalkKind
from rag_core.storage import channels, questions
from rag_core.storage.questions import QuestionRow
from rag_core.types import Viewer

__all__ = ["SuggestionCallback", "reply_to_talk", "routes"]

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


class SuggestionCallback(CallbackData, prefix="sq"):
    """Callback data of a suggested question: its token."""

    token: str


async def reply_to_talk(message: Message, talk: Talk, context: AppContext, words: Translator) -> None:
    """Reply to small talk that was addressed to the bot."""
    assert message.bot is not None
    if message.chat.type != "private":
        reaction = ReactionTypeEmoji(emoji=_REACTIONS.get(talk.kind, "👍"))
        await call_best_effort(message.bot.set_message_reaction(message.chat.id, message.message_id, [reaction]))
        return
    viewer = await access.build_viewer(context.archive, context.admins, get_reader(message))
    suggested = (
        await context.suggestions.suggest(viewer, talk.lang or words.lang) if talk.kind in _SUGGESTING_KINDS else []
    )
    try:
        await _send_reply(message, talk, viewer, suggested, context, words)
    except ContentWithdrawn:  # a post of a suggestion has just changed
        await _send_reply(message, talk, viewer, [], context, words)


async def _send_reply(
    message: Message,
    talk: Talk,
    viewer: Viewer,
    suggested: list[SuggestedQuestion],
    context: AppContext,
    words: Translator,
) -> None:
    shown = await build_posts_basis([one.post for one in suggested], viewer, context.archive)
    if talk.kind is TalkKind.ABOUT_CHANNEL:
        shown = Basis(shown.posts, counted=viewer.channels)
    known = await channels.load_channels(context.archive)
    reply = render_talk(talk, words.lang, [known[chat] for chat in viewer.channels if chat in known])
    rows = [[(one.text, SuggestionCallback(token=context.suggestions.make_token(one)))] for one in suggested]
    here = Reader(viewer.user_id, message.chat.id, private=True)
    with recheck_before_sending(shown, here, context.archive, context.admins):
        await message.answer(**reply.as_kwargs(), reply_markup=build_keyboard(*rows) if rows else None)


async def _on_suggestion(
    pressed: CallbackQuery,
    callback_data: SuggestionCallback,
    event_update: Update,
    bot: Bot,
    context: AppContext,
    words: Translator,
) -> None:
    """Ask a suggested question in the name of who presses it, if this reader may and its post still says so."""
    message, reader = pressed.message, pressed.from_user.id
    if not isinstance(message, Message) or message.chat.id != reader:
        await pressed.answer(words("suggestion-gone"), show_alert=True)
        return
    here = Reader(reader, reader, private=True)
    viewer = await access.build_viewer(context.archive, context.admins, here)
    suggested = await context.suggestions.find(callback_data.token, viewer)
    if suggested is None:
        await pressed.answer(words("suggestion-gone"), show_alert=True)
        return
    async with context.worker.limits.hold_count(reader, reader) as wait:
        if wait is None:
            basis = await build_posts_basis([suggested.post], viewer, context.archive)
            with recheck_before_sending(basis, here, context.archive, context.admins):
                asked = await message.answer(**neutralize_links(suggested.text).as_kwargs())
            row = QuestionRow(
                bot_id=bot.id,
                update_id=event_update.update_id,
                chat_id=reader,
                message_id=asked.message_id,
                user_id=reader,
                text=suggested.text,
                lang=suggested.lang,
                asked_at=datetime.now(UTC),
                private=True,
            )
            number = await questions.queue_question(context.archive, row)
    if wait is not None:
        await pressed.answer(format_rate_limit(wait, words)[:200], show_alert=True)
        return
    await pressed.answer()
    if number is not None:
        logs.log_question(number, suggested.text)
        context.worker.wake()


def routes() -> Router:
    """Router of the buttons with suggested questions."""
    router = Router(name="suggestions")
    router.callback_query.register(_on_suggestion, SuggestionCallback.filter())
    return router
