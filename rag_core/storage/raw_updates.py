"""Inbox of raw updates: saved before their receipt is confirmed to Telegram.

An update is kept as the text that came: what it holds may be too much for a decoder or a model, so a batch is split
without being decoded, and one update is decoded within bounds. It is pending, then done (its raw text is dropped, its
number stays for a while so that a repeat is noticed) or poison (kept as it came, with its error).
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import aiosqlite
from pydantic_core import from_json

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import get_unix_time

# A rich message of 32,768 characters, each with its own markup, in reply to another: two or three million bytes and
# 200,000 values.
_MAX_CHARACTERS = 1 << 22
_MAX_VALUES = 300_000
# A rich message may nest 16 lists, of four levels of JSON each, and 16 formats, of two; a message holds it in six.
_MAX_DEPTH = 128
_MAX_INTEGER = 2**63  # that of SQLite; ids of Telegram have at most 52 bits

_BATCH_START = re.compile(r'\s*\{\s*"ok"\s*:\s*true\s*,\s*"result"\s*:\s*\[\s*')
# A quotation mark within a string is escaped: this is found only where an object begins.
_UPDATE_START = re.compile(r'\{\s*"update_id"\s*:\s*(\d{1,18})\s*[,}](?:\s*"(\w+)")?')


class UpdateOutOfBounds(Exception):
    """An update is larger than any of Telegram's. No ValueError: pydantic would take that for a finding of its own."""


class RawUpdate(NamedTuple):
    """Raw update: its number, its kind ("" where it has none) and the JSON that came."""

    update_id: int
    kind: str
    text: str


def split_updates(answer: str) -> list[RawUpdate] | None:
    """Split the answer to getUpdates into its updates; None where it holds none that way (as an error)."""
    start, heads = _BATCH_START.match(answer), list(_UPDATE_START.finditer(answer))
    if not start or not heads or heads[0].start() != start.end():  # none, or in another order than Telegram's
        try:
            decoded = json.loads(answer)
        except ValueError:
            return None
        batch = decoded.get("result") if isinstance(decoded, dict) and decoded.get("ok") is True else None
        return [encode_update(raw) for raw in batch] if isinstance(batch, list) else None
    ends = [*(head.start() for head in heads[1:]), answer.rindex("]")]
    return [_make_raw_update(head, answer[head.start() : end]) for head, end in zip(heads, ends, strict=True)]


def read_update(text: str) -> RawUpdate:
    """Read number and kind of one update. Raises ValueError where it is no JSON, or has no number."""
    head = _UPDATE_START.match(text := text.strip())
    try:
        raw = decode_update(text)
    except (UpdateOutOfBounds, RecursionError):
        raw = {}
    return _make_raw_update(head, text) if head else encode_update(raw)


def _make_raw_update(head: re.Match[str], text: str) -> RawUpdate:
    return RawUpdate(int(head[1]), head[2] or "", text.rstrip(", \t\r\n"))


def encode_update(raw: Mapping[str, Any]) -> RawUpdate:
    """Encode an update that was decoded. Raises ValueError where it has no number."""
    number = raw.get("update_id") if isinstance(raw, Mapping) else None
    if type(number) is not int or not 0 <= number < _MAX_INTEGER:
        raise ValueError("an update without a number")
    kind = next((key for key in raw if key != "update_id"), "")
    # ASCII output: half a surrogate pair, which JSON can hold and UTF-8 cannot, is preserved.
    return RawUpdate(number, kind, json.dumps({"update_id": number} | dict(raw), separators=(",", ":")))


def decode_update(text: str) -> dict[str, Any]:
    """Decode one update that is not too long. Raises ValueError, UpdateOutOfBounds, RecursionError."""
    if len(text) > _MAX_CHARACTERS or sum(map(text.count, ",{[")) > _MAX_VALUES:
        raise UpdateOutOfBounds("too long")
    try:
        raw = from_json(text)  # in half the time
    except ValueError:  # half a surrogate pair or many levels, which the other reads, or no JSON
        raw = json.loads(text)
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    return raw


def check_bounds(raw: Mapping[str, Any]) -> None:
    """Check depth, number of values and size of integers. Raises UpdateOutOfBounds."""
    objects, arrays = [dict(raw)], list[list[Any]]()
    depth = count = 0
    while objects or arrays:
        inner = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
        kinds = set(map(type, inner))
        numbers = [value for value in inner if type(value) is int] if int in kinds else []
        if numbers and not -_MAX_INTEGER <= min(numbers) <= max(numbers) < _MAX_INTEGER:
            raise UpdateOutOfBounds("a number of more than 64 bits")
        depth, count = depth + 1, count + len(inner)
        if depth > _MAX_DEPTH or count > _MAX_VALUES:
            raise UpdateOutOfBounds("nested too deeply" if depth > _MAX_DEPTH else "too many values")
        objects = [value for value in inner if type(value) is dict] if dict in kinds else []
        arrays = [value for value in inner if type(value) is list] if list in kinds else []


_ALBUM_WAIT_S = 2  # Telegram does not mark the end of an album; its members come within a second of each other
IS_POST_SQL = "kind IN ('channel_post', 'edited_channel_post')"
_BATCH_UPDATES = 500  # read at a time
_BATCH_CHARACTERS = 1 << 23


async def save_updates(archive: Archive, bot_id: int, raws: Sequence[RawUpdate]) -> None:
    """Save a whole batch of raw updates in one transaction; updates that are saved already stay unchanged."""
    moment = get_unix_time()
    sql = (
        "INSERT OR IGNORE INTO updates (bot_id, update_id, kind, raw, state, received_at) "
        "VALUES (?, ?, ?, ?, 'pending', ?)"
    )
    await archive.execute_many(sql, [(bot_id, *raw, moment) for raw in raws])


async def quarantine_updates(archive: Archive, bot_id: int, errors: Mapping[int, str]) -> None:
    """Quarantine saved updates that are pending: state "poison", with their errors, given by update id."""
    sql = "UPDATE updates SET state = 'poison', error = ? WHERE bot_id = ? AND update_id = ? AND state = 'pending'"
    await archive.execute_many(sql, [(error, bot_id, update_id) for update_id, error in errors.items()])


async def list_pending_posts(archive: Archive, limit: int = _BATCH_UPDATES) -> list[tuple[int, RawUpdate]]:
    """List posts that are not saved yet, oldest first, with bot ids; album members wait 2 s for the other members."""
    # The upper bound: a clock that was put back must not delay them for longer.
    now = get_unix_time()
    held = f"raw LIKE '%\"media_group_id\":%' AND received_at BETWEEN {now - _ALBUM_WAIT_S + 1} AND {now}"
    return await _fetch_pending_updates(archive, f"{IS_POST_SQL} AND NOT ({held})", limit)


async def list_unclaimed_updates(archive: Archive, bot_id: int, after: int = -1) -> list[RawUpdate]:
    """List other unclaimed updates of a bot, which a crash left unhandled: a batch of those with ids above `after`."""
    which = f"NOT {IS_POST_SQL} AND claimed_at IS NULL AND bot_id = {bot_id:d} AND update_id > {after:d}"
    return [raw for _, raw in await _fetch_pending_updates(archive, which, _BATCH_UPDATES)]


async def _fetch_pending_updates(archive: Archive, which: str, limit: int) -> list[tuple[int, RawUpdate]]:
    sql = f"SELECT bot_id, update_id, kind, raw FROM updates WHERE state = 'pending' AND {which} "

    def work(connection: sqlite3.Connection) -> list[tuple[int, RawUpdate]]:
        found, size = list[tuple[int, RawUpdate]](), 0
        for bot_id, *columns in connection.execute(sql + "ORDER BY bot_id, update_id LIMIT ?", (limit,)):
            found.append((bot_id, RawUpdate(*columns)))
            size += len(found[-1][1].text)
            if size > _BATCH_CHARACTERS:
                break
        return found

    return await archive.read(work)


async def mark_updates_done(connection: aiosqlite.Connection, bot_id: int, update_ids: Sequence[int]) -> None:
    """Mark updates as done, in the transaction that saves their posts."""
    sql = "UPDATE updates SET state = 'done', raw = NULL WHERE bot_id = ? AND update_id = ?"
    await connection.executemany(sql, [(bot_id, update_id) for update_id in update_ids])


async def is_update_claimed(archive: Archive, bot_id: int, update_id: int) -> bool:
    """Whether this update was claimed already."""
    sql = "SELECT 1 FROM updates WHERE bot_id = ? AND update_id = ? AND claimed_at IS NOT NULL"
    return bool(await archive.rows(sql, (bot_id, update_id)))


async def claim_update(archive: Archive, bot_id: int, update_id: int) -> bool:
    """Claim an update: True exactly once, also if it was never saved; one that is no channel post counts as done."""
    kept = f"{IS_POST_SQL} OR state = 'poison'"
    sql = (
        "INSERT INTO updates (bot_id, update_id, kind, state, received_at, claimed_at) "
        "VALUES (?1, ?2, '', 'done', ?3, ?3) ON CONFLICT (bot_id, update_id) DO UPDATE SET claimed_at = ?3, "
        f"raw = iif({kept}, raw, NULL), state = iif({kept}, state, 'done') WHERE claimed_at IS NULL"
    )
    return await archive.execute(sql, (bot_id, update_id, get_unix_time())) == 1


async def count_updates_by_state(archive: Archive) -> dict[str, int]:
    """Count the updates by state: pending, poison, done."""
    rows = await archive.rows("SELECT state, count(*) AS number FROM updates GROUP BY state")
    return {"pending": 0, "poison": 0, "done": 0} | {row["state"]: row["number"] for row in rows}


_HANDLING_TIME_S = 60  # younger updates are being handled, such as the one that asks for this count


async def count_unhandled_updates(archive: Archive) -> int:
    """Count updates with posts that are not saved yet, and other updates unhandled for more than a minute."""
    sql = f"SELECT count(*) FROM updates WHERE state = 'pending' AND ({IS_POST_SQL} OR received_at < ?)"
    return int(await archive.value(sql, (get_unix_time() - _HANDLING_TIME_S,)))


async def list_poison_updates(archive: Archive, most: int) -> list[tuple[int, str]]:
    """List the last `most` quarantined updates, the latest first: number and error."""
    sql = (
        "SELECT update_id, coalesce(error, '') FROM updates WHERE state = 'poison' "
        "ORDER BY received_at DESC, update_id DESC LIMIT ?"
    )
    return [(update_id, error) for update_id, error in await archive.rows(sql, (most,))]
