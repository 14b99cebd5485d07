"""The lexical leg: passages in a BM25 index, filtered by channel and date inside the query.

The index is derived: it holds terms and places, no texts, and can be rebuilt from the archive. It is
saved beside the archive with the archive's identity and the watermark (the archive's sequence number)
up to which it is complete.
"""

from __future__ import annotations

import copy
import json
import math
import os
import secrets
import shutil
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from rag_core.analysis import ANALYSIS_VERSION
from rag_core.doors.postings import Allowed, Bools, PostingsBM25
from rag_core.doors.segments import Docs
from rag_core.errors import IndexUnavailable, raised_as
from rag_core.types import PostKey

__all__ = ["Entry", "Filter", "Lexical", "Place"]

# Posts are short and of uneven length, so that length should count little: the values Anserini uses
# for passages (Yang et al. 2017). On XQuAD paragraphs among news posts they gain 3 points at rank 1
# over rank-bm25's 1.5 and 0.75.
K1, B = 0.9, 0.4
_COMPACT_SHARE = 0.1  # of deleted passages
_FORMAT = 2


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


@dataclass(frozen=True, slots=True)
class Filter:
    """What a search may find. `channels` is always spelt out; `since` is inclusive, `until` exclusive."""

    channels: frozenset[int]
    since: datetime | None = None
    until: datetime | None = None


_COLUMNS = (("chat", np.int16), ("message", np.int64), ("part", np.int16), ("start", np.int32),
            ("end", np.int32), ("date", np.int64))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _State:
    """Postings and, by the same document numbers, where each passage stands."""

    postings: PostingsBM25
    columns: dict[str, NDArray[Any]]

    def places(self, docs: Docs, chats: list[int]) -> list[Place]:
        of, *rest = (self.columns[name].take(docs).tolist() for name in ("chat", "message", "part", "start", "end"))
        message, *span = rest
        return list(map(Place, map(PostKey, map(chats.__getitem__, of), message), *span))


class Lexical:
    """BM25 over passages. One writer; searches may run in other threads meanwhile."""

    def __init__(self) -> None:
        self.chats: list[int] = []
        self.watermark = 0
        # Replaced as one by `compact`, so that a search that began before it keeps numbers that fit together.
        self._now = _State(PostingsBM25(k1=K1, b=B), {name: np.zeros(0, kind) for name, kind in _COLUMNS})

    def __len__(self) -> int:
        return self._now.postings.corpus_size - self._now.postings.deleted

    def add(self, entries: Sequence[Entry]) -> None:
        """Add passages. A post that is already there must be removed first."""
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
        postings, columns = self._now.postings, self._now.columns
        first, last = postings.corpus_size, postings.corpus_size + len(entries)
        for name, kind in _COLUMNS:
            column = columns[name]
            if last > len(column):
                column = np.concatenate([column, np.zeros(max(1024, last * 5 // 4) - len(column), kind)])
            column[first:last] = rows[name]
            columns[name] = column
        postings.extend(e.terms for e in entries)

    def remove(self, keys: Iterable[PostKey]) -> int:
        """Take every passage of these posts out at once; returns how many passages went."""
        by_chat: dict[int, list[int]] = {}
        for key in keys:
            by_chat.setdefault(key.chat_id, []).append(key.message_id)
        postings, columns = self._now.postings, self._now.columns
        size, gone = postings.corpus_size, 0
        for chat, messages in by_chat.items():
            if chat in self.chats:
                there = postings.alive[:size] & (columns["chat"][:size] == self.chats.index(chat))
                docs = np.flatnonzero(there)
                docs = docs[np.isin(columns["message"][docs], messages)]
                postings.delete(docs)
                gone += len(docs)
        return gone

    def compact(self, *, force: bool = False) -> bool:
        """Rebuild the statistics without the deleted passages, when enough of them have gathered."""
        postings, columns = self._now.postings, self._now.columns
        if not force and postings.deleted <= _COMPACT_SHARE * postings.corpus_size:
            return False
        postings = copy.copy(postings)  # compact() replaces arrays, it changes none: the old one stays whole
        renumbered = postings.compact()
        self._now = _State(postings, {n: c[: len(renumbered)][renumbered >= 0] for n, c in columns.items()})
        return True

    def _allowed(self, only: Filter, columns: dict[str, NDArray[Any]]) -> Allowed:
        chats = np.array([chat in only.channels for chat in self.chats], np.bool_)
        since = -(2**62) if only.since is None else math.ceil(only.since.timestamp())
        until = 2**62 if only.until is None else math.ceil(only.until.timestamp())
        bounded = only.since is not None or only.until is not None

        def allowed(docs: Docs) -> Bools:
            of = columns["chat"].take(docs)
            # a channel that came after the question began is not among those the asker may read
            seen: Bools = np.zeros(len(docs), np.bool_)
            seen[of < len(chats)] = chats[of[of < len(chats)]]
            if bounded:
                date = columns["date"].take(docs)
                seen &= (date >= since) & (date < until)
            return seen

        return allowed

    def search(self, terms: Sequence[str], only: Filter, n: int = 50) -> list[tuple[Place, float]]:
        """The n best passages that hold a term, best first, with their BM25 scores."""
        now = self._now
        docs, scores = now.postings.best(terms, n, self._allowed(only, now.columns))
        return list(zip(now.places(docs, self.chats), scores.tolist(), strict=True))

    def matching(self, terms: Sequence[str], only: Filter) -> list[Place]:
        """Every passage that holds all the terms, oldest first: for counts and first mentions."""
        now = self._now
        docs = now.postings.matching(terms, self._allowed(only, now.columns))
        order = np.lexsort((now.columns["message"][docs], now.columns["date"][docs]))
        return now.places(docs[order], self.chats)

    def weight(self, term: str) -> float:
        """How telling a term is: a smoothed idf, above 0 for every term, greatest for one never seen."""
        postings = self._now.postings
        size, df = postings.corpus_size, postings.frequency(term)
        return math.log1p((max(size - df, 0) + 0.5) / (df + 0.5))

    def score(self, query: Sequence[str], passage: Sequence[str]) -> float:
        """The BM25 score of any one passage, with `weight` in place of Okapi's idf.

        In a large index it is the score of `search`; in one of a few passages that one is zero or negative,
        because a term of one passage in two tells Okapi nothing.
        """
        postings, times = self._now.postings, Counter(passage)
        norm = postings.k1 * (1 - postings.b + postings.b * len(passage) / (postings.avgdl or 1))
        return sum(self.weight(t) * times[t] * (postings.k1 + 1) / (times[t] + norm) for t in query if t in times)

    def known(self, term: str, only: Filter) -> bool:
        """Whether a passage that may be found holds the term."""
        now = self._now
        return now.postings.holds(term, self._allowed(only, now.columns))

    def save(self, folder: Path, archive: str = "") -> None:
        """Write the index so that either the old or the new one is there, whole, whatever happens.

        `archive` is the identity of the archive it was made of. Raises IndexUnavailable.
        """
        self.compact(force=True)
        fresh = folder / f"{self.watermark}-{secrets.token_hex(4)}"
        with raised_as(IndexUnavailable, OSError, say="The index cannot be written to disk ({}): free some space."):
            fresh.mkdir(parents=True, exist_ok=True)
            postings = self._now.postings
            columns = {name: column[: postings.corpus_size] for name, column in self._now.columns.items()}
            with (fresh / "postings.npz").open("wb") as file:
                np.savez(file, **postings.dump(), **columns)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            (fresh / "vocabulary.txt").write_text("\n".join(postings.vocabulary), encoding="utf-8")
            about = {"format": _FORMAT, "analysis": ANALYSIS_VERSION, "archive": archive, "chats": self.chats,
                     "watermark": self.watermark, "folder": fresh.name}  # fmt: skip
            staged = folder / "current.tmp"
            staged.write_text(json.dumps(about), encoding="utf-8")
            staged.replace(folder / "current.json")
            for old in folder.iterdir():
                if old.is_dir() and old != fresh:
                    shutil.rmtree(old)

    @classmethod
    def load(cls, folder: Path, archive: str = "") -> Lexical | None:
        """Read a saved index. None where there is none, or it is damaged, of another version or another archive."""
        index = cls()
        try:
            about = json.loads((folder / "current.json").read_text(encoding="utf-8"))
            if (about["format"], about["analysis"], about["archive"]) != (_FORMAT, ANALYSIS_VERSION, archive):
                return None
            home = folder / about["folder"]
            # opened by ourselves: numpy leaves a file open that is no archive
            with (home / "postings.npz").open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            vocabulary = (home / "vocabulary.txt").read_text(encoding="utf-8")
            index._now.postings.restore(arrays, vocabulary.split("\n") if vocabulary else [])
            index._now.columns.update({name: arrays[name] for name, _ in _COLUMNS})
            index.chats, index.watermark = [int(c) for c in about["chats"]], int(about["watermark"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, IndexError, BadZipFile, zlib.error):
            return None  # derived data: whoever asked builds it anew from the archive
        size = index._now.postings.corpus_size
        return index if all(len(column) == size for column in index._now.columns.values()) else None
