"""SQLite schema as an ordered list of migrations; `PRAGMA user_version` counts those that were applied.

Times are Unix seconds, lists and objects are JSON text. A post's row is its current version; earlier texts are in
`post_versions`. `posts.seq` comes from one growing counter, so that an index knows from a single number what it has
not seen: every new, edited, deleted or restored post gets the next one.
"""

from __future__ import annotations

# Conversation memory for follow-up questions (conversation_turns.py).
_CONVERSATION_TABLES = (
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
)

# Answer modes of chats (chat_and_admin_settings.py), traces of answers (questions.py): stages and figures, no texts.
_RECIPE_TABLES = (
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


# Admin grants, and the rules that admins of groups chose. `own`: 1 if the group's own admins bound the channel.
_ADMIN_TABLES = (
    "ALTER TABLE bindings ADD COLUMN own INTEGER NOT NULL DEFAULT 0",
    # 1: admins of groups may bind the channel, though it is not public
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

# Votes on answers, questions behind links, and `handle`: the random public name of a question, which reveals nothing
# about others (all in questions.py). `mode`: "deep" if the reader wanted more than the first answer.
_FEEDBACK_TABLES = (
    "ALTER TABLE questions ADD COLUMN handle TEXT",
    "ALTER TABLE questions ADD COLUMN mode TEXT",
    "CREATE UNIQUE INDEX questions_handle ON questions (handle) WHERE handle IS NOT NULL",
    # without a user: erased, and still counted
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

# Fair order of questions and outgoing answers (questions.py). `turn`: round-robin number; `shown_in`:
# the progress message that becomes the answer; `repeats`: how often a message of it may have been sent twice.
_DELIVERY_TABLES = (
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

# Random identity of the archive, by which an index made from another archive is noticed.
_IDENTITY_TABLE = (
    "CREATE TABLE identity (value TEXT NOT NULL)",
    "INSERT INTO identity VALUES (lower(hex(randomblob(8))))",
)

# Watermark of the vector index and the embedding queue (index_state.py).
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

# History of a channel: when the bot joined and left, gaps; also guarded posts, albums, scheduled jobs and rebuilds.
_CHANNEL_HISTORY_TABLES = (
    "ALTER TABLE channels ADD COLUMN joined_at INTEGER",
    "ALTER TABLE channels ADD COLUMN left_at INTEGER",
    # id of the update that set the title: an older update that comes late does not restore an old title
    "ALTER TABLE channels ADD COLUMN named_by INTEGER NOT NULL DEFAULT 0",
    # above 0: the title, which is in the headers of indexed posts, or the approval has changed since indexing
    "ALTER TABLE channels ADD COLUMN retitled INTEGER NOT NULL DEFAULT 0",
    # 1: an admin allows protected and paid posts of this channel in the indexes
    "ALTER TABLE channels ADD COLUMN guarded_too INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE posts ADD COLUMN guarded TEXT CHECK (guarded IN ('protected', 'paid'))",
    "CREATE INDEX posts_album ON posts (chat_id, album) WHERE album IS NOT NULL",
    "CREATE INDEX posts_reply ON posts (chat_id, reply_to) WHERE reply_to IS NOT NULL",
    # periods in which posts may have been missed; `since` NULL: from the beginning of the channel
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
    # rebuilds of the indexes; at most one is running
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
    # the first message of the answer, to which a reader may reply with /why and the like
    "ALTER TABLE questions ADD COLUMN answer_message_id INTEGER",
)

# Facets of posts (post_lookup.py): each index is covering, so that no row with its text is read.
# SQLite would read the row for a part of `origin`: so its name and chat have columns of their own.
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

# Settings that an admin chose at run time (chat_and_admin_settings.py).
_CHOICE_TABLE = ("CREATE TABLE choices (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",)

# Kind of a question: "ask" for an answer, "verify" for a verdict on the text.
_QUESTION_KIND_COLUMN = (
    "ALTER TABLE questions ADD COLUMN kind TEXT NOT NULL DEFAULT 'ask' CHECK (kind IN ('ask', 'verify'))",
)

# Near-duplicates (near_duplicates.py). `recipe` names the comparison method: rows of another method cannot be used.
# Families of copies, which an earlier step stored, were built from all channels: one that was joined through a closed
# channel revealed that this channel holds the text. Pairs of texts are stored instead, without their channels.
_COPY_TABLES = (
    "DROP TABLE IF EXISTS copies",
    "DROP TABLE IF EXISTS copying",
    "CREATE TABLE copying (id INTEGER PRIMARY KEY CHECK (id = 0), recipe TEXT NOT NULL, watermark INTEGER NOT NULL)",
    # `written`: when the text was first written, for a forward by its author; `seq`: the state of the post it
    # describes; `today`: the text has relative dates such as "today"
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
    # pairs of near-duplicate texts by their hashes, in both orders; deleted with the last post that holds one of them
    "CREATE TABLE near_texts (one BLOB NOT NULL, other BLOB NOT NULL, PRIMARY KEY (one, other)) WITHOUT ROWID",
    "CREATE TRIGGER copies_gone AFTER DELETE ON copies "
    "WHEN NOT EXISTS (SELECT 1 FROM copies WHERE exact = OLD.exact) BEGIN "
    "DELETE FROM near_texts WHERE (one, other) IN (SELECT other, one FROM near_texts WHERE one = OLD.exact); "
    "DELETE FROM near_texts WHERE one = OLD.exact; END",
)

# Unapproved channels: their posts leave the indexes, and posts over their quota are dropped (unapproved_channels.py).
# `dropped_since`: the date of the first dropped post.
_DROPPED_POSTS_COLUMN = (
    "ALTER TABLE channels ADD COLUMN dropped_since INTEGER",
    "UPDATE channels SET retitled = retitled + 1 WHERE state IN ('pending', 'removed')",
)

_CHANNEL_SYNONYM_TABLE = (
    "DROP TABLE IF EXISTS synonyms",  # of all channels, from an earlier step
    "CREATE TABLE channel_synonyms (chat_id INTEGER NOT NULL, word TEXT NOT NULL, meaning TEXT NOT NULL, "
    "added_by INTEGER NOT NULL, added_at INTEGER NOT NULL, PRIMARY KEY (chat_id, word, meaning)) WITHOUT ROWID",
)

# Pinned answers (synonyms_and_pinned_answers.py): `asked` is a keyed hash of a question's terms, no words of it.
_PIN_TABLE = (
    """CREATE TABLE pinned_answers (
        asked TEXT NOT NULL,
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        pinned_by INTEGER NOT NULL,
        pinned_at INTEGER NOT NULL,
        PRIMARY KEY (asked, chat_id),
        FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
    ) WITHOUT ROWID""",
    "CREATE INDEX pinned_posts ON pinned_answers (chat_id, message_id)",
    "CREATE TRIGGER pinned_gone AFTER UPDATE OF deleted_at ON posts WHEN NEW.deleted_at IS NOT NULL BEGIN "
    "DELETE FROM pinned_answers WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id; END",
)

# Watches (subscriptions.py): what readers wait for, the posts that matched, and up to which change posts were matched.
# Digests of chats (same file): every how many days, at which hour, of which channels, and when the next
# one is due.
_WATCH_TABLES = (
    """CREATE TABLE watches (
        id INTEGER PRIMARY KEY,
        user_id INTEGER NOT NULL,
        chat_id INTEGER NOT NULL,
        private INTEGER NOT NULL,
        text TEXT NOT NULL,
        query TEXT NOT NULL,
        channels TEXT,
        made_at INTEGER NOT NULL,
        paused INTEGER NOT NULL DEFAULT 0,
        muted_until INTEGER NOT NULL DEFAULT 0,
        quiet TEXT NOT NULL DEFAULT '',
        blocked_at INTEGER
    )""",
    "CREATE INDEX watches_of_chats ON watches (chat_id)",
    """CREATE TABLE watch_hits (
        watch_id INTEGER NOT NULL,
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        found_at INTEGER NOT NULL,
        state TEXT NOT NULL,
        done_at INTEGER,
        PRIMARY KEY (watch_id, chat_id, message_id)
    ) WITHOUT ROWID""",
    "CREATE INDEX watch_hits_to_send ON watch_hits (watch_id) WHERE state IN ('waiting', 'over')",
    "CREATE TABLE watching (watermark INTEGER NOT NULL)",
    "INSERT INTO watching SELECT value FROM sequence",
    """CREATE TABLE digests (
        chat_id INTEGER PRIMARY KEY,
        user_id INTEGER NOT NULL,
        private INTEGER NOT NULL,
        days INTEGER NOT NULL,
        hour INTEGER NOT NULL,
        channels TEXT,
        lang TEXT NOT NULL,
        since INTEGER NOT NULL,
        due INTEGER NOT NULL
    )""",
)

# History over MTProto (channel_history.py). `next_id`: ids from here down are still to be asked for; NULL: not begun.
_HISTORY_TABLES = (
    """CREATE TABLE history (
        chat_id INTEGER PRIMARY KEY REFERENCES channels ON DELETE CASCADE,
        state TEXT NOT NULL CHECK (state IN ('running', 'paused', 'cancelled', 'done', 'failed')),
        began_at INTEGER NOT NULL,
        since INTEGER,
        newest_id INTEGER,
        next_id INTEGER,
        saved INTEGER NOT NULL DEFAULT 0,
        problem TEXT NOT NULL DEFAULT ''
    )""",
    # when each post was last seen in its channel; `missing_since`: first time it was not there; `kept`: an admin
    # put it back, so that no later look takes it out
    """CREATE TABLE post_looks (
        chat_id INTEGER NOT NULL,
        message_id INTEGER NOT NULL,
        looked_at INTEGER NOT NULL,
        missing_since INTEGER,
        kept INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (chat_id, message_id),
        FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
    ) WITHOUT ROWID""",
    "CREATE INDEX post_looks_looked_at ON post_looks (chat_id, looked_at)",
)

# Topics of forums: `topic` is the id of the message that opened it. `named_at`: when it got its title.
_TOPIC_TABLES = (
    "ALTER TABLE posts ADD COLUMN topic INTEGER",
    "CREATE INDEX posts_topic ON posts (chat_id, topic) WHERE topic IS NOT NULL",
    """CREATE TABLE topics (
        chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
        topic INTEGER NOT NULL,
        title TEXT NOT NULL,
        named_at INTEGER NOT NULL,
        PRIMARY KEY (chat_id, topic)
    ) WITHOUT ROWID""",
)

# Readers who were in a channel when Telegram last said so (memberships.py).
_MEMBERSHIP_TABLE = (
    """CREATE TABLE memberships (
        user_id INTEGER NOT NULL,
        chat_id INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        PRIMARY KEY (user_id, chat_id)
    ) WITHOUT ROWID""",
)

# When a question was queued by this machine's clock, for rate limits; `asked_at` is Telegram's time of the message.
_QUEUED_AT_COLUMN = (
    "ALTER TABLE questions ADD COLUMN queued_at INTEGER",
    "UPDATE questions SET queued_at = asked_at",
)

# Which model made the vectors, and the one that they replaced, while its store is still there. `next_vectors`: vectors
# of another model that are embedded beside the live ones, up to a sequence number.
_VECTOR_MODEL_TABLES = (
    "ALTER TABLE dense ADD COLUMN model TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE dense ADD COLUMN replaced TEXT NOT NULL DEFAULT ''",
    """CREATE TABLE next_vectors (
        id INTEGER PRIMARY KEY CHECK (id = 0),
        model TEXT NOT NULL,
        identity TEXT NOT NULL,
        watermark INTEGER NOT NULL
    )""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*_POST_TABLES, *_UPDATE_TABLES),
    _IDENTITY_TABLE,
    _EMBEDDING_QUEUE_TABLES,
    _CHANNEL_HISTORY_TABLES,
    (),  # here were tables that a later step drops; an archive may have them
    _FACET_COLUMNS,
    _CHOICE_TABLE,
    _QUESTION_KIND_COLUMN,
    _ADMIN_TABLES,
    _FEEDBACK_TABLES,
    _DELIVERY_TABLES,
    _CONVERSATION_TABLES,
    _RECIPE_TABLES,
    _COPY_TABLES,
    _DROPPED_POSTS_COLUMN,
    (),  # here too
    _CHANNEL_SYNONYM_TABLE,
    ("DROP TABLE IF EXISTS talk_figures",),  # counts of follow-ups by day, which nothing read
    _PIN_TABLE,
    _WATCH_TABLES,
    _HISTORY_TABLES,
    # a text is looked up among thousands of earlier ones of its post
    ("CREATE INDEX post_versions_text ON post_versions (chat_id, message_id, text_hash)",),
    _TOPIC_TABLES,
    _MEMBERSHIP_TABLE,
    _QUEUED_AT_COLUMN,
    _VECTOR_MODEL_TABLES,
)
