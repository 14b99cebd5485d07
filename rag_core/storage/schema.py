"""SQLite schema: its first version is `schema.sql`, later ones are migrations; `PRAGMA user_version` counts them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

FIRST_VERSION = 100  # of the schema of release 0.1; archives of any lower number were made before it


def _split_statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


# The statements of FIRST_VERSION, and one group for each version after it.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    tuple(_split_statements(Path(__file__).with_name("schema.sql").read_text("utf-8"))),
    (  # answers in groups that only the asker sees
        "ALTER TABLE questions ADD COLUMN asker_only INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE questions ADD COLUMN ephemeral_id INTEGER",
        "ALTER TABLE group_rules ADD COLUMN asker_only INTEGER NOT NULL DEFAULT 0",
    ),
    (  # text of the files of posts; `page`: the preview of a linked page
        "ALTER TABLE posts ADD COLUMN page TEXT",
        "ALTER TABLE posts ADD COLUMN media_text TEXT",
        """CREATE TABLE media (
            chat_id INTEGER NOT NULL,
            message_id INTEGER NOT NULL,
            kind TEXT NOT NULL,
            file TEXT NOT NULL,
            locator TEXT NOT NULL,
            file_name TEXT NOT NULL,
            size INTEGER NOT NULL,
            seconds INTEGER NOT NULL,
            date INTEGER NOT NULL,
            live INTEGER NOT NULL,
            state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'read', 'failed')),
            problem TEXT NOT NULL DEFAULT '',
            tries INTEGER NOT NULL DEFAULT 0,
            next_try INTEGER NOT NULL DEFAULT 0,
            digest BLOB,
            PRIMARY KEY (chat_id, message_id),
            FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
        ) WITHOUT ROWID""",
        "CREATE INDEX media_waiting ON media (kind, live, date) WHERE state = 'waiting'",
        "CREATE INDEX media_file ON media (file)",
        "CREATE INDEX media_digest ON media (digest) WHERE digest IS NOT NULL",
        """CREATE TRIGGER media_gone AFTER UPDATE OF deleted_at ON posts
        WHEN NEW.deleted_at IS NOT NULL
        BEGIN
            UPDATE posts SET media_text = NULL WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id;
            UPDATE media SET state = 'waiting', tries = 0, next_try = 0, digest = NULL
            WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id;
        END""",
        "CREATE TABLE media_paused (id INTEGER PRIMARY KEY CHECK (id = 0), since INTEGER NOT NULL)",
    ),
    (  # tokens of other programs, by the SHA-256 of each
        "CREATE TABLE access_tokens (hash TEXT PRIMARY KEY, name TEXT NOT NULL, user_id INTEGER NOT NULL, "
        "made_by INTEGER NOT NULL, made_at INTEGER NOT NULL, used_at INTEGER) WITHOUT ROWID",
    ),
)


def get_schema_version() -> int:
    """Version of the schema that this Citegram writes."""
    return FIRST_VERSION + len(MIGRATIONS) - 1


def list_missing_migrations(version: int) -> tuple[tuple[str, ...], ...]:
    """Migrations that an archive of this version lacks; 0 is a new file. Raises ValueError for an unknown version."""
    if not version:
        return MIGRATIONS
    if not FIRST_VERSION <= version <= get_schema_version():
        raise ValueError(version)
    return MIGRATIONS[version - FIRST_VERSION + 1 :]
