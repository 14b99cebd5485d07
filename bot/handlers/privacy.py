"""Handlers of /privacy, /mydata and /forget: what is stored of a reader is explained, exported, erased.

/mydata sends everything as one JSON document, in private only. /forget erases after a confirmation, which is valid
for ten minutes; in a group it erases what is stored from that group.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import astuple
from datetime import UTC, datetime
from sqlite3 import Row
from typing import Any

from aiogram import Router
from aiogram.filters.callback_data import CallbackData
from aiogram.types import BufferedInputFile, CallbackQuery, Message
from aiogram.utils.formatting import Text

from bot import access
from bot.access import Reader, Refusal, get_reader_id
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import GROUPS, PRIVATE, ChatCommand
from bot.settings import Settings
from bot.stored_answer import JsonObject, parse_stored_answer
from bot.telegram.recheck import collect_content_of_posts, recheck_before_sending
from bot.views.keyboards import build_keyboard, redraw_message
from rag_core.storage import channels, visible_posts
from rag_core.storage.readers import (
    UserDataCounts,
    count_user_data,
    erase_user_data,
    list_user_questions,
    list_user_records,
    list_waiting_chats,
    load_channel_sets,
)
from rag_core.types import Channel, Post, PostKey, format_channel_post_link

router = Router()


class _DetailsCallback(CallbackData, prefix="pv"):
    """Callback data of the button below /privacy."""


def _has_server(settings: Settings) -> str:
    return "yes" if settings.llm.url or settings.qdrant.url else "no"


@router.message(ChatCommand("privacy", addressed_only=True))
async def _on_privacy(message: Message, settings: Settings, words: Translator) -> None:
    brief = [
        words("privacy-brief", days=settings.data.keep_questions_days),
        words("privacy-where", server=_has_server(settings)),
        words("privacy-do"),
    ]
    details = build_keyboard([(words("button-details"), _DetailsCallback())])
    await message.answer("\n\n".join(brief), reply_markup=details)


@router.callback_query(_DetailsCallback.filter())
async def _press_details(pressed: CallbackQuery, settings: Settings, words: Translator) -> None:
    data = settings.data
    kept = [
        words("privacy-what"),
        words("privacy-questions", days=data.keep_questions_days),
        words("privacy-votes"),
        words("privacy-updates"),
        *([words("privacy-talks", minutes=settings.memory.minutes)] if settings.memory.enabled else []),
        words("privacy-watches"),
        words("privacy-digests"),
        words("privacy-memberships"),
        words("privacy-memory"),
        words("privacy-unanswered"),
    ]
    more = [
        words("privacy-backups", count=data.backups),
        words("privacy-not"),
        words("privacy-log", texts="yes" if settings.log.texts else "no"),
        words("privacy-where", server=_has_server(settings)),
        words("privacy-do"),
    ]
    await redraw_message(pressed, Text("\n\n".join(["\n".join(kept), *more])), None)


@router.message(ChatCommand("mydata", chats=PRIVATE))
async def _on_mydata(message: Message, context: AppContext, words: Translator) -> None:
    with ExitStack() as checks:
        document = json.dumps(
            await _collect_user_data(get_reader_id(message), context, checks), ensure_ascii=False, indent=2
        )
        file = BufferedInputFile(document.encode(), "citegram-mydata.json")
        await message.answer_document(file, caption=words("mydata-here"))


async def _collect_user_data(user_id: int, context: AppContext, checks: ExitStack) -> JsonObject:
    """Collect all data of a user; `checks` repeats the access checks of shown posts before sending."""
    archive, known = context.archive, await channels.load_channels(context.archive)
    rows = list(await list_user_questions(archive, user_id))
    cited: dict[Reader, set[PostKey]] = {}
    for row in rows:
        quotes = parse_stored_answer(row["answer"]).quotes if row["answer"] else ()
        here = Reader(user_id, row["chat_id"], bool(row["private"]))
        cited.setdefault(here, set()).update(place.key for place in quotes)
    readable: dict[int, dict[PostKey, Post]] = {}
    for here, keys in cited.items():
        viewer = await access.build_viewer(context.admins, here)
        stored_posts = await visible_posts.fetch_posts(archive, [key for key in keys if key.chat_id in viewer.channels])
        readable[here.chat_id] = stored_posts
        content = collect_content_of_posts(stored_posts.values())
        checks.enter_context(recheck_before_sending(content, here, context.admins))
    questions = [_export_question(row, readable[row["chat_id"]], known) for row in rows]
    stored = await list_user_records(archive, user_id)
    records = {kind: [_with_times(one) for one in rows] for kind, rows in stored.items()}
    votes = [one | {"good": bool(one["good"])} for one in records["votes"]]
    watching = [one | {"paused": bool(one["paused"])} for one in records["watches"]]
    return {"user_id": user_id, "written_at": _format_timestamp(int(datetime.now(UTC).timestamp())),
            "questions": questions, "votes": votes, "links": records["links"], "remembered": records["turns"],
            "sets": sorted(await load_channel_sets(archive, user_id)),
            "watches": watching, "digests": records["digests"], "memberships": records["memberships"]}  # fmt: skip


def _export_question(row: Row, readable: Mapping[PostKey, Post], known: Mapping[int, Channel]) -> JsonObject:
    stored_answer = parse_stored_answer(row["answer"]) if row["answer"] else None
    sentences: list[JsonObject] = []
    for sentence in stored_answer.sentences if stored_answer else ():
        if any(key not in readable for key, _, _ in sentence.places):
            sentences.append({"closed": True})  # its words are those of posts that this reader may no longer see
            continue
        places = [
            {"post": format_channel_post_link(key, known[key.chat_id]), "start": start, "end": end}
            for key, start, end in sentence.places
        ]
        sentences.append({"said": sentence.around, "cited": places})
    return {
        "text": row["text"], "kind": row["kind"], "lang": row["lang"], "asked_at": _format_timestamp(row["asked_at"]),
        "answered_at": _format_timestamp(row["finished_at"]), "chat_id": row["chat_id"], "thread": row["thread"],
        "message_id": row["message_id"], "mode": row["mode"], "state": row["state"], "answer": sentences,
    }  # fmt: skip


def _with_times(row: Mapping[str, Any]) -> JsonObject:
    values = dict(row).items()
    return {key: _format_timestamp(value) if key.endswith("_at") else value for key, value in values}


def _format_timestamp(seconds: object) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if isinstance(seconds, int) else None


@router.message(ChatCommand("mydata", chats=GROUPS, addressed_only=True))
async def _on_mydata_in_group(message: Message, words: Translator) -> None:
    await message.reply(words("mydata-private"))


# Time for stopped answers to be closed.
_STOP_TIMEOUT_SECONDS = 5.0
_CONFIRMATION_SECONDS = 600  # an older confirmation no longer counts


class ForgetCallback(CallbackData, prefix="fg"):
    """Callback data of /forget: whether to erase, whose data, and when it was asked (Unix seconds)."""

    erase: bool
    user_id: int
    asked: int


@router.message(ChatCommand("forget", addressed_only=True))
async def _on_forget(message: Message, context: AppContext, words: Translator) -> None:
    private = message.chat.type == "private"
    if message.sender_chat or message.from_user is None:
        raise Refusal(words("forget-masked"))
    user_id = message.from_user.id
    found = await count_user_data(context.archive, user_id, None if private else message.chat.id)
    if found.is_empty:
        raise Refusal(words("forget-nothing" if private else "forget-nothing-here"))
    asks = words("forget-ask") if private else words("forget-ask-here")
    yes, no = (ForgetCallback(erase=erase, user_id=user_id, asked=int(time.time())) for erase in (True, False))
    buttons = build_keyboard([(words("forget-yes"), yes, "danger"), (words("forget-no"), no)])
    await message.reply("\n".join([asks, *_list_counts(found, words)]), reply_markup=buttons)


@router.callback_query(ForgetCallback.filter())
async def _press_forget(
    pressed: CallbackQuery, callback_data: ForgetCallback, context: AppContext, words: Translator
) -> None:
    """Erase the presser's own data only: anybody can press a visible button, and callback data can be forged."""
    if callback_data.user_id != pressed.from_user.id:
        raise Refusal(words("forget-not-yours"))
    message, now = pressed.message, time.time()
    in_time = now - _CONFIRMATION_SECONDS <= callback_data.asked <= now + 1
    # Without buttons it was pressed before.
    if not isinstance(message, Message) or not in_time or not message.reply_markup:
        raise Refusal(words("forget-late"))
    text = words("forget-kept")
    if callback_data.erase:
        text = await _erase_user_data(pressed.from_user.id, message, context, words)
    await redraw_message(pressed, Text(text), None)


async def _erase_user_data(user_id: int, message: Message, context: AppContext, words: Translator) -> str:
    private = message.chat.type == "private"
    where = None if private else message.chat.id
    # Stop the user's questions and wait until they are closed: an answer under way would be stored again
    for chat_id in await list_waiting_chats(context.archive, user_id, where):
        await context.queue.halt(chat_id, user_id)
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
            while await list_waiting_chats(context.archive, user_id, where):  # noqa: ASYNC110 - the archive has no event
                await asyncio.sleep(0.05)
    found = await erase_user_data(context.archive, user_id, where)
    context.rag.caches.forget()
    context.queue.forget_answers()
    context.admins.members.forget_user(user_id)
    if found.is_empty:
        return words("forget-nothing" if private else "forget-nothing-here")
    rest = words("forget-rest", backups=context.settings.data.backups)
    return "\n".join([words("forget-done"), *_list_counts(found, words), "", rest])


def _list_counts(found: UserDataCounts, words: Translator) -> Iterator[str]:
    names = ("forget-questions", "forget-pending", "forget-votes", "forget-links", "forget-unread", "forget-talks",
             "forget-sets", "forget-watches", "forget-digests", "forget-memberships")  # fmt: skip
    for name, count in zip(names, astuple(found), strict=True):
        if count:
            yield f"• {words(name, count=count)}"
