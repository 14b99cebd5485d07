"""The lexical leg on a Qdrant server. Here are kept: which collection, its watermark, and the counts of terms."""

from __future__ import annotations

import json
import math
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_core.analysis import ANALYSIS_VERSION
from rag_core.doors import saved
from rag_core.doors.best import best_in_order
from rag_core.doors.places import Entry, Filter, Keys, Place
from rag_core.doors.qdrant.conditions import any_of, bounds
from rag_core.doors.qdrant.late import Late
from rag_core.doors.term_statistics import TermStatistics
from rag_core.doors.vectors.points import FIELDS, point_id
from rag_core.doors.word_index import WordIndex
from rag_core.doors.words.counts import Counts
from rag_core.doors.words.sparse import Condition, Row, Sparse, of_posts
from rag_core.doors.words.weights import MEAN_LENGTH, dimension, saturated
from rag_core.errors import IndexUnavailable, QdrantGone
from rag_core.settings import QdrantSettings
from rag_core.types import PostKey

__all__ = ["ServedWords"]

MOST_LISTED = 200_000  # passages that are read from the server for a list or a count: some 10 s, and 100 MB here
_TOO_MANY = "{count:,} passages fit: ask about one channel, or about a shorter time."
_FORMAT = "qdrant 2"


class ServedWords:
    """See `WordIndex`. A server that is gone is looked for; until it is back, what needs it raises QdrantGone.

    The watermark grows when the server has acknowledged the points before it, and is saved with the counts. After a
    kill between two savings the collection holds other passages than were counted: then they are counted anew.
    """

    def __init__(
        self, settings: QdrantSettings, about: Mapping[str, Any] | None = None, counts: Counts | None = None
    ) -> None:
        """Empty, in a collection of its own, or as `about` and `counts` say, which were saved."""
        self._settings = settings
        kept = about or {
            "collection": f"{settings.collection}-words-{secrets.token_hex(4)}",
            "identity": "",
            "watermark": 0,
        }
        self._collection, self._identity = str(kept["collection"]), str(kept["identity"])
        self.watermark = int(kept["watermark"])
        self._counts = counts or Counts()
        self._revision = 0
        # collections that others took the place of, to be deleted, and what is open of them
        self._left: list[tuple[str, Late[Sparse] | None]] = []
        self._late = Late(self._opened)

    def _opened(self) -> Sparse:
        there = Sparse.open(self._settings, self._collection)
        if there.identity != self._identity:  # new, or the server has lost what we knew of
            self._identity, self.watermark = there.identity, 0
            self._counts = Counts()
            self._revision += 1
        elif there.count([]) != self._counts.size:
            self._counts = _counted(there)
            self._revision += 1
        return there

    def __len__(self) -> int:
        return self._counts.size

    @property
    def chats(self) -> list[int]:
        """See `WordIndex`."""
        return sorted(self._counts.sizes)

    @property
    def revision(self) -> int:
        """See `WordIndex`."""
        return self._revision

    def replace(self, keys: Iterable[PostKey], entries: Sequence[Entry]) -> int:
        """See `WordIndex`. The new are there before the old go; where it fails half way it is to be repeated."""
        rows = {point_id(one.place): (saturated(one.terms), _payload(one)) for one in entries}
        by_chat = Keys.of(keys).by_chat

        def exchange(there: Sparse) -> dict[str, Row]:
            ways = of_posts({chat: ids.tolist() for chat, ids in by_chat.items()})
            old = {name: row for way in ways for name, row in there.rows(way, terms=True)}
            there.write(rows)
            there.delete([name for name in old if name not in rows])
            if there.identity != self._identity:
                raise QdrantGone("The Qdrant server has lost the words meanwhile: they are written again.")
            return old

        try:
            old = self._late.do(exchange)
        finally:
            self._revision += 1
        for chat in {row["chat"] for row in old.values()} | {row["chat"] for _, row in rows.values()}:
            gone = [row["terms"] for row in old.values() if row["chat"] == chat]
            self._counts.change(chat, gone, [row["terms"] for _, row in rows.values() if row["chat"] == chat])
        return len(old)

    def remove_channel(self, chat_id: int) -> None:
        """See `WordIndex`."""
        gone = self._late.do(lambda there: [name for name, _ in there.rows([any_of("chat", [chat_id])])])
        try:
            self._late.do(lambda there: there.delete(gone))
        finally:
            self._revision += 1
        self._counts.forget(chat_id)

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """See `WordIndex`."""
        found = self._late.do(lambda there: [row for _, row in there.rows([any_of("chat", [chat_id])])])
        messages, parts = ([row[name] for row in found] for name in ("message", "part"))
        return np.array(messages, np.int64), np.array(parts, np.int16)

    def adopt(self, other: WordIndex) -> None:
        """See `WordIndex`. The collection that was is deleted at the next save: a search may still be in it."""
        assert isinstance(other, ServedWords)
        self._left.append((self._collection, self._late))
        self._collection, self._identity, self.watermark = other._collection, other._identity, other.watermark
        self._counts = other._counts
        self._late = Late(self._opened)
        self._revision += 1
        other.close()

    def fresh(self) -> WordIndex:
        """See `WordIndex`."""
        return ServedWords(self._settings)

    @property
    def told(self) -> str:
        """See `WordIndex`."""
        return json.dumps({**self._settings.model_dump(mode="json"), "key": self._settings.key.get_secret_value()})

    def save(self, folder: Path, archive: str = "") -> None:
        """See `WordIndex`."""
        arrays, sizes = self._counts.dump()
        about = {
            **_made(archive),
            "watermark": self.watermark,
            "collection": self._collection,
            "identity": self._identity,
            "passages": sizes,
        }
        saved.write(folder, about, arrays, ())
        while self._left:
            name, late = self._left[-1]
            self._late.do(lambda there, name=name: there.drop(name))  # type: ignore[misc]
            self._left.pop()
            if late:
                late.close()

    def saved(self, folder: Path, archive: str) -> WordIndex | None:
        """See `WordIndex`."""
        return self.load(self._settings, folder, archive)

    @classmethod
    def load(cls, settings: QdrantSettings, folder: Path, archive: str) -> ServedWords | None:
        """What was saved there, for this archive and this collection; None where there is none, or it is damaged."""
        try:
            found = saved.read(folder, {"archive": archive})
            if found is None or not str(found[0]["collection"]).startswith(f"{settings.collection}-words-"):
                return None
            about, arrays, _ = found
            if any(about[name] != value for name, value in _made(archive).items()):
                empty = cls(settings)  # made by another version: filled anew, and the old one is deleted
                empty._left.append((str(about["collection"]), None))
                return empty
            return cls(settings, about, Counts.restored(arrays, about["passages"]))
        except saved.UNREADABLE:
            return None

    def search(self, terms: Sequence[str], only: Filter, n: int = 50) -> list[tuple[Place, float]]:
        """See `WordIndex`."""
        statistics, ways = self.statistics(only.channels), _ways(only)
        weighed = [(dimension(term), times * statistics.weight(term)) for term, times in Counter(terms).items()]
        asked = {number: sum(weight for one, weight in weighed if one == number) for number, _ in weighed}
        if not asked or not ways or n < 1:
            return []

        def nearest(most: int) -> list[tuple[Place, float]]:
            return [(_place(row), score) for row, score in self._late.do(lambda there: there.best(asked, ways, most))]

        return best_in_order(nearest, n)

    def matching(self, terms: Sequence[str], only: Filter, *others: Sequence[str]) -> list[Place]:
        """See `WordIndex`. Raises IndexUnavailable where more than MOST_LISTED fit."""
        sought = [[any_of("terms", [dimension(term)]) for term in way] for way in (terms, *others) if way]
        return self._listed([[*allowed, *way] for way in sought for allowed in _ways(only)])

    def all_of(self, only: Filter) -> list[Place]:
        """See `WordIndex`. Raises IndexUnavailable where more than MOST_LISTED fit."""
        return self._listed([[*allowed, any_of("part", [0])] for allowed in _ways(only)])

    def _listed(self, ways: list[list[Condition]]) -> list[Place]:
        count = self._late.do(lambda there: sum(map(there.count, ways)))
        if count > MOST_LISTED:
            raise IndexUnavailable(_TOO_MANY.format(count=count))
        found = self._late.do(lambda there: {name: row for way in ways for name, row in there.rows(way)})
        return [_place(row) for row in sorted(found.values(), key=lambda row: (row["date"], row["message"]))]

    def known(self, term: str, only: Filter) -> bool:
        """See `WordIndex`."""
        if not self._counts.frequency(dimension(term), only.channels):
            return False
        holding = any_of("terms", [dimension(term)])
        return self._late.do(lambda there: any(there.count([*allowed, holding]) for allowed in _ways(only)))

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """See `WordIndex`."""
        counts, counted = self._counts, dict[str, int]()

        def frequency(term: str) -> int:
            if term not in counted:
                counted[term] = counts.frequency(dimension(term), channels)
            return counted[term]

        return TermStatistics(counts.size_of(channels), MEAN_LENGTH, frequency)

    def close(self) -> None:
        """See `WordIndex`."""
        for late in (self._late, *(late for _, late in self._left)):
            if late:
                late.close()


def _made(archive: str) -> dict[str, object]:
    return {"format": _FORMAT, "analysis": ANALYSIS_VERSION, "archive": archive, "mean": MEAN_LENGTH}


def _counted(there: Sparse) -> Counts:
    """The counts of a collection, read from the server: a minute at a million passages."""
    counts = Counts()
    for _, row in there.rows([], terms=True):
        counts.change(int(row["chat"]), (), [row["terms"]])
    return counts


def _payload(one: Entry) -> dict[str, Any]:
    key, part, start, end = one.place
    place = dict(zip(FIELDS, (key.chat_id, key.message_id, part, start, end), strict=True))
    return {**place, "date": int(one.date.timestamp()), "terms": sorted(set(map(dimension, one.terms)))}


def _place(row: Row) -> Place:
    chat, message, part, start, end = (int(row[name]) for name in FIELDS)
    return Place(PostKey(chat, message), part, start, end)


def _ways(only: Filter) -> list[list[Condition]]:
    """The filter as the server takes it, inside the query; several where single posts are named. None: nothing fits."""
    since = None if only.since is None else math.ceil(only.since.timestamp())
    until = None if only.until is None else math.ceil(only.until.timestamp())
    time = [*bounds(since, until)]
    if only.keys is None:
        return [[any_of("chat", sorted(only.channels)), *time]] if only.channels else []
    named = {chat: ids.tolist() for chat, ids in only.keys.by_chat.items() if chat in only.channels and len(ids)}
    return [[*way, *time] for way in of_posts(named)]
