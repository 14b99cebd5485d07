"""What people write to the bot: questions, small talk, texts to verify, suggestions, deep links, /stop and /new.

A handler only queues a row and wakes the workers (bot/worker/question_worker.py). A deep link (t.me/bot?start=...)
holds the question itself or the key of a stored one, which is stored only when its own asker makes a link to it.
Source: https://core.telegram.org/bots/features#deep-linking (64 characters out of A-Z, a-z, 0-9, _ and -).
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from secrets import token_urlsafe

from aiogram import Bot, F, Router
from aiogram.enums import ContentType
from aiogram.types import CallbackQuery, Message, MessageGenerationStopped, ReactionTypeEmoji, Update
from aiogram.utils import payload as base64url
from aiogram.utils.formatting import Code, Text, as_list

from bot import access, logs, middlewares
from bot.access import Reader, Refusal, check_may_change_settings, get_reader, get_reader_id
from bot.app_context import AppContext
from bot.i18n import Translator, detect_question_language, get_translator
from bot.stored_answer import compare_with_posts, parse_stored_answer
from bot.telegram.ephemeral import identify_message
from bot.telegram.recheck import ContentWithdrawn, ShownContent, ShownPost, View
from bot.telegram.session import respond
from bot.views.answer import format_channel_title, make_link, strip_sources
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, make_row, on_press
from bot.views.text import strip_control_characters
from bot.worker.streaming import call_best_effort
from rag_core.conversation.followups import is_memory_enabled, set_memory_enabled, start_new_conversation
from rag_core.conversation.small_talk import Talk, TalkKind, detect_talk
from rag_core.retrieval.channel_answers import is_introduced
from rag_core.storage import Archive, channels, questions, readers
from rag_core.types import Channel, Viewer

router = Router()


async def send_with_suggestion(
    message: Message, text: Text, viewer: Viewer, context: AppContext, lang: str, content: ShownContent
) -> None:
    """Send a line in private with a suggested question in `lang`, where there is one that was not offered yet."""
    here, suggestions = Reader(viewer.user_id, message.chat.id, private=True), context.worker.suggestions
    if offered := await suggestions.suggest(viewer, lang):
        buttons = build_keyboard(make_row(offered.text, "suggestion", suggestions.make_token(offered)))
        of_post = ShownContent((ShownPost(offered.post, offered.mark),))
        with suppress(ContentWithdrawn):  # its post has just changed: the line goes without it
            await View(text, content | of_post, buttons).send(message.answer, here, context.admins)
            suggestions.note_offered(viewer.user_id, offered.text)
            return
    await View(text, content).send(message.answer, here, context.admins)


async def send_rephrase_hint(message: Message, asked: questions.QuestionRow, context: AppContext) -> None:
    """Say how to ask another way after a refusal; in private with questions that the posts answer."""
    hint = Text(get_translator(asked.lang)("rephrase-hint"))
    if not asked.private:
        await respond(message, **hint.as_kwargs())
        return
    viewer = await access.build_viewer(context.admins, access.get_question_reader(asked))
    await send_with_suggestion(message, hint, viewer, context, asked.lang, ShownContent())


@router.callback_query(on_press("suggestion"))
async def _on_suggestion(
    pressed: CallbackQuery, callback_data: Press, event_update: Update, context: AppContext, words: Translator
) -> None:
    """Ask a suggested question in the name of who presses it, if this reader may and its post still says so."""
    message, reader = pressed.message, pressed.from_user.id
    here = Reader(reader, reader, private=True)
    viewer = await access.build_viewer(context.admins, here)
    suggested = await context.worker.suggestions.find(callback_data.token, viewer)
    if suggested is None or not isinstance(message, Message) or message.chat.id != reader:
        raise Refusal(words("suggestion-gone"))
    view = View(neutralize_links(suggested.text), ShownContent((ShownPost(suggested.post, suggested.mark),)))
    async with context.worker.limits.hold_count(reader, reader, words, pressed=True):
        pass  # who is over the limit is told so before anything is sent
    asked = await view.send(message.answer, here, context.admins)  # outside: Telegram may make it wait for minutes
    async with context.worker.limits.hold_count(reader, reader, words, pressed=True):
        row = _make_question(asked, reader, suggested.text, event_update.update_id, suggested.lang)
        number = await questions.queue_question(context.archive, row)
    await pressed.answer()
    if number is not None:
        logs.log_question(number, suggested.text)
        context.worker.wake()


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
# Who asks what the bot can do looks for a question; under other kinds a button is in the way.
_SUGGESTING_KINDS = {TalkKind.WHAT_CAN_YOU_DO, TalkKind.WHO_ARE_YOU, TalkKind.HELP, TalkKind.ABOUT_CHANNEL}


@router.message(middlewares.ChatCommand("verify"))
async def _on_verify(
    message: Message,
    given: str,
    addressed: bool,
    event_update: Update,
    bot: Bot,
    context: AppContext,
    words: Translator,
) -> None:
    text, lang, parent = given, words.lang, middlewares.get_replied_message(message)
    if text:
        lang = detect_question_language(text, words.lang)
    elif message.quote and message.quote.is_manual:  # the selected part of the replied message, else all of it
        text = message.quote.text.strip()
    elif parent:
        text, ours = parent.text or parent.caption or "", parent.from_user and parent.from_user.id == bot.id
        text = strip_sources(text, parent.entities or ()) if ours else text.strip()
        text = text or (await _compose_rich_answer(parent, message, bot, context) if ours else "")
    if text:
        await queue_message_text(message, text, event_update.update_id, context, words, lang=lang, kind="verify")
    elif addressed:
        refusal = words.rich("verify-empty", example=Code(f"/verify {words('verify-example')}"))
        await respond(message, **refusal.as_kwargs())


async def _compose_rich_answer(parent: Message, message: Message, bot: Bot, context: AppContext) -> str:
    """Compose the sentences of a rich answer, whose words are in no update, as far as the sender may read its posts."""
    key = identify_message(parent, get_reader_id(message))
    asked = await questions.find_question_of_message(context.archive, bot.id, message.chat.id, *key)
    if asked is None:
        return ""
    given, viewer = parse_stored_answer(asked.answer), await access.build_viewer(context.admins, get_reader(message))
    now = await compare_with_posts(given, viewer, context.archive)
    standing = (one for one in given.sentences if all(map(now.holds, one.citations)))
    return " ".join(one.compose(now.texts) for one in standing).strip()


@router.message(middlewares.IN_PRIVATE, F.forward_origin)
async def _on_forwarded_message(message: Message, event_update: Update, context: AppContext, words: Translator) -> None:
    text = (message.text or message.caption or "").strip()
    if text:
        await queue_message_text(message, text, event_update.update_id, context, words, lang=words.lang, kind="verify")
    # other pictures of an album: only the one with the caption counts
    elif not message.media_group_id:
        await respond(message, words("verify-not-text"))


@router.message(middlewares.ChatCommand("new", addressed_only=True))
async def _on_new(message: Message, given: str, context: AppContext, words: Translator) -> None:
    wanted, reader = given.casefold(), get_reader_id(message)
    if wanted not in ("", "on", "off"):
        raise Refusal(words("talk-unknown"))
    if wanted:
        await check_may_change_settings(context.admins, message.chat, reader, words("talk-not-yours"))
        await set_memory_enabled(message.chat.id, context.rag, to=wanted == "on")
    thread = middlewares.get_thread(message) or 0
    for talk in (thread, ~thread):  # the other is of what only this reader sees in a group (`QuestionRow.talk`)
        await start_new_conversation(readers.ConversationKey(message.chat.id, reader, talk), context.rag)
    context.worker.suggestions.forget_offered(reader)
    remembers = await is_memory_enabled(message.chat.id, context.rag)
    await respond(message, words("talk-off" if not remembers else "talk-on" if wanted else "talk-new"))


@router.message(middlewares.ChatCommand("stop"))
async def _on_stop(message: Message, addressed: bool, context: AppContext, words: Translator) -> None:
    running, waited = await context.worker.halt(message.chat.id, get_reader_id(message))
    if waited:
        await respond(message, words("stopped-waiting", count=waited))
    elif not running and addressed:  # a running question shows its own end
        await respond(message, words("stop-nothing"))


@router.stopped_message_generation()
async def _on_draft_stopped(event: MessageGenerationStopped, context: AppContext, words: Translator) -> None:
    """Handle the client's own stop button: private chats only, where the chat id is the reader's."""
    _, waited = await context.worker.halt(event.chat.id, event.chat.id, event.draft_id)
    if waited:
        assert event.bot is not None
        text = words("stopped-waiting", count=waited)
        await event.bot.send_message(event.chat.id, text, message_thread_id=event.message_thread_id)


@router.callback_query(on_press("stop"))
async def _press_stop(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    if pressed.message:
        chat = pressed.message.chat.id
        if not any(await context.worker.halt(chat, pressed.from_user.id, callback_data.number)):
            raise Refusal(words("stop-not-yours"))
    await pressed.answer()


# Content that people send; everything else in a private chat is a service message.
_USER_CONTENT_TYPES = {
    ContentType.ANIMATION, ContentType.AUDIO, ContentType.CONTACT, ContentType.DOCUMENT,
    ContentType.LOCATION, ContentType.PHOTO, ContentType.POLL, ContentType.STICKER,
    ContentType.VIDEO, ContentType.VIDEO_NOTE, ContentType.VOICE,
}  # fmt: skip


@router.message(middlewares.ChatCommand("ask"))
async def _on_ask(message: Message, given: str, event_update: Update, context: AppContext, words: Translator) -> None:
    await submit_question(message, given, event_update.update_id, context, words)


@router.message(middlewares.IN_PRIVATE, F.text.startswith("/"))
async def _on_unknown_command(message: Message, words: Translator) -> None:
    await message.answer(words("unknown-command"))


@router.message(middlewares.IN_GROUP, middlewares.extract_addressed_question)
@router.message(middlewares.IN_PRIVATE, F.text | F.caption)
async def _on_text(
    message: Message, event_update: Update, context: AppContext, words: Translator, question: str | None = None
) -> None:
    """Take a text in private, or in a group the `question` that was found in it."""
    text = (message.text or message.caption or "").strip() if question is None else question
    await submit_question(message, text, event_update.update_id, context, words)


@router.message(middlewares.IN_PRIVATE, F.content_type.in_(_USER_CONTENT_TYPES))
async def _on_no_text(message: Message, words: Translator) -> None:
    await message.answer(words("not-text"))


async def submit_question(message: Message, text: str, update_id: int, context: AppContext, words: Translator) -> None:
    """Queue the question of a message, reply to small talk, or tell the sender why it cannot be answered."""
    if not text:
        await respond(message, **words.rich("ask-empty", example=Code(f"/ask {words('ask-example')}")).as_kwargs())
        return
    if len(text) > middlewares.MAX_QUESTION_LENGTH:
        raise Refusal(words("ask-too-long", limit=middlewares.MAX_QUESTION_LENGTH, length=len(text)))
    if (talk := detect_talk(text)) and not (
        talk.kind is TalkKind.ABOUT_CHANNEL
        and await is_introduced(text, await access.build_viewer(context.admins, get_reader(message)), context.archive)
    ):
        await _reply_to_talk(message, talk, context, words)
        return
    await queue_message_text(message, text, update_id, context, words, lang=detect_question_language(text, words.lang))


async def _reply_to_talk(message: Message, talk: Talk, context: AppContext, words: Translator) -> None:
    if message.chat.type != "private":
        if message.ephemeral_message_id is None:
            await call_best_effort(message.react([ReactionTypeEmoji(emoji=_REACTIONS.get(talk.kind, "👍"))]))
        elif talk.kind is not TalkKind.ABOUT_CHANNEL:  # it has no reactions
            await message.reply(**render_talk(talk, words.lang, ()).as_kwargs())
        return
    viewer = await access.build_viewer(context.admins, get_reader(message))
    known = await channels.load_channels(context.archive)
    reply = render_talk(talk, words.lang, viewer.select_readable(known).values())
    content = ShownContent(counted=viewer.channels if talk.kind is TalkKind.ABOUT_CHANNEL else frozenset())
    if talk.kind in _SUGGESTING_KINDS:
        await send_with_suggestion(message, reply, viewer, context, talk.lang or words.lang, content)
    else:
        await View(reply, content).send(message.answer, get_reader(message), context.admins)


async def queue_message_text(
    message: Message, text: str, update_id: int, context: AppContext, words: Translator, *, lang: str, kind: str = "ask"
) -> None:
    """Queue a text to be answered or verified in `lang`, unless this reader is over the rate limit."""
    reader = get_reader_id(message)
    asked = _make_question(message, reader, text, update_id, lang, kind)
    if not asked.private and reader > 0:  # who writes as a chat cannot be told alone
        rules = await readers.load_group_rules(context.archive, message.chat.id)
        asked = replace(asked, asker_only=asked.asker_only or rules.asker_only)
    async with context.worker.limits.hold_count(reader, message.chat.id, words):
        number = await questions.queue_question(context.archive, asked)
    if number is not None:
        logs.log_question(number, text)
        context.worker.wake()
        if not asked.private:
            await call_best_effort(message.react([ReactionTypeEmoji(emoji="👀")]))


def _make_question(
    message: Message, reader: int, text: str, update_id: int, lang: str, kind: str = "ask"
) -> questions.QuestionRow:
    assert message.bot is not None
    private, thread = message.chat.type == "private", middlewares.get_thread(message)
    return questions.QuestionRow(
        bot_id=message.bot.id, update_id=update_id, chat_id=message.chat.id, message_id=message.message_id,
        thread=thread, user_id=reader, text=text, lang=lang, asked_at=message.date, private=private, kind=kind,
        asker_only=message.ephemeral_message_id is not None, ephemeral_id=message.ephemeral_message_id,
    )  # fmt: skip


async def queue_again(again: questions.QuestionRow, context: AppContext, words: Translator, *, pressed: bool) -> None:
    """Queue a question again, within the limits. Relative dates keep their meaning from the first time."""
    async with context.worker.limits.hold_count(again.user_id, again.chat_id, words, pressed=pressed):
        await questions.queue_question(context.archive, again)
    context.worker.wake()


_MAX_PAYLOAD_LENGTH = 64
# First character of a payload: the question itself follows, or the handle it is stored under.
_TEXT_PREFIX, _STORED_PREFIX = "q", "s"
_PAYLOAD_PATTERN = re.compile(r"[qs][A-Za-z0-9_-]{1,63}")


def encode_payload(text: str) -> str | None:
    """Encode a question as a payload; None where it is too long."""
    payload = _TEXT_PREFIX + base64url.encode_payload(text)
    return payload if len(payload) <= _MAX_PAYLOAD_LENGTH else None


async def decode_payload(payload: str, archive: Archive) -> str | None:
    """Decode a payload to its question; None where it is invalid or unknown."""
    if not _PAYLOAD_PATTERN.fullmatch(payload):
        return None
    if payload[0] == _STORED_PREFIX:
        return await questions.get_linked_question(archive, payload[1:])
    try:
        text = base64url.decode_payload(payload[1:])
    except ValueError:  # invalid base64 or UTF-8
        return None
    return text if text and text == strip_control_characters(text) and encode_payload(text) == payload else None


async def create_question_link(text: str, user_id: int, bot: Bot, archive: Archive, words: Translator) -> Text:
    """Create a link to a question, and a sentence with the link and who can read what."""
    payload, reply = encode_payload(text), "link-whole"
    if payload is None:
        payload = _STORED_PREFIX + await questions.save_linked_question(archive, user_id, text, token_urlsafe(16))
        reply = "link-kept"
    url = f"https://t.me/{(await bot.me()).username}?start={payload}"
    return as_list(words(reply), make_link(url, url), sep="\n\n")
