"""Settings kept in the archive: choices and grants of admins; answer mode, time zone, memory and channel sets of chats.

They outlive a restart and are kept with the archive's backups.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_row, from_unix_seconds, get_unix_time
from rag_core.types import AUTO_RECIPE


async def load_choices(archive: Archive) -> dict[str, str]:
    """Load all choices stored at run time, of admins and of chats: name -> value."""
    return {row["name"]: row["value"] for row in await archive.rows("SELECT name, value FROM choices")}


async def save_choice(archive: Archive, name: str, value: str) -> None:
    """Save a setting that an admin chose; it replaces an earlier value."""
    await archive.execute("INSERT OR REPLACE INTO choices (name, value) VALUES (?, ?)", (name, value))


async def load_chat_zone(archive: Archive, chat_id: int) -> str:
    """Load the name of the time zone that a chat chose; "" where it chose none."""
    return str(await archive.value("SELECT value FROM choices WHERE name = ?", (f"zone {chat_id}",)) or "")


async def save_chat_zone(archive: Archive, chat_id: int, zone: str) -> None:
    """Save the name of a chat's time zone."""
    await save_choice(archive, f"zone {chat_id}", zone)


async def load_channel_sets(archive: Archive, chat_id: int) -> dict[str, frozenset[int]]:
    """Load the named sets of channels of a chat: lower-case name -> channels, which the reader may not all read now."""
    value = await archive.value("SELECT value FROM choices WHERE name = ?", (f"sets {chat_id}",)) or "{}"
    return {name: frozenset(chosen) for name, chosen in json.loads(value).items()}


async def save_channel_sets(archive: Archive, chat_id: int, sets: Mapping[str, Collection[int]]) -> None:
    """Save the named sets of channels of a chat in place of those before."""
    value = json.dumps({name: sorted(chosen) for name, chosen in sets.items()}, ensure_ascii=False)
    await save_choice(archive, f"sets {chat_id}", value)


@dataclass(frozen=True, slots=True)
class AdminGrant:
    """Admin grant: the id of the new admin, the id of the admin who granted it, and when."""

    user_id: int
    by: int
    at: datetime


async def list_admin_grants(archive: Archive) -> list[AdminGrant]:
    """List all admin grants, the oldest first."""
    rows = await archive.rows("SELECT * FROM grants ORDER BY granted_at, user_id")
    return [AdminGrant(row["user_id"], row["granted_by"], from_unix_seconds(row["granted_at"])) for row in rows]


async def grant_admin(archive: Archive, user_id: int, by: int) -> None:
    """Grant admin rights to a user; an existing grant is not changed."""
    sql = "INSERT OR IGNORE INTO grants (user_id, granted_by, granted_at) VALUES (?, ?, ?)"
    await archive.execute(sql, (user_id, by, get_unix_time()))


async def revoke_admin(archive: Archive, user_id: int) -> None:
    """Revoke the admin rights of a user."""
    await archive.execute("DELETE FROM grants WHERE user_id = ?", (user_id,))


@dataclass(frozen=True, slots=True)
class AnswerMode:
    """Answer mode of a chat: `recipe` is a recipe's name or "auto"; `careful`: review a draft before it is shown."""

    recipe: str = AUTO_RECIPE
    careful: bool = False


async def load_answer_mode(archive: Archive, chat_id: int) -> AnswerMode:
    """Load the answer mode of a chat; the default is "auto"."""
    rows = await archive.rows("SELECT recipe, careful FROM modes WHERE chat_id = ?", (chat_id,))
    return decode_row(AnswerMode, rows[0]) if rows else AnswerMode()


async def save_answer_mode(archive: Archive, chat_id: int, mode: AnswerMode) -> None:
    """Save the answer mode of a chat."""
    await archive.save_rows("modes", [{"chat_id": chat_id, **encode_row(mode)}])
