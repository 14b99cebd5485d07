"""The tables of the recipes: part of the migrations in schema.py."""

from __future__ import annotations

__all__ = ["RECIPES", "TALKS"]

# Earlier questions, by which follow-ups are understood (talks.py); figures have neither texts nor readers.
TALKS = (
    """CREATE TABLE talks (
        id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        thread INTEGER NOT NULL,
        user_id INTEGER NOT NULL,
        question TEXT NOT NULL,
        entities TEXT NOT NULL,
        asked_at INTEGER NOT NULL
    )""",
    "CREATE INDEX talks_of ON talks (chat_id, thread, user_id, id)",
    "CREATE INDEX talks_asked_at ON talks (asked_at)",
    """CREATE TABLE talk_figures (
        day INTEGER NOT NULL,
        name TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (day, name)
    ) WITHOUT ROWID""",
)

# How a chat wants its questions answered (modes.py), and how they were (traces.py): stages and figures, no texts.
RECIPES = (
    "CREATE TABLE modes (chat_id INTEGER PRIMARY KEY, recipe TEXT NOT NULL, careful INTEGER NOT NULL)",
    """CREATE TABLE traces (
        id INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL UNIQUE,
        recipe TEXT NOT NULL,
        ended_at INTEGER NOT NULL,
        spans TEXT NOT NULL,
        without TEXT NOT NULL
    )""",
)
