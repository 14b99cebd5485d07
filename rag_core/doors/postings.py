"""BM25 over postings: rank-bm25's Okapi, plus add, delete, filter, compact, and statistics of what a viewer may see.

rank-bm25 keeps one dict per document and looks into every document at every query. Here each term
keeps the documents it stands in, in immutable segments: a query touches only those documents, and a
reader thread works on what was there when it began. One writer, any number of readers.

Document frequency, number of documents and average length are counted over a `Snapshot`: the living
documents that one viewer may see. So a score tells nothing of any other document.

Source of the formula: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond"
(2009), term frequencies as in rank_bm25.BM25Okapi, idf as in Lucene (`term_statistics.idf`): it is never
negative, so that it needs no floor taken from the whole vocabulary, which would have to be counted anew
for every viewer.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from rag_core.doors.best import Floats, cleared, strongest
from rag_core.doors.segments import Docs, Ints, Segment, joined, merged, standing
from rag_core.doors.term_statistics import idf

__all__ = ["Allowed", "Bools", "PostingsBM25", "Snapshot"]

Bools = NDArray[np.bool_]
Allowed = Callable[[Docs], Bools]  # document numbers -> which of them may be shown

_NO_DOCS, _NO_COUNTS = np.zeros(0, np.intp), np.zeros(0, np.uint16)
_MERGE_RATIO = 4  # a segment joins its left neighbour when that is less than so many times larger
_BATCH_TOKENS = 2_000_000  # tokens gathered before a segment is made: 16 MB of working memory
_FOREVER = 2**31 - 1
_MOSTLY = 0.7  # of a term's documents: where fewer may be seen, the others are left out before they are scored
_MOST_FREQUENCIES = 20_000  # terms whose frequency a snapshot remembers: 2 MB


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The documents that a viewer may see at one moment, and what BM25 counts over them alone.

    size: documents with this number or a greater one came later
    seen: of documents below `size`, which are alive and may be seen; None where all are
    count: how many documents may be seen, BM25's N
    average_length: their mean length in terms
    frequencies: document frequency by term, as far as it was counted already
    """

    size: int
    seen: Allowed | None
    count: int
    average_length: float
    frequencies: dict[str, int] = field(default_factory=dict)


class PostingsBM25(BM25Okapi):  # type: ignore[misc]  # rank-bm25 is published without types
    """A BM25Okapi over postings. Documents are numbered from 0 in the order they were added."""

    def __init__(self, corpus: Iterable[Sequence[str]] = (), *, k1: float = 1.5, b: float = 0.75) -> None:
        # The parent's __init__ is not called: it builds one dict per document and fails on an empty corpus.
        self.k1, self.b = k1, b
        self.vocabulary: dict[str, int] = {}
        self.segments: tuple[Segment, ...] = ()
        self.lengths = np.zeros(0, np.uint32)
        # A document is there for a reader who began when there were fewer documents than this.
        self.until = np.zeros(0, np.int32)
        self._size = 0
        self.extend(corpus)

    @property
    def corpus_size(self) -> int:
        """Number of documents, deleted ones included until `compact`."""
        return self._size

    @property
    def alive(self) -> Bools:
        """By number, which documents are not deleted."""
        size = self._size
        alive: Bools = self.until[:size] > size
        return alive

    def extend(self, corpus: Iterable[Sequence[str]]) -> range:
        """Add documents; returns their numbers."""
        first, batch, tokens = self._size, list[Sequence[str]](), 0
        for document in corpus:
            batch.append(document)
            tokens += len(document)
            if tokens >= _BATCH_TOKENS:
                self._add(batch)
                batch, tokens = [], 0
        if batch:
            self._add(batch)
        return range(first, self._size)

    def replace(self, documents: NDArray[np.int64], corpus: Sequence[Sequence[str]]) -> None:
        """Add documents in place of others: a reader sees all the old ones or all the new ones."""
        self.until[documents] = self._size + len(corpus)
        if corpus:
            self._add(corpus)

    def _add(self, documents: Sequence[Sequence[str]]) -> None:
        number = self.vocabulary
        flat = array("i", [number.setdefault(w, len(number)) for w in chain.from_iterable(documents)])
        lengths = np.fromiter(map(len, documents), np.uint32, len(documents))
        segment = Segment.counted(np.frombuffer(flat, np.int32), lengths, self._size)
        self._grow(len(documents), lengths)
        segments = [*self.segments, segment] if len(flat) else list(self.segments)
        while len(segments) > 1 and len(segments[-2].docs) < _MERGE_RATIO * len(segments[-1].docs):
            segments[-2:] = [merged(segments[-2:])]
        self.segments = tuple(segments)
        self._size += len(documents)  # last: readers see a document when everything about it is in place

    def _grow(self, documents: int, lengths: NDArray[np.uint32]) -> None:
        need = self._size + documents
        if need > len(self.lengths):
            room = max(1024, need * 5 // 4)
            more = room - len(self.lengths)
            self.lengths = np.concatenate([self.lengths, np.zeros(more, np.uint32)])
            self.until = np.concatenate([self.until, np.zeros(more, np.int32)])
        self.lengths[self._size : need], self.until[self._size : need] = lengths, _FOREVER

    def delete(self, documents: Sequence[int] | NDArray[np.int64]) -> None:
        """Take documents out of every later search and of its statistics; their memory is freed by `compact`."""
        self.until[documents] = 0

    @property
    def deleted(self) -> int:
        """Documents that are hidden but still take memory."""
        return self._size - int(np.count_nonzero(self.alive))

    def compact(self) -> Ints:
        """Fold everything into one segment without the deleted. Returns old number -> new, -1 for gone."""
        alive = self.alive
        renumbered = np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)
        if self.segments:
            terms, docs, tfs = merged(self.segments).rows()
            docs = renumbered[docs]
            keep = docs >= 0
            segment = Segment.of(terms[keep], docs[keep], tfs[keep])
            self.segments = (segment,) if len(segment.docs) else ()
        self.lengths = self.lengths[: self._size][alive]
        self.until = np.full(len(self.lengths), _FOREVER, np.int32)
        self._size = len(self.lengths)
        return renumbered

    def snapshot(self, mask: Bools | None = None) -> Snapshot:
        """What may be seen now: by number which documents, all where there is no mask."""
        size = self._size
        seen = self.alive if mask is None else self.alive & mask[:size]
        count, total = int(np.count_nonzero(seen)), int(self.lengths[:size][seen].sum(dtype=np.int64))
        return Snapshot(size, None if count == size else seen.take, count, total / max(1, count))

    def frequency(self, word: str, snapshot: Snapshot) -> int:
        """In how many documents of the snapshot a term stands."""
        known = snapshot.frequencies.get(word)
        return self._postings(word, snapshot)[2] if known is None else known

    def _postings(self, word: str, snapshot: Snapshot) -> tuple[Docs, NDArray[np.uint16], int]:
        """Documents that hold a term, ascending, how often each does, and how many are of the snapshot.

        All that are of the snapshot are among them. The others are left out where that spares more work than it takes.
        """
        pieces = standing(self.segments, self.vocabulary.get(word, -1), snapshot.size)
        docs, tfs = joined(pieces), np.concatenate([_NO_COUNTS, *(tfs for _, tfs in pieces)])
        known, total = snapshot.frequencies.get(word), len(docs)
        if snapshot.seen is None or known == total:
            frequency = total
        elif known is not None and known > _MOSTLY * total:
            frequency = known
        else:
            seen = snapshot.seen(docs)
            frequency = int(np.count_nonzero(seen))
            if frequency <= _MOSTLY * total:
                inside = np.flatnonzero(seen)  # a third of the time of indexing by the mask, twice
                docs, tfs = docs.take(inside), tfs.take(inside)
        if known is None and len(snapshot.frequencies) < _MOST_FREQUENCIES:
            snapshot.frequencies[word] = frequency
        return docs, tfs, frequency

    def _contributions(self, query: Sequence[str], snapshot: Snapshot) -> tuple[Docs, Floats, list[slice]]:
        """Which documents hold a term of the query and what it is worth there; where each term's are, rarest first.

        Rarest first also fixes the order in which floats are added: it, too, comes from the snapshot alone.
        """
        found = [(*self._postings(word, snapshot), times) for word, times in Counter(query).items()]
        found = sorted((part for part in found if part[2]), key=lambda part: part[2])
        # one pass over all terms together: numpy's calls cost more than their work where terms are rare
        docs = np.concatenate([_NO_DOCS, *(part[0] for part in found)])
        worth = np.concatenate([_NO_COUNTS, *(part[1] for part in found)], dtype=np.float64)
        norm = self.lengths.take(docs) * (self.k1 * self.b / (snapshot.average_length or 1))
        norm += self.k1 * (1 - self.b)
        norm += worth
        worth /= norm
        spans, first = [], 0
        for holding, _, frequency, times in found:
            last = first + len(holding)
            worth[first:last] *= times * idf(snapshot.count, frequency) * (self.k1 + 1)
            spans.append(slice(first, last))
            first = last
        return docs, worth, spans

    def get_scores(self, query: Sequence[str], snapshot: Snapshot | None = None) -> Floats:
        """The score of every document, 0 for deleted ones, as the parent's method of this name."""
        snapshot = snapshot or self.snapshot()
        (docs, worth, spans), scores = self._contributions(query, snapshot), np.zeros(snapshot.size)
        for span in spans:
            scores[docs[span]] += worth[span]
        if snapshot.seen is not None:
            scores[~snapshot.seen(np.arange(snapshot.size))] = 0.0
        return scores

    def get_batch_scores(self, query: Sequence[str], doc_ids: Sequence[int]) -> list[float]:
        """The scores of some documents, as the parent's method of this name."""
        return [float(score) for score in self.get_scores(query)[list(doc_ids)]]

    def top(self, query: Sequence[str], n: int = 50, snapshot: Snapshot | None = None) -> list[tuple[int, float]]:
        """The n best living documents that hold a query term, best first, as (number, score)."""
        docs, scores = self.best(query, n, snapshot or self.snapshot())
        return list(zip(docs.tolist(), scores.tolist(), strict=True))

    def best(
        self, query: Sequence[str], n: int, snapshot: Snapshot, allowed: Allowed | None = None
    ) -> tuple[Docs, Floats]:
        """As `top`, in two arrays; `allowed` narrows what is found, not what the statistics are counted over."""
        docs, worth, spans = self._contributions(query, snapshot)
        scores = cleared(snapshot.size)

        def shown(some: Docs) -> Docs:
            if snapshot.seen is not None:
                some = some[snapshot.seen(some)]
            return some if allowed is None else some[allowed(some)]

        try:
            for span in spans:
                scores[docs[span]] += worth[span]
            found = strongest(docs, scores, n, shown)
            return found, scores[found]
        finally:
            scores[docs] = 0.0

    def _shown(self, docs: Docs, size: int, allowed: Allowed | None) -> Docs:
        docs = docs[self.until.take(docs) > size]
        return docs if allowed is None else docs[allowed(docs)]

    def matching(self, words: Sequence[str], allowed: Allowed | None = None) -> Docs:
        """Numbers of the living documents that hold every one of the terms, ascending."""
        size = self._size
        numbers = [self.vocabulary.get(word, -1) for word in words]
        lists = sorted((joined(standing(self.segments, number, size)) for number in numbers), key=len)
        found = lists[0] if lists else np.zeros(0, np.intp)
        for docs in lists[1:]:
            found = found[np.searchsorted(docs, found, "right") > np.searchsorted(docs, found)]
        return self._shown(found, size, allowed)

    def holds(self, word: str, allowed: Allowed | None = None) -> bool:
        """Whether a living document holds the term."""
        size = self._size
        docs = joined(standing(self.segments, self.vocabulary.get(word, -1), size))
        # a common word is among the first already
        return any(len(self._shown(some, size, allowed)) for some in (docs[:1000], docs[1000:]))

    def dump(self) -> dict[str, NDArray[Any]]:
        """The arrays of a compacted index, for `numpy.savez` (call `compact` first)."""
        empty = Segment.of(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint16))
        segment = self.segments[0] if self.segments else empty
        return {"terms": segment.terms, "indptr": segment.indptr, "docs": segment.docs, "tfs": segment.tfs,
                "lengths": self.lengths[: self._size]}  # fmt: skip

    def restore(self, arrays: dict[str, NDArray[Any]], vocabulary: Iterable[str]) -> None:
        """Take over what `dump` gave. Raises ValueError or KeyError where the parts do not fit together."""
        segment = Segment(*(arrays[name] for name in ("terms", "indptr", "docs", "tfs")))
        self.vocabulary = {word: i for i, word in enumerate(vocabulary)}
        self.lengths = arrays["lengths"]
        size, words = len(self.lengths), len(self.vocabulary)
        segment.check(size, words)
        self.segments = (segment,) if len(segment.docs) else ()
        self.until, self._size = np.full(size, _FOREVER, np.int32), size
