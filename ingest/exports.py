"""Export import: the messages of an export become posts in the archive.

Nothing is kept before the whole export was scanned. The import is idempotent and commits in short slices: a killed
import is continued by running it again, and live posts get in between.

Telegram Desktop drops the group id of albums, so neighbouring posts that look like one album get a common key.

Run as a program, confined, this module imports one document of a stranger. It writes only the archive; the bot updates
the indexes. Its messages:

    {"at": [done, all]}                    progress
    {"end": {"tally", "channels", "notes"}}
    {"refused": [id, values]}              the id of a sentence in bot/locales; import-refused has the reason itself
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import time
from array import array
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

from ingest.json_export import AdmittedChat, ImportNote, ImportOptions, JsonExport, admit_chats
from ingest.message_kinds import MAX_ID, MAX_TITLE_LENGTH, MalformedMessage, parse_object, parse_text
from ingest.messages import UnreadMessage, parse_exported_post, parse_exported_time
from rag_core.errors import RagError
from rag_core.processes import CONFINED, Message, WorkerExited, WorkerProcess, open_parent_pipes, write_message
from rag_core.storage import Archive, channel_history, channels, posts
from rag_core.storage.post_rows import PostTally
from rag_core.types import LINKLESS_KINDS, Channel, Post

# Telegram's limits: photos with videos, documents, and music make separate albums.
_MAX_ALBUM_POSTS = 10
_ALBUM_FAMILY_BY_KIND = {"photo": "seen", "video": "seen", "document": "document", "audio": "audio"}
_MAX_ALBUM_GAP = timedelta(seconds=1)


def assign_albums(posts: Iterable[Post]) -> Iterator[Post]:
    """Assign album keys: the same posts in the same order, those of an album with the key "export-<first id>"."""
    group: list[Post] = []
    for post in chain(posts, [None]):  # None ends the last group
        if group and not (post and _joins_album(group, post)):
            album = f"export-{group[0].key.message_id}" if len(group) > 1 else None
            yield from (replace(member, album=album) for member in group) if album else group
            group = []
        if post:
            group.append(post)


def _joins_album(group: list[Post], post: Post) -> bool:
    last = group[-1]
    family = _ALBUM_FAMILY_BY_KIND.get(post.media.kind) if post.media else None
    return (
        len(group) < _MAX_ALBUM_POSTS
        and family is not None
        and last.media is not None
        and _ALBUM_FAMILY_BY_KIND.get(last.media.kind) == family
        and post.key.message_id == last.key.message_id + 1
        and abs(post.date - last.date) <= _MAX_ALBUM_GAP
        and (post.author, post.origin) == (last.author, last.origin)
        # Two captions mean two posts sent in the same second.
        and not (post.text and any(other.text for other in group))
    )


@dataclass(slots=True)
class ChatReader:
    """Reader of the entries of one chat, with counts. Mutable.

    A message belongs to the topic that its chain of replies leads to, one that replies to nothing to the topic General,
    0. `covered` holds the topics of its posts. `folder` holds the files of the export. `seen` holds the ids of all its
    entries, `first` and `last` are the dates of its oldest and newest post.
    """

    channel: Channel
    zone: tzinfo
    folder: Path
    seen: array[int] = field(default_factory=lambda: array("q"))
    entries: int = 0
    services: int = 0
    migrated: int = 0
    broken: int = 0
    unread: Counter[str] = field(default_factory=Counter)  # kind of message -> how many were not understood
    topics: dict[int, int] = field(default_factory=dict)  # message of a forum -> its topic
    titles: dict[int, tuple[str, int]] = field(default_factory=dict)  # as `TopicTitles`
    covered: set[int] = field(default_factory=set)
    first: datetime | None = None
    last: datetime | None = None

    def posts(self, messages: Iterator[object]) -> Iterator[Post]:
        """Parse the posts among the messages, in order; the rest is counted."""
        chat, broadcast = self.channel.chat_id, self.channel.kind == "channel"
        parse = partial(parse_exported_post, chat_id=chat, zone=self.zone, broadcast=broadcast, folder=self.folder)
        for message in messages:
            self.entries += 1
            entry = parse_object(message)
            message_id = entry.get("id")
            if type(message_id) is int and -MAX_ID < message_id < 0:
                # From before a group became a supergroup: ids shifted by -1,000,000,000, which no link can open.
                self.migrated += 1
                continue
            if type(message_id) is int and 0 < message_id <= MAX_ID:
                self.seen.append(message_id)
            try:
                post = parse(entry)
            except UnreadMessage as exc:
                self.unread[exc.fields[0]] += 1
                continue
            except MalformedMessage:
                self.broken += 1
                continue
            if post is None:
                kind = parse_text(entry.get("type"), MAX_TITLE_LENGTH)
                self.services += kind == "service"
                self._note_topic(entry)
                self.unread[kind or "?"] += kind != "service"
            else:
                self.first = min(self.first or post.date, post.date)
                self.last = max(self.last or post.date, post.date)
                if "reply_to_message_id" not in entry:
                    self.covered.add(0)
                elif post.reply_to and (topic := self.topics.get(post.reply_to)):
                    self.covered.add(topic)
                    self.topics[post.key.message_id] = topic
                    # what replies to the opening of its topic replies to no post
                    post = replace(post, topic=topic, reply_to=None if post.reply_to == topic else post.reply_to)
                yield post

    def _note_topic(self, entry: Mapping[str, object]) -> None:
        """Note the title of a topic that a service message opens or names anew."""
        opened, reply_to = entry.get("id"), entry.get("reply_to_message_id")
        topic = opened if entry.get("action") == "topic_created" else None
        if entry.get("action") == "topic_edit" and type(reply_to) is int:
            topic = self.topics.get(reply_to)
        title = parse_text(entry.get("title") or entry.get("new_title"), MAX_TITLE_LENGTH)
        if type(topic) is int and 0 < topic <= MAX_ID and title:
            self.topics[topic] = topic
            with suppress(MalformedMessage):
                self.titles[topic] = title, int(parse_exported_time(entry, "date", self.zone).timestamp())

    def notes(self) -> Iterator[ImportNote]:
        """Notes for the user."""
        note = partial(ImportNote, title=self.channel.title)
        if not self.entries:
            yield note("{title}: the export holds no messages.", code="import-note-empty")
        if self.channel.kind in LINKLESS_KINDS:
            said = "{title}: Telegram has no links to messages of such a chat; answers name the chat and the day."
            yield note(said, code="import-note-no-links")
        if self.migrated:
            said = "{title}: left out {count} messages older than the supergroup, no link leads to them."
            yield note(said, code="import-note-migrated", count=self.migrated)
        if self.broken:
            said = "{title}: left out {count} entries that could not be read."
            yield note(said, code="import-note-broken", count=self.broken)
        if count := self.unread.total():
            named = self.unread.most_common(_MAX_NAMED_KINDS)
            kinds = ", ".join(f"{kind} {number}" for kind, number in named if number)
            said = "{title}: {count} messages were not read, because their kind is not known ({kinds})."
            yield note(said, code="import-note-unread", count=count, kinds=kinds)


_MAX_NAMED_KINDS = 10

# Target seconds of a write transaction: half of what the design allows, for slow disks.
_SLICE_SECONDS = 0.1
_MIN_SLICE_POSTS, _FIRST_SLICE_POSTS, _MAX_SLICE_POSTS = 50, 200, 2000
# A full export may hold the user's own messages only, without saying so: then most posts seem missing.
_MAX_MISSING_SHARE = 0.5


@dataclass(slots=True)
class ImportReport:
    """Result of an import; `notes`: what the user should know. Mutable: filled chat by chat."""

    tally: PostTally = field(default_factory=PostTally)
    channels: list[Channel] = field(default_factory=list)
    notes: list[ImportNote] = field(default_factory=list)


async def import_export(
    archive: Archive,
    path: Path,
    options: ImportOptions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImportReport:
    """Import a result.json, or the one in a folder.

    Raises `ImportRefused`, then nothing was changed. `progress` is called with bytes done and bytes in all, from the
    event loop: the scan is one half, storing the other.
    """
    known = await channels.load_channels(archive)
    source = await asyncio.to_thread(JsonExport, path)
    report = ImportReport()

    def tell(part: float) -> None:
        progress(int(2 * source.size * min(part, 1.0)), 2 * source.size)

    # the whole export is scanned first, so that a bad one is refused before anything is stored
    scan = asyncio.ensure_future(asyncio.to_thread(source.survey))
    try:
        while not (await asyncio.wait({scan}, timeout=0.2))[0]:
            tell(source.bytes_read / source.size / 2)
    finally:
        scan.cancel()
    chats = scan.result()
    admitted, report.notes = admit_chats(source.path, chats, known, options)
    before, total = 0, max(sum(chat.messages for chat in chats), 1)
    with ExitStack() as opened:
        for chat, entry in zip(chats, admitted, strict=True):
            messages = source.messages(chat, opened)
            if entry:
                reading = ChatReader(entry.channel, options.zone, source.path.parent)
                async for _ in _import_chat(archive, source, entry, reading, messages, report):
                    tell((1 + (before + reading.entries) / total) / 2)
                await _erase_missing(archive, entry, reading, report)
                report.channels.append(entry.channel)
                left_out = reading.services + reading.migrated + reading.broken + reading.unread.total()
                report.tally += PostTally(skipped=left_out)
                report.notes += reading.notes()
            else:
                with source.reading():
                    await asyncio.to_thread(deque, messages, 0)
            before += chat.messages
    if count := report.tally.kept:
        said = "{count} posts have no text in the export; the text that is known of them was kept."
        report.notes.append(ImportNote(said, code="import-note-text-kept", count=count))
    tell(1.0)
    return report


async def _import_chat(
    archive: Archive,
    source: JsonExport,
    entry: AdmittedChat,
    reading: ChatReader,
    messages: Iterator[object],
    report: ImportReport,
) -> AsyncIterator[None]:
    """Import the posts of one chat; yields after each transaction."""
    chat_id = entry.channel.chat_id
    reading.topics = await channels.load_topics_of_messages(archive, chat_id)
    await channels.save_channel(archive, entry.channel)
    await channels.set_channel_state(archive, chat_id, entry.channel.state)
    if entry.decided:
        await channels.set_channel_visibility(archive, chat_id, entry.channel.visibility)
    found = assign_albums(reading.posts(messages))

    def parse_batch() -> list[Post]:
        with source.reading():  # the scan was fine, but the file can change while it is read
            return list(islice(found, size))

    size = _FIRST_SLICE_POSTS
    while (batch := await asyncio.to_thread(parse_batch)) or reading.titles:
        async with archive.writing() as connection:
            started = time.perf_counter()
            await channels.save_topic_titles(connection, chat_id, reading.titles)
            reading.titles.clear()
            arrivals = [(post, 0) for post in batch]
            report.tally += await posts.save_arrivals_in_transaction(connection, arrivals, source="import")
        took = time.perf_counter() - started
        size = max(_MIN_SLICE_POSTS, min(int(len(batch) * _SLICE_SECONDS / took), _MAX_SLICE_POSTS))
        yield


async def _erase_missing(archive: Archive, entry: AdmittedChat, reading: ChatReader, report: ImportReport) -> None:
    """Mark posts as deleted that lie between the first and last entry and are not in an export that is surely whole.

    Posts of a single topic may be the export of that topic: it says nothing of the others.
    """
    chat, channel, topics = entry.chat, entry.channel, reading.covered
    missing = await posts.find_missing_posts(archive, channel.chat_id, reading.seen)
    if one_topic := bool(reading.topics) and len(topics) < 2:
        missing = [key for key in missing if reading.topics.get(key.message_id, 0) in topics]
    gone = len(missing)
    if gone and not chat.whole and gone > _MAX_MISSING_SHARE * (gone + len(reading.seen)):
        said = (
            "{title}: {count} known posts are not in this full export, which may hold your own "
            "messages only; they were kept. Export the chat alone to have them removed."
        )
        report.notes.append(ImportNote(said, code="import-note-kept", title=channel.title, count=gone))
        return
    report.tally += PostTally(deleted=await posts.mark_posts_deleted(archive, missing, how="import"))
    if chat.whole and not one_topic:
        begins = min(reading.seen, default=0) == 1  # later where only the messages since a day were exported
        await channel_history.close_covered_gaps(archive, channel.chat_id, reading.first, reading.last, whole=begins)


# Documents that admins send to the bot are imported by a confined worker process.


class DocumentRefused(Exception):
    """The document cannot be imported; `sentence` is the id of a message in `locales/*.ftl`."""

    def __init__(self, sentence: str, **values: str | int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.values = values


_MAX_SECONDS = 900.0
_WORKER_ARGUMENTS = (*CONFINED, "ingest.exports")

_PROGRESS_INTERVAL_SECONDS = 0.5
_MAX_CHANNELS, _MAX_NOTES = 200, 20  # a full export may hold thousands of chats; a message shows a few


async def run_import(order: Mapping[str, object]) -> AsyncGenerator[Message, None]:
    """Run the worker and yield its messages; `aclosing` ends it. Raises DocumentRefused if limits or timeout do."""
    worker = await WorkerProcess.start(*_WORKER_ARGUMENTS, json.dumps(order))
    ends = asyncio.get_running_loop().time() + _MAX_SECONDS
    try:
        while True:
            async with asyncio.timeout_at(ends):
                message = await worker.receive()
            yield message
    except TimeoutError:
        raise DocumentRefused("import-too-long") from None
    except WorkerExited as exc:
        if exc.code is None or exc.code < 0:
            raise DocumentRefused("import-too-heavy") from None
    finally:
        worker.kill()
        await worker.stop()


def main(order: str) -> int:
    """Run the order, given as JSON; returns the exit code."""
    os.umask(0o077)
    requests, replies = open_parent_pipes()
    Thread(target=_exit_with_parent, args=(requests.fileno(),), daemon=True).start()
    parameters, write = json.loads(order), partial(write_message, replies)
    try:
        report = asyncio.run(_import_document(parameters, write))
    except DocumentRefused as exc:
        write({"refused": [exc.sentence, exc.values]})
    except RagError as exc:
        reason = exc.reason.replace(f"{Path(parameters['file']).parent}/", "")
        values = dict(exc.parameters) if exc.code else {"reason": reason}
        write({"refused": [exc.code or "import-refused", values]})
    except (MemoryError, RecursionError):
        write({"refused": ["import-too-heavy", {}]})
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        write({"refused": ["import-disk", {}]})
    else:
        channels = [channel.chat_id for channel in report.channels[:_MAX_CHANNELS]]
        notes = [[note.code, note.parameters] for note in report.notes[:_MAX_NOTES]]
        more = len(report.notes) - len(notes)
        write({"end": {"tally": asdict(report.tally), "channels": channels, "notes": notes, "more": more}})
        return 0
    return 1


async def _import_document(order: Mapping[str, Any], write: Callable[[Message], None]) -> ImportReport:
    # UTC needs no time zone database, which slim containers lack.
    zone = UTC if order["zone"] == "UTC" else ZoneInfo(order["zone"])
    options = ImportOptions(chat_id=order["chat"], zone=zone)
    said = 0.0

    def report_progress(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _PROGRESS_INTERVAL_SECONDS:
            said = time.monotonic()
            write({"at": [done, total]})

    archive = await Archive.open(Path(order["data"]))
    try:
        return await import_export(archive, Path(order["file"]), options, report_progress)
    finally:
        await archive.close()


def _exit_with_parent(requests: int) -> None:
    """Exit when standard input closes: nothing is written to it, so its end means that the bot has died."""
    while os.read(requests, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
