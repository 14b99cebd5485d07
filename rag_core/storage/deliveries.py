"""Outgoing answers: kept before they are sent, so that an answer that did not arrive is sent after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aiosqlite

from rag_core.storage.db import Archive

__all__ = [
    "DeliveryMessage",
    "drop_delivery",
    "load_delivery",
    "record_repeated_send",
    "replace_delivery",
    "save_delivery",
    "update_delivery_message",
]


@dataclass(frozen=True, slots=True)
class DeliveryMessage:
    """Outgoing message of an answer; `entities` and `markup` are JSON text.

    `tried`: sending was attempted, with unknown outcome. `message_id`: the sent message that it edits.
    """

    page: int
    text: str
    entities: str
    markup: str | None = None
    tried: bool = False
    message_id: int | None = None
    sent: bool = False


async def save_delivery(
    archive: Archive, question_id: int, messages: Sequence[DeliveryMessage], answer: str | None
) -> None:
    """Save the messages of an answer and its JSON text; nothing if the question was erased."""
    async with archive.writing() as connection:
        await _insert_delivery(connection, question_id, messages, answer)


async def replace_delivery(archive: Archive, question_id: int, messages: Sequence[DeliveryMessage]) -> None:
    """Replace the messages of an answer by others; the JSON text of the answer is dropped."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))
        await _insert_delivery(connection, question_id, messages, None)


async def _insert_delivery(
    connection: aiosqlite.Connection, question_id: int, messages: Sequence[DeliveryMessage], answer: str | None
) -> None:
    await connection.execute("UPDATE questions SET answer = ? WHERE id = ?", (answer, question_id))
    await connection.executemany(
        "INSERT OR REPLACE INTO deliveries (question_id, page, text, entities, markup, tried, message_id, sent) "
        "SELECT id, ?, ?, ?, ?, ?, ?, ? FROM questions WHERE id = ?",
        [(p.page, p.text, p.entities, p.markup, p.tried, p.message_id, p.sent, question_id) for p in messages],
    )


async def load_delivery(archive: Archive, question_id: int) -> tuple[list[DeliveryMessage], str | None]:
    """Load the messages of an undelivered answer, in order, and the JSON text of the answer."""
    sql = "SELECT d.*, q.answer FROM deliveries d JOIN questions q ON q.id = d.question_id WHERE q.id = ? ORDER BY page"
    rows = await archive.rows(sql, (question_id,))
    messages = [
        DeliveryMessage(
            r["page"], r["text"], r["entities"], r["markup"], bool(r["tried"]), r["message_id"], bool(r["sent"])
        )
        for r in rows
    ]
    return messages, rows[0]["answer"] if rows else None


async def update_delivery_message(archive: Archive, question_id: int, message: DeliveryMessage) -> None:
    """Save the delivery state of a message."""
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE deliveries SET tried = ?, message_id = ?, sent = ? WHERE question_id = ? AND page = ?",
            (message.tried, message.message_id, message.sent, question_id, message.page),
        )


async def record_repeated_send(archive: Archive, question_id: int) -> None:
    """Count a message of this answer that may have been sent twice."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE questions SET repeats = repeats + 1 WHERE id = ?", (question_id,))


async def drop_delivery(archive: Archive, question_id: int) -> None:
    """Drop an undelivered answer that is no longer valid: the question will be answered again."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))
        await connection.execute("UPDATE questions SET answer = NULL WHERE id = ?", (question_id,))
