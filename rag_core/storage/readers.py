"""Readers: settings, grants, groups, memberships and conversations that are kept of them; what a user may erase, and
what is forgotten in time.

Of conversations the last questions of a reader are kept with the names in their answers, and nothing else. Of
memberships only who is in a channel, and only of people who ask. Of access tokens of programs only the hash is
stored: 256 random bits need neither salt nor delay.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import NamedTuple, TypeVar

import aiosqlite

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_row, get_unix_time, to_unix_time
from rag_core.storage.questions import IS_REFUSAL_SQL
from rag_core.storage.raw_updates import IS_POST_SQL
from rag_core.text.tokens import tokenize
from rag_core.types import AUTO_RECIPE, Viewer

T = TypeVar("T")


async def load_choices(archive: Archive) -> dict[str, str]:
    """Load all choices stored at run time, of admins and of chats: name -> value."""
    return {row["name"]: row["value"] for row in await archive.rows("SELECT name, value FROM choices")}


async def save_choice(archive: Archive, name: str, value: str) -> None:
    """Save a setting that an admin chose; it replaces an earlier value."""
    await archive.execute("INSERT OR REPLACE INTO choices (name, value) VALUES (?, ?)", (name, value))


async def load_chat_zone(archive: Archive, chat_id: int) -> str:
    """Load the name of the time zone that a chat chose; "" where it chose none."""
    return str(await archive.value("SELECT value FROM choices WHERE name = ?", (f"zone {chat_id}",)) or "")


async def save_chat_zone(archive: Archive, chat_id: int, zone: str) -> None:
    """Save the name of a chat's time zone."""
    await save_choice(archive, f"zone {chat_id}", zone)


async def is_rich_chat(archive: Archive, chat_id: int) -> bool:
    """Check whether a chat chose rich messages."""
    return bool(await archive.value("SELECT value FROM choices WHERE name = ?", (f"rich {chat_id}",)))


async def save_rich_chat(archive: Archive, chat_id: int, *, rich: bool) -> None:
    """Save whether a chat gets rich messages."""
    await save_choice(archive, f"rich {chat_id}", "on" if rich else "")


async def load_channel_sets(archive: Archive, chat_id: int) -> dict[str, frozenset[int]]:
    """Load the named sets of channels of a chat: lower-case name -> channels, which the reader may not all read now."""
    value = await archive.value("SELECT value FROM choices WHERE name = ?", (f"sets {chat_id}",)) or "{}"
    return {name: frozenset(chosen) for name, chosen in json.loads(value).items()}


MAX_SET_NAME_LENGTH = 30
# With a preposition, which is no term.
_SET_PREFIX_PATTERN = re.compile(rf"([^\n:]{{1,{MAX_SET_NAME_LENGTH + 10}}}):\s*(?=\S)")


async def narrow_to_channel_set(
    archive: Archive, chats: Iterable[int], text: str, viewer: Viewer
) -> tuple[str, Viewer]:
    """Narrow a question that begins with the name of a set of these chats; any other question stays as it is.

    Returns the question without this name, and its viewer with the channels of the set that they may read.
    """
    found = _SET_PREFIX_PATTERN.match(text)
    if found and (asked := tokenize(found[1])):
        for chat in chats:
            for name, chosen in (await load_channel_sets(archive, chat)).items():
                if tokenize(name) == asked:  # "в работе" names the set "работа"
                    return text[found.end() :], viewer.narrow(chosen)
    return text, viewer


async def change_channel_sets(archive: Archive, chat_id: int, change: Callable[[dict[str, frozenset[int]]], T]) -> T:
    """Change the named sets of channels of a chat in one transaction; returns what `change` returned."""
    name = f"sets {chat_id}"
    async with archive.writing() as connection:
        rows = list(await connection.execute_fetchall("SELECT value FROM choices WHERE name = ?", (name,)))
        sets = {key: frozenset(chosen) for key, chosen in json.loads(rows[0][0] if rows else "{}").items()}
        result = change(sets)
        value = json.dumps({key: sorted(chosen) for key, chosen in sets.items()}, ensure_ascii=False)
        await connection.execute("INSERT OR REPLACE INTO choices (name, value) VALUES (?, ?)", (name, value))
    return result


@dataclass(frozen=True, slots=True)
class AdminGrant:
    """Admin grant: the id of the new admin, the id of the admin who granted it, and when."""

    user_id: int
    granted_by: int
    granted_at: datetime


async def list_admin_grants(archive: Archive) -> list[AdminGrant]:
    """List all admin grants, the oldest first."""
    rows = await archive.rows("SELECT * FROM grants ORDER BY granted_at, user_id")
    return [decode_row(AdminGrant, row) for row in rows]


async def grant_admin(archive: Archive, user_id: int, by: int) -> None:
    """Grant admin rights to a user; an existing grant is not changed."""
    sql = "INSERT OR IGNORE INTO grants (user_id, granted_by, granted_at) VALUES (?, ?, ?)"
    await archive.execute(sql, (user_id, by, get_unix_time()))


async def revoke_admin(archive: Archive, user_id: int) -> None:
    """Revoke the admin rights of a user."""
    await archive.execute("DELETE FROM grants WHERE user_id = ?", (user_id,))


@dataclass(frozen=True, slots=True)
class AnswerMode:
    """Answer mode of a chat: `recipe` is a recipe's name or "auto"; `careful`: review a draft before it is shown."""

    recipe: str = AUTO_RECIPE
    careful: bool = False


async def load_answer_mode(archive: Archive, chat_id: int) -> AnswerMode:
    """Load the answer mode of a chat; the default is "auto"."""
    rows = await archive.rows("SELECT recipe, careful FROM modes WHERE chat_id = ?", (chat_id,))
    return decode_row(AnswerMode, rows[0]) if rows else AnswerMode()


async def load_recipe_choices(archive: Archive, chat_id: int) -> tuple[AnswerMode, dict[str, str], int]:
    """Load in one read what decides how a chat is answered: its mode, all stored choices, and how many wait."""

    def read(connection: sqlite3.Connection) -> tuple[AnswerMode, dict[str, str], int]:
        mode = connection.execute("SELECT recipe, careful FROM modes WHERE chat_id = ?", (chat_id,)).fetchone()
        chosen = dict(tuple(row) for row in connection.execute("SELECT name, value FROM choices"))
        (waiting,) = connection.execute("SELECT count(*) FROM questions WHERE state = 'queued'").fetchone()
        return decode_row(AnswerMode, mode) if mode else AnswerMode(), chosen, waiting

    return await archive.read(read)


async def save_answer_mode(archive: Archive, chat_id: int, mode: AnswerMode) -> None:
    """Save the answer mode of a chat."""
    await archive.save_rows("modes", [{"chat_id": chat_id, **encode_row(mode)}])


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Rules of a group that its admins chose."""

    cited_only: bool = False  # refuse if an answer is not sure
    admins_ask: bool = False  # only admins may ask here
    lang: str = ""  # "ru" or "en", the bot's language for everybody; "" for each user's own language
    asker_only: bool = False  # only the asker sees an answer


async def load_group_rules(archive: Archive, group_id: int) -> GroupRules:
    """Load the rules of a group; the defaults if nobody chose any."""
    rows = await archive.rows("SELECT * FROM group_rules WHERE group_id = ?", (group_id,))
    return decode_row(GroupRules, rows[0]) if rows else GroupRules()


async def change_group_rules(archive: Archive, group_id: int, **changed: bool | str) -> None:
    """Change rules of a group, named as in `GroupRules`; others may be changed at the same time."""
    columns, values = ", ".join(changed), ", ".join("?" * len(changed))
    renewed = ", ".join(f"{column} = excluded.{column}" for column in changed)
    sql = f"INSERT INTO group_rules (group_id, {columns}) VALUES (?, {values}) ON CONFLICT DO UPDATE SET {renewed}"
    await archive.execute(sql, (group_id, *changed.values()))


async def move_group(archive: Archive, old: int, new: int) -> None:
    """Move bindings, rules, choices, watches, digests, waiting questions to a group's new id; what is there stays."""
    async with archive.writing() as connection:
        await connection.execute("UPDATE watches SET chat_id = ?, blocked_at = NULL WHERE chat_id = ?", (new, old))
        for table, column in (("digests", "chat_id"), ("bindings", "group_id"), ("group_rules", "group_id")):
            await connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} = ?", (new, old))
            await connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (old,))
        for name in ("zone", "rich", "sets", "memory"):
            sql = "UPDATE OR IGNORE choices SET name = ? WHERE name = ?"
            await connection.execute(sql, (f"{name} {new}", f"{name} {old}"))
        await connection.execute("UPDATE OR IGNORE modes SET chat_id = ? WHERE chat_id = ?", (new, old))
        sql = "UPDATE questions SET chat_id = ? WHERE chat_id = ? AND state IN ('queued', 'running')"
        await connection.execute(sql, (new, old))


async def set_channel_bindable(archive: Archive, chat_id: int, allowed: bool) -> None:
    """Allow group admins to bind a known channel that is not public, or no longer, which ends their bindings."""
    await archive.execute("UPDATE channels SET bindable = ? WHERE chat_id = ?", (allowed, chat_id))


async def bind_channel(archive: Archive, group_id: int, chat_id: int, *, own: bool = False) -> None:
    """Let a group read a known channel; `own`: its own admins bound it, which counts only as long as they may."""
    sql = "INSERT INTO bindings VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET own = min(own, excluded.own)"
    await archive.execute(sql, (group_id, chat_id, own))


async def unbind_channel(archive: Archive, group_id: int, chat_id: int) -> None:
    """Remove the binding of a channel to a group."""
    await archive.execute("DELETE FROM bindings WHERE group_id = ? AND chat_id = ?", (group_id, chat_id))


async def list_bound_groups(archive: Archive) -> list[int]:
    """List the groups with bound channels."""
    return await archive.column("SELECT DISTINCT group_id FROM bindings ORDER BY group_id")


async def list_bound_channels(archive: Archive, group_id: int) -> frozenset[int]:
    """List the channels a group may read; those bound by its own admins only while they are public or bindable."""
    sql = (
        "SELECT chat_id FROM bindings JOIN channels USING (chat_id) "
        "WHERE group_id = ? AND (NOT own OR visibility = 'public' OR bindable)"
    )
    return frozenset(await archive.column(sql, (group_id,)))


async def load_memberships(archive: Archive, user_id: int) -> dict[int, int]:
    """Load the channels that a user was in, with the Unix time at which Telegram said so."""
    rows = await archive.rows("SELECT chat_id, seen_at FROM memberships WHERE user_id = ?", (user_id,))
    return {row["chat_id"]: row["seen_at"] for row in rows}


async def save_memberships(
    archive: Archive, user_id: int, moment: datetime, entered: Collection[int], left: Collection[int]
) -> None:
    """Save that a user was in these channels at a moment, and was not in others."""
    async with archive.writing() as connection:
        sql = "INSERT OR REPLACE INTO memberships (user_id, chat_id, seen_at) VALUES (?, ?, ?)"
        await connection.executemany(sql, [(user_id, chat, to_unix_time(moment)) for chat in entered])
        sql = "DELETE FROM memberships WHERE user_id = ? AND chat_id = ?"
        await connection.executemany(sql, [(user_id, chat) for chat in left])


_SAME_CONVERSATION = "chat_id = ? AND user_id = ? AND thread = ?"


class ConversationKey(NamedTuple):
    """Key of a conversation: a reader in a chat and topic; `thread` 0 is none."""

    chat: int
    user: int
    thread: int = 0


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """Turn of a conversation: the self-contained question, and the names in its answer."""

    question: str
    entities: tuple[str, ...] = ()
    asked_at: datetime | None = None


_EXPIRE_TURNS_SQL = "DELETE FROM talks WHERE asked_at < ?"


async def remember_turn(
    archive: Archive, talk: ConversationKey, turn: ConversationTurn, at: datetime, most: int, expired: datetime
) -> None:
    """Save the newest turn of a conversation and drop all but the last `most` turns, and all asked before `expired`."""
    names = json.dumps(turn.entities, ensure_ascii=False)

    def remember(connection: sqlite3.Connection) -> None:
        connection.execute(_EXPIRE_TURNS_SQL, (to_unix_time(expired),))
        sql = "INSERT INTO talks (chat_id, user_id, thread, question, entities, asked_at) VALUES (?, ?, ?, ?, ?, ?)"
        connection.execute(sql, (*talk, turn.question, names, to_unix_time(at)))
        connection.execute(
            f"DELETE FROM talks WHERE {_SAME_CONVERSATION} AND id NOT IN "
            f"(SELECT id FROM talks WHERE {_SAME_CONVERSATION} ORDER BY id DESC LIMIT ?)",
            (*talk, *talk, most),
        )

    await archive.write(remember)


async def list_recent_turns(archive: Archive, talk: ConversationKey, since: datetime) -> list[ConversationTurn]:
    """List the turns of a conversation since a moment, newest first."""
    sql = f"SELECT * FROM talks WHERE {_SAME_CONVERSATION} AND asked_at >= ? ORDER BY id DESC"
    rows = await archive.rows(sql, (*talk, to_unix_time(since)))
    return [decode_row(ConversationTurn, row, entities=tuple(json.loads(row["entities"]))) for row in rows]


async def forget_turns(
    archive: Archive, *, user: int | None = None, chat: int | None = None, thread: int | None = None
) -> int:
    """Delete the turns of a user, a chat, a topic; None means any. Returns how many."""
    which = "(?1 IS NULL OR user_id = ?1) AND (?2 IS NULL OR chat_id = ?2) AND (?3 IS NULL OR thread = ?3)"
    return await archive.execute(f"DELETE FROM talks WHERE {which}", (user, chat, thread))


# Updates of a user that the bot could not read or has not handled yet: the JSON paths of the author's id.
# One that is nested too deeply for SQLite has none.
_SENT_BY_USER = "CASE WHEN json_valid(raw) THEN {} END".format(
    " OR ".join(
        f"json_extract(raw, '$.{kind}.from.id') = ?1" for kind in ("message", "edited_message", "callback_query")
    )
)
_USER_VOTES = "user_id = ?1 AND (?2 IS NULL OR question_id IN (SELECT id FROM questions WHERE questions.chat_id = ?2))"
_USER_ROWS = "user_id = ?1 AND (?2 IS NULL OR chat_id = ?2)"
_USER_CHOICES = "name IN ('zone ' || ?1, 'rich ' || ?1)"  # that nothing be remembered stays
# What is stored of a user beside questions, by kind: rows to count, or to delete in this order. `unread` are updates
# that could not be read, `talks` turns of conversation memory; `sets`, `choices` and `modes` are of their private chat.
_USER_DATA = {
    "votes": f"votes WHERE {_USER_VOTES}",
    "links": "linked_questions WHERE user_id = ?1 AND ?2 IS NULL",
    "unread": f"updates WHERE state = 'poison' AND raw IS NOT NULL AND ({_SENT_BY_USER}) AND ?2 IS NULL",
    "talks": f"talks WHERE {_USER_ROWS}",
    "sets": "choices WHERE name = 'sets ' || ?1 AND value <> '{}' AND ?2 IS NULL",  # a private chat has its user's id
    "choices": f"choices WHERE {_USER_CHOICES} AND ?2 IS NULL",
    "modes": "modes WHERE chat_id = ?1 AND ?2 IS NULL",
    "watches": f"watches WHERE {_USER_ROWS}",
    "digests": f"digests WHERE {_USER_ROWS}",
    "memberships": "memberships WHERE user_id = ?1 AND ?2 IS NULL",
    "tokens": "access_tokens WHERE user_id = ?1 AND ?2 IS NULL",
}


async def count_user_data(archive: Archive, user_id: int, chat_id: int | None = None) -> dict[str, int]:
    """Count the stored data of a user by kind, 0 where there is none; with `chat_id`, only the data of that chat."""
    async with archive.writing() as connection:  # the reader's snapshot may be slightly old
        return await _count_user_rows(connection, user_id, chat_id)


async def _count_user_rows(connection: aiosqlite.Connection, user_id: int, chat_id: int | None) -> dict[str, int]:
    asked = f"questions WHERE text <> '' AND {_USER_ROWS}"
    unanswered = f"{asked} AND state IN ('queued', 'running')"
    counts = {}
    for kind, rows in {"questions": asked, "pending": unanswered, **_USER_DATA}.items():
        ((counts[kind],),) = await connection.execute_fetchall(f"SELECT count(*) FROM {rows}", (user_id, chat_id))
    return counts


async def erase_user_data(archive: Archive, user_id: int, chat_id: int | None = None) -> dict[str, int]:
    """Erase the data of a user, in all chats or in one, and overwrite its bytes in the file. Returns the counts.

    Votes of other users on an erased answer stay counted, without the answer. A question that is being answered is
    erased too; its answer is then not saved.
    """
    async with archive.writing() as connection:
        await connection.execute("PRAGMA secure_delete = ON")
        counts = await _count_user_rows(connection, user_id, chat_id)
        hits = f"watch_hits WHERE watch_id IN (SELECT id FROM watches WHERE {_USER_ROWS})"
        for rows in (hits, *_USER_DATA.values(), f"questions WHERE {_USER_ROWS}"):
            await connection.execute(f"DELETE FROM {rows}", (user_id, chat_id))
        await connection.execute("PRAGMA secure_delete = OFF")
    return counts


async def list_waiting_chats(archive: Archive, user_id: int, chat_id: int | None = None) -> list[int]:
    """List the chats in which a user waits for an answer; with `chat_id`, only that chat or none."""
    sql = f"SELECT DISTINCT chat_id FROM questions WHERE {_USER_ROWS} AND state IN ('queued', 'running')"
    return await archive.column(sql, (user_id, chat_id))


async def list_user_questions(archive: Archive, user_id: int) -> list[sqlite3.Row]:
    """List the rows of a user's questions, oldest first."""
    return await archive.rows("SELECT * FROM questions WHERE user_id = ? AND text <> '' ORDER BY id", (user_id,))


_USER_RECORDS_SQL = {
    "votes": "SELECT good, reason, voted_at, question_id, (SELECT text FROM questions WHERE id = question_id "
    "AND questions.user_id = votes.user_id) AS asked FROM votes WHERE user_id = ? ORDER BY voted_at, id",
    "links": "SELECT handle, text, made_at FROM linked_questions WHERE user_id = ? ORDER BY made_at",
    "turns": "SELECT chat_id, question, json_array_length(entities) AS names, asked_at FROM talks WHERE user_id = ? "
    "ORDER BY id",
    "choices": "SELECT substr(name, 1, instr(name, ' ') - 1) AS name, value FROM choices "
    f"WHERE {_USER_CHOICES} ORDER BY name",
    "modes": "SELECT recipe, careful FROM modes WHERE chat_id = ?",
    "watches": "SELECT chat_id, text, made_at, paused, quiet FROM watches WHERE user_id = ? ORDER BY id",
    "digests": "SELECT chat_id, days, hour FROM digests WHERE user_id = ? ORDER BY chat_id",
    "memberships": "SELECT chat_id, seen_at FROM memberships WHERE user_id = ? ORDER BY chat_id",
    "tokens": "SELECT name, made_at, used_at FROM access_tokens WHERE user_id = ? ORDER BY made_at",
}


async def list_user_records(archive: Archive, user_id: int) -> dict[str, list[dict[str, object]]]:
    """List what is stored of a user beside questions, for the user, oldest first: rows of `_USER_RECORDS_SQL` by kind.

    `asked` is their own question or None. Of the `names` in turns only the number: the user may no longer be allowed to
    read the posts they come from.
    """
    return {kind: [dict(row) for row in await archive.rows(sql, (user_id,))] for kind, sql in _USER_RECORDS_SQL.items()}


async def get_user_language(archive: Archive, user_id: int) -> str | None:
    """Language of a user's last question; None if they never asked one."""
    sql = "SELECT lang FROM questions WHERE user_id = ? ORDER BY id DESC LIMIT 1"
    lang: str | None = await archive.value(sql, (user_id,))
    return lang


MAX_TOKENS = 20  # of all admins: a list that fits into one message
_USE_INTERVAL_SECONDS = 3600  # the last use is written again after this time
_HANDLE_LENGTH = 12  # hexadecimal digits of the hash, which name a token in buttons


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Access token: what its admin called it, whose rights it has, who made it, when it was last used (to the hour)."""

    hash: str
    name: str
    user_id: int
    made_by: int
    made_at: datetime
    used_at: datetime | None

    @property
    def handle(self) -> str:
        """Name of the token in buttons."""
        return self.hash[:_HANDLE_LENGTH]


async def create_token(archive: Archive, name: str, *, user_id: int, made_by: int) -> str | None:
    """Create a token for a user and return it, the only time that it is known; None where there are too many."""
    secret = f"cg_{token_urlsafe(32)}"
    sql = (
        "INSERT INTO access_tokens (hash, name, user_id, made_by, made_at) "
        "SELECT ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM access_tokens) < ?"
    )
    values = (_hash_token(secret), name, user_id, made_by, get_unix_time(), MAX_TOKENS)
    return secret if await archive.execute(sql, values) else None


async def find_token(archive: Archive, secret: str) -> AccessToken | None:
    """Find a token, and note that it is used; None for one that is unknown or revoked. Raises ArchiveUnavailable."""
    for row in await archive.rows("SELECT * FROM access_tokens WHERE hash = ?", (_hash_token(secret),)):
        if (row["used_at"] or 0) < get_unix_time() - _USE_INTERVAL_SECONDS:
            sql = "UPDATE access_tokens SET used_at = ? WHERE hash = ?"
            await archive.execute(sql, (get_unix_time(), row["hash"]))
        return decode_row(AccessToken, row)
    return None


async def list_tokens(archive: Archive) -> list[AccessToken]:
    """List all tokens, oldest first."""
    rows = await archive.rows("SELECT * FROM access_tokens ORDER BY made_at, hash")
    return [decode_row(AccessToken, row) for row in rows]


async def revoke_token(archive: Archive, handle: str) -> bool:
    """Revoke a token by its handle, at once; False where there is none."""
    sql = f"DELETE FROM access_tokens WHERE substr(hash, 1, {_HANDLE_LENGTH}) = ?"
    return bool(await archive.execute(sql, (handle,)))


def _hash_token(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


# Telegram redelivers an update for at most 24 h; twice that is safe.
_DONE_UPDATES_KEPT = timedelta(hours=48)
_HITS_KEPT = timedelta(days=30)
_BLOCKED_WATCHES_KEPT = timedelta(days=30)  # of a chat that blocked the bot
_BATCH_ROWS = 1000  # of one transaction


async def forget_old_data(archive: Archive, now: datetime, kept: timedelta, remembered: timedelta) -> dict[str, int]:
    """Forget what is old; returns how many rows, by what they were.

    `kept` is the age of questions, votes, links, memberships and unread updates, `remembered` that of conversations.
    """
    ages = (kept, remembered, _DONE_UPDATES_KEPT, _HITS_KEPT, _BLOCKED_WATCHES_KEPT)
    before, talked, done, found, blocked = (to_unix_time(now - age) for age in ages)
    poison = f"state = 'poison' AND NOT {IS_POST_SQL}"  # they may hold texts of users
    # the vote itself stays counted
    votes = "UPDATE votes SET user_id = NULL, question_id = NULL WHERE user_id IS NOT NULL AND voted_at < ?"
    hits = "DELETE FROM watch_hits WHERE found_at < ? OR watch_id IN (SELECT id FROM watches WHERE blocked_at < ?)"
    await archive.execute("DELETE FROM memberships WHERE seen_at < ?", (before,))
    await archive.execute(hits, (found, blocked))
    updates = await archive.execute("DELETE FROM updates WHERE state = 'done' AND received_at < ?", (done,))
    updates += await archive.execute(f"DELETE FROM updates WHERE {poison} AND received_at < ?", (before,))
    return {
        "updates": updates,
        "questions": await forget_question_texts(archive, now - kept),
        "votes": await archive.execute(votes, (before,)),
        "links": await archive.execute("DELETE FROM linked_questions WHERE made_at < ?", (before,)),
        "remembered questions": await archive.execute(_EXPIRE_TURNS_SQL, (talked,)),
        "watches": await archive.execute("DELETE FROM watches WHERE blocked_at < ?", (blocked,)),
    }


async def forget_question_texts(archive: Archive, before: datetime) -> int:
    """Erase who asked what in questions finished before a moment, which stay counted. Returns how many."""
    forgotten = 0
    while True:
        async with archive.writing() as connection:
            cursor = await connection.execute(
                "UPDATE questions SET text = '', user_id = 0, chat_id = 0, message_id = 0, thread = NULL, "
                "answer_message_id = NULL, handle = NULL, answer = CASE state WHEN 'answered' THEN "
                f"json_object('refused', json(CASE WHEN {IS_REFUSAL_SQL} THEN 'true' ELSE 'false' END), "
                "'certainty', json_extract(answer, '$.certainty')) END "
                "WHERE id IN (SELECT id FROM questions WHERE finished_at < ? AND text <> '' LIMIT ?)",
                (to_unix_time(before), _BATCH_ROWS),
            )
            if cursor.rowcount < 1:
                return forgotten
            forgotten += cursor.rowcount
