"""Groups: the rules that their admins chose, and the channels bound to them."""

from __future__ import annotations

from dataclasses import dataclass

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_row


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Rules of a group that its admins chose.

    cited_only: refuse if an answer is not sure
    admins_ask: only admins may ask here
    lang: "ru" or "en", the bot's language for everybody; "" for each user's own language
    """

    cited_only: bool = False
    admins_ask: bool = False
    lang: str = ""


async def load_group_rules(archive: Archive, group_id: int) -> GroupRules:
    """Load the rules of a group; the defaults if nobody chose any."""
    rows = await archive.rows("SELECT * FROM group_rules WHERE group_id = ?", (group_id,))
    return decode_row(GroupRules, rows[0]) if rows else GroupRules()


async def save_group_rules(archive: Archive, group_id: int, rules: GroupRules) -> None:
    """Save the rules of a group in place of earlier ones."""
    await archive.save_rows("group_rules", [{"group_id": group_id, **encode_row(rules)}])


async def move_group(archive: Archive, old: int, new: int) -> None:
    """Move bindings, rules, watches, digests and questions that wait for answers to the new id of a group."""
    async with archive.writing() as connection:
        for table in ("watches", "digests"):
            await connection.execute(f"UPDATE OR REPLACE {table} SET chat_id = ? WHERE chat_id = ?", (new, old))
        for table in ("bindings", "group_rules"):
            await connection.execute(f"UPDATE OR IGNORE {table} SET group_id = ? WHERE group_id = ?", (new, old))
            await connection.execute(f"DELETE FROM {table} WHERE group_id = ?", (old,))
        sql = "UPDATE questions SET chat_id = ? WHERE chat_id = ? AND state IN ('queued', 'running')"
        await connection.execute(sql, (new, old))


async def set_channel_bindable(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Allow the admins of groups to bind a known channel that is not public, or no longer.

    Bindings made by group admins lose their effect with the permission.
    """
    await archive.execute("UPDATE channels SET bindable = ? WHERE chat_id = ?", (allowed, chat_id))


async def bind_channel(archive: Archive, group_id: int, chat_id: int, *, own: bool = False) -> None:
    """Bind a known channel to a group, which may then read it.

    `own`: the group's own admins bound it, which counts only as long as they may.
    """
    sql = (
        "INSERT INTO bindings (group_id, chat_id, own) VALUES (?, ?, ?) "
        "ON CONFLICT (group_id, chat_id) DO UPDATE SET own = min(own, excluded.own)"
    )
    await archive.execute(sql, (group_id, chat_id, own))


async def unbind_channel(archive: Archive, group_id: int, chat_id: int) -> None:
    """Remove the binding of a channel to a group."""
    await archive.execute("DELETE FROM bindings WHERE group_id = ? AND chat_id = ?", (group_id, chat_id))


async def list_bound_groups(archive: Archive) -> list[int]:
    """List the groups with bound channels."""
    return await archive.column("SELECT DISTINCT group_id FROM bindings ORDER BY group_id")


async def list_bound_channels(archive: Archive, group_id: int) -> frozenset[int]:
    """List the channels a group may read.

    Channels bound by its own admins count only while they are public or bindable.
    """
    sql = (
        "SELECT chat_id FROM bindings JOIN channels USING (chat_id) "
        "WHERE group_id = ? AND (NOT own OR visibility = 'public' OR bindable)"
    )
    return frozenset(await archive.column(sql, (group_id,)))
