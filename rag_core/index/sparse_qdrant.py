"""Qdrant lexical index: passages as sparse vectors with BM25 weights; document frequencies are counted here.

The dimension of a term is a 32-bit hash. A passage's vector holds the BM25 term frequency part of each term; the
weights of the query are the terms' idf over the channels of the filter. Document frequencies by channel are kept in
memory, sixteen bytes for each term and channel in two arrays plus a dict of recent changes: stages ask for a term's
weight a hundred times a question. The server's own IDF modifier is not used: it counts every channel of a shard, also
those that the asker may not read. The ranking is BM25's except that the mean length of passages is a constant, so that
a vector never has to be made again. While a post is replaced, its old passages and its new ones are found together.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from qdrant_client import models

from rag_core.errors import IndexUnavailable, QdrantGone, VectorsUnavailable
from rag_core.index import bm25_files
from rag_core.index.bm25_postings import BM25_B, BM25_K1, NO_VARIANTS, TermStatistics, TermVariants, select_stable_top
from rag_core.index.lexical_index import IndexEntry, LexicalIndex
from rag_core.index.qdrant_collections import (
    DATE_INDEX,
    INTEGER_INDEX,
    PayloadIndexes,
    check_shard_count,
    create_missing_indexes,
    find_or_create_collection,
    make_date_conditions,
    make_shard_options,
    match_any,
)
from rag_core.index.qdrant_connection import QdrantConnection, connect_qdrant
from rag_core.index.reconnecting import Reconnecting
from rag_core.index.store_filter import get_date_bounds
from rag_core.index.store_points import encode_passage_ref, make_point_id, read_passage_ref, split_batches
from rag_core.settings import QdrantSettings
from rag_core.text.tokens import ANALYSIS_VERSION, READABLE_ANALYSES
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

# Terms of a passage: about the length of a news post. If passages are twice as long (the paragraphs of XQuAD) the first
# five hits are as good as with the true mean, and of the first ten 98 in 100 are the same.
ASSUMED_MEAN_LENGTH = 40.0


def hash_term(term: str) -> int:
    """Hash a term to its dimension, 32 bits: of ten million terms 1 in 400 shares its hash with another."""
    return crc32(term.encode())


def compute_term_weights(terms: Sequence[str]) -> dict[int, float]:
    """Compute the weight of each term of a passage by dimension: BM25's term frequency part, without idf."""
    norm = BM25_K1 * (1 - BM25_B + BM25_B * len(terms) / ASSUMED_MEAN_LENGTH)
    return {number: times * (BM25_K1 + 1) / (times + norm) for number, times in Counter(map(hash_term, terms)).items()}


_MAX_RECENT_TERMS = 50_000  # changed terms before they are merged into the arrays: about 10 MB
_CHAT_BITS = 32


class TermCounts:
    """Document frequencies: number of passages by channel and dimension. One writer, any number of readers."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}  # passages by channel
        self._numbers: dict[int, int] = {}  # channel -> its number in the keys
        # Sorted keys (dimension in the high bits, channel number in the low), their counts, and recent changes by
        # dimension and channel number. Replaced as one object, so that a reader counts each term once.
        self._now = (np.zeros(0, np.uint64), np.zeros(0, np.uint32), defaultdict[int, Counter[int]](Counter))

    @property
    def size(self) -> int:
        """Number of passages of all channels."""
        return sum(self.sizes.values())

    def frequency(self, dimension: int, channels: Collection[int]) -> int:
        """Document frequency of a dimension over these channels."""
        keys, counts, recent = self._now
        allowed = {number for chat in channels if (number := self._numbers.get(chat)) is not None}
        first, last = keys.searchsorted(np.array([dimension, dimension + 1], np.uint64) << np.uint64(_CHAT_BITS))
        numbers: list[int] = (keys[first:last] & np.uint64(2**_CHAT_BITS - 1)).tolist()
        held: list[int] = counts[first:last].tolist()
        before = sum(count for number, count in zip(numbers, held, strict=True) if number in allowed)
        changed = recent.get(dimension)
        return max(0, before + (sum(changed[number] for number in allowed) if changed else 0))

    def change(self, chat: int, gone: Iterable[Iterable[int]] = (), come: Iterable[Iterable[int]] = ()) -> None:
        """Count removed and added passages of a channel, each given by its dimensions."""
        number, recent = self._numbers.setdefault(chat, len(self._numbers)), self._now[2]
        size = self.sizes.get(chat, 0)
        for sign, passages in ((-1, gone), (1, come)):
            for dimensions in passages:
                size += sign
                for one in dimensions:
                    recent[one][number] += sign
        self.sizes[chat] = max(0, size)
        if len(recent) > _MAX_RECENT_TERMS:
            self._fold()

    def forget(self, chat: int) -> None:
        """Drop all counts of a channel."""
        self._fold()
        keys, counts, _ = self._now
        kept = (keys & np.uint64(2**_CHAT_BITS - 1)) != np.uint64(self._numbers.get(chat, 2**_CHAT_BITS - 1))
        self._now = (keys[kept], counts[kept], defaultdict(Counter))
        self.sizes.pop(chat, None)

    def _fold(self) -> None:
        keys, counts, recent = self._now
        changed = {
            dimension << _CHAT_BITS | number: change
            for dimension, by_number in recent.items()
            for number, change in by_number.items()
        }
        more = np.fromiter(changed.keys(), np.uint64, len(changed))
        joined = np.union1d(keys, more)
        totals = np.zeros(len(joined), np.int64)
        totals[joined.searchsorted(keys)] += counts
        totals[joined.searchsorted(more)] += np.fromiter(changed.values(), np.int64, len(changed))
        kept = totals > 0
        self._now = (joined[kept], totals[kept].astype(np.uint32), defaultdict(Counter))

    def list_dimensions(self) -> set[int]:
        """List the dimensions that a passage has."""
        self._fold()
        return set((self._now[0] >> np.uint64(_CHAT_BITS)).tolist())

    def dump(self) -> tuple[dict[str, NDArray[np.generic]], list[tuple[int, int]]]:
        """Return the arguments of `restore`: arrays, and (channel, passages) in the order of the channel numbers."""
        self._fold()
        keys, counts, _ = self._now
        return {"keys": keys, "counts": counts}, [(chat, self.sizes.get(chat, 0)) for chat in self._numbers]

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[np.generic]], sizes: Iterable[tuple[int, int]]) -> TermCounts:
        """Restore from the result of `dump`. Raises ValueError or KeyError if it is inconsistent."""
        keys, counts = arrays["keys"].astype(np.uint64), arrays["counts"].astype(np.uint32)
        if len(keys) != len(counts):
            raise ValueError("not as many terms as counts")
        restore = cls()
        restore.sizes = {int(chat): int(size) for chat, size in sizes}
        restore._numbers = {chat: number for number, chat in enumerate(restore.sizes)}
        restore._now = (keys, counts, defaultdict(Counter))
        return restore


QdrantCondition = models.FieldCondition | models.Filter
PointPayload = Mapping[str, Any]

_METADATA_KEY = "citegram words"  # key of Citegram's part of the metadata
_VECTOR_NAME = "words"
_RESCORED_FACTOR = 4  # hits that are scored anew, for each hit wanted
_WRITE_BATCH_POINTS = 500  # points of a write: about 400 kB
_READ_PAGE_POINTS = 2000  # payloads of one read
_FOREIGN_COLLECTION = (
    "The collection {name} on the Qdrant server at {where} was not made by Citegram for words. Name another collection "
    "with QDRANT__COLLECTION: it is filled from the archive."
)
_PAYLOAD_INDEXES: PayloadIndexes = {
    "chat": INTEGER_INDEX,
    "message": INTEGER_INDEX,
    "terms": INTEGER_INDEX,
    "part": INTEGER_INDEX,
    "date": DATE_INDEX,
}


class SparseCollection:
    """Open collection of sparse vectors; `identity` is its random id."""

    def __init__(self, calls: QdrantConnection, name: str, identity: str) -> None:
        self._calls, self.name, self.identity = calls, name, identity

    @classmethod
    def open(cls, settings: QdrantSettings, name: str, calls: QdrantConnection | None = None) -> SparseCollection:
        """Open the collection, or create it if there is none. Raises VectorsUnavailable, QdrantGone."""
        calls = calls or connect_qdrant(settings)
        # no IDF modifier: it counts all channels
        words = models.SparseVectorParams(index=models.SparseIndexParams(on_disk=settings.on_disk))
        options = {"vectors_config": {}, "sparse_vectors_config": {_VECTOR_NAME: words}, **make_shard_options(settings)}
        try:
            _, info, ours = find_or_create_collection(calls, (name,), _METADATA_KEY, {}, options)
            if not isinstance(ours, dict) or "identity" not in ours:
                raise VectorsUnavailable(_FOREIGN_COLLECTION.format(name=name, where=calls.where))
            if info and not calls.local:
                check_shard_count(name, calls.where, info.config.params.shard_number, settings)
            create_missing_indexes(calls, name, _PAYLOAD_INDEXES)
            return cls(calls, name, str(ours["identity"]))
        except BaseException:
            calls.close()
            raise

    def write(self, rows: Mapping[str, tuple[Mapping[int, float], PointPayload]]) -> None:
        """Write points by id, each a sparse vector and a payload; acknowledged when this returns."""
        for part in split_batches(rows.items(), _WRITE_BATCH_POINTS):
            points = [
                models.PointStruct(id=name, vector={_VECTOR_NAME: _make_sparse_vector(values)}, payload=dict(row))
                for name, (values, row) in part
            ]
            self._calls(lambda client, p=points: client.upsert(self.name, p, wait=True))  # type: ignore[misc]

    def delete(self, ids: Sequence[str]) -> None:
        """Delete points."""
        for part in split_batches(ids, _WRITE_BATCH_POINTS):
            some = models.PointIdsList(points=[*part])
            self._calls(lambda client, s=some: client.delete(self.name, s, wait=True))  # type: ignore[misc]

    def best(
        self, values: Mapping[int, float], ways: Sequence[list[QdrantCondition]], n: int, *, vectors: bool = False
    ) -> list[tuple[PointPayload, float, Mapping[int, float]]]:
        """Find the n best points of each of the alternative filters `ways`, which are disjoint.

        Returns payloads, scores, and with `vectors` the sparse vectors.
        """
        requests = [
            models.QueryRequest(
                query=_make_sparse_vector(values),
                using=_VECTOR_NAME,
                filter=models.Filter(must=[*conditions]),
                limit=n,
                with_payload=models.PayloadSelectorExclude(exclude=["terms"]),
                with_vector=[_VECTOR_NAME] if vectors else None,
            )
            for conditions in ways
        ]
        if not requests:
            return []
        found = self._calls(lambda client: client.query_batch_points(self.name, requests), read=True)
        return [
            (point.payload or {}, point.score, _read_sparse_vector(point)) for reply in found for point in reply.points
        ]

    def count(self, conditions: list[QdrantCondition]) -> int:
        """Count the points that a filter allows."""
        allowed = models.Filter(must=[*conditions])
        return self._calls(lambda client: client.count(self.name, allowed, exact=True)).count

    def rows(self, conditions: list[QdrantCondition], *, terms: bool = False) -> Iterator[tuple[str, PointPayload]]:
        """Iterate over ids and payloads of the points that a filter allows, in the server's order.

        `terms`: include the terms in the payloads.
        """
        allowed, after = models.Filter(must=[*conditions]), None
        fields = True if terms else models.PayloadSelectorExclude(exclude=["terms"])
        while True:
            found, after = self._calls(
                lambda client, a=after: client.scroll(  # type: ignore[misc]
                    self.name, allowed, limit=_READ_PAGE_POINTS, offset=a, with_payload=fields, with_vectors=False
                )
            )
            yield from ((str(record.id), record.payload or {}) for record in found)
            if after is None:
                return

    def drop(self, name: str) -> None:
        """Delete another collection, which this one replaced."""
        self._calls(lambda client: client.delete_collection(name))

    def close(self) -> None:
        """Close the connections."""
        self._calls.close()


def make_post_filters(by_chat: Mapping[int, Sequence[int]]) -> list[list[QdrantCondition]]:
    """Make filters for single posts, channel by channel, each with 2,000 posts at most."""
    return [
        [match_any("chat", [chat]), match_any("message", part)]
        for chat, messages in by_chat.items()
        for part in split_batches(messages, _READ_PAGE_POINTS)
    ]


def _read_sparse_vector(point: models.ScoredPoint) -> dict[int, float]:
    """Read the sparse vector of a hit; empty where it was not requested."""
    vector = point.vector.get(_VECTOR_NAME) if isinstance(point.vector, dict) else None
    return dict(zip(vector.indices, vector.values, strict=True)) if isinstance(vector, models.SparseVector) else {}


def _score_best_variants(groups: Sequence[Mapping[int, float]], vector: Mapping[int, float]) -> float:
    """Score a passage: of each term's variants only the best counts."""
    return sum(max(weight * vector.get(one, 0.0) for one, weight in group.items()) for group in groups)


def _make_sparse_vector(values: Mapping[int, float]) -> models.SparseVector:
    return models.SparseVector(indices=list(values), values=list(values.values()))


MAX_LISTED_PASSAGES = 200_000  # read from the server for a list or a count: about 10 s, and 100 MB of memory
_TOO_MANY_PASSAGES = "{count:,} passages fit: ask about one channel, or about a shorter time."
_FILE_FORMAT = "qdrant 2"


class QdrantLexicalIndex:
    """Lexical index on a Qdrant server, with the methods of `Bm25Index`.

    While the server is unreachable methods raise QdrantGone.

    The watermark grows when the server has acknowledged the points before it, and is saved with the counts. If the
    number of passages in the collection differs from the saved counts (a kill between two saves), they are recounted.
    """

    def __init__(
        self, settings: QdrantSettings, about: Mapping[str, Any] | None = None, counts: TermCounts | None = None,
        words: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Make an empty index with a new collection, or restore one from the saved `about`, `counts` and `words`."""
        self._settings = settings
        kept = about or {
            "collection": f"{settings.collection}-words-{secrets.token_hex(4)}",
            "identity": "",
            "watermark": 0,
        }
        self._collection, self._identity = str(kept["collection"]), str(kept["identity"])
        self.watermark = int(kept["watermark"])
        self._counts = counts or TermCounts()
        self._words = set(words)
        self._analysis = int(kept.get("analysis", ANALYSIS_VERSION))
        self.revision = 0
        # while a write has failed: the rows of its passages as they are counted; None for one that is not
        self._counted_rows: dict[str, PointPayload | None] = {}
        # replaced collections that are to be deleted, with their open handles
        self._replaced: list[tuple[str, Reconnecting[SparseCollection] | None]] = []
        self._handle = Reconnecting(self._open_collection)

    def _open_collection(self) -> SparseCollection:
        collection = SparseCollection.open(self._settings, self._collection)
        if collection.identity != self._identity:  # new, or the server has lost the collection that we knew
            self._identity, self.watermark = collection.identity, 0
            self._counts = TermCounts()
            self._counted_rows.clear()
            self.revision += 1
        elif collection.count([]) != self._counts.size:
            # Count the terms of a collection from the server: a minute for a million passages
            counts = TermCounts()
            for _, row in collection.rows([], terms=True):
                counts.change(int(row["chat"]), (), [row["terms"]])
            self._counts = counts
            self._counted_rows.clear()
            self.revision += 1
        return collection

    def __len__(self) -> int:
        return self._counts.size

    @property
    def chats(self) -> list[int]:
        """Like `Bm25Index.chats`."""
        return sorted(self._counts.sizes)

    def replace(self, keys: Iterable[PostKey], entries: Sequence[IndexEntry]) -> None:
        """Like `Bm25Index.replace`. New passages are written before old ones are deleted.

        After a failure half way it has to be repeated.
        """
        rows = {
            make_point_id(one.place): (compute_term_weights(one.terms), _make_passage_payload(one)) for one in entries
        }
        by_chat = PostKeySet.of(keys).by_chat

        def exchange(collection: SparseCollection) -> dict[str, PointPayload]:
            ways = make_post_filters({chat: ids.tolist() for chat, ids in by_chat.items()})
            old = {name: row for way in ways for name, row in collection.rows(way, terms=True)}
            for name in old.keys() | rows.keys():  # what a failed attempt has written is not counted
                self._counted_rows.setdefault(name, old.get(name))
            collection.write(rows)
            collection.delete([name for name in old if name not in rows])
            if collection.identity != self._identity:
                raise QdrantGone("The Qdrant server has lost the words meanwhile: they are written again.")
            return old

        try:
            old = self._handle.do(exchange)
        finally:
            self.revision += 1
        for name, counted in list(self._counted_rows.items()):
            if name in old or name in rows or (counted and counted["message"] in by_chat.get(counted["chat"], ())):
                del self._counted_rows[name]
                if counted:
                    self._counts.change(int(counted["chat"]), gone=[counted["terms"]])
        for _, row in rows.values():
            self._counts.change(int(row["chat"]), come=[row["terms"]])
        self._words.update(*(one.terms for one in entries))

    def remove_channel(self, chat_id: int) -> None:
        """Like `Bm25Index.remove_channel`."""

        def delete(collection: SparseCollection) -> None:
            collection.delete([name for name, _ in collection.rows([match_any("chat", [chat_id])])])

        try:
            self._handle.do(delete)
        finally:
            self.revision += 1
        self._counts.forget(chat_id)
        for name, counted in self._counted_rows.items():
            if counted and counted["chat"] == chat_id:
                self._counted_rows[name] = None

    def parts_of(self, chat_id: int) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Like `Bm25Index.parts_of`."""
        found = self._handle.do(lambda collection: [row for _, row in collection.rows([match_any("chat", [chat_id])])])
        messages, parts = ([row[name] for row in found] for name in ("message", "part"))
        return np.array(messages, np.int64), np.array(parts, np.int16)

    def adopt(self, other: LexicalIndex) -> None:
        """Like `Bm25Index.adopt`. The old collection is deleted at the next save: a search may still use it."""
        assert isinstance(other, QdrantLexicalIndex)
        in_use = other._collection == self._collection  # after a kill between its last save and its adoption
        if not in_use:
            self._replaced.append((self._collection, self._handle))
        self._replaced += [(name, None) for name, _ in other._replaced]
        self._counted_rows = dict(other._counted_rows)
        self._collection, self._identity, self.watermark = other._collection, other._identity, other.watermark
        self._counts, self._words, self._analysis = other._counts, other._words, other._analysis
        self._handle = self._handle if in_use else Reconnecting(self._open_collection)
        self.revision += 1
        other.close()

    def make_empty(self) -> LexicalIndex:
        """Like `Bm25Index.make_empty`."""
        return QdrantLexicalIndex(self._settings)

    @property
    def settings_json(self) -> str:
        """Like `Bm25Index.settings_json`."""
        return json.dumps({**self._settings.model_dump(mode="json"), "key": self._settings.key.get_secret_value()})

    def save(self, folder: Path, archive: str = "") -> None:
        """Like `Bm25Index.save`."""
        arrays, sizes = self._counts.dump()
        living = self._counts.list_dimensions()
        if len(self._words) > len(living):  # else each has a passage: to hash half a million words takes its time
            self._words = {word for word in self._words if hash_term(word) in living}
        about = {
            **_describe_saved_files(archive),
            "analysis": self._analysis,
            "watermark": self.watermark,
            "collection": self._collection,
            "identity": self._identity,
            "passages": sizes,
        }
        bm25_files.write_index_files(folder, about, arrays, sorted(self._words))
        while self._replaced:
            name, handle = self._replaced[-1]
            self._handle.do(lambda collection, name=name: collection.drop(name))  # type: ignore[misc]
            self._replaced.pop()
            if handle:
                handle.close()

    def load_saved(self, folder: Path, archive: str) -> LexicalIndex | None:
        """Like `Bm25Index.load_saved`."""
        index = self.load(self._settings, folder, archive)
        return None if index is None or index.outdated else index

    @classmethod
    def load(cls, settings: QdrantSettings, folder: Path, archive: str) -> QdrantLexicalIndex | None:
        """Load the index saved for this archive and collection name; None if there is none, or it is damaged."""
        try:
            found = bm25_files.read_index_files(folder, {"archive": archive})
            if found is None or not str(found[0]["collection"]).startswith(f"{settings.collection}-words-"):
                return None
            about, arrays, words = found
            same = all(about[name] == value for name, value in _describe_saved_files(archive).items())
            if not same or about["analysis"] not in READABLE_ANALYSES:
                empty = cls(settings)  # made by another version: refilled, and the old collection is deleted
                empty._replaced.append((str(about["collection"]), None))
                return empty
            return cls(settings, about, TermCounts.restore(arrays, about["passages"]), words)
        except bm25_files.INDEX_READ_ERRORS:
            return None

    @property
    def outdated(self) -> bool:
        """Like `Bm25Index.outdated`."""
        return self._analysis != ANALYSIS_VERSION

    def list_vocabulary(self) -> list[str]:
        """Like `Bm25Index.list_vocabulary`. A kill loses the terms since the last save, for spelling only."""
        return list(self._words)

    def search(
        self, terms: Sequence[str], only: SearchFilter, n: int = 50, variants: TermVariants = NO_VARIANTS
    ) -> list[tuple[PassageRef, float]]:
        """Like `Bm25Index.search`.

        The server adds up the variants of a term; of its first hits only the best variant of each term is counted.
        """
        statistics, ways = self.statistics(only.channels), _make_filter_alternatives(only)
        groups: list[dict[int, float]] = []  # by term, the weights of its variants
        for term, times in Counter(terms).items():
            own, group = statistics.frequency(term), dict[int, float]()
            for variant, weight in ({term: 1.0} | dict(variants.get(term, {}))).items():
                # a variant is worth no more than the word itself
                worth = statistics.weight(term if own > statistics.frequency(variant) else variant)
                group[hash_term(variant)] = times * weight * worth
            groups.append(group)
        asked: defaultdict[int, float] = defaultdict(float)  # two terms may share a dimension
        for dimension, weight in chain.from_iterable(group.items() for group in groups):
            asked[dimension] += weight
        if not asked or not ways or n < 1:
            return []
        summed = any(len(group) > 1 for group in groups)

        def nearest(most: int) -> list[tuple[tuple[PassageRef, float], float]]:
            found = self._handle.do(lambda collection: collection.best(asked, ways, most, vectors=summed))
            return [
                ((read_passage_ref(row), _score_best_variants(groups, vector) if summed else score), score)
                for row, score, vector in found
            ]

        hits = select_stable_top(nearest, n * _RESCORED_FACTOR if summed else n)
        return sorted((hit for hit, _ in hits), key=lambda hit: (-round(hit[1], 6), hit[0]))[:n]

    def search_each(
        self, queries: Sequence[Sequence[str]], only: SearchFilter, n: int
    ) -> list[list[tuple[PassageRef, float]]]:
        """Like `Bm25Index.search_each`."""
        return [self.search(terms, only, n) for terms in queries]

    def matching(self, terms: Sequence[str], only: SearchFilter, *others: Sequence[str]) -> list[PassageRef]:
        """Like `Bm25Index.matching`. Raises IndexUnavailable for more than MAX_LISTED_PASSAGES."""
        sought = [[match_any("terms", [hash_term(term)]) for term in way] for way in (terms, *others) if way]
        return self._list_passages([[*allowed, *way] for way in sought for allowed in _make_filter_alternatives(only)])

    def mentioning(self, terms: Sequence[str], only: SearchFilter) -> Sequence[PassageRef] | None:
        """Like `Bm25Index.mentioning`: the server's points do not tell a header's terms from the post's."""
        return None

    def all_of(self, only: SearchFilter) -> list[PassageRef]:
        """Like `Bm25Index.all_of`. Raises IndexUnavailable for more than MAX_LISTED_PASSAGES."""
        return self._list_passages([[*allowed, match_any("part", [0])] for allowed in _make_filter_alternatives(only)])

    def _list_passages(self, ways: list[list[QdrantCondition]]) -> list[PassageRef]:
        count = self._handle.do(lambda collection: sum(map(collection.count, ways)))
        if count > MAX_LISTED_PASSAGES:
            raise IndexUnavailable(_TOO_MANY_PASSAGES.format(count=count))
        found = self._handle.do(lambda collection: {name: row for way in ways for name, row in collection.rows(way)})
        return [read_passage_ref(row) for row in sorted(found.values(), key=lambda row: (row["date"], row["message"]))]

    def known(self, term: str, only: SearchFilter) -> bool:
        """Like `Bm25Index.known`."""
        if not self._counts.frequency(hash_term(term), only.channels):
            return False
        holding = match_any("terms", [hash_term(term)])
        return self._handle.do(
            lambda collection: any(collection.count([*allowed, holding]) for allowed in _make_filter_alternatives(only))
        )

    def statistics(self, channels: frozenset[int]) -> TermStatistics:
        """Like `Bm25Index.statistics`."""
        counts, counted = self._counts, dict[str, int]()

        def frequency(term: str) -> int:
            if term not in counted:
                counted[term] = counts.frequency(hash_term(term), channels)
            return counted[term]

        passages = sum(counts.sizes.get(chat, 0) for chat in channels)
        return TermStatistics(passages, ASSUMED_MEAN_LENGTH, frequency)

    def close(self) -> None:
        """Like `Bm25Index.close`."""
        for handle in (self._handle, *(handle for _, handle in self._replaced)):
            if handle:
                handle.close()


def _describe_saved_files(archive: str) -> dict[str, object]:
    return {"format": _FILE_FORMAT, "archive": archive, "mean": ASSUMED_MEAN_LENGTH}


def _make_passage_payload(one: IndexEntry) -> dict[str, Any]:
    terms = sorted(set(map(hash_term, one.terms)))
    return {**encode_passage_ref(one.place), "date": int(one.date.timestamp()), "terms": terms}


def _make_filter_alternatives(only: SearchFilter) -> list[list[QdrantCondition]]:
    """Convert a filter to alternative server filters: several if single posts are named, none if nothing can match."""
    time = [*make_date_conditions(*get_date_bounds(only))]
    if only.keys is None:
        return [[match_any("chat", sorted(only.channels)), *time]] if only.channels else []
    named = {chat: ids.tolist() for chat, ids in only.keys.by_chat.items() if chat in only.channels and len(ids)}
    return [[*way, *time] for way in make_post_filters(named)]
