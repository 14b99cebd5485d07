"""BM25 index of passages, filtered by channel, date and post inside the query; and the protocol of lexical indexes.

The index is derived: it holds terms and passage references, no texts, and can be rebuilt from the archive. It is
saved beside the archive with the archive's identity and the watermark (the archive's sequence number) up to which it
is complete.

`LexicalIndex` is the protocol that the file index and the Qdrant index share. Calls may block and belong in a thread,
except `statistics`, `watermark`, `revision`, `chats` and `len`, which need nothing but memory.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_core.index import bm25_files
from rag_core.index.postings import (
    BM25_B,
    BM25_K1,
    BoolArray,
    DocFilter,
    DocIdArray,
    IndexSnapshot,
    IntArray,
    PostingsBM25,
    TermStatistics,
)
from rag_core.text.tokens import ANALYSIS_VERSION
from rag_core.types import PostKey

__all__ = ["Bm25Index", "IndexEntry", "LexicalIndex", "PassageRef", "PassageTable", "PostKeySet", "SearchFilter"]


class PassageRef(NamedTuple):
    """Where a passage stands in the archive: a part of a post, in code points of its text."""

    key: PostKey
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A passage on its way into the index."""

    place: PassageRef
    date: datetime
    terms: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class PostKeySet:
    """Some posts: by channel their message ids, ascending, each once."""

    by_chat: Mapping[int, NDArray[np.int64]]

    def __len__(self) -> int:
        return sum(map(len, self.by_chat.values()))

    @classmethod
    def of(cls, keys: Iterable[PostKey]) -> PostKeySet:
        """From keys in any order."""
        found: dict[int, set[int]] = {}
        for key in keys:
            found.setdefault(key.chat_id, set()).add(key.message_id)
        return cls({chat: np.array(sorted(ids), np.int64) for chat, ids in found.items()})

    def __and__(self, other: PostKeySet) -> PostKeySet:
        """The posts that are in both."""
        both = self.by_chat.keys() & other.by_chat.keys()
        shared = {chat: np.intersect1d(self.by_chat[chat], other.by_chat[chat], assume_unique=True) for chat in both}
        return PostKeySet({chat: ids for chat, ids in shared.items() if len(ids)})

    def __or__(self, other: PostKeySet) -> PostKeySet:
        """The posts that are in one or both."""
        nothing = np.zeros(0, np.int64)
        chats = self.by_chat.keys() | other.by_chat.keys()
        return PostKeySet({c: np.union1d(self.by_chat.get(c, nothing), other.by_chat.get(c, nothing)) for c in chats})

    def holding(self, chat_id: int, messages: NDArray[np.int64]) -> BoolArray:
        """Which of these messages of a channel are among them."""
        ids = self.by_chat.get(chat_id)
        if ids is None or not len(ids):
            return np.zeros(len(messages), np.bool_)
        at = np.minimum(ids.searchsorted(messages), len(ids) - 1)
        found: BoolArray = ids.take(at) == messages
        return found


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What a search may find. `channels` is always spelt out; `since` is inclusive, `until` exclusive.

    With `keys` only these posts, as far as the rest lets them through.
    """

    channels: frozenset[int]
    since: datetime | None = None
    until: datetime | None = None
    keys: PostKeySet | None = None


_REF_COLUMNS = (("chat", np.int16), ("message", np.int64), ("part", np.int16), ("start", np.int32),
            ("end", np.int32), ("date", np.int64))  # fmt: skip


def _make_empty_columns() -> dict[str, NDArray[Any]]:
    return {name: np.zeros(0, kind) for name, kind in _REF_COLUMNS}


@dataclass(frozen=True, slots=True)
class PassageTable:
    """Columns with a row for each document; the chat is a number into `chats`. Rows are written before they count."""

    chats: list[int] = field(default_factory=list)
    columns: dict[str, NDArray[Any]] = field(default_factory=_make_empty_columns)

    def write(self, entries: Sequence[IndexEntry], first: int) -> None:
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
        for name, kind in _REF_COLUMNS:
            column = self.columns[name]
            if last > len(column):
                column = np.concatenate([column, np.zeros(max(1024, last * 5 // 4) - len(column), kind)])
            column[first:last] = rows[name]
            self.columns[name] = column

    def at(self, docs: DocIdArray) -> list[PassageRef]:
        """Where these documents stand."""
        of, *rest = (self.columns[name].take(docs).tolist() for name in ("chat", "message", "part", "start", "end"))
        message, *span = rest
        return list(map(PassageRef, map(PostKey, map(self.chats.__getitem__, of), message), *span))

    def of_channel(self, chat_id: int, among: BoolArray) -> DocIdArray:
        """The documents of a channel `among` those that count."""
        if chat_id not in self.chats:
            return np.zeros(0, np.intp)
        return np.flatnonzero(among & (self.columns["chat"][: len(among)] == self.chats.index(chat_id)))

    def of_posts(self, keys: Iterable[PostKey], among: BoolArray) -> DocIdArray:
        """The documents of posts `among` those that count."""
        by_chat: dict[int, list[int]] = {}
        for key in keys:
            by_chat.setdefault(key.chat_id, []).append(key.message_id)
        found = [np.zeros(0, np.intp)]
        for chat, messages in by_chat.items():
            docs = self.of_channel(chat, among)
            found.append(docs[np.isin(self.columns["message"][docs], messages)])
        return np.concatenate(found)

    def first_parts(self, among: BoolArray) -> DocIdArray:
        """The documents that begin a post, `among` those that count."""
        return np.flatnonzero(among & (self.columns["part"][: len(among)] == 0))

    def oldest_first(self, docs: DocIdArray) -> DocIdArray:
        """The documents in the order in which their posts were written."""
        return docs[np.lexsort((self.columns["message"][docs], self.columns["date"][docs]))]

    def allowed(self, only: SearchFilter) -> DocFilter:
        """Which documents a filter lets through."""
        columns, chats = self.columns, np.array([chat in only.channels for chat in self.chats], np.bool_)
        narrowed = self.narrowed(only)

        def allowed(docs: DocIdArray) -> BoolArray:
            of = columns["chat"].take(docs)
            # a channel that came after the question began is not among those the asker may read
            seen: BoolArray = np.zeros(len(docs), np.bool_)
            seen[of < len(chats)] = chats[of[of < len(chats)]]
            if narrowed is not None:
                seen &= narrowed(docs)
            return seen

        return allowed

    def narrowed(self, only: SearchFilter) -> DocFilter | None:
        """Which documents a filter lets through beside its channels: by date and post; None: it says neither."""
        columns, keys = self.columns, only.keys
        bounded = only.since is not None or only.until is not None
        if not bounded and keys is None:
            return None
        since = -(2**62) if only.since is None else math.ceil(only.since.timestamp())
        until = 2**62 if only.until is None else math.ceil(only.until.timestamp())

        def allowed(docs: DocIdArray) -> BoolArray:
            date = columns["date"].take(docs)
            seen: BoolArray = (date >= since) & (date < until)
            if keys is not None:
                seen &= self._among(docs, keys)
            return seen

        return allowed

    def _among(self, docs: DocIdArray, keys: PostKeySet) -> BoolArray:
        """Which of the documents are of these posts."""
        of, messages = self.columns["chat"].take(docs), self.columns["message"].take(docs)
        found: BoolArray = np.zeros(len(docs), np.bool_)
        for chat in keys.by_chat.keys() & set(self.chats):
            here = np.flatnonzero(of == self.chats.index(chat))
            found[here] = keys.holding(chat, messages[here])
        return found

    def renumbered(self, numbers: IntArray) -> PassageTable:
        """The same with new document numbers, without those that became -1."""
        kept = numbers >= 0
        return PassageTable(self.chats, {name: column[: len(numbers)][kept] for name, column in self.columns.items()})

    def dump(self, size: int) -> dict[str, NDArray[Any]]:
        """The columns of the first `size` documents."""
        return {name: column[:size] for name, column in self.columns.items()}

    @classmethod
    def restored(cls, chats: Iterable[int], columns: Mapping[str, NDArray[Any]], size: int) -> PassageTable:
        """What `dump` gave. Raises ValueError or KeyError where it is not of `size` documents."""
        found = {name: columns[name] for name, _ in _REF_COLUMNS}
        if any(len(column) != size for column in found.values()):
            raise ValueError("the places are not those of the postings")
        return cls([int(chat) for chat in chats], found)


class LexicalIndex(Protocol):
    """BM25 over passages. One writer; searches may run in other threads meanwhile. Raises IndexUnavailable."""

    watermark: int  # the archive's sequence number up to which it is complete

    def __len__(self) -> int:
        """How many passages there are."""

    @property
    def chats(self) -> list[int]:
        """The channels it has passages of, or had."""

    @property
    def revision(self) -> int:
        """Grows whenever a search may find something else than before: after the change, never ahead of it."""

    def replace(self, keys: Iterable[PostKey], entries: Sequence[IndexEntry]) -> int:
        """Put passages in place of all those of these posts; returns how many passages went."""

    def remove_channel(self, chat_id: int) -> None:
        """Take every passage of a channel out."""

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """The passages of a channel: message ids, and which part of the post each is."""

    def adopt(self, other: LexicalIndex) -> None:
        """Become what another of the same kind is, while searches run; `other` must not be used any more."""

    def fresh(self) -> LexicalIndex:
        """An empty one of the same kind, beside this one."""

    def saved(self, folder: Path, archive: str) -> LexicalIndex | None:
        """One of the same kind that was saved there, for this archive; None where there is none."""

    @property
    def told(self) -> str:
        """What another process needs to open one of the same kind (`heard`): it may hold a key. Empty: nothing."""

    def save(self, folder: Path, archive: str = "") -> None:
        """Write what is kept here, so that either the old or the new one is there, whole, whatever happens."""

    def close(self) -> None:
        """Let go of what is held open. Closing twice is no error."""

    def search(self, terms: Sequence[str], only: SearchFilter, n: int = 50) -> list[tuple[PassageRef, float]]:
        """The n best passages that hold a term, best first, with their BM25 scores over the filter's channels."""

    def matching(self, terms: Sequence[str], only: SearchFilter, *others: Sequence[str]) -> list[PassageRef]:
        """Every passage that holds all the terms, or all of one of the others, oldest first: for counts."""

    def all_of(self, only: SearchFilter) -> list[PassageRef]:
        """The first passage of every post that may be found, oldest first."""

    def known(self, term: str, only: SearchFilter) -> bool:
        """Whether a passage that may be found holds the term."""

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """Term statistics over the passages of these channels alone, as a search in them uses."""


_COMPACT_SHARE = 0.1  # of deleted passages
_FILE_FORMAT = 2
_MAX_SNAPSHOTS = 64  # sets of channels whose statistics are kept until the index changes


@dataclass(frozen=True, slots=True)
class _ChannelSizes:
    """How much there is: documents in all, and by channel number the living passages and their terms."""

    documents: int
    passages: NDArray[np.int64]
    terms: NDArray[np.int64]

    @classmethod
    def counted(cls, postings: PostingsBM25, places: PassageTable) -> _ChannelSizes:
        """Of everything, counted anew."""
        return cls(0, np.zeros(0, np.int64), np.zeros(0, np.int64)).plus(
            postings, places, np.flatnonzero(postings.alive), np.zeros(0, np.intp)
        )

    def plus(self, postings: PostingsBM25, places: PassageTable, come: DocIdArray, gone: DocIdArray) -> _ChannelSizes:
        """After some documents came and others went."""
        passages, terms = np.zeros((2, len(places.chats)), np.int64)
        passages[: len(self.passages)], terms[: len(self.terms)] = self.passages, self.terms
        for sign, docs in ((1, come), (-1, gone)):
            chats = places.columns["chat"].take(docs)
            np.add.at(passages, chats, sign)
            np.add.at(terms, chats, sign * postings.lengths.take(docs).astype(np.int64))
        return _ChannelSizes(postings.corpus_size, passages, terms)


@dataclass(frozen=True, slots=True)
class _IndexState:
    """Postings and, by the same document numbers, where each passage stands. Replaced as one with every change."""

    postings: PostingsBM25
    places: PassageTable
    sizes: _ChannelSizes

    @classmethod
    def of(cls, postings: PostingsBM25, places: PassageTable) -> _IndexState:
        return cls(postings, places, _ChannelSizes.counted(postings, places))

    def snapshot(self, channels: frozenset[int]) -> IndexSnapshot:
        """What the readers of these channels may find, and its statistics."""
        chats, sizes = self.places.chats, self.sizes
        allowed = np.array([chat in channels for chat in chats], np.bool_)
        inside = allowed[: len(sizes.passages)]
        count, total = int(sizes.passages[inside].sum()), int(sizes.terms[inside].sum())
        size, until, chat = sizes.documents, self.postings.until, self.places.columns["chat"]
        living = int(sizes.passages.sum())

        def seen(docs: DocIdArray) -> BoolArray:
            if living == size:  # nothing was deleted
                return allowed.take(chat.take(docs))
            found: BoolArray = until.take(docs) > size
            if count < living:
                found &= allowed.take(chat.take(docs))
            return found

        return IndexSnapshot(size, None if count == size else seen, count, total / max(1, count))


class Bm25Index:
    """BM25 over passages. One writer; searches may run in other threads meanwhile.

    What a search finds and how it scores depends on the passages of the filter's channels alone.
    """

    def __init__(self) -> None:
        self.watermark = 0
        self._revision = 0
        # Replaced as one, so that a search that began before keeps numbers that fit together.
        self._now = _IndexState.of(PostingsBM25(k1=BM25_K1, b=BM25_B), PassageTable())
        self._snapshots: dict[frozenset[int], IndexSnapshot] = {}
        self._snapshots_of = self._now
        self._snapshots_lock = threading.Lock()

    def __len__(self) -> int:
        return self._now.postings.corpus_size - self._now.postings.deleted

    @property
    def chats(self) -> list[int]:
        """The channels it has passages of, or had."""
        return self._now.places.chats

    @property
    def revision(self) -> int:
        """Grows whenever a search may find something else than before: after the change, never ahead of it."""
        return self._revision

    def add(self, entries: Sequence[IndexEntry]) -> None:
        """Add passages. What is there of the same posts stays: see `replace`."""
        self.replace((), entries)

    def replace(self, keys: Iterable[PostKey], entries: Sequence[IndexEntry]) -> int:
        """Put passages in place of all those of these posts, as one: a search finds either what was or what is.

        Returns how many passages went.
        """
        postings, places = self._now.postings, self._now.places
        gone = places.of_posts(keys, postings.alive)
        places.write(entries, postings.corpus_size)
        before = postings.corpus_size
        if entries:
            postings.replace(gone, [e.terms for e in entries])
        else:
            postings.delete(gone)
        self._count(np.arange(before, postings.corpus_size), gone)
        return len(gone)

    def remove(self, keys: Iterable[PostKey]) -> int:
        """Take every passage of these posts out at once; returns how many passages went."""
        return self.replace(keys, ())

    def remove_channel(self, chat_id: int) -> None:
        """Take every passage of a channel out at once."""
        postings, places = self._now.postings, self._now.places
        gone = places.of_channel(chat_id, postings.alive)
        postings.delete(gone)
        self._count(np.zeros(0, np.intp), gone)

    def _count(self, come: DocIdArray, gone: DocIdArray) -> None:
        """Make known to readers that documents came and went."""
        state = self._now
        self._now = replace(state, sizes=state.sizes.plus(state.postings, state.places, come, gone))
        self._revision += 1

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """The passages of a channel: message ids, and which part of the post each is."""
        now = self._now
        docs = now.places.of_channel(chat_id, now.postings.alive)
        return now.places.columns["message"][docs], now.places.columns["part"][docs]

    def adopt(self, other: LexicalIndex) -> None:
        """Become what another index is, as one, while searches run; `other` must not be used any more."""
        assert isinstance(other, Bm25Index)
        self._now, self.watermark = other._now, other.watermark
        self._revision += 1  # our own goes on: the other's may be a number that has been

    def fresh(self) -> Bm25Index:
        """An empty one of the same kind."""
        return Bm25Index()

    def saved(self, folder: Path, archive: str) -> Bm25Index | None:
        """One of the same kind that was saved there."""
        return Bm25Index.load(folder, archive)

    @property
    def told(self) -> str:
        """What another process needs to open one of the same kind: nothing."""
        return ""

    def close(self) -> None:
        """Nothing is held open."""

    def compact(self, *, force: bool = False) -> bool:
        """Free the memory of the deleted passages, when enough of them have gathered."""
        postings, places = self._now.postings, self._now.places
        whole = not postings.deleted and len(postings.segments) <= 1  # there is nothing to do
        if whole or (not force and postings.deleted <= _COMPACT_SHARE * postings.corpus_size):
            return False
        postings = copy.copy(postings)  # compact() replaces arrays, it changes none: the old one stays whole
        places = places.renumbered(postings.compact())
        self._now = _IndexState(postings, places, replace(self._now.sizes, documents=postings.corpus_size))
        self._revision += 1
        return True

    def _snapshot(self, channels: frozenset[int]) -> tuple[_IndexState, IndexSnapshot]:
        """What readers of these channels may find now; kept until the index changes, for the frequencies counted."""
        state = self._now
        with self._snapshots_lock:
            if self._snapshots_of is not state:
                self._snapshots_of = state
                self._snapshots.clear()
            snapshot = self._snapshots.get(channels)
            if snapshot is None:
                if len(self._snapshots) >= _MAX_SNAPSHOTS:
                    self._snapshots.clear()
                snapshot = self._snapshots[channels] = state.snapshot(channels)
        return state, snapshot

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """Term statistics over the passages of these channels alone."""
        state, snapshot = self._snapshot(channels)
        frequency = partial(state.postings.frequency, snapshot=snapshot)
        return TermStatistics(snapshot.count, snapshot.average_length, frequency)

    def search(self, terms: Sequence[str], only: SearchFilter, n: int = 50) -> list[tuple[PassageRef, float]]:
        """The n best passages that hold a term, best first, with their BM25 scores over the filter's channels."""
        state, snapshot = self._snapshot(only.channels)
        docs, scores = state.postings.best(terms, n, snapshot, state.places.narrowed(only))
        return list(zip(state.places.at(docs), scores.tolist(), strict=True))

    def matching(self, terms: Sequence[str], only: SearchFilter, *others: Sequence[str]) -> list[PassageRef]:
        """Every passage that holds all the terms, or all of one of the others, oldest first: for counts."""
        now = self._now
        allowed = now.places.allowed(only)
        docs = now.postings.matching(terms, allowed)
        for way in others:
            docs = np.union1d(docs, now.postings.matching(way, allowed))
        return now.places.at(now.places.oldest_first(docs))

    def all_of(self, only: SearchFilter) -> list[PassageRef]:
        """The first passage of every post that may be found, oldest first."""
        now = self._now
        docs = now.places.first_parts(now.postings.alive[: now.postings.corpus_size])
        docs = docs[now.places.allowed(only)(docs)]
        return now.places.at(now.places.oldest_first(docs))

    def known(self, term: str, only: SearchFilter) -> bool:
        """Whether a passage that may be found holds the term."""
        now = self._now
        return now.postings.holds(term, now.places.allowed(only))

    def save(self, folder: Path, archive: str = "") -> None:
        """Write the index so that either the old or the new one is there, whole, whatever happens.

        `archive` is the identity of the archive it was made of. Raises IndexUnavailable.
        """
        self.compact(force=True)
        postings, places = self._now.postings, self._now.places
        about = {**_describe_bm25_files(archive), "chats": places.chats, "watermark": self.watermark}
        bm25_files.write_index_files(
            folder, about, {**postings.dump(), **places.dump(postings.corpus_size)}, postings.vocabulary
        )

    @classmethod
    def load(cls, folder: Path, archive: str = "") -> Bm25Index | None:
        """Read a saved index. None where there is none, or it is damaged, of another version or another archive."""
        index, postings = cls(), PostingsBM25(k1=BM25_K1, b=BM25_B)
        try:
            found = bm25_files.read_index_files(folder, _describe_bm25_files(archive))
            if found is None:
                return None
            about, arrays, vocabulary = found
            postings.restore(arrays, vocabulary)
            index._now = _IndexState.of(postings, PassageTable.restored(about["chats"], arrays, postings.corpus_size))
            index.watermark = int(about["watermark"])
        except bm25_files.INDEX_READ_ERRORS:
            return None  # derived data: whoever asked builds it anew from the archive
        return index


def _describe_bm25_files(archive: str) -> dict[str, object]:
    return {"format": _FILE_FORMAT, "analysis": ANALYSIS_VERSION, "archive": archive}
