"""Digest subscriptions: which chat gets one, how often, of which channels, and when the next is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_row, to_unix_seconds


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """Plan of a chat's digests: every `days` days at `hour`, of the posts since the last; `channels` None means all."""

    chat_id: int
    user_id: int
    private: bool
    days: int
    hour: int
    channels: frozenset[int] | None
    lang: str
    since: datetime
    due: datetime


async def save_digest_plan(archive: Archive, plan: DigestPlan) -> None:
    """Save the plan of a chat in place of an earlier one."""
    await archive.save_rows("digests", [encode_row(plan)])


async def fetch_digest_plan(archive: Archive, chat_id: int) -> DigestPlan | None:
    """Fetch the plan of a chat."""
    rows = await archive.rows("SELECT * FROM digests WHERE chat_id = ?", (chat_id,))
    return decode_row(DigestPlan, rows[0]) if rows else None


async def list_due_digests(archive: Archive, now: datetime) -> list[DigestPlan]:
    """List the plans whose next digest is due."""
    rows = await archive.rows("SELECT * FROM digests WHERE due <= ? ORDER BY due", (to_unix_seconds(now),))
    return [decode_row(DigestPlan, row) for row in rows]


async def list_user_digests(archive: Archive, user_id: int) -> list[dict[str, object]]:
    """List a user's digests, for the user: `chat_id`, `days`, `hour`."""
    rows = await archive.rows("SELECT chat_id, days, hour FROM digests WHERE user_id = ? ORDER BY chat_id", (user_id,))
    return [dict(row) for row in rows]


async def reschedule_digest(archive: Archive, chat_id: int, since: datetime, due: datetime) -> None:
    """Set from when posts count for the next digest of a chat, and when it is due."""
    await archive.execute(
        "UPDATE digests SET since = ?, due = ? WHERE chat_id = ?",
        (to_unix_seconds(since), to_unix_seconds(due), chat_id),
    )


async def delete_digest_plan(archive: Archive, chat_id: int) -> bool:
    """Delete the plan of a chat; False where there is none."""
    return await archive.execute("DELETE FROM digests WHERE chat_id = ?", (chat_id,)) > 0
