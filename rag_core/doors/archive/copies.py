"""Which posts say the same: near-duplicates, found by `ingest.copies` and asked for by answers.

Each post that has words has a row with the hash of its text and the bands of its MinHash signature; two texts that
say nearly the same have a row as well. Families of copies are put together when they are asked for, out of the posts
that the asker may read: neither which posts are copies nor which is the original depends on any other channel. Rows
lag behind the posts as an index does; `seq` says which state of a post a row tells of, and what has changed since is
left out.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, from_seconds, keys_json, origin_from
from rag_core.doors.archive.units import VISIBLE
from rag_core.types import Origin, PostKey

__all__ = ["NEAR_S", "Copies", "Copy", "Mark", "Row", "akin", "begin", "known", "put", "waiting"]

# Copies are made within hours. What is nearly the same much later ("more pictures of the fire") is another event,
NEAR_S = 2 * 86_400
# and the same words about "today" tell of another day.
_TODAY_S = 36 * 3600
_BANDS = 6
_COLUMNS = tuple(f"band{n}" for n in range(_BANDS))

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the copies are: the last change taken in."""

    watermark: int


@dataclass(frozen=True, slots=True)
class Row:
    """A post in the state it had at `seq`; `written` in Unix seconds; `bands` six numbers or none.

    `exact` is the hash of its text; `today`: it speaks of days as seen from its own.
    """

    key: PostKey
    seq: int
    written: int
    today: bool
    exact: bytes
    bands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """One of a family, as it can be read now."""

    key: PostKey
    date: datetime
    origin: Origin | None
    exact: bytes


@dataclass(frozen=True, slots=True)
class Copies:
    """What is known of one post: its family, its own hash, and who of the family may be read.

    Of each channel the earliest post, and the earliest forward; the post itself may be among them. The number of a
    family means nothing beyond the one reading that gave it.
    """

    family: int
    exact: bytes
    all: tuple[Copy, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    """A readable post; `linked`: there are texts nearly the same as its own."""

    copy: Copy
    written: int
    today: bool
    linked: bool


async def begin(archive: Archive, recipe: str) -> Mark:
    """How far the copies are. Rows of another recipe are forgotten: they cannot be compared with new ones."""
    rows = await archive.rows("SELECT watermark FROM copying WHERE recipe = ?", (recipe,))
    if rows:
        return Mark(*rows[0])
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM copies")
        await connection.execute("INSERT OR REPLACE INTO copying VALUES (0, ?, 0)", (recipe,))
    return Mark(0)


async def waiting(archive: Archive, recipe: str) -> int:
    """How many changes of posts are still to be taken in."""
    sql = "SELECT count(*) FROM posts WHERE seq > coalesce((SELECT watermark FROM copying WHERE recipe = ?), 0)"
    ((number,),) = await archive.rows(sql, (recipe,))
    return int(number)


async def akin(
    archive: Archive, bands: Iterable[tuple[int, ...]], since: int, until: int
) -> dict[int, dict[bytes, PostKey]]:
    """Band -> each text that has it, with the last post of it written between two moments in Unix seconds."""
    found: dict[int, dict[bytes, PostKey]] = {}
    for column, values in zip(_COLUMNS, zip(*bands, strict=True), strict=False):
        # max() makes SQLite give the other columns of the same row
        rows = await archive.rows(
            f"SELECT {column} AS band, exact, chat_id, message_id, max(written) FROM copies "
            f"WHERE {column} IN ({_marks(values)}) AND written BETWEEN ? AND ? GROUP BY {column}, exact",
            (*values, since, until),
        )
        for row in rows:
            found.setdefault(row["band"], {})[row["exact"]] = PostKey(row["chat_id"], row["message_id"])
    return found


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


async def put(
    archive: Archive,
    before: Mark,
    after: Mark,
    rows: Sequence[Row],
    gone: Iterable[PostKey],
    alike: Iterable[tuple[bytes, bytes]] = (),
) -> bool:
    """Put rows in and take posts out, and move the mark, all at once; `gone` are all keys that rows replace too.

    `alike` are pairs of texts that say nearly the same. False, and nothing done, where somebody else has moved the
    mark meanwhile.
    """
    columns = ("chat_id", "message_id", "seq", "written", "today", "exact", *_COLUMNS)
    none = (None,) * _BANDS
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "UPDATE copying SET watermark = ? WHERE watermark = ?", (after.watermark, before.watermark)
        )
        if not cursor.rowcount:
            return False
        await connection.executemany("DELETE FROM copies WHERE chat_id = ? AND message_id = ?", gone)
        await connection.executemany(
            f"INSERT INTO copies ({', '.join(columns)}) VALUES ({_marks(columns)})",
            [(*row.key, row.seq, row.written, row.today, row.exact, *(row.bands or none)) for row in rows],
        )
        await connection.executemany(  # a text that went with this batch leaves nothing behind
            "INSERT OR IGNORE INTO near_texts SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM copies WHERE exact = ?1) "
            "AND EXISTS (SELECT 1 FROM copies WHERE exact = ?2)",
            [pair for one, other in alike for pair in ((one, other), (other, one))],
        )
    return True


async def known(archive: Archive, keys: Iterable[PostKey], channels: Collection[int]) -> dict[PostKey, Copies]:
    """What is known of these posts; nothing of another channel than these is given, counted, or decides anything.

    Posts that are new or changed since the copies were looked for are not known. Raises ArchiveUnavailable.
    """
    wanted = set(keys)
    held = await _held(archive, wanted, channels)
    texts = sorted({one.copy.exact for one in held if one.linked})
    linked = f"SELECT one, other FROM near_texts WHERE one IN ({_marks(texts)})"
    pairs = [(row[0], row[1]) for row in await archive.rows(linked, tuple(texts))] if texts else []
    found: dict[PostKey, Copies] = {}
    for number, family in enumerate(_families(held, pairs)):
        members = _earliest(family)
        for one in family:
            if one.key in wanted:
                found[one.key] = Copies(number, one.exact, members)
    return found


async def _held(archive: Archive, keys: Collection[PostKey], channels: Collection[int]) -> list[_Held]:
    """The readable posts with the texts of these posts, and with texts that are nearly the same, and so on.

    Of a text that is the same on every day and has no relatives only the earliest of each channel, and these posts.
    """
    readable = json.dumps([*channels])
    # min() makes SQLite give the other columns of the same row; of the same second the least id
    rows = await archive.rows(
        "WITH RECURSIVE asked(chat_id, message_id, exact) AS MATERIALIZED ("
        f"SELECT t.chat_id, t.message_id, t.exact {BY_KEY.format(table='copies')}"
        "), texts(exact) AS (SELECT exact FROM asked UNION "
        "SELECT n.other FROM texts CROSS JOIN near_texts AS n ON n.one = texts.exact WHERE EXISTS "
        "(SELECT 1 FROM copies AS c WHERE c.exact = n.other AND c.chat_id IN (SELECT value FROM json_each(?2)))) "
        "SELECT c.exact, c.written, c.today, t.chat_id, t.message_id, t.date, t.origin, "
        "min((t.date << 32) + t.message_id), "
        "EXISTS (SELECT 1 FROM near_texts AS n WHERE n.one = c.exact) AS linked "
        "FROM texts CROSS JOIN copies AS c ON c.exact = texts.exact "
        "CROSS JOIN posts AS t ON t.chat_id = c.chat_id AND t.message_id = c.message_id AND t.seq <= c.seq "
        f"WHERE c.chat_id IN (SELECT value FROM json_each(?2)) AND {VISIBLE} "
        "GROUP BY c.exact, c.chat_id, t.origin IS NULL, "
        "CASE WHEN c.today OR linked OR EXISTS (SELECT 1 FROM asked AS a WHERE a.chat_id = c.chat_id "
        "AND a.message_id = c.message_id) THEN c.id END",
        (keys_json(keys), readable),
    )
    return [
        _Held(
            Copy(
                PostKey(row["chat_id"], row["message_id"]),
                from_seconds(row["date"]),
                origin_from(row["origin"]) if row["origin"] else None,
                row["exact"],
            ),
            row["written"],
            bool(row["today"]),
            bool(row["linked"]),
        )
        for row in rows
    ]


def _families(held: Sequence[_Held], pairs: Sequence[tuple[bytes, bytes]]) -> list[list[Copy]]:
    """The connected components of posts whose texts are the same, or nearly the same at nearly the same time."""
    held = sorted(held, key=lambda one: (one.written, one.copy.key))
    texts: dict[bytes, list[_Held]] = {}
    for one in held:
        texts.setdefault(one.copy.exact, []).append(one)
    near = {(one, other) for one, other in pairs if one in texts and other in texts}
    posts = _Components[PostKey]()
    for text in texts.values():
        for one in text:
            posts.join(one.copy.key, one.copy.key if one.today else text[0].copy.key)
    for some, others in near:
        if not texts[some][0].today:  # then all posts of a text are one family: one of them near in time is enough
            moments = [one.written for one in texts[others]]
            for one in texts[some]:
                at = bisect_left(moments, one.written - NEAR_S)
                if at < len(moments) and moments[at] <= one.written + NEAR_S:
                    posts.join(one.copy.key, texts[others][at].copy.key)
    _join_days([one for one in held if one.today], near, posts)
    families: dict[PostKey, list[Copy]] = {}
    for one in held:
        families.setdefault(posts.root(one.copy.key), []).append(one.copy)
    return list(families.values())


def _join_days(held: Sequence[_Held], near: Collection[tuple[bytes, bytes]], posts: _Components[PostKey]) -> None:
    """Join posts that speak of "today", which come in the order of their times, where they are of one day."""
    kinds, days = _Components[bytes](), dict[bytes, dict[bytes, _Held]]()
    for some, others in near:
        kinds.join(some, others)
    for one in held:
        day = days.setdefault(kinds.root(one.copy.exact), {})
        if day and one.written - next(iter(day.values())).written > _TODAY_S:
            day.clear()
        for text, other in day.items():
            if text == one.copy.exact or (text, one.copy.exact) in near:
                posts.join(one.copy.key, other.copy.key)
        day.setdefault(one.copy.exact, one)


def _earliest(family: Iterable[Copy]) -> tuple[Copy, ...]:
    """Of each channel the earliest post and the earliest forward, in the order of their dates."""
    first: dict[tuple[int, bool], Copy] = {}
    for one in sorted(family, key=lambda one: (one.date, one.key)):
        first.setdefault((one.key.chat_id, one.origin is None), one)
    return tuple(first.values())


class _Components(Generic[T]):
    """Disjoint sets (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[T, T] = {}

    def root(self, one: T) -> T:
        """What stands for the set of a thing; one that was never joined is a set of its own."""
        while (parent := self._parents.setdefault(one, one)) != one:
            self._parents[one] = self._parents[parent]
            one = parent
        return one

    def join(self, one: T, other: T) -> None:
        """Make the sets of two things one."""
        self._parents[self.root(other)] = self.root(one)
