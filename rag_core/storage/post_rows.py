"""Post rows: encoding, decoding, and merging of an arriving post with the stored one; pure functions.

In rows, times are Unix seconds and lists are JSON text.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeVar

from rag_core.types import PAGE, Entity, Media, MediaText, Origin, Post, PostKey

# In the order of `encode_post`; columns that the archive adds (seq, stamp ...) are not included.
POST_COLUMNS = (
    "chat_id", "message_id", "date", "edited", "version", "text", "author", "entities", "links",
    "media_kind", "media_file_name", "media_mime", "origin", "reply_to", "album",
    "guarded", "topic", "page", "origin_name", "origin_chat",
)  # fmt: skip

# The same of a table `t` and the text of its file, for a SELECT whose rows `decode_post` reads: by place, as a look-up
# by name takes longer than the rest of decoding.
POST_FIELDS = ", ".join(f"t.{name}" for name in (*POST_COLUMNS, "media_text"))

# Condition on a table `t` of posts: those with a word, their own, or one of their file or of a page they link to.
WITH_TEXT = "(t.text <> '' OR t.media_text IS NOT NULL OR t.page IS NOT NULL)"

# Rows of a table `t` by keys from `encode_keys`. CROSS JOIN fixes the join order: the few keys in the outer loop, the
# big table by its primary key in the inner one.
JOIN_BY_KEY = (
    "FROM json_each(?) AS k CROSS JOIN {table} AS t "
    "ON t.chat_id = json_extract(k.value, '$[0]') AND t.message_id = json_extract(k.value, '$[1]')"
)

# Condition on a table `t` of posts: those in channels that an admin approved.
IN_APPROVED_CHANNEL = "t.chat_id NOT IN (SELECT chat_id FROM channels WHERE state IN ('pending', 'removed'))"

# Condition on a table `t` of posts: those that may be found.
VISIBLE_POSTS = (
    f"{IN_APPROVED_CHANNEL} AND t.deleted_at IS NULL AND t.suspected = 0 AND (t.guarded IS NULL OR EXISTS "
    "(SELECT 1 FROM channels AS c WHERE c.chat_id = t.chat_id AND c.guarded_too))"
)

# For rows of `encode_version`.
SAVE_VERSION_SQL = (
    "INSERT OR IGNORE INTO post_versions (chat_id, message_id, stamp, update_id, text_hash, text, entities) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def get_unix_time() -> int:
    """Current time in Unix seconds."""
    return int(datetime.now(UTC).timestamp())


def to_unix_time(moment: datetime) -> int:
    """Convert a datetime to whole Unix seconds, the resolution of Telegram's times."""
    return int(moment.timestamp())


def from_unix_time(value: int) -> datetime:
    """Convert Unix seconds to a UTC datetime."""
    return datetime.fromtimestamp(value, UTC)


T = TypeVar("T")

_Codec = tuple[Callable[[Any], object], Callable[[Any], object]]
_AS_IT_IS: _Codec = (lambda held: held, lambda held: held)
# By the annotation of a field: how its column is written, and how it is read.
_COLUMN_CODECS: dict[str, _Codec] = {
    "bool": (int, bool),
    "datetime": (to_unix_time, from_unix_time),
    "frozenset[int]": (lambda ids: json.dumps(sorted(ids)), lambda text: frozenset(json.loads(text))),
}
_COLUMN_CODECS |= {f"{kind} | None": codec for kind, codec in _COLUMN_CODECS.items()}


def encode_row(value: object) -> dict[str, object]:
    """Encode a dataclass whose fields are columns: times as Unix seconds, sets of ids as JSON text."""
    row = {}
    for column in fields(value):  # type: ignore[arg-type]
        held, (write, _) = getattr(value, column.name), _COLUMN_CODECS.get(str(column.type), _AS_IT_IS)
        row[column.name] = None if held is None else write(held)
    return row


def decode_row(kind: type[T], row: sqlite3.Row, **given: object) -> T:
    """Decode a row into a dataclass whose fields are columns, except those that are `given`."""
    for column in fields(kind):  # type: ignore[arg-type]
        if column.name not in given:
            held, (_, read) = row[column.name], _COLUMN_CODECS.get(str(column.type), _AS_IT_IS)
            given[column.name] = None if held is None else read(held)
    return kind(**given)


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
    return encode_json([(e.type, e.offset, e.length, *((e.url,) if e.url else ())) for e in entities])


def encode_post(post: Post) -> tuple[object, ...]:
    """Encode a post as the values of `POST_COLUMNS`."""
    media, origin = post.media, post.origin
    sent = to_unix_time(origin.date) if origin and origin.date else None
    page = next((one.text for one in post.media_text if one.kind == PAGE), None)
    return (
        *post.key, to_unix_time(post.date), to_unix_time(post.edited) if post.edited else None, post.version,
        post.text, post.author, encode_entities(post.entities), encode_json(post.links) if post.links else "[]",
        *((media.kind, media.file_name, media.mime) if media else (None, None, None)),
        origin and encode_json([origin.name, origin.chat_id, origin.message_id, sent]), post.reply_to, post.album,
        post.guarded, post.topic, page, *((origin.name, origin.chat_id) if origin else (None, None)),
    )  # fmt: skip


def encode_version(post: Post, order: tuple[int, int]) -> tuple[object, ...]:
    """Encode the text of a post, written at a stamp by an update, as a row of earlier texts."""
    return (*post.key, *order, hash_post_text(post.text), post.text, encode_entities(post.entities))


def decode_post(row: sqlite3.Row) -> Post:
    """Decode a row that begins with the columns of `POST_FIELDS`; its text is its own, without that of its file."""
    (
        chat_id, message_id, date, edited, version, text, author, entities, links,
        kind, file_name, mime, origin, reply_to, album, guarded, topic, page, _, _, read, *_,
    ) = row  # fmt: skip
    return Post(
        PostKey(chat_id, message_id), from_unix_time(date), text,
        None if edited is None else from_unix_time(edited), author,
        () if entities == "[]" else tuple(Entity(*values) for values in json.loads(entities)),
        () if links == "[]" else tuple(json.loads(links)),
        Media(kind, file_name, mime) if kind else None, decode_origin(origin) if origin else None,
        reply_to, album, version, guarded, topic,
        (*decode_media_text(read), *([MediaText(PAGE, page)] if page else ())),
    )  # fmt: skip


def decode_media_text(read: str | None) -> Iterator[MediaText]:
    """Decode the texts of a file, `[[kind, text, place], ...]`; None has none."""
    return (MediaText(*values) for values in json.loads(read)) if read else iter(())


def encode_json(value: object) -> str:
    """Encode a value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode_origin(text: str) -> Origin:
    """Decode the origin of a forward from its JSON text."""
    name, chat_id, message_id, date = json.loads(text)
    return Origin(name, chat_id, message_id, from_unix_time(date) if date is not None else None)


def join_media_text(post: Post) -> Post:
    """Join the texts of a post's file to its own, as `Post.find_media_text` takes them apart."""
    if not post.media_text:
        return post
    read = "\n".join(one.text for one in post.media_text)
    return replace(post, text=f"{post.text}{_CAPTION_SEPARATOR if post.text else ''}{read}")


_CAPTION_SEPARATOR = "\n\n"
_CAPTIONED_KINDS = frozenset({"animation", "audio", "document", "live_photo", "photo", "video", "voice", "paid_media"})


def merge_album(members: Sequence[Post]) -> Post:
    """Merge the members of an album (at least one) into one post.

    Its key is that of the first member with a caption, else of the first with a file name, else of the first.
    With more than one caption, offsets into its text differ from those of the members.
    """
    ordered = sorted(members, key=lambda post: post.key)
    captioned = [post for post in ordered if post.text.strip()]
    names = {post.key: post.media.file_name for post in ordered if post.media and post.media.file_name}
    head = next(iter(captioned), None) or next((post for post in ordered if post.key in names), ordered[0])
    if len(ordered) == 1:
        return head
    entities: list[Entity] = []
    before = 0
    for post in captioned:
        entities += (replace(entity, offset=entity.offset + before) for entity in post.entities)
        before += len((post.text + _CAPTION_SEPARATOR).encode("utf-16-le", "surrogatepass")) // 2
    file_name = ", ".join(dict.fromkeys(names.values())) or None  # of all members, so that each can be searched
    return replace(
        head,
        text=_CAPTION_SEPARATOR.join(post.text for post in captioned),
        entities=tuple(entities),
        links=tuple(dict.fromkeys(link for post in ordered for link in post.links)),
        media=head.media and replace(head.media, file_name=file_name),
        edited=max((post.edited for post in ordered if post.edited), default=None),
        origin=next((post.origin for post in (head, *ordered) if post.origin), None),
        reply_to=next((post.reply_to for post in ordered if post.reply_to), None),
        version=1 + sum(post.version - 1 for post in ordered),
        media_text=tuple(one for post in ordered for one in post.media_text),
    )


@dataclass(frozen=True, slots=True)
class PostTally:
    """Counts of posts by outcome; `kept`: of the unchanged those that came without their known text."""

    new: int = 0
    edited: int = 0
    unchanged: int = 0
    skipped: int = 0
    deleted: int = 0
    kept: int = 0

    def __add__(self, other: PostTally) -> PostTally:
        return PostTally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(slots=True)
class MergeState:
    """Merge state of one stored post while arriving versions are merged into it."""

    post: Post
    order: tuple[int, int]  # stamp and update id of its newest version
    seq: int = 0
    # None for a living post; one that an admin deleted is restored by a newer version only, not by an old export.
    deleted_how: str | None = None
    suspected: bool = False
    older: set[bytes] = field(default_factory=set)  # hashes of its earlier texts
    needs_write: bool = False  # its row must be written
    needs_reindex: bool = False  # it also needs a new sequence number, so that the indexes read it again


class PostMerger:
    """Merger of a batch of arriving posts into the stored ones; the result is written in one go."""

    def __init__(self) -> None:
        self.states: dict[PostKey, MergeState] = {}  # of stored posts at first
        self.versions: list[tuple[object, ...]] = []  # to write by `SAVE_VERSION_SQL`

    def merge(self, post: Post, update_id: int) -> PostTally:
        """Merge one arriving post."""
        arrived = (to_unix_time(post.stamp), update_id)
        state = self.states.get(post.key)
        if state is None:
            self.states[post.key] = MergeState(replace(post, version=1), arrived, needs_reindex=True)
            return PostTally(new=1)
        if state.deleted_how == "admin" and arrived <= state.order:
            return PostTally(unchanged=1)
        kept = False  # its known text, unless it is a live edit of a file that took the caption away
        if state.post.text.strip() and not post.text.strip():
            live_edit = update_id > 0 and post.edited is not None and arrived > state.order
            kept = not (live_edit and post.media and post.media.kind in _CAPTIONED_KINDS)
        if kept:
            post = replace(post, text=state.post.text, entities=state.post.entities, links=state.post.links)
        replaced = self._merge(state, post, arrived)
        if state.suspected:  # the post has arrived, so it was not deleted
            state.suspected, state.needs_reindex = False, True
        if state.deleted_how:
            state.deleted_how, state.needs_reindex = None, True
            return PostTally(new=1)
        return PostTally(edited=1) if replaced else PostTally(unchanged=1, kept=int(kept))

    def _merge(self, state: MergeState, post: Post, arrived: tuple[int, int]) -> bool:
        stored = state.post
        filled = _fill_from_stored(stored, post)
        dated = replace(filled, date=stored.date, edited=stored.edited, version=stored.version)
        if post.text.strip() == stored.text.strip():
            if arrived >= state.order:
                # Update the other fields from a post with the same text, without a new version
                # Offsets of entities are valid only for exactly the text they came with.
                exact = post if post.text == stored.text else stored
                updated = replace(dated, text=stored.text, entities=exact.entities, links=exact.links)
                state.needs_write |= updated != stored or arrived != state.order
                state.needs_reindex |= _get_header_fields(updated) != _get_header_fields(stored)
                state.post, state.order = updated, arrived
            return False
        if arrived[0] == state.order[0] and arrived[1] <= state.order[1]:
            # the same version, read more or less fully: the lines of an attachment or of buttons are only in one
            if _is_beginning(stored.text, post.text):
                state.post, state.needs_reindex = dated, True
                return False
            if _is_beginning(post.text, stored.text):
                return False
        # An export with two texts of the same id and time would otherwise edit the post back and forth at each import.
        known = hash_post_text(post.text) in state.older
        if arrived > state.order or (arrived == state.order and not known):
            self._add_version(state, stored, state.order)
            state.post = replace(filled, version=state.post.version)
            state.order, state.needs_reindex = arrived, True
            return True
        if not known:
            self._add_version(state, post, arrived)
        return False

    def _add_version(self, state: MergeState, post: Post, arrived: tuple[int, int]) -> None:
        self.versions.append(encode_version(post, arrived))
        state.older.add(hash_post_text(post.text))
        state.post = replace(state.post, version=state.post.version + 1)
        state.needs_write = True

    def rows(self, seq: int) -> tuple[int, list[tuple[object, ...]]]:
        """Last sequence number, counting on from `seq`, and rows: `POST_COLUMNS`, seq, stamp, update id, text hash."""
        rows = []
        for state in self.states.values():
            if state.needs_reindex:
                seq = state.seq = seq + 1
            if state.needs_reindex or state.needs_write:
                rows.append((*encode_post(state.post), state.seq, *state.order, hash_post_text(state.post.text)))
        return seq, rows


def _is_beginning(short: str, long: str) -> bool:
    return not short.strip() or long.strip().startswith(f"{short.strip()}\n")


def _get_header_fields(post: Post) -> tuple[object, ...]:
    """The fields that are indexed beside the text, and those that decide whether the post is indexed at all."""
    name, origin = post.media and post.media.file_name, post.origin and post.origin.name
    page = [one for one in post.media_text if one.kind == PAGE]
    return name, origin, post.reply_to, post.album, post.guarded, post.topic, page


def _fill_from_stored(stored: Post, post: Post) -> Post:
    """The arriving post, completed from the stored one: an export has fewer fields than a live message."""
    known, origin = stored.origin, post.origin
    if known and origin and known.name == origin.name:  # each format has other fields of the same forward
        origin = replace(
            origin,
            chat_id=origin.chat_id or known.chat_id,
            message_id=origin.message_id or known.message_id,
            date=origin.date or known.date,
        )
    elif known and origin:
        ours, theirs = ([o.chat_id, o.message_id, o.date].count(None) for o in (known, origin))
        origin = known if ours < theirs else origin
    page = [one for one in post.media_text if one.kind == PAGE]
    return replace(
        post,
        author=post.author or stored.author,
        media=post.media or stored.media,
        origin=origin or known,
        reply_to=post.reply_to or stored.reply_to,
        album=stored.album or post.album,
        # once guarded, always guarded: an export does not have this field
        guarded=post.guarded or stored.guarded,
        topic=post.topic or stored.topic,
        # the known text of the file stays with it; the page's preview is that which arrived, if one did
        media_text=(*(one for one in stored.media_text if not page or one.kind != PAGE), *page),
    )
