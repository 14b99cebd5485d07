"""Posts as their rows lie in the archive, deleted ones too and members of albums one by one: what an import goes by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import BY_KEY, from_seconds, keys_json, post_from
from rag_core.types import Post, PostKey

__all__ = ["Stored", "stored"]


@dataclass(frozen=True, slots=True)
class Stored:
    """A post in its newest version, and what orders its versions: `stamp`, then `update_id`."""

    post: Post
    stamp: datetime
    update_id: int


async def stored(archive: Archive, keys: Iterable[PostKey]) -> dict[PostKey, Stored]:
    """What the archive has of these posts, whatever became of them."""
    rows = await archive.rows(f"SELECT t.* {BY_KEY.format(table='posts')}", (keys_json(keys),))
    found = (Stored(post_from(row), from_seconds(row["stamp"]), row["update_id"]) for row in rows)
    return {each.post.key: each for each in found}
