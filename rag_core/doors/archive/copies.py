"""Which posts say the same: families of copies, found by `ingest.copies` and asked for by answers.

Each post that has words has a row with its exact hash, the bands of its near signature and its family. Which of
a family is the original depends on who asks, so it is told when it is asked for. Rows lag behind the posts as an
index does; `seq` says which state of a post a row tells of, and what has changed since is left out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, from_seconds, keys_json, origin_from
from rag_core.doors.archive.units import VISIBLE
from rag_core.types import Origin, PostKey

__all__ = ["Copies", "Copy", "Family", "Mark", "Near", "Row", "akin", "begin", "known", "put", "same", "waiting"]

_BANDS = 6
_COLUMNS = tuple(f"band{n}" for n in range(_BANDS))


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the copies are: the last change taken in, and the number of the last family."""

    watermark: int
    families: int


@dataclass(frozen=True, slots=True)
class Row:
    """A post in the state it had at `seq`; `written` in Unix seconds; `bands` six numbers or none."""

    key: PostKey
    seq: int
    written: int
    family: int
    exact: bytes
    bands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """A family that holds a certain text, and when that text was first and last written, in Unix seconds."""

    number: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Near:
    """The last post of a family that shares a band; `written` in Unix seconds."""

    key: PostKey
    family: int
    written: int


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

    Of each channel the earliest post, and the earliest forward; the post itself may be among them.
    """

    family: int
    exact: bytes
    all: tuple[Copy, ...]


async def begin(archive: Archive, recipe: str) -> Mark:
    """How far the copies are. Rows of another recipe are forgotten: they cannot be compared with new ones."""
    rows = await archive.rows("SELECT watermark, families FROM copying WHERE recipe = ?", (recipe,))
    if rows:
        return Mark(*rows[0])
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM copies")
        await connection.execute("INSERT OR REPLACE INTO copying VALUES (0, ?, 0, 0)", (recipe,))
    return Mark(0, 0)


async def waiting(archive: Archive, recipe: str) -> int:
    """How many changes of posts are still to be taken in."""
    sql = "SELECT count(*) FROM posts WHERE seq > coalesce((SELECT watermark FROM copying WHERE recipe = ?), 0)"
    ((number,),) = await archive.rows(sql, (recipe,))
    return int(number)


async def same(archive: Archive, exacts: Collection[bytes]) -> dict[bytes, list[Family]]:
    """Hash -> the families that hold posts of exactly this text."""
    if not exacts:
        return {}
    rows = await archive.rows(
        "SELECT exact, family, min(written), max(written) FROM copies "
        f"WHERE exact IN ({_marks(exacts)}) GROUP BY exact, family ORDER BY family",
        tuple(exacts),
    )
    found: dict[bytes, list[Family]] = {}
    for exact, *values in rows:
        found.setdefault(exact, []).append(Family(*values))
    return found


async def akin(archive: Archive, bands: Iterable[tuple[int, ...]], since: int, until: int) -> dict[int, list[Near]]:
    """Band -> of each family that has it the last post, of those written between two moments in Unix seconds."""
    found: dict[int, list[Near]] = {}
    for column, values in zip(_COLUMNS, zip(*bands, strict=True), strict=False):
        # max() makes SQLite give the other columns of the same row
        rows = await archive.rows(
            f"SELECT {column} AS band, chat_id, message_id, family, max(written) AS written FROM copies "
            f"WHERE {column} IN ({_marks(values)}) AND written BETWEEN ? AND ? GROUP BY {column}, family",
            (*values, since, until),
        )
        for row in rows:
            near = Near(PostKey(row["chat_id"], row["message_id"]), row["family"], row["written"])
            found.setdefault(row["band"], []).append(near)
    return found


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


async def put(archive: Archive, before: Mark, after: Mark, rows: Sequence[Row], gone: Iterable[PostKey]) -> bool:
    """Put rows in and take posts out, and move the mark, all at once; `gone` are all keys that rows replace too.

    False, and nothing done, where somebody else has moved the mark meanwhile.
    """
    columns = ("chat_id", "message_id", "seq", "written", "family", "exact", *_COLUMNS)
    none = (None,) * _BANDS
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "UPDATE copying SET watermark = ?, families = ? WHERE watermark = ? AND families = ?",
            (after.watermark, after.families, before.watermark, before.families),
        )
        if not cursor.rowcount:
            return False
        await connection.executemany("DELETE FROM copies WHERE chat_id = ? AND message_id = ?", gone)
        await connection.executemany(
            f"INSERT INTO copies ({', '.join(columns)}) VALUES ({_marks(columns)})",
            [(*row.key, row.seq, row.written, row.family, row.exact, *(row.bands or none)) for row in rows],
        )
    return True


async def known(archive: Archive, keys: Iterable[PostKey], channels: Collection[int]) -> dict[PostKey, Copies]:
    """What is known of these posts; nothing of another channel than these is given, or counted.

    Posts that are new or changed since the copies were looked for are not known. Raises ArchiveUnavailable.
    """
    wanted = set(keys)
    asked = await archive.rows(
        f"SELECT t.chat_id, t.message_id, t.family, t.exact {BY_KEY.format(table='copies')} "
        "JOIN posts AS p ON p.chat_id = t.chat_id AND p.message_id = t.message_id AND p.seq <= t.seq",
        (keys_json(wanted),),
    )
    members = await _members(archive, {row["family"] for row in asked}, channels)
    # a post that was taken in between the two reads is known as well, else it stood beside its own copy
    found = {
        one.key: Copies(family, one.exact, tuple(those))
        for family, those in members.items()
        for one in those
        if one.key in wanted
    }
    return found | {
        PostKey(row["chat_id"], row["message_id"]): Copies(
            row["family"], row["exact"], tuple(members.get(row["family"], ()))
        )
        for row in asked
    }


async def _members(archive: Archive, families: Collection[int], channels: Collection[int]) -> dict[int, list[Copy]]:
    # min() makes SQLite give the other columns of the same row
    rows = await archive.rows(
        "SELECT c.family, c.exact, t.chat_id, t.message_id, min(t.date) AS date, t.origin "
        "FROM json_each(?) AS k CROSS JOIN copies AS c ON c.family = k.value "
        "CROSS JOIN posts AS t ON t.chat_id = c.chat_id AND t.message_id = c.message_id AND t.seq <= c.seq "
        f"WHERE c.chat_id IN (SELECT value FROM json_each(?)) AND {VISIBLE} "
        "GROUP BY c.family, c.chat_id, t.origin IS NULL ORDER BY date, t.chat_id",
        (json.dumps(list(families)), json.dumps(list(channels))),
    )
    found: dict[int, list[Copy]] = {}
    for row in rows:
        origin = origin_from(row["origin"]) if row["origin"] else None
        key = PostKey(row["chat_id"], row["message_id"])
        found.setdefault(row["family"], []).append(Copy(key, from_seconds(row["date"]), origin, row["exact"]))
    return found
