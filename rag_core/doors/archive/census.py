"""Numbers for whoever watches the bot, asked every few seconds, so that they are read from an index.

Only `rows_of_posts` and `votes` count row by row, a million posts in less than a tenth of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

from rag_core.doors.archive.connection import Archive

__all__ = ["Line", "changes_between", "journal", "line", "rows_of_posts", "votes", "writable"]


@dataclass(frozen=True, slots=True)
class Line:
    """Questions that wait and that are worked on; `oldest`: when the first that waits was asked, in Unix seconds."""

    waiting: int
    running: int
    oldest: int | None


async def line(archive: Archive) -> Line:
    """The line of questions."""
    ((waiting, running, oldest),) = await archive.rows(
        "SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'), "
        "min(asked_at) FILTER (WHERE state = 'queued') FROM questions WHERE state IN ('queued', 'running')"
    )
    return Line(waiting, running, oldest)


async def rows_of_posts(archive: Archive) -> int:
    """How many posts are kept, those that were deleted but are remembered among them."""
    ((number,),) = await archive.rows("SELECT count(*) FROM posts INDEXED BY posts_seq")
    return int(number)


async def changes_between(archive: Archive, after: int, until: int) -> list[tuple[str, bool, int]]:
    """Of posts whose last change is after one and not after another: source, whether deleted, how many they are."""
    rows = await archive.rows(
        "SELECT source, deleted_at IS NOT NULL AS gone, count(*) FROM posts WHERE seq > ? AND seq <= ? "
        "GROUP BY source, gone",
        (after, until),
    )
    return [(source, bool(gone), number) for source, gone, number in rows]


async def votes(archive: Archive) -> list[tuple[bool, str | None, int]]:
    """Votes on answers: whether they are good, the reason that was given, and how many they are."""
    rows = await archive.rows("SELECT good, reason, count(*) FROM votes GROUP BY good, reason")
    return [(bool(good), reason, number) for good, reason, number in rows]


async def journal(archive: Archive) -> str:
    """How SQLite keeps what is being written: "wal", unless the file system does not let it."""
    ((mode,),) = await archive.rows("PRAGMA journal_mode")
    return str(mode)


async def writable(archive: Archive) -> None:
    """Write, and change nothing: the disk takes part. Raises ArchiveUnavailable."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE identity SET value = value")
