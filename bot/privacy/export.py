"""/mydata: all that is kept of whoever asks, as one JSON document, in private."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from sqlite3 import Row
from typing import Any

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import BufferedInputFile, Message

from bot import access, kept
from bot.access import reader_of
from bot.desk import Desk
from bot.recheck import Reader, rechecked, take_basis
from bot.words import Words
from rag_core.doors.archive import channels, posts
from rag_core.doors.archive.mine import my_links, my_questions, my_talks, my_votes
from rag_core.types import Channel, PostKey, post_link

__all__ = ["routes"]

Json = dict[str, Any]


async def _on_mydata(message: Message, desk: Desk, words: Words) -> None:
    with ExitStack() as checks:
        document = json.dumps(await _all_of(reader_of(message), desk, checks), ensure_ascii=False, indent=2)
        file = BufferedInputFile(document.encode(), "citegram-mydata.json")
        await message.answer_document(file, caption=words("mydata-here"))


async def _all_of(user_id: int, desk: Desk, checks: ExitStack) -> Json:
    """All of it; what it shows of posts is checked again before it is sent, by `checks`."""
    archive, known = desk.archive, await channels.known(desk.archive)
    rows = list(await my_questions(archive, user_id))
    cited: dict[Reader, list[PostKey]] = {}
    for row in rows:
        keys = [one.key for one in kept.read(row["answer"]).cited] if row["answer"] else []
        cited.setdefault(Reader(user_id, row["chat_id"], bool(row["private"])), []).extend(keys)
    open_in: dict[int, frozenset[int]] = {}
    for here, keys in cited.items():
        viewer = await access.viewer_for(
            archive, desk.admins, user_id=user_id, chat_id=here.chat_id, private=here.private
        )
        open_in[here.chat_id] = viewer.channels
        checks.enter_context(rechecked(await take_basis(keys, viewer, archive), here, archive, desk.admins))
    questions = [await _question(row, open_in[row["chat_id"]], known, desk) for row in rows]
    votes = [dict(vote) | {"good": bool(vote["good"]), "voted_at": _when(vote["voted_at"])}
             for vote in await my_votes(archive, user_id)]  # fmt: skip
    links = [dict(link) | {"made_at": _when(link["made_at"])} for link in await my_links(archive, user_id)]
    talks = [dict(talk) | {"asked_at": _when(talk["asked_at"])} for talk in await my_talks(archive, user_id)]
    return {"user_id": user_id, "written_at": _when(int(datetime.now(UTC).timestamp())),
            "questions": questions, "votes": votes, "links": links, "remembered": talks}  # fmt: skip


async def _question(row: Row, open_here: frozenset[int], known: Mapping[int, Channel], desk: Desk) -> Json:
    given = kept.read(row["answer"]) if row["answer"] else None
    said: list[Json] = []
    for sentence in given.sentences if given else ():
        keys = dict.fromkeys(key for key, _, _ in sentence.places)
        stored = await posts.get(desk.archive, list(keys))
        if any(key.chat_id not in open_here or key not in stored for key in keys):
            said.append({"closed": True})  # its words are those of posts that this reader may not see any more
            continue
        places = [
            {"post": post_link(key, known[key.chat_id].username), "start": start, "end": end}
            for key, start, end in sentence.places
        ]
        said.append({"said": sentence.around, "cited": places})
    return {
        "text": row["text"], "kind": row["kind"], "lang": row["lang"], "asked_at": _when(row["asked_at"]),
        "answered_at": _when(row["finished_at"]), "chat_id": row["chat_id"], "thread": row["thread"],
        "message_id": row["message_id"], "mode": row["mode"], "state": row["state"], "answer": said,
    }  # fmt: skip


def _when(seconds: object) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if isinstance(seconds, int) else None


async def _elsewhere(message: Message, command: CommandObject, words: Words) -> None:
    if command.mention:
        await message.reply(words("mydata-private", mydata="/mydata"), allow_sending_without_reply=True)


def routes() -> Router:
    """Handlers of /mydata."""
    router = Router(name="export")
    router.message.register(_on_mydata, Command("mydata", ignore_case=True), F.chat.type == "private")
    router.message.register(_elsewhere, Command("mydata", ignore_case=True), F.chat.type.in_({"group", "supergroup"}))
    return router
