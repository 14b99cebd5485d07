"""Telegram Desktop's messages.html of one chat, with the pages that follow it: messages2.html, messages3.html ...

A page says neither which chat it is from nor when a message was edited, in old ones not even in which time
zone it was written.
"""

from __future__ import annotations

import html
import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import BinaryIO

from ingest.admission import ImportOptions, chat_of
from ingest.html_entries import Entry, written_at
from ingest.html_messages import Messages
from ingest.survey import Chat
from ingest.undated import Arrival, beside, same_text
from rag_core.doors.archive.stored import Stored
from rag_core.errors import ImportRefused
from rag_core.types import Channel, Origin, Post, PostKey, post_link

__all__ = ["HtmlExport", "pages"]

_PIECE = 2**16
# A page's head with its title, and its end with the link to the next page.
_HEAD, _TAIL = 2**16, 2**13
_TITLE = re.compile(rb'<div class="text bold">\s*(.{0,4096}?)\s*</div>', re.DOTALL)
_NEXT = re.compile(rb'class="pagination block_link" href="(messages[0-9]+\.html)"')
# In a page every message begins so, and the first date in it is its own.
_MARKS = re.compile(
    rb'class="message (default|service)[^"<>]{0,64}" id="message(-?[0-9]{1,16})"'
    rb'|class="[^"<>]{0,64}date details" title="([0-9]{2})\.([0-9]{2})\.([0-9]{4}) '
)
_FLATTENED = frozenset({"poll", "checklist", "venue", "contact"})
# Days to compare with what is known.
_COMPARED = 200


def pages(file: Path) -> list[Path]:
    """The page and those that follow it in its folder."""
    number = re.fullmatch(r"messages([0-9]*)\.html", file.name)
    if not number:
        return [file]
    following = (file.with_name(f"messages{n}.html") for n in count(int(number[1] or 1) + 1))
    found = [file]
    for page in following:
        if not page.is_file():
            return found
        found.append(page)
    return found


@dataclass(frozen=True, slots=True)
class _More:
    """What a page says of a message that its post does not hold."""

    flattened: bool
    origin_date: datetime | None


class HtmlExport:
    """The pages of one chat. Opening them raises `ImportRefused` if they are not what they should be."""

    vague = True

    def __init__(self, files: Sequence[Path], options: ImportOptions, known: Mapping[int, Channel]) -> None:
        self.path = files[0]
        self.consumed = 0
        self._files = files
        self._zone = options.zone
        with _readable():
            self.size = sum(file.stat().st_size for file in files)
            head = _head(self.path)
            for file in files:
                _head(file)
                self._next = _following(file)
        self._chat_id = _chat_id(self.path, options, known)
        self._chat = _chat(self._chat_id, head, options, known.get(self._chat_id))
        self._new = self._chat_id not in known
        self._ids = array("q")
        self._days = array("l")
        self._more: dict[int, _More] = {}
        self._doubtful = 0

    def survey(self) -> list[Chat]:
        """Count the messages and learn their days, without taking the pages apart."""
        with _readable():
            for file in self._files:
                with file.open("rb") as page:
                    self._count(page)
        return [self._chat]

    def _count(self, page: BinaryIO) -> None:
        undated = False
        while piece := page.read(_PIECE) + page.readline(_PIECE):
            self.consumed += len(piece)
            for found in _MARKS.finditer(piece):
                if found[2]:
                    undated = found[1] == b"default"
                    self._chat.messages += undated or not found[2].startswith(b"-")
                    number = int(found[2])
                elif undated:
                    undated = False
                    self._remember(number, *map(int, found.groups()[2:]))

    def _remember(self, message_id: int, day: int, month: int, year: int) -> None:
        try:
            self._days.append(date(year, month, day).toordinal())
        except ValueError:
            return
        self._ids.append(message_id)

    def messages(self, chat: Chat, opened: ExitStack) -> Iterator[object]:
        """The messages of all pages, read as a stream."""
        for file in self._files:
            parser = Messages()
            with file.open(encoding="utf-8-sig", errors="replace") as page:
                while piece := page.read(_PIECE) + page.readline(_PIECE):
                    parser.read(piece)
                    yield from map(self._noted, parser.taken())
            yield from map(self._noted, parser.finish())

    def _noted(self, entry: Entry) -> Entry:
        flattened, written = "rich_message" in entry, written_at(entry.get("forwarded_date", ""))
        if flattened or written:
            local = written if written is None or written.tzinfo else written.replace(tzinfo=self._zone)
            self._more[entry["id"]] = _More(flattened, local)
        return entry

    def reading(self) -> AbstractContextManager[None]:
        """A page may go away while it is read."""
        return _readable()

    def days(self, ids: Collection[int]) -> Mapping[int, date]:
        """The days of up to 200 of these messages, spread over the export."""
        both = [n for n, message_id in enumerate(self._ids) if message_id in ids]
        chosen = both[:: len(both) // _COMPARED + 1]
        return {self._ids[n]: date.fromordinal(self._days[n]) for n in chosen}

    def arrivals(self, found: Sequence[Post], known: Mapping[PostKey, Stored]) -> list[Arrival]:
        """The posts as they may be kept beside what is known of them."""
        arrivals = []
        for post in found:
            more = self._more.pop(post.key.message_id, _More(False, None))
            if post.origin and more.origin_date:
                post = _dated(post, post.origin, more.origin_date)
            stored = known.get(post.key)
            if stored is None:
                arrivals.append((post, 0))
                continue
            # a flattened text is never better than one that is there: bots are told more of them
            flattened = more.flattened or (post.media is not None and post.media.kind in _FLATTENED)
            same = same_text(post, stored.post) or (flattened and bool(stored.post.text))
            self._doubtful += not same and stored.stamp > stored.post.date
            arrivals.append(beside(post, stored, same=same))
        return arrivals

    def notes(self) -> Iterator[str]:
        """What a person should know of it."""
        if self._new and self._ids:
            link = post_link(PostKey(self._chat_id, self._ids[-1]), None)
            yield f"{self._chat.name} was not known before: see that {link} opens a post of it, else --chat is wrong."
        if self._next:
            yield f"{self.path} goes on in {self._next}, which is not beside it: import that page too."
        if self._doubtful:
            yield (
                f"{self._doubtful} posts read otherwise than after their last known edit. Pages do not say when a "
                "post was edited, so these texts were kept as earlier ones. Import result.json to be sure."
            )


def _dated(post: Post, origin: Origin, written: datetime) -> Post:
    return replace(post, origin=replace(origin, date=written.astimezone(UTC)))


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = f"{exc.filename} cannot be read ({exc.strerror}). Check it, then start the import again."
        raise ImportRefused(reason) from exc


def _head(file: Path) -> bytes:
    """The beginning of a page, if Telegram Desktop wrote it."""
    with file.open("rb") as page:
        head = page.read(_HEAD)
    if b'class="history"' not in head:
        raise ImportRefused(
            f"{file} is HTML, but no chat that Telegram Desktop exported. Give the messages.html of a chat."
        )
    return head


def _following(file: Path) -> str | None:
    """The page a page says it goes on in. Refuses one that was cut off."""
    with file.open("rb") as page:
        page.seek(max(0, file.stat().st_size - _TAIL))
        tail = page.read()
    if not tail.rstrip().lower().endswith(b"</html>"):
        raise ImportRefused(f"{file} ends in the middle. Export the chat again, or copy the whole file.")
    found = _NEXT.search(tail)
    return found[1].decode() if found else None


def _chat_id(file: Path, options: ImportOptions, known: Mapping[int, Channel]) -> int:
    """The chat a person says the pages are from."""
    where = "its id, which Telegram Desktop shows in profiles (Settings, Advanced, Experimental settings)."
    if not options.chat:
        raise ImportRefused(
            f"{file} does not say which channel it is from: give --chat with its @username if the bot knows it, "
            f"else {where}"
        )
    chat_id = chat_of(options.chat, known)
    if chat_id is None:
        raise ImportRefused(f"No channel {options.chat} is known yet. Give --chat {where}")
    return chat_id


def _chat(chat_id: int, head: bytes, options: ImportOptions, channel: Channel | None) -> Chat:
    """The chat of the pages as result.json would name it."""
    title = _TITLE.search(head)
    shown = html.unescape(title[1].decode(errors="replace")) if title else str(chat_id)
    # a full export has a page of all chats above; of groups it may hold one's own messages only
    whole = b"lists/chats.html" not in head
    public = "public" if options.username or (channel and channel.username) else "private"
    kind, bare = _kind(chat_id, channel, public)
    return Chat("", whole=whole, name=channel.title if channel else shown, type=kind, id=bare, listed=True)


def _kind(chat_id: int, channel: Channel | None, public: str) -> tuple[str, int]:
    """Telegram Desktop's type of a chat, and its id without what stands before it."""
    digits = str(chat_id)
    if digits.startswith("-100"):
        kind = "supergroup" if channel and channel.kind == "supergroup" else "channel"
        return f"{public}_{kind}", int(digits.removeprefix("-100"))
    return "private_group", -chat_id
