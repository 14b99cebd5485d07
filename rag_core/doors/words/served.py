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
from rag_core.doors.lexical import K1, B
from rag_core.doors.places import Entry, Filter, Keys, Place
from rag_core.doors.qdrant.conditions import any_of, bounds
from rag_core.doors.qdrant.late import Late
from rag_core.doors.vectors.points import FIELDS, point_id
from rag_core.doors.word_index import WordIndex
from rag_core.doors.words.counts import Counts
from rag_core.doors.words.sparse import Condition, Row, Sparse, of_posts
from rag_core.doors.words.weights import MEAN_LENGTH, dimension, rarity, saturated
from rag_core.errors import IndexUnavailable, QdrantGone
from rag_core.settings import QdrantSettings
from rag_core.types import PostKey

__all__ = ["ServedWords"]

MOST_LISTED = 200_000  # passages that are read from the server for a list or a count: some 10 s, and 100 MB here
_TOO_MANY = "{count:,} passages fit: ask about one channel, or about a shorter time."
_FORMAT = "qdrant 1"


class ServedWords:
    """See `WordIndex`. A server that is gone is looked for; until it is back, what needs it raises QdrantGone.

    The watermark grows when the server has acknowledged the points before it, and is saved with the counts. Who is
    killed between two savings takes the same posts in again: the passages are then the same, and the counts of terms
    too low by those posts until the next rebuild. They weigh words, and count nothing that a reader sees.
    """

    def __init__(self, settings: QdrantSettings, about: Mapping[str, Any] | None = None) -> None:
        """Empty, in a collection of its own, or as `about` says, which was saved."""
        self._settings = settings
        kept = about or {
            "collection": f"{settings.collection}-words-{secrets.token_hex(4)}",
            "identity": "",
            "watermark": 0,
        }
        self._collection, self._identity = str(kept["collection"]), str(kept["identity"])
        self.watermark = int(kept["watermark"])
        self._counts, self._chats = Counts(), set[int](kept.get("chats", ()))
        self._revision = 0
        self._left: list[tuple[str, Late[Sparse]]] = []  # what others took the place of, to be deleted
        self._late = Late(self._opened)

    def _opened(self) -> Sparse:
        there = Sparse.open(self._settings, self._collection)
        if there.identity != self._identity:  # new, or the server has lost what we knew of
            self._identity, self.watermark = there.identity, 0
            self._counts, self._chats = Counts(), set()
            self._revision += 1
        return there

    def __len__(self) -> int:
        return self._counts.size

    @property
    def chats(self) -> list[int]:
        """See `WordIndex`."""
        return sorted(self._chats)

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
        self._counts.moved((row["terms"] for row in old.values()), (row["terms"] for _, row in rows.values()))
        self._chats |= {one.place.key.chat_id for one in entries}
        return len(old)

    def remove_channel(self, chat_id: int) -> None:
        """See `WordIndex`."""
        gone = self._late.do(lambda there: dict(there.rows([any_of("chat", [chat_id])], terms=True)))
        try:
            self._late.do(lambda there: there.delete(list(gone)))
        finally:
            self._revision += 1
        self._counts.moved((row["terms"] for row in gone.values()), ())

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
        self._counts, self._chats = other._counts, other._chats
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
        about = {
            **_made(archive),
            "watermark": self.watermark,
            "collection": self._collection,
            "identity": self._identity,
            "passages": len(self),
            "chats": self.chats,
        }
        saved.write(folder, about, self._counts.dump(), ())
        while self._left:
            self._late.do(lambda there: there.drop(self._left[-1][0]))
            self._left.pop()[1].close()

    def saved(self, folder: Path, archive: str) -> WordIndex | None:
        """See `WordIndex`."""
        return self.load(self._settings, folder, archive)

    @classmethod
    def load(cls, settings: QdrantSettings, folder: Path, archive: str) -> ServedWords | None:
        """What was saved there, for this archive and this collection; None where there is none, or it is damaged."""
        try:
            found = saved.read(folder, _made(archive))
            if found is None or not str(found[0]["collection"]).startswith(f"{settings.collection}-words-"):
                return None
            about, arrays, _ = found
            counts = Counts.restored(int(about["passages"]), arrays["dimensions"], arrays["counts"])
            index = cls(settings, about)
        except saved.UNREADABLE:
            return None
        if index._identity == about["identity"]:  # the server has not lost it
            index._counts = counts
        return index

    def search(self, terms: Sequence[str], only: Filter, n: int = 50) -> list[tuple[Place, float]]:
        """See `WordIndex`."""
        asked = {number: float(times) for number, times in Counter(map(dimension, terms)).items()}
        ways = _ways(only)
        if not asked or not ways or n < 1:
            return []
        found = self._late.do(lambda there: there.best(asked, ways, n))
        hits = [(_place(row), score) for row, score in found]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:n]

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
        if not self.frequency(term):
            return False
        holding = any_of("terms", [dimension(term)])
        return self._late.do(lambda there: any(there.count([*allowed, holding]) for allowed in _ways(only)))

    def frequency(self, term: str) -> int:
        """See `WordIndex`."""
        return self._counts[dimension(term)]

    def weight(self, term: str) -> float:
        """See `WordIndex`."""
        return rarity(len(self), self.frequency(term))

    def score(self, query: Sequence[str], passage: Sequence[str]) -> float:
        """See `WordIndex`."""
        times = Counter(passage)
        norm = K1 * (1 - B + B * len(passage) / MEAN_LENGTH)
        return sum(self.weight(t) * times[t] * (K1 + 1) / (times[t] + norm) for t in query if t in times)

    def close(self) -> None:
        """See `WordIndex`."""
        for late in (self._late, *(late for _, late in self._left)):
            late.close()


def _made(archive: str) -> dict[str, object]:
    return {"format": _FORMAT, "analysis": ANALYSIS_VERSION, "archive": archive, "mean": MEAN_LENGTH}


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
