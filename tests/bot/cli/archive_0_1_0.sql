BEGIN TRANSACTION;
CREATE TABLE access_tokens (hash TEXT PRIMARY KEY, name TEXT NOT NULL, user_id INTEGER NOT NULL, made_by INTEGER NOT NULL, made_at INTEGER NOT NULL, used_at INTEGER) WITHOUT ROWID;
CREATE TABLE bindings (
    group_id INTEGER NOT NULL,
    chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
    own INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, chat_id)
);
CREATE TABLE channel_synonyms (chat_id INTEGER NOT NULL, word TEXT NOT NULL, meaning TEXT NOT NULL,
    added_by INTEGER NOT NULL, added_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, word, meaning)) WITHOUT ROWID;
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
INSERT INTO "channels" VALUES(-10077,'Quarry','quarry_swimmers','channel','public','active',1795831685,NULL,NULL,0,0,0,0,NULL);
CREATE TABLE choices (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
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
INSERT INTO "copies" VALUES(1,-10077,1,1,1790000001,0,X'E7E5EA849B1864ADDA12BC9A6DEE2C02',-2316359013103706894,6677776669397814386,-360866069605287998,-529636103439144475,4511792240344738329,7121932420395623486);
INSERT INTO "copies" VALUES(2,-10077,2,2,1790000002,0,X'AADA501120C19F0504BD44314272D7DB',-3856378058149343151,5709831179039694145,-8691597751853013793,4871879785021477020,-6100043572865827623,7496619568059994278);
INSERT INTO "copies" VALUES(3,-10077,3,3,1790000003,0,X'6E692393F1650C2D4939563059B4635F',242730635794268156,-1597445842813308178,7711950962948718321,-6013061993617928478,301331860527365498,-1615458234792345382);
CREATE TABLE copying (id INTEGER PRIMARY KEY CHECK (id = 0), recipe TEXT NOT NULL, watermark INTEGER NOT NULL);
INSERT INTO "copying" VALUES(0,'1 6ad18c7674c3c45af77d1c55a3e1a388 2539703757683942348 -6198465906259788856',3);
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
CREATE TABLE dense (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    identity TEXT NOT NULL,
    watermark INTEGER NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    replaced TEXT NOT NULL DEFAULT ''
);
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
CREATE TABLE gaps (
    id INTEGER PRIMARY KEY,
    chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
    since INTEGER,
    until INTEGER NOT NULL,
    noted_at INTEGER NOT NULL,
    told_at INTEGER,
    closed_at INTEGER
);
CREATE TABLE grants (
    user_id INTEGER PRIMARY KEY,
    granted_by INTEGER NOT NULL,
    granted_at INTEGER NOT NULL
);
CREATE TABLE group_rules (
    group_id INTEGER PRIMARY KEY,
    cited_only INTEGER NOT NULL DEFAULT 0,
    admins_ask INTEGER NOT NULL DEFAULT 0,
    lang TEXT NOT NULL DEFAULT ''
, asker_only INTEGER NOT NULL DEFAULT 0);
CREATE TABLE heartbeat (id INTEGER PRIMARY KEY CHECK (id = 0), at INTEGER NOT NULL);
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
CREATE TABLE identity (value TEXT NOT NULL);
INSERT INTO "identity" VALUES('7a122660a978abea');
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
CREATE TABLE linked_questions (
    handle TEXT PRIMARY KEY,
    user_id INTEGER NOT NULL,
    text TEXT NOT NULL,
    made_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE media (
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
        ) WITHOUT ROWID;
CREATE TABLE media_paused (id INTEGER PRIMARY KEY CHECK (id = 0), since INTEGER NOT NULL);
CREATE TABLE memberships (
    user_id INTEGER NOT NULL,
    chat_id INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, chat_id)
) WITHOUT ROWID;
CREATE TABLE modes (chat_id INTEGER PRIMARY KEY, recipe TEXT NOT NULL, careful INTEGER NOT NULL);
CREATE TABLE near_texts (one BLOB NOT NULL, other BLOB NOT NULL, PRIMARY KEY (one, other)) WITHOUT ROWID;
CREATE TABLE next_vectors (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    model TEXT NOT NULL,
    identity TEXT NOT NULL,
    watermark INTEGER NOT NULL
);
CREATE TABLE pinned_answers (
    asked TEXT NOT NULL,
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    pinned_by INTEGER NOT NULL,
    pinned_at INTEGER NOT NULL,
    PRIMARY KEY (asked, chat_id),
    FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE post_looks (
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    looked_at INTEGER NOT NULL,
    missing_since INTEGER,
    kept INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (chat_id, message_id),
    FOREIGN KEY (chat_id, message_id) REFERENCES posts ON DELETE CASCADE
) WITHOUT ROWID;
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
    topic INTEGER, page TEXT, media_text TEXT,
    PRIMARY KEY (chat_id, message_id)
);
INSERT INTO "posts" VALUES(-10077,1,1,1790000001,NULL,1790000001,0,1,'The water has 14 degrees this morning.',X'EAAA48FFEF68176366086102469F090E',NULL,'[]','[]',NULL,NULL,NULL,NULL,NULL,NULL,'import',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "posts" VALUES(-10077,2,2,1790000002,NULL,1790000002,0,1,'Bring a towel and dry shoes.',X'B5F2F743A605584CC7E39451AE586E10',NULL,'[]','[]',NULL,NULL,NULL,NULL,NULL,NULL,'import',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "posts" VALUES(-10077,3,3,1790000003,NULL,1790000003,0,1,'Training is on Mondays at six.',X'7D29B32AB8B923678C21275E5ECD5729',NULL,'[]','[]',NULL,NULL,NULL,NULL,NULL,NULL,'import',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL);
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
    queued_at INTEGER, asker_only INTEGER NOT NULL DEFAULT 0, ephemeral_id INTEGER,
    UNIQUE (bot_id, update_id)
);
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
CREATE TABLE sequence (value INTEGER NOT NULL);
INSERT INTO "sequence" VALUES(3);
CREATE TABLE talks (
    id INTEGER PRIMARY KEY,
    chat_id INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    question TEXT NOT NULL,
    entities TEXT NOT NULL,
    asked_at INTEGER NOT NULL
);
CREATE TABLE to_embed (
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    PRIMARY KEY (chat_id, message_id)
) WITHOUT ROWID;
CREATE TABLE topics (
    chat_id INTEGER NOT NULL REFERENCES channels ON DELETE CASCADE,
    topic INTEGER NOT NULL,
    title TEXT NOT NULL,
    named_at INTEGER NOT NULL,
    PRIMARY KEY (chat_id, topic)
) WITHOUT ROWID;
CREATE TABLE traces (
    id INTEGER PRIMARY KEY,
    trace_id TEXT NOT NULL UNIQUE,
    recipe TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    spans TEXT NOT NULL,
    without TEXT NOT NULL
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
CREATE TABLE votes (
    id INTEGER PRIMARY KEY,
    question_id INTEGER REFERENCES questions ON DELETE SET NULL,
    user_id INTEGER,
    good INTEGER NOT NULL,
    reason TEXT CHECK (reason IN ('wrong', 'outdated', 'other', 'source')),
    voted_at INTEGER NOT NULL,
    UNIQUE (question_id, user_id)
);
CREATE TABLE watch_hits (
    watch_id INTEGER NOT NULL,
    chat_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    found_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    done_at INTEGER,
    PRIMARY KEY (watch_id, chat_id, message_id)
) WITHOUT ROWID;
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
CREATE TABLE watching (watermark INTEGER NOT NULL);
INSERT INTO "watching" VALUES(0);
CREATE UNIQUE INDEX posts_seq ON posts (seq);
CREATE INDEX posts_reply ON posts (chat_id, reply_to) WHERE reply_to IS NOT NULL;
CREATE INDEX posts_topic ON posts (chat_id, topic) WHERE topic IS NOT NULL;
CREATE INDEX posts_album ON posts (chat_id, album, message_id) WHERE album IS NOT NULL;
CREATE INDEX posts_media_kind ON posts (chat_id, media_kind, message_id, album) WHERE media_kind IS NOT NULL;
CREATE INDEX posts_author ON posts (chat_id, author, message_id, album) WHERE author IS NOT NULL;
CREATE INDEX posts_media_file_name ON posts (chat_id, media_file_name, message_id, album) WHERE media_file_name IS NOT NULL;
CREATE INDEX posts_origin_name ON posts (chat_id, origin_name, origin_chat, message_id, album) WHERE origin_name IS NOT NULL;
CREATE INDEX post_versions_text ON post_versions (chat_id, message_id, text_hash);
CREATE INDEX post_looks_looked_at ON post_looks (chat_id, looked_at);
CREATE INDEX pinned_posts ON pinned_answers (chat_id, message_id);
CREATE TRIGGER pinned_gone AFTER UPDATE OF deleted_at ON posts
WHEN NEW.deleted_at IS NOT NULL
BEGIN
    DELETE FROM pinned_answers WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id;
END;
CREATE INDEX copies_exact ON copies (exact, chat_id);
CREATE INDEX copies_band0 ON copies (band0) WHERE band0 IS NOT NULL;
CREATE INDEX copies_band1 ON copies (band1) WHERE band1 IS NOT NULL;
CREATE INDEX copies_band2 ON copies (band2) WHERE band2 IS NOT NULL;
CREATE INDEX copies_band3 ON copies (band3) WHERE band3 IS NOT NULL;
CREATE INDEX copies_band4 ON copies (band4) WHERE band4 IS NOT NULL;
CREATE INDEX copies_band5 ON copies (band5) WHERE band5 IS NOT NULL;
CREATE TRIGGER copies_gone AFTER DELETE ON copies
WHEN NOT EXISTS (SELECT 1 FROM copies WHERE exact = OLD.exact)
BEGIN
    DELETE FROM near_texts WHERE (one, other) IN (SELECT other, one FROM near_texts WHERE one = OLD.exact);
    DELETE FROM near_texts WHERE one = OLD.exact;
END;
CREATE INDEX to_embed_newest ON to_embed (stamp, seq);
CREATE INDEX updates_state ON updates (state, kind);
CREATE INDEX questions_state ON questions (state, id);
CREATE UNIQUE INDEX questions_handle ON questions (handle) WHERE handle IS NOT NULL;
CREATE INDEX questions_turn ON questions (state, turn, id);
CREATE INDEX questions_reader ON questions (user_id, asked_at);
CREATE INDEX questions_chat ON questions (chat_id, asked_at);
CREATE INDEX talks_of ON talks (chat_id, thread, user_id, id);
CREATE INDEX talks_asked_at ON talks (asked_at);
CREATE INDEX watches_of_chats ON watches (chat_id);
CREATE INDEX watch_hits_to_send ON watch_hits (watch_id) WHERE state IN ('waiting', 'over');
CREATE INDEX media_waiting ON media (kind, live, date) WHERE state = 'waiting';
CREATE INDEX media_file ON media (file);
CREATE INDEX media_digest ON media (digest) WHERE digest IS NOT NULL;
CREATE TRIGGER media_gone AFTER UPDATE OF deleted_at ON posts
        WHEN NEW.deleted_at IS NOT NULL
        BEGIN
            UPDATE posts SET media_text = NULL WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id;
            UPDATE media SET state = 'waiting', tries = 0, next_try = 0, digest = NULL
            WHERE chat_id = NEW.chat_id AND message_id = NEW.message_id;
        END;
COMMIT;
PRAGMA user_version = 103;
