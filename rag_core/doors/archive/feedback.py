"""What readers say of answers: one vote of each reader about each, good or bad, and why it is bad."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import now, seconds

__all__ = ["REASONS", "Votes", "forget_voters", "vote", "votes_on", "votes_since"]

REASONS = ("wrong", "outdated", "other", "source")


@dataclass(frozen=True, slots=True)
class Votes:
    """How many say good and how many bad; `reasons` are those of REASONS, in their order."""

    good: int = 0
    bad: int = 0
    reasons: tuple[int, ...] = (0, 0, 0, 0)


async def vote(archive: Archive, question_id: int, user_id: int, *, good: bool, reason: str | None = None) -> bool:
    """Keep a reader's vote in place of an earlier one; a bad one said again keeps its reason.

    False where the same was kept before.
    """
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "INSERT INTO votes (question_id, user_id, good, reason, voted_at) VALUES (?1, ?2, ?3, ?4, ?5) "
            "ON CONFLICT (question_id, user_id) DO UPDATE SET good = ?3, reason = ?4, voted_at = ?5 "
            "WHERE good <> ?3 OR (?4 IS NOT NULL AND reason IS NOT ?4)",
            (question_id, user_id, good, None if good else reason, now()),
        )
        return cursor.rowcount == 1


async def votes_on(archive: Archive, question_id: int) -> Votes:
    """The votes about one answer."""
    return await _counted(archive, "question_id = ?", question_id)


async def votes_since(archive: Archive, moment: datetime) -> Votes:
    """The votes of all readers that came after a moment."""
    return await _counted(archive, "voted_at >= ?", seconds(moment))


async def _counted(archive: Archive, which: str, value: int) -> Votes:
    reasons = ", ".join(f"count(*) FILTER (WHERE reason = '{reason}')" for reason in REASONS)
    (row,) = await archive.rows(
        f"SELECT count(*) FILTER (WHERE good), count(*) FILTER (WHERE NOT good), {reasons} FROM votes WHERE {which}",
        (value,),
    )
    good, bad, *why = row
    return Votes(good, bad, tuple(why))


async def forget_voters(archive: Archive, before: datetime) -> int:
    """Forget whose votes they are and about what, of those before a moment; they stay counted. Returns how many."""
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "UPDATE votes SET user_id = NULL, question_id = NULL WHERE user_id IS NOT NULL AND voted_at < ?",
            (seconds(before),),
        )
        return cursor.rowcount
