"""What the admins of a group chose for it. Which channels it sees stands with the channels (channels.py)."""

from __future__ import annotations

from dataclasses import dataclass

from rag_core.doors.archive.connection import Archive

__all__ = ["Rules", "choose", "move", "rules_of"]


@dataclass(frozen=True, slots=True)
class Rules:
    """cited_only: refuse where an answer is not sure. admins_ask: nobody else may ask here.

    lang: "ru" or "en", spoken by the bot to everybody; "" for each in their own language.
    """

    cited_only: bool = False
    admins_ask: bool = False
    lang: str = ""


async def rules_of(archive: Archive, group_id: int) -> Rules:
    """The rules of a group; where nobody chose any, those that a group begins with."""
    rows = await archive.rows("SELECT * FROM group_rules WHERE group_id = ?", (group_id,))
    return Rules(bool(rows[0]["cited_only"]), bool(rows[0]["admins_ask"]), rows[0]["lang"]) if rows else Rules()


async def choose(archive: Archive, group_id: int, rules: Rules) -> None:
    """Keep the rules of a group in place of earlier ones."""
    async with archive.writing() as connection:
        sql = "INSERT OR REPLACE INTO group_rules (group_id, cited_only, admins_ask, lang) VALUES (?, ?, ?, ?)"
        await connection.execute(sql, (group_id, rules.cited_only, rules.admins_ask, rules.lang))


async def move(archive: Archive, old: int, new: int) -> None:
    """A group has another id: what was bound and chosen there moves along."""
    async with archive.writing() as connection:
        for table in ("bindings", "group_rules"):
            await connection.execute(f"UPDATE OR IGNORE {table} SET group_id = ? WHERE group_id = ?", (new, old))
            await connection.execute(f"DELETE FROM {table} WHERE group_id = ?", (old,))
