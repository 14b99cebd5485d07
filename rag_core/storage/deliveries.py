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
    """One message of an answer; `entities` and `markup` are JSON text.

    `tried`: it was sent, and nobody knows whether it arrived. `message_id`: of the message it is to stand in.
    """

    page: int
    text: str
    entities: str
    markup: str | None = None
    tried: bool = False
    message_id: int | None = None
    sent: bool = False


async def save_delivery(
    archive: Archive, question_id: int, parcels: Sequence[DeliveryMessage], answer: str | None
) -> None:
    """Keep the messages of an answer, and what is kept of the answer itself; nothing where the question is gone."""
    async with archive.writing() as connection:
        await _insert_delivery(connection, question_id, parcels, answer)


async def replace_delivery(archive: Archive, question_id: int, parcels: Sequence[DeliveryMessage]) -> None:
    """Keep other messages in place of those of an answer, of which nothing is kept any more."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))
        await _insert_delivery(connection, question_id, parcels, None)


async def _insert_delivery(
    connection: aiosqlite.Connection, question_id: int, parcels: Sequence[DeliveryMessage], answer: str | None
) -> None:
    await connection.execute("UPDATE questions SET answer = ? WHERE id = ?", (answer, question_id))
    await connection.executemany(
        "INSERT OR REPLACE INTO deliveries (question_id, page, text, entities, markup, tried, message_id, sent) "
        "SELECT id, ?, ?, ?, ?, ?, ?, ? FROM questions WHERE id = ?",
        [(p.page, p.text, p.entities, p.markup, p.tried, p.message_id, p.sent, question_id) for p in parcels],
    )


async def load_delivery(archive: Archive, question_id: int) -> tuple[list[DeliveryMessage], str | None]:
    """The messages of an answer that has not arrived yet, in order, and what is kept of the answer itself."""
    sql = "SELECT d.*, q.answer FROM deliveries d JOIN questions q ON q.id = d.question_id WHERE q.id = ? ORDER BY page"
    rows = await archive.rows(sql, (question_id,))
    parcels = [
        DeliveryMessage(
            r["page"], r["text"], r["entities"], r["markup"], bool(r["tried"]), r["message_id"], bool(r["sent"])
        )
        for r in rows
    ]
    return parcels, rows[0]["answer"] if rows else None


async def update_delivery_message(archive: Archive, question_id: int, parcel: DeliveryMessage) -> None:
    """How far a message has come."""
    async with archive.writing() as connection:
        await connection.execute(
            "UPDATE deliveries SET tried = ?, message_id = ?, sent = ? WHERE question_id = ? AND page = ?",
            (parcel.tried, parcel.message_id, parcel.sent, question_id, parcel.page),
        )


async def record_repeated_send(archive: Archive, question_id: int) -> None:
    """Count that a message of this answer may have been sent twice."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE questions SET repeats = repeats + 1 WHERE id = ?", (question_id,))


async def drop_delivery(archive: Archive, question_id: int) -> None:
    """Forget an answer that is no longer right: the question will be answered anew."""
    async with archive.writing() as connection:
        await connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))
        await connection.execute("UPDATE questions SET answer = NULL WHERE id = ?", (question_id,))
