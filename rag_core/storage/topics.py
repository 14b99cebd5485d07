"""Topics of forums: their titles, which are indexed with the posts of each topic, and the posts that belong to one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.posts import assign_sequence_numbers
from rag_core.types import PostKey

TopicTitles = Mapping[int, tuple[str, int]]  # topic -> its title, and when it got it (Unix seconds)


async def save_topic_titles(connection: aiosqlite.Connection, chat_id: int, titles: TopicTitles) -> None:
    """Save the titles of topics, in the caller's transaction; a later title stays.

    The indexes read the posts of a topic again whose title changed.
    """
    changed = []
    for topic, (title, named_at) in titles.items():
        saved = await connection.execute(
            "INSERT INTO topics (chat_id, topic, title, named_at) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET title = excluded.title, named_at = excluded.named_at "
            "WHERE excluded.named_at >= topics.named_at AND excluded.title <> topics.title",
            (chat_id, topic, title, named_at),
        )
        changed += [topic] * saved.rowcount
    if changed:
        rows = await connection.execute_fetchall(
            "SELECT message_id FROM posts WHERE chat_id = ? AND topic IN (SELECT value FROM json_each(?)) "
            "AND deleted_at IS NULL ORDER BY seq",
            (chat_id, json.dumps(changed)),
        )
        await assign_sequence_numbers(connection, [PostKey(chat_id, row[0]) for row in rows])


async def load_topics_of_messages(archive: Archive, chat_id: int) -> dict[int, int]:
    """Load the topic of each message of a forum that has one: message id -> topic, the openings included."""
    rows = await archive.rows(
        "SELECT topic, topic FROM topics WHERE chat_id = ?1 UNION "
        "SELECT message_id, topic FROM posts WHERE chat_id = ?1 AND topic IS NOT NULL",
        (chat_id,),
    )
    return {row[0]: row[1] for row in rows}
