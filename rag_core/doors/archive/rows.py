"""How a post lies in its row: Unix seconds for times, JSON text for lists."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from rag_core.types import Entity, Media, Origin, Post, PostKey

__all__ = [
    "BY_KEY",
    "POST_COLUMNS",
    "entities_json",
    "fingerprint",
    "from_seconds",
    "keys_json",
    "now",
    "origin_from",
    "post_from",
    "post_values",
    "seconds",
]

# The order of `post_values`; what the archive adds of its own (seq, stamp ...) is not among them.
POST_COLUMNS = (
    "chat_id", "message_id", "date", "edited", "version", "text", "author", "entities", "links",
    "media_kind", "media_file_name", "media_mime", "origin", "reply_to", "album", "views",
    "guarded", "origin_name", "origin_chat",
)  # fmt: skip

# Rows of a table `t` by keys as `keys_json` gives them. CROSS JOIN keeps SQLite's order: the few keys outside,
# the big table by its primary key inside.
BY_KEY = (
    "FROM json_each(?) AS k CROSS JOIN {table} AS t "
    "ON t.chat_id = json_extract(k.value, '$[0]') AND t.message_id = json_extract(k.value, '$[1]')"
)


def now() -> int:
    """The present moment in Unix seconds."""
    return int(datetime.now(UTC).timestamp())


def seconds(moment: datetime) -> int:
    """Whole Unix seconds, the grain of Telegram's times."""
    return int(moment.timestamp())


def from_seconds(value: int) -> datetime:
    """The UTC datetime of Unix seconds."""
    return datetime.fromtimestamp(value, UTC)


def fingerprint(text: str) -> bytes:
    """16 bytes that are the same for texts that differ in nothing but white space at their ends."""
    return blake2b(text.strip().encode(), digest_size=16).digest()


def keys_json(keys: Iterable[PostKey]) -> str:
    """Keys as `[[chat_id, message_id], ...]`, each once, for `json_each`."""
    return json.dumps(list(dict.fromkeys(keys)))


def entities_json(entities: tuple[Entity, ...]) -> str:
    """`[[type, offset, length], [type, offset, length, url], ...]`."""
    if not entities:
        return "[]"
    return _json([(e.type, e.offset, e.length, *((e.url,) if e.url else ())) for e in entities])


def post_values(post: Post) -> tuple[object, ...]:
    """The values of `POST_COLUMNS`."""
    media = post.media
    return (
        *post.key,
        seconds(post.date),
        seconds(post.edited) if post.edited else None,
        post.version,
        post.text,
        post.author,
        entities_json(post.entities),
        _json(post.links) if post.links else "[]",
        *((media.kind, media.file_name, media.mime) if media else (None, None, None)),
        _origin_json(post.origin) if post.origin else None,
        post.reply_to,
        post.album,
        post.views,
        post.guarded,
        *((post.origin.name, post.origin.chat_id) if post.origin else (None, None)),
    )


def post_from(row: sqlite3.Row) -> Post:
    """The post of a row of `posts`."""
    return Post(
        key=PostKey(row["chat_id"], row["message_id"]),
        date=from_seconds(row["date"]),
        text=row["text"],
        edited=from_seconds(row["edited"]) if row["edited"] is not None else None,
        author=row["author"],
        entities=tuple(Entity(*values) for values in _list(row["entities"])),
        links=tuple(_list(row["links"])),
        media=_media(row),
        origin=origin_from(row["origin"]) if row["origin"] else None,
        reply_to=row["reply_to"],
        album=row["album"],
        views=row["views"],
        version=row["version"],
        guarded=row["guarded"],
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _list(text: str) -> list[Any]:
    return json.loads(text) if text != "[]" else []


def _origin_json(origin: Origin) -> str:
    date = seconds(origin.date) if origin.date else None
    return _json([origin.name, origin.chat_id, origin.message_id, date])


def _media(row: sqlite3.Row) -> Media | None:
    kind = row["media_kind"]
    return Media(kind, row["media_file_name"], row["media_mime"]) if kind else None


def origin_from(text: str) -> Origin:
    """Where a forward comes from, out of its JSON text."""
    name, chat_id, message_id, date = json.loads(text)
    return Origin(name, chat_id, message_id, from_seconds(date) if date is not None else None)
