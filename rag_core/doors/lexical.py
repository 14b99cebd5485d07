"""The lexical leg: passages in a BM25 index, filtered by channel, date and post inside the query.

The index is derived: it holds terms and places, no texts, and can be rebuilt from the archive. It is
saved beside the archive with the archive's identity and the watermark (the archive's sequence number)
up to which it is complete.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag_core.analysis import ANALYSIS_VERSION
from rag_core.doors import saved
from rag_core.doors.places import Entry, Filter, Keys, Place, Places
from rag_core.doors.postings import Bools, PostingsBM25, Snapshot
from rag_core.doors.segments import Docs
from rag_core.doors.term_statistics import K1, B, TermStatistics
from rag_core.doors.word_index import WordIndex
from rag_core.types import PostKey

__all__ = ["Entry", "Filter", "Keys", "Lexical", "Place"]

_COMPACT_SHARE = 0.1  # of deleted passages
_FORMAT = 2
_MOST_SNAPSHOTS = 64  # sets of channels whose statistics are kept until the index changes


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How much there is: documents in all, and by channel number the living passages and their terms."""

    documents: int
    passages: NDArray[np.int64]
    terms: NDArray[np.int64]

    @classmethod
    def counted(cls, postings: PostingsBM25, places: Places) -> _Sizes:
        """Of everything, counted anew."""
        return cls(0, np.zeros(0, np.int64), np.zeros(0, np.int64)).plus(
            postings, places, np.flatnonzero(postings.alive), np.zeros(0, np.intp)
        )

    def plus(self, postings: PostingsBM25, places: Places, come: Docs, gone: Docs) -> _Sizes:
        """After some documents came and others went."""
        passages, terms = np.zeros((2, len(places.chats)), np.int64)
        passages[: len(self.passages)], terms[: len(self.terms)] = self.passages, self.terms
        for sign, docs in ((1, come), (-1, gone)):
            chats = places.columns["chat"].take(docs)
            np.add.at(passages, chats, sign)
            np.add.at(terms, chats, sign * postings.lengths.take(docs).astype(np.int64))
        return _Sizes(postings.corpus_size, passages, terms)


@dataclass(frozen=True, slots=True)
class _State:
    """Postings and, by the same document numbers, where each passage stands. Replaced as one with every change."""

    postings: PostingsBM25
    places: Places
    sizes: _Sizes

    @classmethod
    def of(cls, postings: PostingsBM25, places: Places) -> _State:
        return cls(postings, places, _Sizes.counted(postings, places))

    def snapshot(self, channels: frozenset[int]) -> Snapshot:
        """What the readers of these channels may find, and its statistics."""
        chats, sizes = self.places.chats, self.sizes
        allowed = np.array([chat in channels for chat in chats], np.bool_)
        inside = allowed[: len(sizes.passages)]
        count, total = int(sizes.passages[inside].sum()), int(sizes.terms[inside].sum())
        size, until, chat = sizes.documents, self.postings.until, self.places.columns["chat"]
        living = int(sizes.passages.sum())

        def seen(docs: Docs) -> Bools:
            if living == size:  # nothing was deleted
                return allowed.take(chat.take(docs))
            found: Bools = until.take(docs) > size
            if count < living:
                found &= allowed.take(chat.take(docs))
            return found

        return Snapshot(size, None if count == size else seen, count, total / max(1, count))


class Lexical:
    """BM25 over passages. One writer; searches may run in other threads meanwhile.

    What a search finds and how it scores depends on the passages of the filter's channels alone.
    """

    def __init__(self) -> None:
        self.watermark = 0
        self._revision = 0
        # Replaced as one, so that a search that began before keeps numbers that fit together.
        self._now = _State.of(PostingsBM25(k1=K1, b=B), Places())
        self._snapshots: dict[frozenset[int], Snapshot] = {}
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

    def add(self, entries: Sequence[Entry]) -> None:
        """Add passages. What is there of the same posts stays: see `replace`."""
        self.replace((), entries)

    def replace(self, keys: Iterable[PostKey], entries: Sequence[Entry]) -> int:
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

    def _count(self, come: Docs, gone: Docs) -> None:
        """Make known to readers that documents came and went."""
        state = self._now
        self._now = replace(state, sizes=state.sizes.plus(state.postings, state.places, come, gone))
        self._revision += 1

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """The passages of a channel: message ids, and which part of the post each is."""
        now = self._now
        docs = now.places.of_channel(chat_id, now.postings.alive)
        return now.places.columns["message"][docs], now.places.columns["part"][docs]

    def adopt(self, other: WordIndex) -> None:
        """Become what another index is, as one, while searches run; `other` must not be used any more."""
        assert isinstance(other, Lexical)
        self._now, self.watermark = other._now, other.watermark
        self._revision += 1  # our own goes on: the other's may be a number that has been

    def fresh(self) -> Lexical:
        """An empty one of the same kind."""
        return Lexical()

    def saved(self, folder: Path, archive: str) -> Lexical | None:
        """One of the same kind that was saved there."""
        return Lexical.load(folder, archive)

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
        self._now = _State(postings, places, replace(self._now.sizes, documents=postings.corpus_size))
        self._revision += 1
        return True

    def _snapshot(self, channels: frozenset[int]) -> tuple[_State, Snapshot]:
        """What readers of these channels may find now; kept until the index changes, for the frequencies counted."""
        state = self._now
        with self._snapshots_lock:
            if self._snapshots_of is not state:
                self._snapshots_of = state
                self._snapshots.clear()
            snapshot = self._snapshots.get(channels)
            if snapshot is None:
                if len(self._snapshots) >= _MOST_SNAPSHOTS:
                    self._snapshots.clear()
                snapshot = self._snapshots[channels] = state.snapshot(channels)
        return state, snapshot

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """Term statistics over the passages of these channels alone."""
        state, snapshot = self._snapshot(channels)
        frequency = partial(state.postings.frequency, snapshot=snapshot)
        return TermStatistics(snapshot.count, snapshot.average_length, frequency)

    def search(self, terms: Sequence[str], only: Filter, n: int = 50) -> list[tuple[Place, float]]:
        """The n best passages that hold a term, best first, with their BM25 scores over the filter's channels."""
        state, snapshot = self._snapshot(only.channels)
        docs, scores = state.postings.best(terms, n, snapshot, state.places.narrowed(only))
        return list(zip(state.places.at(docs), scores.tolist(), strict=True))

    def matching(self, terms: Sequence[str], only: Filter, *others: Sequence[str]) -> list[Place]:
        """Every passage that holds all the terms, or all of one of the others, oldest first: for counts."""
        now = self._now
        allowed = now.places.allowed(only)
        docs = now.postings.matching(terms, allowed)
        for way in others:
            docs = np.union1d(docs, now.postings.matching(way, allowed))
        return now.places.at(now.places.oldest_first(docs))

    def all_of(self, only: Filter) -> list[Place]:
        """The first passage of every post that may be found, oldest first."""
        now = self._now
        docs = now.places.first_parts(now.postings.alive[: now.postings.corpus_size])
        docs = docs[now.places.allowed(only)(docs)]
        return now.places.at(now.places.oldest_first(docs))

    def known(self, term: str, only: Filter) -> bool:
        """Whether a passage that may be found holds the term."""
        now = self._now
        return now.postings.holds(term, now.places.allowed(only))

    def save(self, folder: Path, archive: str = "") -> None:
        """Write the index so that either the old or the new one is there, whole, whatever happens.

        `archive` is the identity of the archive it was made of. Raises IndexUnavailable.
        """
        self.compact(force=True)
        postings, places = self._now.postings, self._now.places
        about = {**_made(archive), "chats": places.chats, "watermark": self.watermark}
        saved.write(folder, about, {**postings.dump(), **places.dump(postings.corpus_size)}, postings.vocabulary)

    @classmethod
    def load(cls, folder: Path, archive: str = "") -> Lexical | None:
        """Read a saved index. None where there is none, or it is damaged, of another version or another archive."""
        index, postings = cls(), PostingsBM25(k1=K1, b=B)
        try:
            found = saved.read(folder, _made(archive))
            if found is None:
                return None
            about, arrays, vocabulary = found
            postings.restore(arrays, vocabulary)
            index._now = _State.of(postings, Places.restored(about["chats"], arrays, postings.corpus_size))
            index.watermark = int(about["watermark"])
        except saved.UNREADABLE:
            return None  # derived data: whoever asked builds it anew from the archive
        return index


def _made(archive: str) -> dict[str, object]:
    return {"format": _FORMAT, "analysis": ANALYSIS_VERSION, "archive": archive}
