"""How a chat wants its questions answered."""

from __future__ import annotations

from dataclasses import dataclass

from rag_core.doors.archive.connection import Archive

__all__ = ["AUTO", "Mode", "mode_of", "set_mode"]

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Mode:
    """`recipe` is a recipe's name or "auto"; `careful`: a draft is looked over once more before it is shown."""

    recipe: str = AUTO
    careful: bool = False


async def mode_of(archive: Archive, chat_id: int) -> Mode:
    """What a chat chose; "auto" where it chose nothing."""
    rows = await archive.rows("SELECT recipe, careful FROM modes WHERE chat_id = ?", (chat_id,))
    return Mode(rows[0]["recipe"], bool(rows[0]["careful"])) if rows else Mode()


async def set_mode(archive: Archive, chat_id: int, mode: Mode) -> None:
    """Keep what a chat chose."""
    async with archive.writing() as connection:
        await connection.execute(
            "INSERT OR REPLACE INTO modes (chat_id, recipe, careful) VALUES (?, ?, ?)",
            (chat_id, mode.recipe, mode.careful),
        )
