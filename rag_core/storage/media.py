"""Files of posts in the archive: the queue of those to read, and the texts that were read of them.

A file is read once: other posts with the same file, by Telegram's id or by the hash of its bytes, take the same text.
What was read stands in the post's row, so that it goes with the post; a deleted post is read again where it returns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import aiosqlite

from rag_core.storage.db import Archive, assign_sequence_numbers
from rag_core.storage.post_rows import (
    IN_APPROVED_CHANNEL,
    POST_FIELDS,
    SAVE_VERSION_SQL,
    decode_media_text,
    decode_post,
    encode_json,
    encode_version,
    get_unix_time,
    join_media_text,
    to_unix_time,
)
from rag_core.types import MediaFile, MediaText, Post, PostKey

# Rows of `media AS m` and their posts; of posts that are there, in channels that an admin approved; that wait.
_FILES = "FROM media AS m JOIN posts AS t ON t.chat_id = m.chat_id AND t.message_id = m.message_id"
_LIVING = f"{_FILES} WHERE t.deleted_at IS NULL AND {IN_APPROVED_CHANNEL}"
_READABLE = f"{_LIVING} AND m.state = 'waiting'"


@dataclass(frozen=True, slots=True)
class WaitingFile:
    """File in the queue; `key` is one of the posts that have it."""

    key: PostKey
    file: MediaFile
    name: str
    tries: int


async def queue_files(connection: aiosqlite.Connection, posts: Sequence[Post], source: str) -> None:
    """Queue the files of posts that were just saved in this transaction, each in its newest version.

    A replaced file takes its text along: the earlier text becomes a version of the post. So does one that a post hides
    as a spoiler, live or seen in the history, but its text is kept nowhere. An export without files says nothing.
    """
    for post in posts:
        if not (post.media and (file := post.media.file)):
            if source != "import":  # its file is no longer waited for, and what was read of it goes
                sql = "DELETE FROM media WHERE chat_id = ? AND message_id = ? RETURNING state"
                if "read" in [row["state"] for row in await connection.execute_fetchall(sql, post.key)]:
                    await _remove_text(connection, post)
            continue
        sql = "SELECT file, state, locator FROM media WHERE chat_id = ? AND message_id = ?"
        for held, state, locator in await connection.execute_fetchall(sql, post.key):
            if state == "read":
                # the same file; one of another source is it too, as far as can be known
                if held == file.id or held.partition(":")[0] != file.id.partition(":")[0]:
                    break
                await _keep_version(connection, post.key)
                await _remove_text(connection, post)
            elif (held, state, locator) == (file.id, "waiting", file.locator):
                break  # waits already; in a folder that was moved it has another locator, and the new one counts
        else:
            name = post.media.file_name or ""
            row = (*post.key, file.kind, file.id, file.locator, name, file.size, file.seconds)
            await connection.execute(
                "INSERT OR REPLACE INTO media (chat_id, message_id, kind, file, locator, file_name, size, seconds, "
                "date, live) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, to_unix_time(post.date), source == "live"),
            )


async def _remove_text(connection: aiosqlite.Connection, post: Post) -> None:
    """Take what was read of a post's earlier file from it; answers that quote it are looked at as after an edit."""
    await assign_sequence_numbers(connection, [post.key], media_text=None, edited=to_unix_time(post.stamp))


async def _keep_version(connection: aiosqlite.Connection, key: PostKey) -> None:
    """Keep the text of a post with that of its file, which is about to go, as an earlier version."""
    sql = f"SELECT {POST_FIELDS}, t.stamp, t.update_id FROM posts AS t WHERE t.chat_id = ? AND t.message_id = ?"
    for row in await connection.execute_fetchall(sql, key):
        version = encode_version(join_media_text(decode_post(row)), (row["stamp"], row["update_id"]))
        await connection.execute(SAVE_VERSION_SQL, version)
        await connection.execute("UPDATE posts SET version = version + 1 WHERE chat_id = ? AND message_id = ?", key)


async def take_next_file(archive: Archive, kinds: Collection[str], *, bot: bool = True) -> WaitingFile | None:
    """Next due file of these kinds: of live posts, then of the newest; without a `bot` none that only it can fetch."""
    now, reachable = get_unix_time(), "" if bot else "AND m.file NOT LIKE 'bot:%' "
    due = f"{_READABLE} {reachable}AND m.kind = ? AND m.next_try <= ?"
    sql = f"SELECT m.* {due} ORDER BY m.live DESC, m.date DESC LIMIT 1"

    def read(connection: sqlite3.Connection) -> WaitingFile | None:
        # each kind from the index, without sorting all that wait
        found = [row for kind in kinds for row in connection.execute(sql, (kind, now))]
        if not found:
            return None
        row = max(found, key=lambda one: (one["live"], one["date"]))
        file = MediaFile(row["kind"], row["file"], row["locator"], row["size"], row["seconds"])
        return WaitingFile(PostKey(row["chat_id"], row["message_id"]), file, row["file_name"], row["tries"])

    return await archive.read(read)


async def find_known_text(
    archive: Archive, file_id: str = "", digest: bytes = b""
) -> tuple[bytes, list[MediaText]] | None:
    """Find the digest and text of a file that was read before, by its id or by the SHA-256 of its bytes."""
    which = f"WHERE {'m.file' if file_id else 'm.digest'} = ? AND m.state = 'read' LIMIT 1"
    rows = await archive.rows(f"SELECT m.digest, t.media_text {_FILES} {which}", (file_id or digest,))
    return next(((bytes(row[0]), list(decode_media_text(row[1]))) for row in rows), None)


# Names of exported files are the same in many exports: only Telegram's ids are those of one file.
_SAME_FILE = "m.file NOT LIKE 'path:%' OR (m.chat_id = ? AND m.message_id = ?)"


async def save_media_text(archive: Archive, waiting: WaitingFile, digest: bytes, texts: Sequence[MediaText]) -> int:
    """Save what was read of a file to the posts that still wait for it; their number, 0 where it was replaced."""
    file = waiting.file
    async with archive.writing() as connection:
        which = f"SELECT m.chat_id, m.message_id {_READABLE} AND m.file = ? AND ({_SAME_FILE})"
        keys = [PostKey(*row) for row in await connection.execute_fetchall(which, (file.id, *waiting.key))]
        if texts:
            await assign_sequence_numbers(connection, keys, media_text=encode_json(list(texts)))
        sql = "UPDATE media SET state = 'read', problem = '', digest = ? WHERE chat_id = ? AND message_id = ?"
        await connection.executemany(sql, [(digest, *key) for key in keys])
    return len(keys)


async def save_media_failure(
    archive: Archive, waiting: WaitingFile, problem: str, retry_after: int | None = None
) -> None:
    """Save that a file could not be read, and why; with `retry_after` seconds it is tried again then."""
    state, next_try = ("failed", 0) if retry_after is None else ("waiting", get_unix_time() + retry_after)
    await archive.execute(
        "UPDATE media AS m SET state = ?, problem = ?, tries = tries + 1, next_try = ? "
        f"WHERE file = ? AND state = 'waiting' AND ({_SAME_FILE})",
        (state, problem, next_try, waiting.file.id, *waiting.key),
    )


@dataclass(frozen=True, slots=True)
class MediaCount:
    """Number of files of a kind in a state, with their problem, and the seconds of their recordings."""

    kind: str
    state: str
    problem: str
    files: int
    seconds: int


async def count_media(archive: Archive) -> list[MediaCount]:
    """Count the files of living posts of approved channels."""
    rows = await archive.rows(
        f"SELECT m.kind, m.state, m.problem, count(*), sum(m.seconds) {_LIVING} "
        "GROUP BY m.kind, m.state, m.problem ORDER BY m.kind, m.state, m.problem"
    )
    return [MediaCount(*row) for row in rows]


async def retry_failed_files(archive: Archive) -> int:
    """Put the files that could not be read back into the queue; their number."""
    return await archive.execute("UPDATE media SET state = 'waiting', tries = 0, next_try = 0 WHERE state = 'failed'")


async def set_media_paused(archive: Archive, paused: bool) -> None:
    """Pause the reading of files, or let it go on; it stays so after a restart."""
    if paused:
        await archive.execute("INSERT OR IGNORE INTO media_paused VALUES (0, ?)", (get_unix_time(),))
    else:
        await archive.execute("DELETE FROM media_paused")


async def is_media_paused(archive: Archive) -> bool:
    """Whether an admin paused the reading of files."""
    return bool(await archive.value("SELECT count(*) FROM media_paused"))
