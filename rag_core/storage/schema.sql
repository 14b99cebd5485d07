-- The tables of FIRST_VERSION (schema.py). Never changed: later versions are migrations.
-- Times are Unix seconds, lists and objects are JSON text. A post's row is its current version; earlier texts are in
-- post_versions. posts.seq comes from one growing counter, so that an index knows from a single number what it has not
-- seen: every new, edited, deleted or restored post gets the next one.

-- `named_by`: id of the update that set the title: an older update that comes late does not restore an old title.
-- `retitled` above 0: the title, which is in the headers of indexed posts, or the approval changed since indexing.
-- `guarded_too` 1: an admin allows protected and paid posts in the indexes. `bindable` 1: admins of groups may bind
-- the channel, though it is not public. `dropped_since`: the date of the first post dropped over the quota.
CREATE TABLE channels (
    chat_id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    username TEXT,
    kind TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('public', 'members', 'admins')),
    state TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    joined_at INTEGER,
    left_at INTEGER,
    named_by INTEGER NOT NULL DEFAULT 0,
    retitled INTEGER NOT NULL DEFAULT 0,
    guarded_too INTEGER NOT NULL DEFAULT 0,
    bindable INTEGER NOT NULL DEFAULT 0,
    dropped_since INTEGER
);

-- topics of forums: `topic` is the id of the message that opened it; `named_at`: when it got its title
CREATE TABLE topics (
    chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
    topic INTEGER NOT NULL,
    title TEXT NOT NULL,
    named_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, topic)
) WITHOUT ROWID;

-- `own`: 1 if the group's own admins bound the channel
CREATE TABLE bindings (
    group_id INTEGER NOT NULL,
    chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
    own INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, chat_id)
);

CREATE TABLE group_rules (
    group_id INTEGER PRIMARY KEY,
    cited_only INTEGER NOT NULL DEFAULT 0,
    admins_ask INTEGER NOT NULL DEFAULT 0,
    lang TEXT NOT NULL DEFAULT ''
);

-- periods in which posts may have been missed; `since` NULL: from the beginning of the channel
CREATE TABLE gaps (
    id INTEGER PRIMARY KEY,
    chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
    since INTEGER,
    until INTEGER NOT NULL,
    noted_at INTEGER NOT NULL,
    told_at INTEGER,
    closed_at INTEGER
);

CREATE TABLE heartbeat (id INTEGER PRIMARY KEY CHECK (id = 0), at INTEGER NOT NULL);

-- history over MTProto; `next_id`: ids from here down are still to be asked for; NULL: not begun
CREATE TABLE history (
    chat_id INTEGER PRIMARY KEY REFERENCES channels ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('running', 'paused', 'cancelled', 'done', 'failed')),
    began_at INTEGER NOT NULL,
    since INTEGER,
    newest_id INTEGER,
    next_id INTEGER,
    saved INTEGER NOT NULL DEFAULT 0,
    problem TEXT NOT NULL DEFAULT ''
);

CREATE TABLE channel_synonyms (chat_id INTEGER NOT NULL, word TEXT NOT NULL, meaning TEXT NOT NULL,
    added_by INTEGER NOT NULL, added_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, word, meaning)) WITHOUT ROWID;

CREATE TABLE sequence (value INTEGER NOT NULL);
INSERT INTO sequence VALUES (0);

-- `origin_name` and `origin_chat` are parts of `origin`: for a part of it SQLite would read the row
CREATE TABLE posts (
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
    source TEXT NOT NULL,
    deleted_at INTEGER,
    deleted_how TEXT,
    suspected INTEGER NOT NULL DEFAULT 0,
    guarded TEXT CHECK (guarded IN ('protected', 'paid')),
    origin_name TEXT,
    origin_chat INTEGER,
    topic INTEGER,
    PRIMARY KEY (chat_id, message_id)
);
CREATE UNIQUE INDEX posts_seq ON posts (seq);
CREATE INDEX posts_reply ON posts (chat_id, reply_to) WHERE reply_to IS NOT NULL;
CREATE INDEX posts_topic ON posts (chat_id, topic) WHERE topic IS NOT NULL;
CREATE INDEX posts_album ON posts (chat_id, album, message_id) WHERE album IS NOT NULL;

-- facets (posts.py): each index is covering, so that no row with its text is read
CREATE INDEX posts_media_kind ON posts (chat_id, media_kind, message_id, album) WHERE media_kind IS NOT NULL;
CREATE INDEX posts_author ON posts (chat_id, author, message_id, album) WHERE author IS NOT NULL;
CREATE INDEX posts_media_file_name ON posts (chat_id, media_file_name, message_id, album) WHERE media_file_name IS NOT NULL;
CREATE INDEX posts_origin_name ON posts (chat_id, origin_name, origin_chat, message_id, album) WHERE origin_name IS NOT NULL;

CREATE TABLE post_versions (
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    update_id INTEGER NOT NULL,
    text_hash BLOB NOT NULL,
    text TEXT NOT NULL,
    entities TEXT NOT NULL,
    PRIMARY KEY (chat_id, message_id, stamp, update_id, text_hash),
    FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
);

-- a text is looked up among thousands of earlier ones of its post
CREATE INDEX post_versions_text ON post_versions (chat_id, message_id, text_hash);

-- when each post was last seen in its channel; `missing_since`: first time it was not there; `kept`: an admin
-- put it back, so that no later look takes it out
CREATE TABLE post_looks (
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    looked_at INTEGER NOT NULL,
    missing_since INTEGER,
    kept INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (chat_id, message_id),
    FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX post_looks_looked_at ON post_looks (chat_id, looked_at);

-- `asked` is a keyed hash of a question's terms, no words of it
CREATE TABLE pinned_answers (
    asked TEXT NOT NULL,
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    pinned_by INTEGER NOT NULL,
    pinned_at INTEGER NOT NULL,
    PRIMARY KEY (asked, chat_id),
    FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX pinned_posts ON pinned_answers (chat_id, message_id);
CREATE TRIGGER pinned_gone AFTER UPDATE OF deleted_at ON posts
WHEN NEW.deleted_at IS NOT NULL
BEGIN
    DELETE FROM pinned_answers WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id;
END;

-- Near-duplicates (near_duplicates.py). `recipe` names the comparison method: rows of another method cannot be used.

CREATE TABLE copying (id INTEGER PRIMARY KEY CHECK (id = 0), recipe TEXT NOT NULL, watermark INTEGER NOT NULL);

-- `written`: when the text was first written, for a forward by its author; `seq`: the state of the post it
-- describes; `today`: the text has relative dates such as "today"
CREATE TABLE copies (
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
);
CREATE INDEX copies_exact ON copies (exact, chat_id);
CREATE INDEX copies_band0 ON copies (band0) WHERE band0 IS NOT NULL;
CREATE INDEX copies_band1 ON copies (band1) WHERE band1 IS NOT NULL;
CREATE INDEX copies_band2 ON copies (band2) WHERE band2 IS NOT NULL;
CREATE INDEX copies_band3 ON copies (band3) WHERE band3 IS NOT NULL;
CREATE INDEX copies_band4 ON copies (band4) WHERE band4 IS NOT NULL;
CREATE INDEX copies_band5 ON copies (band5) WHERE band5 IS NOT NULL;

-- pairs of near-duplicate texts by their hashes, in both orders, without the channels: a family that is stored could
-- be joined through a closed channel; deleted with the last post that holds one of them
CREATE TABLE near_texts (one BLOB NOT NULL, other BLOB NOT NULL, PRIMARY KEY (one, other)) WITHOUT ROWID;
CREATE TRIGGER copies_gone AFTER DELETE ON copies
WHEN NOT EXISTS (SELECT 1 FROM copies WHERE exact = OLD.exact)
BEGIN
    DELETE FROM near_texts WHERE (one, other) IN (SELECT other, one FROM near_texts WHERE one = OLD.exact);
    DELETE FROM near_texts WHERE one = OLD.exact;
END;

-- random identity of the archive, by which an index made from another archive is noticed
CREATE TABLE identity (value TEXT NOT NULL);
INSERT INTO identity VALUES (lower(hex(randomblob(8))));

-- the live vectors, their model, and the model that they replaced, while its store is still there
CREATE TABLE dense (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    identity TEXT NOT NULL,
    watermark INTEGER NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    replaced TEXT NOT NULL DEFAULT ''
);

-- vectors of another model that are embedded beside the live ones, up to a sequence number
CREATE TABLE next_vectors (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    model TEXT NOT NULL,
    identity TEXT NOT NULL,
    watermark INTEGER NOT NULL
);

CREATE TABLE to_embed (
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    PRIMARY KEY (chat_id, message_id)
) WITHOUT ROWID;
CREATE INDEX to_embed_newest ON to_embed (stamp, seq);

-- rebuilds of the indexes; at most one is running
CREATE TABLE rebuilds (
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
);

-- the last run of each scheduled job and its last failure
CREATE TABLE jobs (
    name TEXT PRIMARY KEY,
    ran_at INTEGER,
    took_ms INTEGER,
    runs INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    failed_at INTEGER,
    error TEXT,
    said TEXT
);

CREATE TABLE updates (
    bot_id INTEGER NOT NULL,
    update_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    raw TEXT,
    state TEXT NOT NULL CHECK (state IN ('pending', 'done', 'poison')),
    error TEXT,
    received_at INTEGER NOT NULL,
    claimed_at INTEGER,
    PRIMARY KEY (bot_id, update_id)
);
CREATE INDEX updates_state ON updates (state, kind);

-- `answer_message_id`: the first message of the answer, to which a reader may reply. `kind`: "verify" for a verdict
-- on the text. `handle`: random public name, which reveals nothing about others. `mode`: "deep" if the reader wanted
-- more than the first answer. `turn`: round-robin number. `shown_in`: the progress message that becomes the answer.
-- `repeats`: how often a message of it may have been sent twice. `queued_at`: by this machine's clock, for rate
-- limits; `asked_at` is Telegram's time of the message.
CREATE TABLE questions (
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
    answer_message_id INTEGER,
    kind TEXT NOT NULL DEFAULT 'ask' CHECK (kind IN ('ask', 'verify')),
    handle TEXT,
    mode TEXT,
    turn INTEGER NOT NULL DEFAULT 0,
    shown_in INTEGER,
    repeats INTEGER NOT NULL DEFAULT 0,
    queued_at INTEGER,
    UNIQUE (bot_id, update_id)
);
CREATE INDEX questions_state ON questions (state, id);
CREATE UNIQUE INDEX questions_handle ON questions (handle) WHERE handle IS NOT NULL;
CREATE INDEX questions_turn ON questions (state, turn, id);
CREATE INDEX questions_reader ON questions (user_id, asked_at);
CREATE INDEX questions_chat ON questions (chat_id, asked_at);

CREATE TABLE deliveries (
    question_id INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
    page INTEGER NOT NULL,
    text TEXT NOT NULL,
    entities TEXT NOT NULL,
    markup TEXT,
    tried INTEGER NOT NULL,
    message_id INTEGER,
    sent INTEGER NOT NULL,
    PRIMARY KEY (question_id, page)
) WITHOUT ROWID;

-- without a user: erased, and still counted
CREATE TABLE votes (
    id INTEGER PRIMARY KEY,
    question_id INTEGER REFERENCES questions ON DELETE SET NULL,
    user_id INTEGER,
    good INTEGER NOT NULL,
    reason TEXT CHECK (reason IN ('wrong', 'outdated', 'other', 'source')),
    voted_at INTEGER NOT NULL,
    UNIQUE (question_id, user_id)
);

CREATE TABLE linked_questions (
    handle TEXT PRIMARY KEY,
    user_id INTEGER NOT NULL,
    text TEXT NOT NULL,
    made_at INTEGER NOT NULL
) WITHOUT ROWID;

-- conversation memory for follow-up questions
CREATE TABLE talks (
    id INTEGER PRIMARY KEY,
    chat_id INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    question TEXT NOT NULL,
    entities TEXT NOT NULL,
    asked_at INTEGER NOT NULL
);
CREATE INDEX talks_of ON talks (chat_id, thread, user_id, id);
CREATE INDEX talks_asked_at ON talks (asked_at);

-- stages and figures, no texts
CREATE TABLE traces (
    id INTEGER PRIMARY KEY,
    trace_id TEXT NOT NULL UNIQUE,
    recipe TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    spans TEXT NOT NULL,
    without TEXT NOT NULL
);

CREATE TABLE choices (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE modes (chat_id INTEGER PRIMARY KEY, recipe TEXT NOT NULL, careful INTEGER NOT NULL);

CREATE TABLE grants (
    user_id INTEGER PRIMARY KEY,
    granted_by INTEGER NOT NULL,
    granted_at INTEGER NOT NULL
);

-- readers who were in a channel when Telegram last said so
CREATE TABLE memberships (
    user_id INTEGER NOT NULL,
    chat_id INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, chat_id)
) WITHOUT ROWID;

-- watches: what readers wait for, the posts that matched, and up to which change posts were matched
CREATE TABLE watches (
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
);
CREATE INDEX watches_of_chats ON watches (chat_id);

CREATE TABLE watch_hits (
    watch_id INTEGER NOT NULL,
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    found_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    done_at INTEGER,
    PRIMARY KEY (watch_id, chat_id, message_id)
) WITHOUT ROWID;
CREATE INDEX watch_hits_to_send ON watch_hits (watch_id) WHERE state IN ('waiting', 'over');

CREATE TABLE watching (watermark INTEGER NOT NULL);
INSERT INTO watching VALUES (0);

-- digests of chats: every how many days, at which hour, of which channels, and when the next one is due
CREATE TABLE digests (
    chat_id INTEGER PRIMARY KEY,
    user_id INTEGER NOT NULL,
    private INTEGER NOT NULL,
    days INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    channels TEXT,
    lang TEXT NOT NULL,
    since INTEGER NOT NULL,
    due INTEGER NOT NULL
);
