"""Questions: the queue, answers by handle or message, outgoing answers, links, traces, votes, and their statistics.

A question that was running when the bot stopped is queued again; an answer is kept before it is sent, so that one
that did not arrive is sent after a restart. Traces hold stages, timings, counts and errors, never a text. A link to a
question has a random handle that nobody can guess. A reader has one vote on each answer, with a reason for a bad one.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, encode_keys, encode_row, from_unix_time, get_unix_time, to_unix_time
from rag_core.types import PostKey


async def save_linked_question(archive: Archive, user_id: int, text: str, handle: str) -> str:
    """Save a question for a link; returns its handle: an earlier one if this user linked the same text before."""
    async with archive.writing() as connection:
        sql = "SELECT handle FROM linked_questions WHERE user_id = ? AND text = ?"
        for row in await connection.execute_fetchall(sql, (user_id, text)):
            return str(row["handle"])
        sql = "INSERT INTO linked_questions (handle, user_id, text, made_at) VALUES (?, ?, ?, ?)"
        await connection.execute(sql, (handle, user_id, text, get_unix_time()))
        return handle


async def get_linked_question(archive: Archive, handle: str) -> str | None:
    """Text of the question behind a link; None if the handle is unknown or was dropped."""
    text: str | None = await archive.value("SELECT text FROM linked_questions WHERE handle = ?", (handle,))
    return text


_MAX_TRACES = 5000  # traces kept: weeks of a busy bot, a few megabytes


@dataclass(frozen=True, slots=True)
class AnswerTrace:
    """Trace of one answer: its stages (stage, took_ms, counts, error), and in `without` what it had to do without."""

    trace_id: str
    recipe: str
    ended_at: datetime
    spans: tuple[dict[str, Any], ...]
    without: tuple[str, ...]


async def save_trace(
    archive: Archive, trace_id: str, recipe: str, spans: Sequence[dict[str, Any]], without: Sequence[str]
) -> None:
    """Save a trace and drop the oldest ones. Raises ArchiveUnavailable."""
    row = (trace_id, recipe, get_unix_time(), json.dumps(list(spans)), json.dumps(list(without)))

    def save(connection: sqlite3.Connection) -> None:
        sql = "INSERT OR REPLACE INTO traces (trace_id, recipe, ended_at, spans, without) VALUES (?, ?, ?, ?, ?)"
        cursor = connection.execute(sql, row)
        connection.execute("DELETE FROM traces WHERE id <= ?", ((cursor.lastrowid or 0) - _MAX_TRACES,))

    await archive.write(save)


async def fetch_trace(archive: Archive, trace_id: str) -> AnswerTrace | None:
    """Fetch a trace by its id; None if it is unknown or was dropped. Raises ArchiveUnavailable."""
    for row in await archive.rows("SELECT * FROM traces WHERE trace_id = ?", (trace_id,)):
        spans, without = (tuple(json.loads(row[name])) for name in ("spans", "without"))
        return decode_row(AnswerTrace, row, spans=spans, without=without)
    return None


VOTE_REASONS = ("wrong", "outdated", "other", "source")


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """Counts of good and bad votes; `reasons` counts the bad ones by reason, in the order of VOTE_REASONS."""

    good: int = 0
    bad: int = 0
    reasons: tuple[int, ...] = (0, 0, 0, 0)


async def save_vote(archive: Archive, question_id: int, user_id: int, *, good: bool, reason: str | None = None) -> bool:
    """Save a vote in place of an earlier one, a bad one keeps its reason. False if the same was saved before."""
    sql = (
        "INSERT INTO votes (question_id, user_id, good, reason, voted_at) VALUES (?1, ?2, ?3, ?4, ?5) "
        "ON CONFLICT (question_id, user_id) DO UPDATE SET good = ?3, reason = ?4, voted_at = ?5 "
        "WHERE good <> ?3 OR (?4 IS NOT NULL AND reason IS NOT ?4)"
    )
    return await archive.execute(sql, (question_id, user_id, good, None if good else reason, get_unix_time())) == 1


async def count_votes(archive: Archive, *, question_id: int | None = None, since: datetime | None = None) -> VoteCounts:
    """Count the votes on one answer, or those of all readers since a moment."""
    reasons = ", ".join(f"count(*) FILTER (WHERE reason = '{reason}')" for reason in VOTE_REASONS)
    ((good, bad, *why),) = await archive.rows(
        f"SELECT count(*) FILTER (WHERE good), count(*) FILTER (WHERE NOT good), {reasons} FROM votes "
        "WHERE (?1 IS NULL OR question_id = ?1) AND voted_at >= ?2",
        (question_id, to_unix_time(since) if since else 0),
    )
    return VoteCounts(good, bad, tuple(why))


# A long answer has several messages; in a busy group messages of others come between them.
_MAX_MESSAGE_DISTANCE = 50
# Round-robin between readers: a question comes after the earlier questions of its reader, and after the round that
# is being answered now. So the twentieth question of one reader comes after the first question of every other reader.
_NEXT_TURN_SQL = (
    "1 + max((SELECT coalesce(max(turn), 0) FROM questions "
    "WHERE user_id = :user_id AND state IN ('queued', 'running')), "
    "(SELECT coalesce(max(turn), 0) FROM questions WHERE state = 'running'), "
    "(SELECT coalesce(max(turn), 0) FROM questions WHERE state = 'answered'), "
    "(SELECT coalesce(max(turn), 0) FROM questions WHERE state = 'failed'))"
)


PROGRAM_MODE = "program"  # of a question of another program, which gets the answer instead of the chat


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """Question in the queue, which gives it `id`, `handle` and `attempts`: its update, chat, message and reader."""

    id: int = 0
    bot_id: int
    update_id: int
    chat_id: int
    message_id: int
    thread: int | None = None
    user_id: int
    text: str
    lang: str
    asked_at: datetime
    private: bool
    attempts: int = 0  # how many answers to it were begun
    kind: str = "ask"  # for an answer; "verify" for a verdict on the text
    handle: str = ""  # its name in buttons
    # "deep" if the reader wants more than the first answer, "fuller" for an answer to the asker alone beside that to
    # the group, "shared" for one to the group after that to the asker, or PROGRAM_MODE.
    mode: str | None = None
    shown_in: int | None = None  # id of the progress message that becomes the answer
    asker_only: bool = False  # the ids of its answer's messages are ephemeral ones, which count for a chat and member
    ephemeral_id: int | None = None  # of the question, if that was ephemeral: its `message_id` is 0

    @property
    def talk(self) -> int:
        """Thread of the conversation: what only the asker sees has its own, as a public answer must not refer to it."""
        return ~(self.thread or 0) if self.asker_only else self.thread or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredQuestion(QuestionRow):
    """Answered question, with the stored JSON text of the answer."""

    answered_at: datetime
    answer: str


async def queue_question(archive: Archive, asked: QuestionRow) -> int | None:
    """Queue a question and return its id; None if this update was queued before."""
    now = get_unix_time()
    # One of a program counts as failed until its answer is saved, so that no worker sends it to a chat.
    state, finished_at = ("failed", now) if asked.mode == PROGRAM_MODE else ("queued", None)
    sql = (
        "INSERT OR IGNORE INTO questions (bot_id, update_id, chat_id, message_id, thread, user_id, text, lang, "
        "asked_at, queued_at, private, mode, kind, asker_only, ephemeral_id, state, finished_at, handle, turn) "
        "VALUES (:bot_id, :update_id, :chat_id, :message_id, :thread, :user_id, :text, :lang, "
        ":asked_at, :queued_at, :private, :mode, :kind, :asker_only, :ephemeral_id, :state, :finished_at, "
        f"lower(hex(randomblob(10))), {_NEXT_TURN_SQL}) RETURNING id"
    )
    values = encode_row(asked) | {"queued_at": now, "state": state, "finished_at": finished_at}
    queued = await archive.change(sql, values)
    return queued["id"] if queued else None


async def take_next_question(archive: Archive) -> QuestionRow | None:
    """Take the next question, of a reader without a running one, in round-robin order; it is running then."""
    # One whose answer only waits to be sent to another chat, which may take hours, does not count as running.
    kept = "EXISTS (SELECT 1 FROM deliveries WHERE question_id = other.id)"
    running = (
        f"other.state = 'running' AND other.user_id = asked.user_id AND (other.chat_id = asked.chat_id OR NOT {kept})"
    )
    sql = (
        "UPDATE questions SET state = 'running', attempts = attempts + 1 WHERE id = (SELECT id FROM questions AS asked "
        f"WHERE state = 'queued' AND NOT EXISTS (SELECT 1 FROM questions AS other WHERE {running}) "
        "ORDER BY turn, id LIMIT 1) RETURNING *"
    )
    taken = await archive.change(sql)
    return decode_question(taken) if taken else None


def decode_question(row: sqlite3.Row) -> QuestionRow:
    """Decode a row of `questions`."""
    return decode_row(QuestionRow, row, handle=row["handle"] or "")


async def _list_answered(archive: Archive, which: str, values: Sequence[object]) -> list[AnsweredQuestion]:
    answered = f"state = 'answered' AND answer IS NOT NULL AND {which}"
    sql = f"SELECT *, finished_at AS answered_at FROM questions WHERE {answered}"
    return [decode_row(AnsweredQuestion, row, handle=row["handle"] or "") for row in await archive.rows(sql, values)]


async def _find_answered(archive: Archive, which: str, values: Sequence[object]) -> AnsweredQuestion | None:
    return next(iter(await _list_answered(archive, f"{which} LIMIT 1", values)), None)


async def requeue_questions(archive: Archive, question_id: int | None = None) -> int:
    """Queue running questions again, at start and at shutdown, or this one. Returns how many."""
    which = "state = 'running' AND (?1 IS NULL OR id = ?1)"
    return await archive.execute(f"UPDATE questions SET state = 'queued' WHERE {which}", (question_id,))


async def has_question(archive: Archive, question_id: int) -> bool:
    """Whether a question is in the archive: its reader may have erased it. Raises ArchiveUnavailable."""
    return bool(await archive.value("SELECT EXISTS (SELECT 1 FROM questions WHERE id = ?)", (question_id,)))


async def finish_question(
    archive: Archive, question_id: int, *, state: str, answer: str | None, message_id: int | None = None
) -> None:
    """Finish a question: `state` is "answered" or "failed", `answer` JSON text.

    `message_id` is the first message of the answer; if there are more, `answer` has the ids of all as "messages".
    """

    def finish(connection: sqlite3.Connection) -> None:
        sql = "UPDATE questions SET state = ?, answer = ?, finished_at = ?, answer_message_id = ? WHERE id = ?"
        connection.execute(sql, (state, answer, get_unix_time(), message_id, question_id))
        # a delivered answer is not kept twice: texts of posts must not outlive their posts in `deliveries`
        connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))

    await archive.write(finish)


async def find_question_of_message(
    archive: Archive, bot_id: int, chat_id: int, message_id: int, receiver: int | None = None
) -> AnsweredQuestion | None:
    """Find the answered question of a message that is the question or a part of its answer; None if it is neither.

    With a `receiver` the message is an ephemeral one of theirs, and `message_id` its ephemeral id.
    """
    return await _find_answered(
        archive,
        "bot_id = ?1 AND chat_id = ?2 AND asker_only = (?5 IS NOT NULL) AND (?5 IS NULL OR user_id = ?5) "
        "AND (CASE WHEN ?5 IS NULL THEN message_id ELSE ephemeral_id END = ?3 OR answer_message_id = ?3 "
        "OR (answer_message_id BETWEEN ?3 - ?4 AND ?3 "
        "AND EXISTS (SELECT 1 FROM json_each(answer, '$.messages') WHERE value = ?3))) ORDER BY id DESC",
        (bot_id, chat_id, message_id, _MAX_MESSAGE_DISTANCE, receiver),
    )


async def fetch_last_answered(
    archive: Archive, bot_id: int, chat_id: int, user_id: int, thread: int | None
) -> AnsweredQuestion | None:
    """Fetch a user's last answered question in a chat, preferably in this thread of it."""
    which = "bot_id = ? AND chat_id = ? AND user_id = ? AND answer_message_id IS NOT NULL"
    return await _find_answered(
        archive, f"{which} ORDER BY thread IS ? DESC, id DESC", (bot_id, chat_id, user_id, thread)
    )


_CITES_SQL = (
    "EXISTS (SELECT 1 FROM json_each(answer, '$.cited') AS cited WHERE ?2 IS NULL "
    "OR (cited.value ->> 0, cited.value ->> 1) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?2)))"
)


async def list_answers_citing(
    archive: Archive, keys: Collection[PostKey] | None, since: datetime
) -> list[AnsweredQuestion]:
    """List the answers and verdicts sent since a moment that cite one of these posts; with None, that cite any."""
    values = (to_unix_time(since), None if keys is None else encode_keys(keys))
    return await _list_answered(archive, f"finished_at >= ?1 AND {_CITES_SQL}", values)


async def list_cited_posts(archive: Archive, since: datetime) -> set[PostKey]:
    """List the posts cited by the answers and verdicts sent since a moment, or being sent."""
    sql = (
        "SELECT DISTINCT value ->> 0, value ->> 1 FROM questions, json_each(answer, '$.cited') "
        "WHERE answer IS NOT NULL AND (state = 'running' OR state = 'answered' AND finished_at >= ?)"
    )
    return {PostKey(*row) for row in await archive.rows(sql, (to_unix_time(since),))}


async def is_cited_by_unsent_answer(archive: Archive, keys: Collection[PostKey]) -> bool:
    """Whether an answer that cites one of these posts is being sent, so that nobody knows its messages yet."""
    sql = f"SELECT EXISTS (SELECT 1 FROM questions WHERE state = ?1 AND answer IS NOT NULL AND {_CITES_SQL})"
    return bool(await archive.value(sql, ("running", encode_keys(keys))))


async def save_noted_changes(archive: Archive, question_id: int, noted: Iterable[tuple[int, int, bool]]) -> None:
    """Save which changes of its posts (chat, message, whether it was deleted) an answer tells by now."""
    sql = "UPDATE questions SET answer = json_set(answer, '$.noted', json(?)) WHERE id = ? AND answer IS NOT NULL"
    await archive.execute(sql, (json.dumps(sorted(noted)), question_id))


async def list_waiting_questions(archive: Archive, most: int) -> list[QuestionRow]:
    """List the first `most` waiting questions, in queue order."""
    rows = await archive.rows("SELECT * FROM questions WHERE state = 'queued' ORDER BY turn, id LIMIT ?", (most,))
    return [decode_question(row) for row in rows]


async def list_refused_questions(archive: Archive, most: int) -> list[AnsweredQuestion]:
    """List the newest `most` questions that were refused, as long as their texts are kept."""
    which = (
        "kind = 'ask' AND text <> '' AND json_type(answer, '$.sentences') = 'array' "
        "AND mode IS NOT 'fuller' AND json_array_length(answer, '$.sentences') = 0"
    )
    return await _list_answered(archive, f"{which} ORDER BY id DESC LIMIT ?", (most,))


async def cancel_waiting_questions(
    archive: Archive, chat_id: int, user_id: int, question_id: int | None = None
) -> list[QuestionRow]:
    """Cancel a reader's waiting questions in a chat, or one and the fuller answer to it. Returns those cancelled."""
    async with archive.writing() as connection:
        rows = await connection.execute_fetchall(
            "UPDATE questions SET state = 'failed', answer = NULL, finished_at = ? WHERE state = 'queued' "
            "AND chat_id = ? AND user_id = ? AND (?4 IS NULL OR id = ?4 OR mode = 'fuller' AND (bot_id, -update_id) = "
            "(SELECT bot_id, update_id FROM questions WHERE id = ?4)) RETURNING *",
            (get_unix_time(), chat_id, user_id, question_id),
        )
        cancelled = [decode_question(row) for row in rows]
        # the answer that an earlier process could not deliver
        sql = "DELETE FROM deliveries WHERE question_id = ?"
        await connection.executemany(sql, [(asked.id,) for asked in cancelled])
        return cancelled


async def set_shown_message(archive: Archive, question_id: int, message_id: int) -> None:
    """Record the progress message that becomes the answer to a question."""
    await archive.execute("UPDATE questions SET shown_in = ? WHERE id = ?", (message_id, question_id))


async def find_nth_question_time(
    archive: Archive, column: str, whose: int, nth: int, since: datetime
) -> datetime | None:
    """Time of the `nth` newest question (from 1) after `since`, of a user or in a chat, for rate limits.

    Times are those of this machine's clock; what it queued while it was ahead counts no more when it is put back.
    `column` is "user_id" or "chat_id". A "deep" question keeps the time of its first asking, so it counts at the
    time it was finished, or now if it is not finished.
    """
    assert column in {"user_id", "chat_id"}, column
    moment = await archive.value(
        f"SELECT queued_at AS at FROM questions WHERE {column} = ?1 AND queued_at > ?2 AND queued_at <= ?3 "
        "AND mode IS NOT 'deep' AND mode IS NOT 'fuller' "
        f"UNION ALL SELECT coalesce(finished_at, ?3) FROM questions WHERE {column} = ?1 AND mode = 'deep' "
        "AND coalesce(finished_at, ?3) > ?2 AND coalesce(finished_at, ?3) <= ?3 ORDER BY at DESC LIMIT 1 OFFSET ?4",
        (whose, to_unix_time(since), get_unix_time(), nth - 1),
    )
    return None if moment is None else from_unix_time(moment)


_DELIVERY_WAITS_S = (0.05, 0.1, 0.2, 0.4, 0.8)


async def fetch_answered_question(archive: Archive, handle: str) -> AnsweredQuestion | None:
    """Fetch an answered question, also while its row is updated (1.55 s at most); None if it is unknown or erased."""
    for wait in _DELIVERY_WAITS_S:
        if await archive.value("SELECT state FROM questions WHERE handle = ?", (handle,)) != "running":
            break
        await asyncio.sleep(wait)
    return await _find_answered(archive, "handle = ?", (handle,))


async def fetch_previous_answer(archive: Archive, asked: QuestionRow) -> AnsweredQuestion | None:
    """Fetch the last answer to the same message before this question."""
    which = "bot_id = ? AND chat_id = ? AND message_id = ? AND asker_only = ? AND ephemeral_id IS ? AND user_id = ?"
    whose = asked.bot_id, asked.chat_id, asked.message_id, asked.asker_only, asked.ephemeral_id, asked.user_id
    return await _find_answered(archive, f"{which} AND id < ? ORDER BY id DESC", (*whose, asked.id))


@dataclass(frozen=True, slots=True)
class DeliveryMessage:
    """Outgoing message, in JSON text; `tried` with unknown outcome; `message_id` is the sent message that it edits."""

    page: int
    text: str
    entities: str
    markup: str | None = None
    tried: bool = False
    message_id: int | None = None
    sent: bool = False


async def save_delivery(
    archive: Archive, question_id: int, messages: Sequence[DeliveryMessage], answer: str | None
) -> None:
    """Save the messages of an answer and its JSON text in place of those before; nothing if the question was erased."""

    def save(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM deliveries WHERE question_id = ?", (question_id,))
        connection.execute("UPDATE questions SET answer = ? WHERE id = ?", (answer, question_id))
        connection.executemany(
            "INSERT INTO deliveries (question_id, page, text, entities, markup, tried, message_id, sent) "
            "SELECT id, ?, ?, ?, ?, ?, ?, ? FROM questions WHERE id = ?",
            [(p.page, p.text, p.entities, p.markup, p.tried, p.message_id, p.sent, question_id) for p in messages],
        )

    await archive.write(save)


async def load_delivery(archive: Archive, question_id: int) -> tuple[list[DeliveryMessage], str | None]:
    """Load the messages of an undelivered answer, in order, and the JSON text of the answer."""
    sql = "SELECT d.*, q.answer FROM deliveries d JOIN questions q ON q.id = d.question_id WHERE q.id = ? ORDER BY page"
    rows = await archive.rows(sql, (question_id,))
    return [decode_row(DeliveryMessage, row) for row in rows], rows[0]["answer"] if rows else None


async def update_delivery_message(archive: Archive, question_id: int, message: DeliveryMessage) -> None:
    """Save the delivery state of a message."""
    sql = "UPDATE deliveries SET tried = ?, message_id = ?, sent = ? WHERE question_id = ? AND page = ?"
    await archive.execute(sql, (message.tried, message.message_id, message.sent, question_id, message.page))


@dataclass(frozen=True, slots=True)
class QueueStats:
    """Question queue: waiting and running questions; `oldest`: when the first waiting one was asked (Unix seconds)."""

    waiting: int
    running: int
    oldest: int | None


async def fetch_queue_stats(archive: Archive) -> QueueStats:
    """Fetch the length of the question queue and the time of its oldest question."""
    ((waiting, running, oldest),) = await archive.rows(
        "SELECT count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'running'), "
        "min(asked_at) FILTER (WHERE state = 'queued') FROM questions WHERE state IN ('queued', 'running')"
    )
    return QueueStats(waiting, running, oldest)


async def count_votes_by_reason(archive: Archive) -> list[tuple[bool, str | None, int]]:
    """Count votes on answers: (whether good, the reason given, how many)."""
    rows = await archive.rows("SELECT good, reason, count(*) FROM votes GROUP BY good, reason")
    return [(bool(good), reason, number) for good, reason, number in rows]


# An answer without a sentence is a refusal; of a forgotten answer only `refused` is kept.
IS_REFUSAL_SQL = (
    "coalesce(json_extract(answer, '$.refused'), coalesce(json_array_length(answer, '$.sentences'), 0) = 0)"
)


@dataclass(frozen=True, slots=True)
class QuestionStats:
    """Counts of questions by outcome; the rest of `asked` is waiting or being answered."""

    asked: int = 0
    sure: int = 0
    unsure: int = 0
    refused: int = 0
    failed: int = 0


async def count_questions_since(archive: Archive, moment: datetime) -> QuestionStats:
    """Count the questions asked since a moment, by outcome."""
    shown, unsure = f"state = 'answered' AND NOT {IS_REFUSAL_SQL}", "json_extract(answer, '$.certainty') = 'probable'"
    ((asked, answered, unsure_ones, refused, failed),) = await archive.rows(
        f"SELECT count(*), count(*) FILTER (WHERE {shown}), count(*) FILTER (WHERE {shown} AND {unsure}), "
        f"count(*) FILTER (WHERE state = 'answered' AND {IS_REFUSAL_SQL}), count(*) FILTER (WHERE state = 'failed') "
        "FROM questions WHERE asked_at >= ? AND mode IS NOT 'fuller'",
        (to_unix_time(moment),),
    )
    return QuestionStats(asked, answered - unsure_ones, unsure_ones, refused, failed)
