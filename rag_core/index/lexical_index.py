"""Lexical index: BM25 over passages, filtered by channel, date and post inside the query.

The index is derived: it holds terms and passage references, no texts, and can be rebuilt from the archive. It is
saved beside the archive with the archive's identity and the watermark (the archive's sequence number) up to which it
is complete. Its files are raw arrays and a vocabulary in a folder of their own, and a small JSON file that names the
current one. They are read as untrusted input: only regular files are opened, no links are followed, and sizes are
checked. A data folder that was copied from elsewhere holds files that somebody else wrote.

Its methods may block and belong in a thread, except `statistics`, `watermark`, `revision`, `chats` and `len`.
"""

from __future__ import annotations

import copy
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import IndexUnavailable, translate_errors
from rag_core.index.bm25_postings import (
    ARRAY_KINDS,
    BM25_B,
    BM25_K1,
    NO_VARIANTS,
    BoolArray,
    DocFilter,
    DocIdArray,
    IndexSnapshot,
    IntArray,
    PostingsBM25,
    TermStatistics,
    TermVariants,
)
from rag_core.safe_files import open_regular_file, read_regular_file, replace_durably
from rag_core.text.tokens import ANALYSIS_VERSION
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Passage to be indexed, by its terms; `header_only` are those of them that only its header has."""

    place: PassageRef
    date: datetime
    terms: Sequence[str]
    header_only: frozenset[str] = frozenset()


_REF_COLUMNS = {
    "chat": np.int16, "message": np.int64, "part": np.int16, "start": np.int32, "end": np.int32, "date": np.int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PassageTable:
    """Table of passage references by document number; a row is written before its document is made visible."""

    chats: list[int] = field(default_factory=list)
    columns: dict[str, NDArray[Any]] = field(
        default_factory=lambda: {name: np.zeros(0, kind) for name, kind in _REF_COLUMNS.items()}
    )

    def write(self, entries: Sequence[IndexEntry], first: int) -> None:
        """Write rows, starting with the document number `first`."""
        known = {chat: i for i, chat in enumerate(self.chats)}
        rows = [
            (known.setdefault(key.chat_id, len(known)), key.message_id, *span, int(entry.date.timestamp()))
            for entry in entries
            for key, *span in (entry.place,)
        ]
        self.chats.extend([*known][len(self.chats) :])
        last = first + len(entries)
        for (name, kind), values in zip(_REF_COLUMNS.items(), zip(*rows, strict=True), strict=bool(rows)):
            column = self.columns[name]
            if last > len(column):
                column = np.concatenate([column, np.zeros(max(1024, last * 5 // 4) - len(column), kind)])
            column[first:last] = values
            self.columns[name] = column

    def at(self, docs: DocIdArray) -> list[PassageRef]:
        """Passage references of documents."""
        chats, *rest = (self.columns[name].take(docs).tolist() for name in ("chat", "message", "part", "start", "end"))
        message, *span = rest
        return list(map(PassageRef, map(PostKey, map(self.chats.__getitem__, chats), message), *span))

    def of_channel(self, chat_id: int, among: BoolArray) -> DocIdArray:
        """Documents of a channel; `among` is the mask of living documents."""
        if chat_id not in self.chats:
            return np.zeros(0, np.intp)
        return np.flatnonzero(among & (self.columns["chat"][: len(among)] == self.chats.index(chat_id)))

    def of_posts(self, keys: Iterable[PostKey], among: BoolArray) -> DocIdArray:
        """Documents of posts; `among` is the mask of living documents."""
        wanted, found = PostKeySet.of(keys), [np.zeros(0, np.intp)]
        for chat in wanted.by_chat:
            docs = self.of_channel(chat, among)
            found.append(docs[wanted.holding(chat, self.columns["message"][docs])])
        return np.concatenate(found)

    def number_posts(self, docs: DocIdArray) -> NDArray[np.int64]:
        """Number the posts of documents: equal for the passages of one post, whose message id is below 2⁴⁸."""
        numbers: NDArray[np.int64] = self.columns["chat"].take(docs).astype(np.int64) << 48
        numbers += self.columns["message"].take(docs)
        return numbers

    def oldest_first(self, docs: DocIdArray) -> DocIdArray:
        """Sort documents by the date of their posts."""
        return docs[np.lexsort((self.columns["message"][docs], self.columns["date"][docs]))]

    def allowed(self, only: SearchFilter) -> DocFilter:
        """Build the document filter of a search filter."""
        # the last for channels that are added after the search began, which are not allowed
        chats = np.array([*(chat in only.channels for chat in self.chats), False])
        narrowed = self.narrowed(only)

        def allowed(docs: DocIdArray) -> BoolArray:
            seen: BoolArray = chats.take(self.columns["chat"].take(docs), mode="clip")
            return seen if narrowed is None else seen & narrowed(docs)

        return allowed

    def narrowed(self, only: SearchFilter) -> DocFilter | None:
        """Build the document filter for dates and posts only, without channels; None if neither is set."""
        columns, keys = self.columns, only.keys
        if only.since is None and only.until is None and keys is None:
            return None
        since = -(2**62) if only.since is None else math.ceil(only.since.timestamp())
        until = 2**62 if only.until is None else math.ceil(only.until.timestamp())

        def allowed(docs: DocIdArray) -> BoolArray:
            date = columns["date"].take(docs)
            seen: BoolArray = (date >= since) & (date < until)
            if keys is not None:
                of, messages = columns["chat"].take(docs), columns["message"].take(docs)
                found: BoolArray = np.zeros(len(docs), np.bool_)
                for chat in keys.by_chat.keys() & set(self.chats):
                    here = np.flatnonzero(of == self.chats.index(chat))
                    found[here] = keys.holding(chat, messages[here])
                seen &= found
            return seen

        return allowed

    def renumbered(self, numbers: IntArray) -> PassageTable:
        """Copy with new document numbers, without the documents whose number is -1."""
        kept = numbers >= 0
        return PassageTable(self.chats, {name: column[: len(numbers)][kept] for name, column in self.columns.items()})


# Errors that reading or decoding a damaged index may raise; RuntimeError: JSON that is nested too deeply.
_READ_ERRORS = (OSError, ValueError, LookupError, TypeError, ArithmeticError, MemoryError, RuntimeError)


_INDEX_FOLDER_PATTERN = re.compile(r"\d+-[0-9a-f]{8}")  # watermark and random hex digits


def get_lexical_folder(data: Path) -> Path:
    """Folder of the saved lexical index in a data folder."""
    return data / "lexical"


def translate_write_errors() -> AbstractContextManager[None]:
    """Translate OSErrors while an index is written into IndexUnavailable."""
    reason = "The index cannot be written to disk ({said}): free some space, or make its folder yours."
    return translate_errors(IndexUnavailable, OSError, say=reason, code="index-not-written")


_FILE_FORMAT = 3
_MAX_SNAPSHOTS = 64  # sets of channels whose statistics are cached until the index changes


@dataclass(frozen=True, slots=True)
class _IndexState:
    """Postings, and passage references by the same document numbers. Replaced as one object at every change."""

    postings: PostingsBM25
    places: PassageTable
    documents: int = 0  # the number of all documents
    # The living passages and their terms, by channel number.
    passages: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    terms: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    snapshots: dict[frozenset[int], IndexSnapshot] = field(default_factory=dict, init=False)  # cached until a change

    def changed(self, come: DocIdArray, gone: DocIdArray) -> _IndexState:
        """State after some documents were added (`come`) and others deleted (`gone`)."""
        passages, terms = np.zeros((2, len(self.places.chats)), np.int64)
        passages[: len(self.passages)], terms[: len(self.terms)] = self.passages, self.terms
        for sign, docs in ((1, come), (-1, gone)):
            chats = self.places.columns["chat"].take(docs)
            np.add.at(passages, chats, sign)
            np.add.at(terms, chats, sign * self.postings.lengths.take(docs).astype(np.int64))
        return replace(self, documents=self.postings.corpus_size, passages=passages, terms=terms)

    def snapshot(self, channels: frozenset[int]) -> IndexSnapshot:
        """Snapshot for the readers of these channels, with its statistics."""
        if known := self.snapshots.get(channels):
            return known
        if len(self.snapshots) >= _MAX_SNAPSHOTS:
            self.snapshots.clear()
        allowed = np.array([chat in channels for chat in self.places.chats], np.bool_)
        inside = allowed[: len(self.passages)]
        count, total = int(self.passages[inside].sum()), int(self.terms[inside].sum())
        size, until, chat = self.documents, self.postings.until, self.places.columns["chat"]
        living = int(self.passages.sum())

        def seen(docs: DocIdArray) -> BoolArray:
            if living == size:  # nothing was deleted
                return allowed.take(chat.take(docs))
            found: BoolArray = until.take(docs) > size
            if count < living:
                found &= allowed.take(chat.take(docs))
            return found

        snapshot = IndexSnapshot(size, None if count == size else seen, count, total / max(1, count))
        self.snapshots[channels] = snapshot
        return snapshot


class LexicalIndex:
    """BM25 index in memory. One writer; searches, in other threads, depend on the filter's channels alone."""

    def __init__(self) -> None:
        self.watermark = 0  # the archive's sequence number up to which it is complete
        self.revision = 0  # grows after every change that can alter search results, never before it
        # Replaced as one object, so that a running search keeps consistent document numbers.
        self._now = _IndexState(PostingsBM25(k1=BM25_K1, b=BM25_B), PassageTable())

    def __len__(self) -> int:
        """Number of passages."""
        return int(np.count_nonzero(self._now.postings.alive))

    @property
    def chats(self) -> list[int]:
        """Channels with passages in the index, now or earlier."""
        return self._now.places.chats

    def replace(self, keys: Iterable[PostKey], entries: Sequence[IndexEntry]) -> None:
        """Replace all passages of these posts atomically: a search finds either the old or the new ones."""
        postings, places = self._now.postings, self._now.places
        gone, before = places.of_posts(keys, postings.alive), postings.corpus_size
        places.write(entries, before)
        postings.replace(gone, [e.terms for e in entries], [e.header_only for e in entries])
        self._now = self._now.changed(np.arange(before, postings.corpus_size), gone)
        self.revision += 1

    def remove_channel(self, chat_id: int) -> None:
        """Remove every passage of a channel atomically."""
        postings, places = self._now.postings, self._now.places
        gone = places.of_channel(chat_id, postings.alive)
        postings.delete(gone)
        self._now = self._now.changed(np.zeros(0, np.intp), gone)
        self.revision += 1

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Passages of a channel: message ids, and the part number of each."""
        now = self._now
        docs = now.places.of_channel(chat_id, now.postings.alive)
        return now.places.columns["message"][docs], now.places.columns["part"][docs]

    def adopt(self, other: LexicalIndex) -> None:
        """Take over the content of another index atomically, while searches run; `other` is unusable then."""
        self._now, self.watermark = other._now, other.watermark
        self.revision += 1  # counts on from our own: the other's revision may be one that was used before

    def compact(self) -> None:
        """Free the memory of deleted passages and of words that only they had."""
        postings, places = self._now.postings, self._now.places
        if postings.is_compact:
            return
        postings = copy.copy(postings)  # compact() replaces arrays and changes none: the old object stays valid
        places = places.renumbered(postings.compact())
        self._now = replace(self._now, postings=postings, places=places, documents=postings.corpus_size)
        self.revision += 1

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """Term statistics over the passages of these channels alone, as used by a search in them."""
        now = self._now
        snapshot = now.snapshot(channels)
        frequency = partial(now.postings.frequency, snapshot=snapshot)
        return TermStatistics(snapshot.count, snapshot.average_length, frequency)

    def list_vocabulary(self) -> list[str]:
        """Terms of all channels; before any is shown, its frequency in the asker's channels has to be looked at."""
        return list(self._now.postings.vocabulary)

    def search(
        self, terms: Sequence[str], only: SearchFilter, n: int = 50, variants: TermVariants = NO_VARIANTS
    ) -> list[tuple[PassageRef, float]]:
        """Find the n best passages with any of the terms or their variants, by BM25 over the filter's channels."""
        return self.search_each([terms], only, n, variants)[0]

    def search_each(
        self, queries: Sequence[Sequence[str]], only: SearchFilter, n: int, variants: TermVariants = NO_VARIANTS
    ) -> list[list[tuple[PassageRef, float]]]:
        """Search for the terms of each query, as `search` does: terms that several share are read once."""
        now = self._now
        snapshot, narrowed = now.snapshot(only.channels), now.places.narrowed(only)
        found = now.postings.best_of_each(queries, n, snapshot, narrowed, variants)
        return [list(zip(now.places.at(docs), scores.tolist(), strict=True)) for docs, scores in found]

    def matching(self, terms: Sequence[str], only: SearchFilter, *others: Sequence[str]) -> list[PassageRef]:
        """List every passage with all the terms, or all terms of one of `others`, oldest first: for counts."""
        now = self._now
        allowed = now.places.allowed(only)
        found = (now.postings.matching(way, allowed) for way in (terms, *others))
        return now.places.at(now.places.oldest_first(reduce(np.union1d, found)))

    def mentioning(self, terms: Sequence[str], only: SearchFilter) -> list[PassageRef]:
        """List every post with all the terms in its text, by its first passage that has them, oldest first."""
        now = self._now
        allowed = now.places.allowed(only)
        docs = now.places.oldest_first(now.postings.matching(terms, allowed))
        numbers = now.places.number_posts(docs)
        _, first = np.unique(numbers, return_index=True)
        first.sort()
        docs, numbers = docs[first], numbers[first]
        for term in terms:
            own = now.postings.list_own(term, allowed)
            found = own.searchsorted(docs, "right") > own.searchsorted(docs)
            others = np.flatnonzero(~found)  # posts that may have the term in another passage
            found[others] = np.isin(numbers[others], now.places.number_posts(own)) if len(others) else False
            docs, numbers = docs[found], numbers[found]
        return now.places.at(docs)

    def all_of(self, only: SearchFilter) -> list[PassageRef]:
        """List the first passage of every post that the filter allows, oldest first."""
        now = self._now
        alive = now.postings.alive
        docs = np.flatnonzero(alive & (now.places.columns["part"][: len(alive)] == 0))
        docs = docs[now.places.allowed(only)(docs)]
        return now.places.at(now.places.oldest_first(docs))

    def known(self, term: str, only: SearchFilter) -> bool:
        """Whether a passage that the filter allows has the term."""
        now = self._now
        return now.postings.holds(term, now.places.allowed(only))

    def save(self, folder: Path, archive: str = "") -> None:
        """Save atomically, under the identity of the archive that it was made from. Raises IndexUnavailable."""
        self.compact()
        postings, places = self._now.postings, self._now.places
        columns = {name: column[: postings.corpus_size] for name, column in places.columns.items()}
        fresh = folder / f"{self.watermark}-{secrets.token_hex(4)}"
        about = {"chats": places.chats, "watermark": self.watermark, "folder": fresh.name}
        with translate_write_errors():
            try:
                fresh.mkdir(parents=True, exist_ok=True)
                for name, array in {**postings.dump(), **columns}.items():
                    with (fresh / f"{name}.bin").open("wb") as file:
                        array.tofile(file)
                        file.flush()
                        os.fsync(file.fileno())
                (fresh / "vocabulary.txt").write_text("\n".join(postings.vocabulary), encoding="utf-8")
                replace_durably(folder / "current.json", json.dumps(_describe_files(archive) | about).encode())
            except OSError:
                shutil.rmtree(fresh, ignore_errors=True)  # on a full disk a partial index must not take space
                raise
            # Remove the folders of older indexes; one that cannot be removed does no harm. Nothing else is ours:
            # `folder` may be a link to a place that holds more.
            for old in folder.iterdir():
                if not _INDEX_FOLDER_PATTERN.fullmatch(old.name):
                    continue
                if old.is_symlink():
                    old.unlink(missing_ok=True)
                elif old.is_dir() and old != fresh:
                    shutil.rmtree(old, ignore_errors=True)

    @classmethod
    def load(cls, folder: Path, archive: str = "") -> LexicalIndex | None:
        """Load a saved index. None if there is none, or it is damaged, of another version or of another archive."""
        index, postings = cls(), PostingsBM25(k1=BM25_K1, b=BM25_B)
        try:
            about = json.loads(read_regular_file(folder / "current.json"))
            if any(about[name] != value for name, value in _describe_files(archive).items()):
                return None
            name = about["folder"]
            if name != Path(name).name:  # it is elsewhere
                return None
            left = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
            arrays: dict[str, NDArray[Any]] = {}
            for array, kind in (ARRAY_KINDS | _REF_COLUMNS).items():
                with open_regular_file(folder / name / f"{array}.bin", left) as file:
                    arrays[array] = np.fromfile(file, kind)
                left -= arrays[array].nbytes
            vocabulary = read_regular_file(folder / name / "vocabulary.txt", left)
            postings.restore(arrays, vocabulary.split("\n") if vocabulary else [])
            columns, size = {name: arrays[name] for name in _REF_COLUMNS}, postings.corpus_size
            if any(len(column) != size for column in columns.values()):
                return None
            places = PassageTable([int(chat) for chat in about["chats"]], columns)
            index._now = _IndexState(postings, places).changed(np.arange(size), np.zeros(0, np.intp))
            index.watermark = int(about["watermark"])
        except _READ_ERRORS:
            return None  # derived data: the caller rebuilds it from the archive
        return index


def _describe_files(archive: str) -> dict[str, object]:
    return {"format": _FILE_FORMAT, "analysis": ANALYSIS_VERSION, "archive": archive}
