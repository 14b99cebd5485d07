"""The tables about readers: who may what, what they said of answers, what is on its way to them (schema.py)."""

from __future__ import annotations

__all__ = ["AFTERWARDS", "ANSWERING", "PEOPLE"]

# Who else is an admin, and what the admins of groups chose. `own`: 1 where the group's own admins bound the channel.
PEOPLE = (
    "ALTER TABLE bindings ADD COLUMN own INTEGER NOT NULL DEFAULT 0",
    # 1: admins of groups may bind it, though it is not public
    "ALTER TABLE channels ADD COLUMN bindable INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE group_rules (
        group_id INTEGER PRIMARY KEY,
        cited_only INTEGER NOT NULL DEFAULT 0,
        admins_ask INTEGER NOT NULL DEFAULT 0,
        lang TEXT NOT NULL DEFAULT ''
    )""",
    """CREATE TABLE grants (
        user_id INTEGER PRIMARY KEY,
        granted_by INTEGER NOT NULL,
        granted_at INTEGER NOT NULL
    )""",
)

# What readers say of answers (feedback.py), questions that somebody made a link to (linked.py), and how a question
# is known outside: by a word of its own, which tells nothing of the others. `mode`: "deep" where more was wanted.
AFTERWARDS = (
    "ALTER TABLE questions ADD COLUMN handle TEXT",
    "ALTER TABLE questions ADD COLUMN mode TEXT",
    "CREATE UNIQUE INDEX questions_handle ON questions (handle) WHERE handle IS NOT NULL",
    # without a user: forgotten, and still counted
    """CREATE TABLE votes (
        id INTEGER PRIMARY KEY,
        question_id INTEGER REFERENCES questions ON DELETE SET NULL,
        user_id INTEGER,
        good INTEGER NOT NULL,
        reason TEXT CHECK (reason IN ('wrong', 'outdated', 'other', 'source')),
        voted_at INTEGER NOT NULL,
        UNIQUE (question_id, user_id)
    )""",
    """CREATE TABLE linked_questions (
        handle TEXT PRIMARY KEY,
        user_id INTEGER NOT NULL,
        text TEXT NOT NULL,
        made_at INTEGER NOT NULL
    ) WITHOUT ROWID""",
)

# Questions in a fair order, what is shown of them while they wait, and answers on their way to the reader
# (deliveries.py). `turn`: who goes when; `shown_in`: the message that becomes the answer; `repeats`: how often a
# message of it may have been sent twice.
ANSWERING = (
    "ALTER TABLE questions ADD COLUMN turn INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE questions ADD COLUMN shown_in INTEGER",
    "ALTER TABLE questions ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX questions_turn ON questions (state, turn, id)",
    "CREATE INDEX questions_reader ON questions (user_id, asked_at)",
    "CREATE INDEX questions_chat ON questions (chat_id, asked_at)",
    """CREATE TABLE deliveries (
        question_id INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
        page INTEGER NOT NULL,
        text TEXT NOT NULL,
        entities TEXT NOT NULL,
        markup TEXT,
        tried INTEGER NOT NULL,
        message_id INTEGER,
        sent INTEGER NOT NULL,
        PRIMARY KEY (question_id, page)
    ) WITHOUT ROWID""",
)
