"""Near-duplicates in the archive: text hashes, MinHash bands, and families of copies; found by `ingest.copies`.

Each post that has words has a row with the hash of its text and the bands of its MinHash signature; a pair of texts
that are nearly the same has a row as well. Families of copies are the connected components of the posts that the
asker may read, built when they are asked for: neither which posts are copies nor which is the original depends on any
other channel. Rows lag behind the posts as an index does; `seq` says which state of a post a row describes, and posts
that have changed since are left out.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import JOIN_BY_KEY, VISIBLE_POSTS, decode_origin, encode_keys, from_unix_time
from rag_core.types import Origin, PostKey

# Copies are made within hours. A similar post much later ("more pictures of the fire") is about another event.
NEAR_COPY_MAX_S = 2 * 86_400
# The same words about "today" a day and a half later are about another day.
_SAME_DAY_MAX_S = 36 * 3600
_BAND_COLUMNS = tuple(f"band{n}" for n in range(6))


@dataclass(frozen=True, slots=True)
class CopyRow:
    """Row of `copies`: a post at `seq`, when it was written, if it has relative dates, its hash and bands."""

    key: PostKey
    seq: int
    written: int
    today: bool
    exact: bytes
    bands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PostCopy:
    """One post of a family of copies that the asker may read; `linked`: there are near-duplicates of its text."""

    key: PostKey
    date: datetime
    origin: Origin | None
    exact: bytes
    written: int = 0
    today: bool = False
    linked: bool = False


@dataclass(frozen=True, slots=True)
class PostCopies:
    """Copies of a post: its family's number in this result, its hash, and the readable posts of the family."""

    family: int
    exact: bytes
    all: tuple[PostCopy, ...]


async def load_copy_watermark(archive: Archive, recipe: str) -> int:
    """Load the last change that was compared; rows of another recipe cannot be compared and are deleted."""
    watermark: int | None = await archive.value("SELECT watermark FROM copying WHERE recipe = ?", (recipe,))
    if watermark is not None:
        return watermark
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM copies")
        await connection.execute("INSERT OR REPLACE INTO copying VALUES (0, ?, 0)", (recipe,))
    return 0


async def count_uncompared_changes(archive: Archive, recipe: str) -> int:
    """Count the changes of posts that were not compared yet."""
    sql = "SELECT count(*) FROM posts WHERE seq > coalesce((SELECT watermark FROM copying WHERE recipe = ?), 0)"
    return int(await archive.value(sql, (recipe,)))


async def find_texts_by_band(
    archive: Archive, bands: Iterable[tuple[int, ...]], since: int, until: int
) -> dict[int, dict[bytes, PostKey]]:
    """Find texts written from `since` to `until` by their bands: band -> text hash -> last post with it."""
    texts: dict[int, dict[bytes, PostKey]] = {}
    for column, values in zip(_BAND_COLUMNS, zip(*bands, strict=True), strict=False):
        # max() makes SQLite give the other columns of the same row
        rows = await archive.rows(
            f"SELECT {column} AS band, exact, chat_id, message_id, max(written) FROM copies "
            f"WHERE {column} IN ({', '.join('?' * len(values))}) AND written BETWEEN ? AND ? GROUP BY {column}, exact",
            (*values, since, until),
        )
        for row in rows:
            texts.setdefault(row["band"], {})[row["exact"]] = PostKey(row["chat_id"], row["message_id"])
    return texts


async def save_copies(
    archive: Archive, before: int, after: int, rows: Sequence[CopyRow], gone: Iterable[PostKey],
    alike: Iterable[tuple[bytes, bytes]],
) -> bool:  # fmt: skip
    """Insert rows, delete posts and move the watermark from `before` to `after` in one transaction.

    `gone` holds the keys to delete, those that `rows` replace included. `alike` holds pairs of hashes of
    near-duplicate texts. Returns False and changes nothing if another writer moved the watermark meanwhile.
    """
    columns = ("chat_id", "message_id", "seq", "written", "today", "exact", *_BAND_COLUMNS)
    insert = f"INSERT INTO copies ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    none = (None,) * len(_BAND_COLUMNS)
    copies = [(*row.key, row.seq, row.written, row.today, row.exact, *(row.bands or none)) for row in rows]
    async with archive.writing() as connection:
        cursor = await connection.execute("UPDATE copying SET watermark = ? WHERE watermark = ?", (after, before))
        if not cursor.rowcount:
            return False
        await connection.executemany("DELETE FROM copies WHERE chat_id = ? AND message_id = ?", gone)
        await connection.executemany(insert, copies)
        await connection.executemany(  # no pair for a text whose last post this batch deleted
            "INSERT OR IGNORE INTO near_texts SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM copies WHERE exact = ?1) "
            "AND EXISTS (SELECT 1 FROM copies WHERE exact = ?2)",
            [pair for one, other in alike for pair in ((one, other), (other, one))],
        )
    return True


async def fetch_copies(
    archive: Archive, keys: Iterable[PostKey], channels: Collection[int]
) -> dict[PostKey, PostCopies]:
    """Fetch the copies of posts, of which no other channel has an influence; posts that changed since are left out."""
    wanted = set(keys)
    # Readable posts with the texts of these posts, and transitively with near-duplicates of them; for a text without
    # relative dates and near-duplicates only these posts, and the earliest of each channel.
    # min() makes SQLite give the other columns of the same row; for posts of the same second the least id
    rows = await archive.rows(
        "WITH RECURSIVE asked(chat_id, message_id, exact) AS MATERIALIZED ("
        f"SELECT t.chat_id, t.message_id, t.exact {JOIN_BY_KEY.format(table='copies')}"
        "), texts(exact) AS (SELECT exact FROM asked UNION "
        "SELECT n.other FROM texts CROSS JOIN near_texts AS n ON n.one = texts.exact WHERE EXISTS "
        "(SELECT 1 FROM copies AS c WHERE c.exact = n.other AND c.chat_id IN (SELECT value FROM json_each(?2)))) "
        "SELECT t.chat_id, t.message_id, t.date, t.origin, c.exact, c.written, c.today, "
        "EXISTS (SELECT 1 FROM near_texts AS n WHERE n.one = c.exact) AS linked, min((t.date << 32) + t.message_id) "
        "FROM texts CROSS JOIN copies AS c ON c.exact = texts.exact "
        "CROSS JOIN posts AS t ON t.chat_id = c.chat_id AND t.message_id = c.message_id AND t.seq <= c.seq "
        f"WHERE c.chat_id IN (SELECT value FROM json_each(?2)) AND {VISIBLE_POSTS} "
        "GROUP BY c.exact, c.chat_id, t.origin IS NULL, "
        "CASE WHEN c.today OR linked OR EXISTS (SELECT 1 FROM asked AS a WHERE a.chat_id = c.chat_id "
        "AND a.message_id = c.message_id) THEN c.id END",
        (encode_keys(wanted), json.dumps([*channels])),
    )
    held = []
    for chat_id, message_id, date, forwarded, exact, written, today, linked, _ in rows:
        origin = decode_origin(forwarded) if forwarded else None
        key = PostKey(chat_id, message_id)
        held.append(PostCopy(key, from_unix_time(date), origin, exact, written, bool(today), bool(linked)))
    texts = sorted({one.exact for one in held if one.linked})
    sql = f"SELECT one, other FROM near_texts WHERE one IN ({', '.join('?' * len(texts))})"
    pairs = [(row[0], row[1]) for row in await archive.rows(sql, tuple(texts))] if texts else []
    copies: dict[PostKey, PostCopies] = {}
    for number, family in enumerate(_group_families(held, pairs)):
        first: dict[tuple[int, bool], PostCopy] = {}
        for one in sorted(family, key=lambda one: (one.date, one.key)):
            first.setdefault((one.key.chat_id, one.origin is None), one)
        every = tuple(first.values())
        copies |= {one.key: PostCopies(number, one.exact, every) for one in family if one.key in wanted}
    return copies


def _group_families(held: Sequence[PostCopy], pairs: Sequence[tuple[bytes, bytes]]) -> list[list[PostCopy]]:
    """Connected components of posts with equal texts, or with near-duplicates written within `NEAR_COPY_MAX_S`."""
    held = sorted(held, key=lambda one: (one.written, one.key))
    texts: dict[bytes, list[PostCopy]] = {}
    for one in held:
        texts.setdefault(one.exact, []).append(one)
    near = {(one, other) for one, other in pairs if one in texts and other in texts}
    posts, kinds = DisjointSets(), DisjointSets()
    for text in texts.values():
        for one in text:
            posts.join(one.key, one.key if one.today else text[0].key)
    for some, others in near:
        kinds.join(some, others)
        if not texts[some][0].today:  # all posts of such a text are one family: one post near in time is enough
            moments = [one.written for one in texts[others]]
            for one in texts[some]:
                at = bisect_left(moments, one.written - NEAR_COPY_MAX_S)
                if at < len(moments) and moments[at] <= one.written + NEAR_COPY_MAX_S:
                    posts.join(one.key, texts[others][at].key)
    days = dict[bytes, dict[bytes, PostCopy]]()
    for one in held:
        if one.today:  # joined with those of one day
            day = days.setdefault(kinds.root(one.exact), {})
            if day and one.written - next(iter(day.values())).written > _SAME_DAY_MAX_S:
                day.clear()
            for text_hash, other in day.items():
                if text_hash == one.exact or (text_hash, one.exact) in near:
                    posts.join(one.key, other.key)
            day.setdefault(one.exact, one)
    families: dict[PostKey, list[PostCopy]] = {}
    for one in held:
        families.setdefault(posts.root(one.key), []).append(one)
    return list(families.values())


@dataclass(slots=True, eq=False)
class DisjointSets:
    """Union-find: disjoint sets of hashable things; of two that are joined the first one's root stays."""

    parents: dict[Any, Any] = field(default_factory=dict)

    def root(self, one: Any) -> Any:
        """Representative of the set of a thing."""
        while (parent := self.parents.setdefault(one, one)) != one:
            self.parents[one] = self.parents[parent]
            one = parent
        return one

    def join(self, one: Any, other: Any) -> None:
        """Join the sets of two things."""
        self.parents[self.root(other)] = self.root(one)
