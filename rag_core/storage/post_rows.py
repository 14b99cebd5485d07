"""Post rows: the columns of posts, and the encoding and decoding of rows; pure functions.

In rows, times are Unix seconds and lists are JSON text.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeVar

from rag_core.types import Entity, Media, Origin, Post, PostKey

# In the order of `encode_post`; columns that the archive adds (seq, stamp ...) are not included.
POST_COLUMNS = (
    "chat_id", "message_id", "date", "edited", "version", "text", "author", "entities", "links",
    "media_kind", "media_file_name", "media_mime", "origin", "reply_to", "album",
    "guarded", "topic", "origin_name", "origin_chat",
)  # fmt: skip

# The same of a table `t`, for a SELECT whose rows `decode_post` reads: by place, as a look-up by name takes longer than
# the rest of decoding.
POST_FIELDS = ", ".join(f"t.{name}" for name in POST_COLUMNS)

# Rows of a table `t` by keys from `encode_keys`. CROSS JOIN fixes the join order: the few keys in the outer loop, the
# big table by its primary key in the inner one.
JOIN_BY_KEY = (
    "FROM json_each(?) AS k CROSS JOIN {table} AS t "
    "ON t.chat_id = json_extract(k.value, '$[0]') AND t.message_id = json_extract(k.value, '$[1]')"
)

# Condition on a table `t` of posts: those that may be found.
VISIBLE_POSTS = (
    "t.chat_id NOT IN (SELECT chat_id FROM channels WHERE state IN ('pending', 'removed')) "
    "AND t.deleted_at IS NULL AND t.suspected = 0 AND (t.guarded IS NULL OR EXISTS "
    "(SELECT 1 FROM channels AS c WHERE c.chat_id = t.chat_id AND c.guarded_too))"
)

SECONDS_PER_WEEK = 7 * 86400


def get_unix_time() -> int:
    """Current time in Unix seconds."""
    return int(datetime.now(UTC).timestamp())


def to_unix_seconds(moment: datetime) -> int:
    """Convert a datetime to whole Unix seconds, the resolution of Telegram's times."""
    return int(moment.timestamp())


def from_unix_seconds(value: int) -> datetime:
    """Convert Unix seconds to a UTC datetime."""
    return datetime.fromtimestamp(value, UTC)


T = TypeVar("T")

# By the annotation of a field: how its column is written, and how it is read.
_COLUMN_CODECS: dict[str, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
    "bool": (int, bool),
    "datetime": (to_unix_seconds, from_unix_seconds),
    "frozenset[int]": (lambda ids: json.dumps(sorted(ids)), lambda text: frozenset(json.loads(text))),
}


def encode_row(value: object) -> dict[str, object]:
    """Encode a dataclass whose fields are columns: times as Unix seconds, sets of ids as JSON text."""
    row = {}
    for column in fields(value):  # type: ignore[arg-type]
        held, (write, _) = getattr(value, column.name), _get_codec(column)
        row[column.name] = None if held is None else write(held)
    return row


def decode_row(kind: type[T], row: sqlite3.Row, **given: object) -> T:
    """Decode a row into a dataclass whose fields are columns, except those that are `given`."""
    for column in fields(kind):  # type: ignore[arg-type]
        if column.name not in given:
            held, (_, read) = row[column.name], _get_codec(column)
            given[column.name] = None if held is None else read(held)
    return kind(**given)


def _get_codec(column: Field[Any]) -> tuple[Callable[[Any], object], Callable[[Any], object]]:
    return _COLUMN_CODECS.get(str(column.type).removesuffix(" | None"), (lambda held: held, lambda held: held))


def hash_post_text(text: str) -> bytes:
    """Hash a text to 16 bytes; white space at its ends does not count."""
    return blake2b(text.strip().encode(), digest_size=16).digest()


def encode_keys(keys: Iterable[PostKey]) -> str:
    """Encode keys as `[[chat_id, message_id], ...]`, each once, for `json_each`."""
    # without `json`, which would make an encoder for each question
    return f"[{', '.join([f'[{chat_id}, {message_id}]' for chat_id, message_id in dict.fromkeys(keys)])}]"


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
        post.topic,
        *((post.origin.name, post.origin.chat_id) if post.origin else (None, None)),
    )


def decode_post(row: sqlite3.Row) -> Post:
    """Decode a row that begins with the columns of `POST_FIELDS`."""
    (
        chat_id, message_id, date, edited, version, text, author, entities, links,
        kind, file_name, mime, origin, reply_to, album, guarded, topic, *_,
    ) = row  # fmt: skip
    return Post(
        PostKey(chat_id, message_id),
        from_unix_seconds(date),
        text,
        None if edited is None else from_unix_seconds(edited),
        author,
        () if entities == "[]" else tuple(Entity(*values) for values in json.loads(entities)),
        () if links == "[]" else tuple(json.loads(links)),
        Media(kind, file_name, mime) if kind else None,
        decode_origin(origin) if origin else None,
        reply_to,
        album,
        version,
        guarded,
        topic,
    )


def _encode_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _encode_origin(origin: Origin) -> str:
    date = to_unix_seconds(origin.date) if origin.date else None
    return _encode_json([origin.name, origin.chat_id, origin.message_id, date])


def decode_origin(text: str) -> Origin:
    """Decode the origin of a forward from its JSON text."""
    name, chat_id, message_id, date = json.loads(text)
    return Origin(name, chat_id, message_id, from_unix_seconds(date) if date is not None else None)
