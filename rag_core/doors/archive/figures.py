"""Numbers an admin asks for: questions and what became of them, what waits in the inbox, why updates are set aside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import now, seconds

__all__ = ["Poison", "Questions", "asked_since", "forget_texts", "language_of", "latest_poison",
           "waiting"]  # fmt: skip

_HANDLED_S = 60  # whoever asks how much waits is an update on its way
_SLICE = 1000  # rows of one transaction
# An answer without a sentence is a refusal; a forgotten one says only whether it was.
_REFUSED = "coalesce(json_extract(answer, '$.refused'), coalesce(json_array_length(answer, '$.sentences'), 0) = 0)"


@dataclass(frozen=True, slots=True)
class Questions:
    """How many questions were asked, and what became of them; the rest is waiting or being answered."""

    asked: int = 0
    answered: int = 0
    refused: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Poison:
    """An update that could not be read, and what was wrong with it."""

    update_id: int
    received_at: int
    error: str


async def asked_since(archive: Archive, moment: datetime) -> Questions:
    """The questions that came after a moment."""
    ((asked, answered, refused, failed),) = await archive.rows(
        f"SELECT count(*), count(*) FILTER (WHERE state = 'answered' AND NOT {_REFUSED}), "
        f"count(*) FILTER (WHERE state = 'answered' AND {_REFUSED}), count(*) FILTER (WHERE state = 'failed') "
        "FROM questions WHERE asked_at >= ?",
        (seconds(moment),),
    )
    return Questions(asked, answered, refused, failed)


async def waiting(archive: Archive) -> int:
    """Posts that are not worked in yet, and other updates that nobody has handled for a minute."""
    ((number,),) = await archive.rows(
        "SELECT count(*) FROM updates WHERE state = 'pending' "
        "AND (kind IN ('channel_post', 'edited_channel_post') OR received_at < ?)",
        (now() - _HANDLED_S,),
    )
    return int(number)


async def latest_poison(archive: Archive, most: int) -> list[Poison]:
    """The updates that were set aside last, the latest first."""
    rows = await archive.rows(
        "SELECT update_id, received_at, coalesce(error, '') FROM updates WHERE state = 'poison' "
        "ORDER BY received_at DESC, update_id DESC LIMIT ?",
        (most,),
    )
    return [Poison(*row) for row in rows]


async def language_of(archive: Archive, user_id: int) -> str | None:
    """The language of the last question of a user; None where they never asked one."""
    rows = await archive.rows("SELECT lang FROM questions WHERE user_id = ? ORDER BY id DESC LIMIT 1", (user_id,))
    return rows[0][0] if rows else None


async def forget_texts(archive: Archive, before: datetime) -> int:
    """Forget what was asked and answered before a moment, by whom and where; that it was asked stays counted.

    Returns how many questions were forgotten.
    """
    forgotten = 0
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                "UPDATE questions SET text = '', user_id = 0, chat_id = 0, message_id = 0, thread = NULL, "
                "answer_message_id = NULL, handle = NULL, answer = CASE state WHEN 'answered' THEN "
                f"json_object('refused', json(CASE WHEN {_REFUSED} THEN 'true' ELSE 'false' END)) END "
                "WHERE id IN (SELECT id FROM questions WHERE finished_at < ? AND text <> '' LIMIT ?)",
                (seconds(before), _SLICE),
            )
            if cursor.rowcount < 1:
                return forgotten
            forgotten += cursor.rowcount
