"""Handlers of /privacy, /mydata and /forget: what is stored of a reader is explained, exported, erased.

/mydata sends everything as one JSON document, in private only. /forget erases after a confirmation, which is valid
for ten minutes; in a group it erases what is stored from that group.
"""

import asyncio
import json
import time
from collections import defaultdict
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from aiogram import Router
from aiogram.types import BufferedInputFile, CallbackQuery, Message
from aiogram.utils.formatting import Text

from bot import access
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import TO_ASKER, ChatCommand
from bot.settings import Settings
from bot.stored_answer import JsonObject, parse_stored_answer
from bot.telegram.recheck import collect_content_of_posts, recheck_before_sending
from bot.telegram.session import respond
from bot.views.keyboards import Press, build_keyboard, make_row, on_press, redraw_message
from rag_core.storage import channels, readers, visible_posts
from rag_core.types import Post, PostKey, format_channel_post_link

router = Router()


def _has_server(settings: Settings) -> str:
    return "yes" if settings.llm.url or settings.qdrant.url else "no"


@router.message(ChatCommand("privacy", addressed_only=True), flags=TO_ASKER)
async def _on_privacy(message: Message, settings: Settings, words: Translator) -> None:
    brief = words("privacy-brief", days=settings.data.keep_questions_days)
    text = "\n\n".join([brief, words("privacy-where", server=_has_server(settings)), words("privacy-do")])
    await message.answer(text, reply_markup=build_keyboard(make_row(words("button-details"), "privacy")))


@router.callback_query(on_press("privacy"))
async def _press_details(pressed: CallbackQuery, settings: Settings, words: Translator) -> None:
    talks = [words("privacy-talks", minutes=settings.memory.minutes)] if settings.memory.enabled else []
    kept = [
        words("privacy-what"),
        words("privacy-questions", days=settings.data.keep_questions_days),
        *map(words, ("privacy-alone", "privacy-votes", "privacy-updates")),
        *talks,
        *map(words, ("privacy-watches", "privacy-digests", "privacy-memberships", "privacy-programs")),
        *map(words, ("privacy-memory", "privacy-unanswered")),
    ]
    more = [
        words("privacy-backups", count=settings.data.backups),
        words("privacy-not"),
        words("privacy-log", texts="yes" if settings.log.texts else "no"),
        words("privacy-where", server=_has_server(settings)),
        words("privacy-do"),
    ]
    await redraw_message(pressed, Text("\n\n".join(["\n".join(kept), *more])))


@router.message(ChatCommand("mydata", addressed_only=True), flags=TO_ASKER)
async def _on_mydata(message: Message, context: AppContext, words: Translator) -> None:
    """Send all data of a user; access to the posts of answers is checked now, and again before sending."""
    if message.chat.type != "private":
        raise access.Refusal(words("mydata-private"))
    archive, user_id = context.archive, access.get_reader_id(message)
    known = await channels.load_channels(archive)
    cited, answered = defaultdict[access.Reader, set[PostKey]](set), []
    for row in await readers.list_user_questions(archive, user_id):
        here = access.Reader(user_id, row["chat_id"], bool(row["private"]), bool(row["asker_only"]))
        given = parse_stored_answer(row["answer"] or {})
        answered.append((row, here, given))
        cited[here].update(place.key for place in given.quotes)
    with ExitStack() as checks:
        readable: dict[access.Reader, dict[PostKey, Post]] = {}
        for here, keys in cited.items():
            viewer = await access.build_viewer(context.admins, here)
            allowed = [key for key in keys if key.chat_id in viewer.channels]
            readable[here] = await visible_posts.fetch_posts(archive, allowed)
            content = collect_content_of_posts(readable[here].values())
            checks.enter_context(recheck_before_sending(content, here, context.admins))
        questions = []
        for row, here, given in answered:
            sentences: list[JsonObject] = []
            for sentence in given.sentences:
                if any(place.key not in readable[here] for place in sentence.citations):
                    sentences.append({"closed": True})  # its words are those of posts that this reader no longer sees
                    continue
                places = [
                    {"post": format_channel_post_link(one.key, known[one.chat_id]), "start": one.start, "end": one.end}
                    for one in sentence.citations
                ]
                sentences.append({"said": sentence.around, "cited": places})
            columns = ("text", "kind", "lang", "chat_id", "thread", "message_id", "mode", "state")
            times = {"asked_at": row["asked_at"], "answered_at": row["finished_at"]}
            asked = {column: row[column] for column in columns} | {k: _format_timestamp(v) for k, v in times.items()}
            questions.append(asked | {"answer": sentences})
        records = {
            kind: [{k: _format_timestamp(v) if k.endswith("_at") else v for k, v in one.items()} for one in stored]
            for kind, stored in (await readers.list_user_records(archive, user_id)).items()
        }
        content_of_file = {
            "user_id": user_id, "written_at": _format_timestamp(int(time.time())), "questions": questions,
            "votes": [one | {"good": bool(one["good"])} for one in records["votes"]],
            "links": records["links"], "remembered": records["turns"],
            "sets": sorted(await readers.load_channel_sets(archive, user_id)),
            "settings": records["choices"] + records["modes"],
            "watches": [one | {"paused": bool(one["paused"])} for one in records["watches"]],
            "digests": records["digests"], "memberships": records["memberships"], "tokens": records["tokens"],
        }  # fmt: skip
        document = json.dumps(content_of_file, ensure_ascii=False, indent=2).encode()
        await message.answer_document(BufferedInputFile(document, "citegram-mydata.json"), caption=words("mydata-here"))


def _format_timestamp(seconds: object) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if isinstance(seconds, int) else None


# Time for stopped answers to be closed.
_STOP_TIMEOUT_SECONDS = 5.0
_CONFIRMATION_SECONDS = 600  # an older confirmation no longer counts


@router.message(ChatCommand("forget", addressed_only=True), flags=TO_ASKER)
async def _on_forget(message: Message, context: AppContext, words: Translator) -> None:
    private = message.chat.type == "private"
    if message.sender_chat or message.from_user is None:
        raise access.Refusal(words("forget-masked"))
    user_id = message.from_user.id
    found = await readers.count_user_data(context.archive, user_id, None if private else message.chat.id)
    if not any(found.values()):
        raise access.Refusal(words("forget-nothing" if private else "forget-nothing-here"))
    asks = words("forget-ask") if private else words("forget-ask-here")
    yes, no = (Press(to=to, token=str(int(time.time())), number=user_id) for to in ("forget", "forget-not"))
    buttons = build_keyboard([(words("forget-yes"), yes, "danger"), (words("button-keep"), no)])
    await respond(message, "\n".join([asks, *_list_counts(found, words)]), reply_markup=buttons)


@router.callback_query(on_press("forget", "forget-not"))
async def _press_forget(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    """Erase the presser's own data only: anybody can press a visible button, and callback data can be forged."""
    if callback_data.number != pressed.from_user.id:
        raise access.Refusal(words("forget-not-yours"))
    message, asked = pressed.message, callback_data.token
    in_time = asked.isdecimal() and -1 <= time.time() - int(asked) <= _CONFIRMATION_SECONDS
    # Without buttons it was pressed before.
    if not isinstance(message, Message) or not in_time or not message.reply_markup:
        raise access.Refusal(words("forget-late"))
    text = words("forget-kept")
    if callback_data.to == "forget":
        user_id, private = pressed.from_user.id, message.chat.type == "private"
        where = None if private else message.chat.id
        # Stop the user's questions and wait until they are closed: an answer under way would be stored again
        for chat_id in await readers.list_waiting_chats(context.archive, user_id, where):
            await context.worker.halt(chat_id, user_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                while await readers.list_waiting_chats(context.archive, user_id, where):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.05)
        found = await readers.erase_user_data(context.archive, user_id, where)
        await context.rag.forget_questions()

        context.admins.members.forget_user(user_id)
        context.worker.suggestions.forget_offered(user_id)
        rest = words("forget-rest", backups=context.settings.data.backups)
        text = "\n".join([words("forget-done"), *_list_counts(found, words), "", rest])
        if not any(found.values()):
            text = words("forget-nothing" if private else "forget-nothing-here")
    await redraw_message(pressed, Text(text))


def _list_counts(found: dict[str, int], words: Translator) -> list[str]:
    names = ("forget-questions", "forget-pending", "forget-votes", "forget-links", "forget-unread", "forget-talks",
             "forget-sets", "forget-choices", "forget-modes", "forget-watches", "forget-digests", "forget-memberships",
             "forget-tokens")  # fmt: skip
    counts = ((name, found[name.removeprefix("forget-")]) for name in names)
    return [f"• {words(name, count=count)}" for name, count in counts if count]
