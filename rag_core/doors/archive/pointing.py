"""Posts as an admin points at them by link: whatever the archive has there, also what nobody is shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, from_seconds, keys_json
from rag_core.types import PostKey

__all__ = ["Pointed", "pointed", "with_albums"]


@dataclass(frozen=True, slots=True)
class Pointed:
    """A post as it is kept: its own text and when it was written so, and whether it is deleted or suspected to be."""

    key: PostKey
    text: str
    date: datetime
    stamp: datetime
    deleted: bool
    suspected: bool


async def pointed(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, Pointed]:
    """The posts that the archive has under these keys."""
    sql = f"SELECT t.* {BY_KEY.format(table='posts')}"
    found = {}
    for row in await archive.rows(sql, (keys_json(keys),)):
        key = PostKey(row["chat_id"], row["message_id"])
        gone, doubted = row["deleted_at"] is not None, bool(row["suspected"])
        date, stamp = from_seconds(row["date"]), from_seconds(row["stamp"])
        found[key] = Pointed(key, row["text"], date, stamp, gone, doubted)
    return found


async def with_albums(archive: Archive, key: PostKey) -> tuple[PostKey, ...]:
    """The post, and those of its album, by message id."""
    rows = await archive.rows(
        f"SELECT m.chat_id, m.message_id {BY_KEY.format(table='posts')} "
        "JOIN posts AS m ON m.chat_id = t.chat_id AND m.album = t.album",
        (keys_json([key]),),
    )
    return tuple(sorted({key, *(PostKey(*row) for row in rows)}))
