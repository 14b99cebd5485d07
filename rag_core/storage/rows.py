"""Row encoding of posts: Unix seconds for times, JSON text for lists."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from rag_core.types import Entity, Media, Origin, Post, PostKey

# In the order of `encode_post`; columns that the archive adds (seq, stamp ...) are not included.
POST_COLUMNS = (
    "chat_id", "message_id", "date", "edited", "version", "text", "author", "entities", "links",
    "media_kind", "media_file_name", "media_mime", "origin", "reply_to", "album",
    "guarded", "origin_name", "origin_chat",
)  # fmt: skip

# Rows of a table `t` by keys from `encode_keys`. CROSS JOIN fixes the join order: the few keys in the outer loop, the
# big table by its primary key in the inner one.
JOIN_BY_KEY = (
    "FROM json_each(?) AS k CROSS JOIN {table} AS t "
    "ON t.chat_id = json_extract(k.value, '$[0]') AND t.message_id = json_extract(k.value, '$[1]')"
)


def get_unix_time() -> int:
    """Current time in Unix seconds."""
    return int(datetime.now(UTC).timestamp())


def to_unix_seconds(moment: datetime) -> int:
    """Convert a datetime to whole Unix seconds, the resolution of Telegram's times."""
    return int(moment.timestamp())


def from_unix_seconds(value: int) -> datetime:
    """Convert Unix seconds to a UTC datetime."""
    return datetime.fromtimestamp(value, UTC)


def hash_post_text(text: str) -> bytes:
    """Hash a text to 16 bytes; white space at its ends does not count."""
    return blake2b(text.strip().encode(), digest_size=16).digest()


def encode_keys(keys: Iterable[PostKey]) -> str:
    """Encode keys as `[[chat_id, message_id], ...]`, each once, for `json_each`."""
    return json.dumps(list(dict.fromkeys(keys)))


def encode_entities(entities: tuple[Entity, ...]) -> str:
    """Encode entities as `[[type, offset, length], [type, offset, length, url], ...]`."""
    if not entities:
        return "[]"
    return _encode_json([(e.type, e.offset, e.length, *((e.url,) if e.url else ())) for e in entities])


def encode_post(post: Post) -> tuple[object, ...]:
    """Encode a post as the values of `POST_COLUMNS`."""
    media = post.media
    return (
        *post.key,
        to_unix_seconds(post.date),
        to_unix_seconds(post.edited) if post.edited else None,
        post.version,
        post.text,
        post.author,
        encode_entities(post.entities),
        _encode_json(post.links) if post.links else "[]",
        *((media.kind, media.file_name, media.mime) if media else (None, None, None)),
        _encode_origin(post.origin) if post.origin else None,
        post.reply_to,
        post.album,
        post.guarded,
        *((post.origin.name, post.origin.chat_id) if post.origin else (None, None)),
    )


def decode_post(row: sqlite3.Row) -> Post:
    """Decode a row of `posts`."""
    return Post(
        key=PostKey(row["chat_id"], row["message_id"]),
        date=from_unix_seconds(row["date"]),
        text=row["text"],
        edited=from_unix_seconds(row["edited"]) if row["edited"] is not None else None,
        author=row["author"],
        entities=tuple(Entity(*values) for values in _decode_list(row["entities"])),
        links=tuple(_decode_list(row["links"])),
        media=_decode_media(row),
        origin=decode_origin(row["origin"]) if row["origin"] else None,
        reply_to=row["reply_to"],
        album=row["album"],
        version=row["version"],
        guarded=row["guarded"],
    )


def _encode_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _decode_list(text: str) -> list[Any]:
    return json.loads(text) if text != "[]" else []


def _encode_origin(origin: Origin) -> str:
    date = to_unix_seconds(origin.date) if origin.date else None
    return _encode_json([origin.name, origin.chat_id, origin.message_id, date])


def _decode_media(row: sqlite3.Row) -> Media | None:
    kind = row["media_kind"]
    return Media(kind, row["media_file_name"], row["media_mime"]) if kind else None


def decode_origin(text: str) -> Origin:
    """Decode the origin of a forward from its JSON text."""
    name, chat_id, message_id, date = json.loads(text)
    return Origin(name, chat_id, message_id, from_unix_seconds(date) if date is not None else None)
