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
