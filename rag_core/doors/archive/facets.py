"""Posts by what they are beside their text: kind, author, file, origin. Search looks among these.

What may be seen is not asked here: an index holds nothing else, and only what is in both is found.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from enum import StrEnum

import numpy as np

from rag_core.doors.archive.connection import Archive
from rag_core.doors.places import Keys

__all__ = ["Facet", "holding", "names"]


class Facet(StrEnum):
    """Something a post has, as its column is called; ORIGIN_CHAT is the id of the chat that a forward comes from."""

    MEDIA = "media_kind"
    AUTHOR = "author"
    FILE = "media_file_name"
    ORIGIN = "origin_name"
    ORIGIN_CHAT = "origin_chat"


def _among(facet: Facet, more: str = "") -> str:
    """Posts with a facet, of channels that are a JSON list.

    Of SQLite's own choice, by channel through the rows with their texts, it takes 20 times as long.
    """
    listed = Facet.ORIGIN if facet is Facet.ORIGIN_CHAT else facet
    return (
        f"FROM posts AS t INDEXED BY posts_{listed} {more}WHERE t.{listed} IS NOT NULL "
        "AND t.chat_id IN (SELECT value FROM json_each(?))"
    )


# An album is found under one of its posts, whichever of them fits.
_ALBUM = "CROSS JOIN posts AS m INDEXED BY posts_album ON m.chat_id = t.chat_id AND m.album = t.album "


async def names(archive: Archive, facet: Facet, channels: Collection[int], like: str = "%") -> list[str]:
    """Every author, file name or origin in these channels; `like` is a pattern of SQL, small or capital.

    30,000 posts with a name: 7 ms. Raises ArchiveUnavailable.
    """
    sql = f"SELECT DISTINCT t.{facet} {_among(facet)} AND t.{facet} LIKE ?"
    return [row[0] for row in await archive.rows(sql, (json.dumps([*channels]), like))]


async def holding(archive: Archive, facet: Facet, values: Iterable[str | int], channels: Collection[int]) -> Keys:
    """The posts of these channels that have one of the values, written just so; with an album all its posts.

    45,000 posts: 20 ms. Raises ArchiveUnavailable.
    """
    one_of = f"t.{facet} IN (SELECT value FROM json_each(?))"
    rows = await archive.rows(
        f"SELECT t.chat_id, group_concat(t.message_id) {_among(facet)} AND {one_of} GROUP BY t.chat_id "
        f"UNION ALL SELECT t.chat_id, group_concat(m.message_id) {_among(facet, _ALBUM)} AND {one_of} "
        "AND t.album IS NOT NULL GROUP BY t.chat_id",
        (json.dumps([*channels]), json.dumps([*values])) * 2,
    )
    found: dict[int, list[str]] = {}
    for chat_id, listed in rows:  # a row for each post would take twice as long
        found.setdefault(chat_id, []).append(listed)
    return Keys({chat: np.unique(np.fromstring(",".join(ids), np.int64, sep=",")) for chat, ids in found.items()})
