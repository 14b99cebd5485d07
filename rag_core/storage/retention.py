"""Retention: what is kept for a time only is deleted, or names and texts of readers are taken out of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import to_unix_seconds
from rag_core.storage.questions import IS_REFUSAL_SQL
from rag_core.storage.raw_updates import IS_POST_SQL
from rag_core.storage.readers import EXPIRE_TURNS_SQL

# Telegram redelivers an update for at most 24 h; twice that is safe.
_DONE_UPDATES_KEPT = timedelta(hours=48)
_HITS_KEPT = timedelta(days=30)
_BLOCKED_WATCHES_KEPT = timedelta(days=30)  # of a chat that blocked the bot
_BATCH_ROWS = 1000  # of one transaction


async def forget_old_data(archive: Archive, now: datetime, kept: timedelta, remembered: timedelta) -> dict[str, int]:
    """Forget what is old; returns how many rows, by what they were.

    `kept` is the age of questions, votes, links, memberships and unread updates, `remembered` that of conversations.
    """
    ages = (kept, remembered, _DONE_UPDATES_KEPT, _HITS_KEPT, _BLOCKED_WATCHES_KEPT)
    before, talked, done, found, blocked = (to_unix_seconds(now - age) for age in ages)
    poison = f"state = 'poison' AND NOT {IS_POST_SQL}"  # they may hold texts of users
    voter = "user_id = NULL, question_id = NULL"  # the vote itself stays counted
    hits = "DELETE FROM watch_hits WHERE found_at < ? OR watch_id IN (SELECT id FROM watches WHERE blocked_at < ?)"
    await archive.execute("DELETE FROM memberships WHERE seen_at < ?", (before,))
    await archive.execute(hits, (found, blocked))
    updates = await archive.execute("DELETE FROM updates WHERE state = 'done' AND received_at < ?", (done,))
    updates += await archive.execute(f"DELETE FROM updates WHERE {poison} AND received_at < ?", (before,))
    return {
        "updates": updates,
        "questions": await forget_question_texts(archive, now - kept),
        "votes": await archive.execute(
            f"UPDATE votes SET {voter} WHERE user_id IS NOT NULL AND voted_at < ?", (before,)
        ),
        "links": await archive.execute("DELETE FROM linked_questions WHERE made_at < ?", (before,)),
        "remembered questions": await archive.execute(EXPIRE_TURNS_SQL, (talked,)),
        "watches": await archive.execute("DELETE FROM watches WHERE blocked_at < ?", (blocked,)),
    }


async def forget_question_texts(archive: Archive, before: datetime) -> int:
    """Erase who asked what in questions finished before a moment, which stay counted. Returns how many."""
    forgotten = 0
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                "UPDATE questions SET text = '', user_id = 0, chat_id = 0, message_id = 0, thread = NULL, "
                "answer_message_id = NULL, handle = NULL, answer = CASE state WHEN 'answered' THEN "
                f"json_object('refused', json(CASE WHEN {IS_REFUSAL_SQL} THEN 'true' ELSE 'false' END), "
                "'certainty', json_extract(answer, '$.certainty')) END "
                "WHERE id IN (SELECT id FROM questions WHERE finished_at < ? AND text <> '' LIMIT ?)",
                (to_unix_seconds(before), _BATCH_ROWS),
            )
            if cursor.rowcount < 1:
                return forgotten
            forgotten += cursor.rowcount
