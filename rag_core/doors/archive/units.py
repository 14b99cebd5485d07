"""Posts as they are searched and shown: those that may be seen, each album as one.

Left out are the deleted, the suspected, members of an album that another post stands for, what is guarded
(protected, paid) unless an admin lets it in, and the posts of channels that no admin approved: whoever adds the
bot to a channel must not change what is found in others.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.albums import united
from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, from_seconds, keys_json, post_from
from rag_core.types import Post, PostKey

__all__ = ["VISIBLE", "Change", "Version", "changes", "get", "parents", "versions"]

VISIBLE = (
    "t.chat_id NOT IN (SELECT chat_id FROM channels WHERE state IN ('pending', 'removed')) "
    "AND t.deleted_at IS NULL AND t.suspected = 0 AND (t.guarded IS NULL OR EXISTS "
    "(SELECT 1 FROM channels AS c WHERE c.chat_id = t.chat_id AND c.guarded_too))"
)
_SHOWN = f"({VISIBLE}) AS shown"
_Album = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A post an index has not seen in this state; `post` is None where it is not to be found (any more)."""

    seq: int
    key: PostKey
    post: Post | None


@dataclass(frozen=True, slots=True)
class Version:
    """What a post said before, and when it was written so."""

    stamp: datetime
    text: str


async def get(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, Post]:
    """The posts among the keys that may be seen; an album under the key that stands for it."""
    wanted = list(dict.fromkeys(keys))
    rows = await archive.rows(f"SELECT t.* {BY_KEY.format(table='posts')} WHERE {VISIBLE}", (keys_json(wanted),))
    found = [post_from(row) for row in rows]
    units = await _albums(archive, {(post.key.chat_id, post.album) for post in found if post.album})
    heads = {unit.key: unit for unit, _ in units.values() if unit}
    alone = {post.key: post for post in found if not post.album}
    return alone | {key: heads[key] for key in wanted if key in heads}


async def _albums(archive: Archive, which: Iterable[_Album]) -> dict[_Album, tuple[Post | None, list[PostKey]]]:
    """(chat id, album) -> what stands for it, None where nothing may be seen, and the keys of all members."""
    asked = json.dumps(list(which))
    if asked == "[]":
        return {}
    rows = await archive.rows(
        f"SELECT t.*, {_SHOWN} FROM json_each(?) AS k CROSS JOIN posts AS t "
        "ON t.chat_id = json_extract(k.value, '$[0]') AND t.album = json_extract(k.value, '$[1]') "
        "ORDER BY t.chat_id, t.message_id",
        (asked,),
    )
    members: dict[_Album, list[sqlite3.Row]] = {}
    for row in rows:
        members.setdefault((row["chat_id"], row["album"]), []).append(row)
    return {
        album: (
            united(shown) if (shown := [post_from(row) for row in group if row["shown"]]) else None,
            [PostKey(row["chat_id"], row["message_id"]) for row in group],
        )
        for album, group in members.items()
    }


async def parents(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, str]:
    """Key of a post that replies -> text of the post it replies to, where that one may be seen."""
    rows = await archive.rows(
        "SELECT r.chat_id, r.message_id, t.text FROM json_each(?) AS k CROSS JOIN posts AS r "
        "ON r.chat_id = json_extract(k.value, '$[0]') AND r.message_id = json_extract(k.value, '$[1]') "
        f"JOIN posts AS t ON t.chat_id = r.chat_id AND t.message_id = r.reply_to WHERE {VISIBLE}",
        (keys_json(keys),),
    )
    return {PostKey(chat_id, message_id): text for chat_id, message_id, text in rows}


async def versions(archive: Archive, key: PostKey) -> list[Version]:
    """What a post said before, the newest first."""
    rows = await archive.rows(
        "SELECT stamp, text FROM post_versions WHERE chat_id = ? AND message_id = ? "
        "ORDER BY stamp DESC, update_id DESC",
        key,
    )
    return [Version(from_seconds(row["stamp"]), row["text"]) for row in rows]


async def changes(archive: Archive, after: int, limit: int = 1000) -> list[Change]:
    """What changed after the sequence number `after`, oldest change first: each post once, as it is now.

    With a post come those that show it: its album, and its replies, whose headers hold its first words.
    """
    sql = f"SELECT t.*, {_SHOWN} FROM posts AS t WHERE t.seq > ? ORDER BY t.seq LIMIT ?"
    rows = await archive.rows(sql, (after, limit))
    units = await _albums(archive, {(row["chat_id"], row["album"]) for row in rows if row["album"]})
    found: dict[PostKey, Change] = {}
    for change in [change for row in rows for change in _of_row(row, units)]:
        found.pop(change.key, None)  # where it comes again it is last, so that the last change has the last number
        found[change.key] = change
    for reply in await _replies(archive, [change.key for change in found.values()], found):
        found[reply.key] = Change(rows[-1]["seq"], reply.key, reply)
    return list(found.values())


def _of_row(row: sqlite3.Row, units: dict[_Album, tuple[Post | None, list[PostKey]]]) -> Iterator[Change]:
    if not row["album"]:
        yield Change(row["seq"], PostKey(row["chat_id"], row["message_id"]), post_from(row) if row["shown"] else None)
        return
    unit, members = units[row["chat_id"], row["album"]]
    for key in members:
        yield Change(row["seq"], key, unit if unit and unit.key == key else None)


async def _replies(archive: Archive, to: Sequence[PostKey], but: Iterable[PostKey]) -> list[Post]:
    """The posts that reply to these and are not among the others."""
    rows = await archive.rows(
        "SELECT t.chat_id, t.message_id FROM json_each(?) AS k CROSS JOIN posts AS t "
        "ON t.chat_id = json_extract(k.value, '$[0]') AND t.reply_to = json_extract(k.value, '$[1]')",
        (keys_json(to),),
    )
    known = set(but)
    keys = [key for row in rows if (key := PostKey(*row)) not in known]
    return list((await get(archive, keys)).values()) if keys else []
