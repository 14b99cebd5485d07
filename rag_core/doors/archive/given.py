"""An answered question as its buttons find it, by its handle."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import asdict, dataclass
from datetime import datetime

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.questions import Answered, Asked, read_asked
from rag_core.doors.archive.rows import from_seconds

__all__ = ["Given", "before_it", "given"]

_WAITS_S = (0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Asked):
    """A question that was answered, with where and by whom it was asked, and the JSON text kept of the answer."""

    answered_at: datetime
    answer: str

    @property
    def answered(self) -> Answered:
        """The same, as /why asks for it."""
        return Answered(self.user_id, self.text, self.lang, self.answered_at, self.answer, self.thread, self.handle)


async def given(archive: Archive, handle: str) -> Given | None:
    """The answered question with this handle; None where there is none, or it is forgotten.

    A button can be pressed in the moment between the message and the note that it arrived: that is waited for.
    """
    for wait in (*_WAITS_S, None):
        rows = await archive.rows(
            "SELECT * FROM questions WHERE handle = ? AND state IN ('running', 'answered')", (handle,)
        )
        if not rows or rows[0]["state"] == "answered" or wait is None:
            break
        await asyncio.sleep(wait)
    return _given(rows[0]) if rows and rows[0]["state"] == "answered" and rows[0]["answer"] else None


async def before_it(archive: Archive, bot_id: int, chat_id: int, message_id: int, question_id: int) -> Given | None:
    """The last answer to the same message that came before this question."""
    rows = await archive.rows(
        "SELECT * FROM questions WHERE bot_id = ? AND chat_id = ? AND message_id = ? AND id < ? "
        "AND state = 'answered' AND answer IS NOT NULL ORDER BY id DESC LIMIT 1",
        (bot_id, chat_id, message_id, question_id),
    )
    return _given(rows[0]) if rows else None


def _given(row: sqlite3.Row) -> Given:
    return Given(**asdict(read_asked(row)), answered_at=from_seconds(row["finished_at"]), answer=row["answer"])
