"""Where passages stand, by document number, and which of them a search may find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_core.doors.postings import Allowed, Bools
from rag_core.doors.segments import Docs, Ints
from rag_core.types import PostKey

__all__ = ["Entry", "Filter", "Keys", "Place", "Places"]


class Place(NamedTuple):
    """Where a passage stands in the archive: a part of a post, in code points of its text."""

    key: PostKey
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A passage on its way into the index."""

    place: Place
    date: datetime
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Some posts: by channel their message ids, ascending, each once."""

    by_chat: Mapping[int, NDArray[np.int64]]

    def __len__(self) -> int:
        return sum(map(len, self.by_chat.values()))

    @classmethod
    def of(cls, keys: Iterable[PostKey]) -> Keys:
        """From keys in any order."""
        found: dict[int, set[int]] = {}
        for key in keys:
            found.setdefault(key.chat_id, set()).add(key.message_id)
        return cls({chat: np.array(sorted(ids), np.int64) for chat, ids in found.items()})

    def __and__(self, other: Keys) -> Keys:
        """The posts that are in both."""
        both = self.by_chat.keys() & other.by_chat.keys()
        shared = {chat: np.intersect1d(self.by_chat[chat], other.by_chat[chat], assume_unique=True) for chat in both}
        return Keys({chat: ids for chat, ids in shared.items() if len(ids)})

    def __or__(self, other: Keys) -> Keys:
        """The posts that are in one or both."""
        nothing = np.zeros(0, np.int64)
        chats = self.by_chat.keys() | other.by_chat.keys()
        return Keys({c: np.union1d(self.by_chat.get(c, nothing), other.by_chat.get(c, nothing)) for c in chats})

    def holding(self, chat_id: int, messages: NDArray[np.int64]) -> Bools:
        """Which of these messages of a channel are among them."""
        ids = self.by_chat.get(chat_id)
        if ids is None or not len(ids):
            return np.zeros(len(messages), np.bool_)
        at = np.minimum(ids.searchsorted(messages), len(ids) - 1)
        found: Bools = ids.take(at) == messages
        return found


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search may find. `channels` is always spelt out; `since` is inclusive, `until` exclusive.

    With `keys` only these posts, as far as the rest lets them through.
    """

    channels: frozenset[int]
    since: datetime | None = None
    until: datetime | None = None
    keys: Keys | None = None


_COLUMNS = (("chat", np.int16), ("message", np.int64), ("part", np.int16), ("start", np.int32),
            ("end", np.int32), ("date", np.int64))  # fmt: skip


def _empty() -> dict[str, NDArray[Any]]:
    return {name: np.zeros(0, kind) for name, kind in _COLUMNS}


@dataclass(frozen=True, slots=True)
class Places:
    """Columns with a row for each document; the chat is a number into `chats`. Rows are written before they count."""

    chats: list[int] = field(default_factory=list)
    columns: dict[str, NDArray[Any]] = field(default_factory=_empty)

    def write(self, entries: Sequence[Entry], first: int) -> None:
        """Write rows from the document `first` on."""
        known = {chat: i for i, chat in enumerate(self.chats)}
        for chat in dict.fromkeys(e.place.key.chat_id for e in entries):
            if chat not in known:
                known[chat] = len(self.chats)
                self.chats.append(chat)
        rows: dict[str, list[int]] = {
            "chat": [known[e.place.key.chat_id] for e in entries],
            "message": [e.place.key.message_id for e in entries],
            "part": [e.place.part for e in entries],
            "start": [e.place.start for e in entries],
            "end": [e.place.end for e in entries],
            "date": [int(e.date.timestamp()) for e in entries],
        }
        last = first + len(entries)
        for name, kind in _COLUMNS:
            column = self.columns[name]
            if last > len(column):
                column = np.concatenate([column, np.zeros(max(1024, last * 5 // 4) - len(column), kind)])
            column[first:last] = rows[name]
            self.columns[name] = column

    def at(self, docs: Docs) -> list[Place]:
        """Where these documents stand."""
        of, *rest = (self.columns[name].take(docs).tolist() for name in ("chat", "message", "part", "start", "end"))
        message, *span = rest
        return list(map(Place, map(PostKey, map(self.chats.__getitem__, of), message), *span))

    def of_channel(self, chat_id: int, among: Bools) -> Docs:
        """The documents of a channel `among` those that count."""
        if chat_id not in self.chats:
            return np.zeros(0, np.intp)
        return np.flatnonzero(among & (self.columns["chat"][: len(among)] == self.chats.index(chat_id)))

    def of_posts(self, keys: Iterable[PostKey], among: Bools) -> Docs:
        """The documents of posts `among` those that count."""
        by_chat: dict[int, list[int]] = {}
        for key in keys:
            by_chat.setdefault(key.chat_id, []).append(key.message_id)
        found = [np.zeros(0, np.intp)]
        for chat, messages in by_chat.items():
            docs = self.of_channel(chat, among)
            found.append(docs[np.isin(self.columns["message"][docs], messages)])
        return np.concatenate(found)

    def first_parts(self, among: Bools) -> Docs:
        """The documents that begin a post, `among` those that count."""
        return np.flatnonzero(among & (self.columns["part"][: len(among)] == 0))

    def oldest_first(self, docs: Docs) -> Docs:
        """The documents in the order in which their posts were written."""
        return docs[np.lexsort((self.columns["message"][docs], self.columns["date"][docs]))]

    def allowed(self, only: Filter) -> Allowed:
        """Which documents a filter lets through."""
        columns, chats = self.columns, np.array([chat in only.channels for chat in self.chats], np.bool_)
        narrowed = self.narrowed(only)

        def allowed(docs: Docs) -> Bools:
            of = columns["chat"].take(docs)
            # a channel that came after the question began is not among those the asker may read
            seen: Bools = np.zeros(len(docs), np.bool_)
            seen[of < len(chats)] = chats[of[of < len(chats)]]
            if narrowed is not None:
                seen &= narrowed(docs)
            return seen

        return allowed

    def narrowed(self, only: Filter) -> Allowed | None:
        """Which documents a filter lets through beside its channels: by date and post; None: it says neither."""
        columns, keys = self.columns, only.keys
        bounded = only.since is not None or only.until is not None
        if not bounded and keys is None:
            return None
        since = -(2**62) if only.since is None else math.ceil(only.since.timestamp())
        until = 2**62 if only.until is None else math.ceil(only.until.timestamp())

        def allowed(docs: Docs) -> Bools:
            date = columns["date"].take(docs)
            seen: Bools = (date >= since) & (date < until)
            if keys is not None:
                seen &= self._among(docs, keys)
            return seen

        return allowed

    def _among(self, docs: Docs, keys: Keys) -> Bools:
        """Which of the documents are of these posts."""
        of, messages = self.columns["chat"].take(docs), self.columns["message"].take(docs)
        found: Bools = np.zeros(len(docs), np.bool_)
        for chat in keys.by_chat.keys() & set(self.chats):
            here = np.flatnonzero(of == self.chats.index(chat))
            found[here] = keys.holding(chat, messages[here])
        return found

    def renumbered(self, numbers: Ints) -> Places:
        """The same with new document numbers, without those that became -1."""
        kept = numbers >= 0
        return Places(self.chats, {name: column[: len(numbers)][kept] for name, column in self.columns.items()})

    def dump(self, size: int) -> dict[str, NDArray[Any]]:
        """The columns of the first `size` documents."""
        return {name: column[:size] for name, column in self.columns.items()}

    @classmethod
    def restored(cls, chats: Iterable[int], columns: Mapping[str, NDArray[Any]], size: int) -> Places:
        """What `dump` gave. Raises ValueError or KeyError where it is not of `size` documents."""
        found = {name: columns[name] for name, _ in _COLUMNS}
        if any(len(column) != size for column in found.values()):
            raise ValueError("the places are not those of the postings")
        return cls([int(chat) for chat in chats], found)
