"""SQLite schema as an ordered list of migrations; `PRAGMA user_version` counts those that were applied.

Times are Unix seconds, lists and objects are JSON text. A post's row is its current version; earlier texts are in
`post_versions`. `posts.seq` comes from one growing counter, so that an index knows from a single number what it has
not seen: every new, edited, deleted or restored post gets the next one.
"""

from __future__ import annotations

__all__ = ["ADMIN_TABLES", "CONVERSATION_TABLES", "DELIVERY_TABLES", "FEEDBACK_TABLES", "MIGRATIONS", "RECIPE_TABLES"]

# Earlier questions, by which follow-ups are understood (talks.py); figures have neither texts nor readers.
CONVERSATION_TABLES = (
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
RECIPE_TABLES = (
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


# Who else is an admin, and what the admins of groups chose. `own`: 1 where the group's own admins bound the channel.
ADMIN_TABLES = (
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
FEEDBACK_TABLES = (
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
DELIVERY_TABLES = (
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


_POST_TABLES = (
    "CREATE TABLE sequence (value INTEGER NOT NULL)",
    "INSERT INTO sequence VALUES (0)",
    """CREATE TABLE channels (
        chat_id INTEGER PRIMARY KEY,
        title TEXT NOT NULL,
        username TEXT,
        kind TEXT NOT NULL,
        visibility TEXT NOT NULL CHECK (visibility IN ('public', 'members', 'admins')),
        state TEXT NOT NULL,
        linked_chat_id INTEGER,
        last_message_id INTEGER,
        added_at INTEGER NOT NULL
    )""",
    """CREATE TABLE posts (
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        date INTEGER NOT NULL,
        edited INTEGER,
        stamp INTEGER NOT NULL,
        update_id INTEGER NOT NULL,
        version INTEGER NOT NULL,
        text TEXT NOT NULL,
        text_hash BLOB NOT NULL,
        author TEXT,
        entities TEXT NOT NULL,
        links TEXT NOT NULL,
        media_kind TEXT,
        media_file_name TEXT,
        media_mime TEXT,
        origin TEXT,
        reply_to INTEGER,
        album TEXT,
        views INTEGER,
        source TEXT NOT NULL,
        deleted_at INTEGER,
        deleted_how TEXT,
        suspected INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (chat_id, message_id)
    )""",
    "CREATE UNIQUE INDEX posts_seq ON posts (seq)",
    """CREATE TABLE post_versions (
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        stamp INTEGER NOT NULL,
        update_id INTEGER NOT NULL,
        text_hash BLOB NOT NULL,
        text TEXT NOT NULL,
        entities TEXT NOT NULL,
        PRIMARY KEY (chat_id, message_id, stamp, update_id, text_hash),
        FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
    )""",
    """CREATE TABLE bindings (
        group_id INTEGER NOT NULL,
        chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
        PRIMARY KEY (group_id, chat_id)
    )""",
)

_UPDATE_TABLES = (
    """CREATE TABLE updates (
        bot_id INTEGER NOT NULL,
        update_id INTEGER NOT NULL,
        kind TEXT NOT NULL,
        raw TEXT,
        state TEXT NOT NULL CHECK (state IN ('pending', 'done', 'poison')),
        error TEXT,
        received_at INTEGER NOT NULL,
        claimed_at INTEGER,
        PRIMARY KEY (bot_id, update_id)
    )""",
    "CREATE INDEX updates_state ON updates (state, kind)",
    """CREATE TABLE questions (
        id INTEGER PRIMARY KEY,
        bot_id INTEGER NOT NULL,
        update_id INTEGER NOT NULL,
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        thread INTEGER,
        user_id INTEGER NOT NULL,
        text TEXT NOT NULL,
        lang TEXT NOT NULL,
        asked_at INTEGER NOT NULL,
        private INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'answered', 'failed')),
        attempts INTEGER NOT NULL DEFAULT 0,
        answer TEXT,
        finished_at INTEGER,
        UNIQUE (bot_id, update_id)
    )""",
    "CREATE INDEX questions_state ON questions (state, id)",
)

# An archive is known by a word of its own, so that an index that was made of another one is noticed.
_IDENTITY_TABLE = (
    "CREATE TABLE identity (value TEXT NOT NULL)",
    "INSERT INTO identity VALUES (lower(hex(randomblob(8))))",
)

# The dense leg's watermark and its queue (backlog.py).
_EMBEDDING_QUEUE_TABLES = (
    "CREATE TABLE dense (id INTEGER PRIMARY KEY CHECK (id = 0), identity TEXT NOT NULL, watermark INTEGER NOT NULL)",
    """CREATE TABLE to_embed (
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        stamp INTEGER NOT NULL,
        PRIMARY KEY (chat_id, message_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX to_embed_newest ON to_embed (stamp, seq)",
)

# What a channel's life leaves behind: when the bot came and went, holes in what it was told, albums, work on its own.
_CHANNEL_HISTORY_TABLES = (
    "ALTER TABLE channels ADD COLUMN joined_at INTEGER",
    "ALTER TABLE channels ADD COLUMN left_at INTEGER",
    # the update that told the title: an older one, which was held back, does not put an old title back
    "ALTER TABLE channels ADD COLUMN named_by INTEGER NOT NULL DEFAULT 0",
    # 1: the title is in the headers of indexed posts, and has changed since
    "ALTER TABLE channels ADD COLUMN retitled INTEGER NOT NULL DEFAULT 0",
    # 1: an admin lets protected and paid posts of this channel into the indexes
    "ALTER TABLE channels ADD COLUMN guarded_too INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE posts ADD COLUMN guarded TEXT CHECK (guarded IN ('protected', 'paid'))",
    "CREATE INDEX posts_album ON posts (chat_id, album) WHERE album IS NOT NULL",
    "CREATE INDEX posts_reply ON posts (chat_id, reply_to) WHERE reply_to IS NOT NULL",
    # of a time in which posts may have been missed; `since` NULL: from the beginning of the channel
    """CREATE TABLE gaps (
        id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
        since INTEGER,
        until INTEGER NOT NULL,
        noted_at INTEGER NOT NULL,
        told_at INTEGER,
        closed_at INTEGER
    )""",
    "CREATE TABLE heartbeat (id INTEGER PRIMARY KEY CHECK (id = 0), at INTEGER NOT NULL)",
    # the last run of each scheduled job and its last failure
    """CREATE TABLE jobs (
        name TEXT PRIMARY KEY,
        ran_at INTEGER,
        took_ms INTEGER,
        runs INTEGER NOT NULL DEFAULT 0,
        failures INTEGER NOT NULL DEFAULT 0,
        failed_at INTEGER,
        error TEXT,
        said TEXT
    )""",
    # a rebuild of the indexes that was asked for; at most one is running
    """CREATE TABLE rebuilds (
        id INTEGER PRIMARY KEY,
        chat_id INTEGER,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
        asked_at INTEGER NOT NULL,
        finished_at INTEGER,
        done INTEGER NOT NULL DEFAULT 0,
        total INTEGER NOT NULL DEFAULT 0,
        tell_chat INTEGER,
        tell_message INTEGER,
        lang TEXT
    )""",
    # the first message of the answer, by which a reader may ask about it
    "ALTER TABLE questions ADD COLUMN answer_message_id INTEGER",
)

# Which posts say the same (copies.py). `recipe` says how texts are compared: of another one nothing can be used.
_COPY_TABLES = (
    """CREATE TABLE copying (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        recipe TEXT NOT NULL,
        watermark INTEGER NOT NULL,
        families INTEGER NOT NULL
    )""",
    # `written`: when it was first written, for a forward by its author; `seq`: the state of the post it tells of
    """CREATE TABLE copies (
        id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        written INTEGER NOT NULL,
        family INTEGER NOT NULL,
        exact BLOB NOT NULL,
        band0 INTEGER, band1 INTEGER, band2 INTEGER, band3 INTEGER, band4 INTEGER, band5 INTEGER,
        UNIQUE (chat_id, message_id),
        FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
    )""",
    "CREATE INDEX copies_exact ON copies (exact)",
    "CREATE INDEX copies_family ON copies (family)",
    *(f"CREATE INDEX copies_band{n} ON copies (band{n}) WHERE band{n} IS NOT NULL" for n in range(6)),
)

# What posts are beside their text (facets.py): each index has all that is asked for, so that no text is read.
# SQLite would read the row for a piece of `origin`: so its name and chat stand beside it.
_FACET_COLUMNS = (
    "ALTER TABLE posts ADD COLUMN origin_name TEXT",
    "ALTER TABLE posts ADD COLUMN origin_chat INTEGER",
    "UPDATE posts SET origin_name = json_extract(origin, '$[0]'), origin_chat = json_extract(origin, '$[1]') "
    "WHERE origin IS NOT NULL",
    "DROP INDEX posts_album",
    "CREATE INDEX posts_album ON posts (chat_id, album, message_id) WHERE album IS NOT NULL",
    *(
        f"CREATE INDEX posts_{column} ON posts (chat_id, {column}, {also}message_id, album) WHERE {column} IS NOT NULL"
        for column, also in (
            ("media_kind", ""),
            ("author", ""),
            ("media_file_name", ""),
            ("origin_name", "origin_chat, "),
        )
    ),
)

# What an admin chose while the bot ran (choices.py).
_CHOICE_TABLE = ("CREATE TABLE choices (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",)

# What a row of questions wants: an answer, or a verdict on what is said in it.
_QUESTION_KIND_COLUMN = (
    "ALTER TABLE questions ADD COLUMN kind TEXT NOT NULL DEFAULT 'ask' CHECK (kind IN ('ask', 'verify'))",
)

# Families of copies were kept, and put together out of all channels: a closed one told that it holds a text by what it
# joined. Now pairs of texts are kept, which say nothing of who holds them; all are found anew.
_COPY_TABLES_BY_TEXT = (
    "DROP TABLE copies",
    "DROP TABLE copying",
    "CREATE TABLE copying (id INTEGER PRIMARY KEY CHECK (id = 0), recipe TEXT NOT NULL, watermark INTEGER NOT NULL)",
    # `today`: it speaks of days as seen from its own
    """CREATE TABLE copies (
        id INTEGER PRIMARY KEY,
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        written INTEGER NOT NULL,
        today INTEGER NOT NULL,
        exact BLOB NOT NULL,
        band0 INTEGER, band1 INTEGER, band2 INTEGER, band3 INTEGER, band4 INTEGER, band5 INTEGER,
        UNIQUE (chat_id, message_id),
        FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
    )""",
    "CREATE INDEX copies_exact ON copies (exact, chat_id)",
    *(f"CREATE INDEX copies_band{n} ON copies (band{n}) WHERE band{n} IS NOT NULL" for n in range(6)),
    # texts that say nearly the same, by their hashes, both ways round; gone with the last post that holds one of them
    "CREATE TABLE near_texts (one BLOB NOT NULL, other BLOB NOT NULL, PRIMARY KEY (one, other)) WITHOUT ROWID",
    "CREATE TRIGGER copies_gone AFTER DELETE ON copies "
    "WHEN NOT EXISTS (SELECT 1 FROM copies WHERE exact = OLD.exact) BEGIN "
    "DELETE FROM near_texts WHERE (one, other) IN (SELECT other, one FROM near_texts WHERE one = OLD.exact); "
    "DELETE FROM near_texts WHERE one = OLD.exact; END",
)

# Channels that nobody approved: their posts leave the indexes, and what is over their quota is not kept
# (unapproved.py). `dropped_since`: the date of the first such post.
_DROPPED_POSTS_COLUMN = (
    "ALTER TABLE channels ADD COLUMN dropped_since INTEGER",
    "UPDATE channels SET retitled = retitled + 1 WHERE state IN ('pending', 'removed')",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*_POST_TABLES, *_UPDATE_TABLES),
    _IDENTITY_TABLE,
    _EMBEDDING_QUEUE_TABLES,
    _CHANNEL_HISTORY_TABLES,
    _COPY_TABLES,
    _FACET_COLUMNS,
    _CHOICE_TABLE,
    _QUESTION_KIND_COLUMN,
    ADMIN_TABLES,
    FEEDBACK_TABLES,
    DELIVERY_TABLES,
    CONVERSATION_TABLES,
    RECIPE_TABLES,
    _COPY_TABLES_BY_TEXT,
    _DROPPED_POSTS_COLUMN,
)
