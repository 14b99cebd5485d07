"""rank-bm25's Okapi scores over postings: the same numbers, plus add, delete, filter, compact.

rank-bm25 keeps one dict per document and looks into every document at every query. Here each term
keeps the documents it stands in, in immutable segments: a query touches only those documents, and a
reader thread works on what was there when it began. One writer, any number of readers.

Source of the formula: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond"
(2009), in the variant of rank_bm25.BM25Okapi (negative idf is lifted to epsilon times the mean idf).
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from rag_core.doors.best import Floats, cleared, strongest
from rag_core.doors.segments import Docs, Ints, Segment, joined, merged, standing

__all__ = ["Allowed", "Bools", "PostingsBM25"]

Bools = NDArray[np.bool_]
Allowed = Callable[[Docs], Bools]  # document numbers -> which of them may be shown

_NOTHING = np.zeros(0, np.uint16)
_MERGE_RATIO = 4  # a segment joins its left neighbour when that is less than so many times larger
_BATCH_TOKENS = 2_000_000  # tokens gathered before a segment is made: 16 MB of working memory
_FOREVER = 2**31 - 1


class PostingsBM25(BM25Okapi):  # type: ignore[misc]  # rank-bm25 is published without types
    """A BM25Okapi over postings. Documents are numbered from 0 in the order they were added."""

    def __init__(
        self, corpus: Iterable[Sequence[str]] = (), *, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25
    ) -> None:
        # The parent's __init__ is not called: it builds one dict per document and fails on an empty corpus.
        self.k1, self.b, self.epsilon = k1, b, epsilon
        self.vocabulary: dict[str, int] = {}
        self.segments: tuple[Segment, ...] = ()
        self.lengths = np.zeros(0, np.uint32)
        # A document is there for a reader who began when there were fewer documents than this.
        self.until = np.zeros(0, np.int32)
        self.frequencies = np.zeros(0, np.uint32)
        self._size, self._total = 0, 0
        self._floor: tuple[int, float] = (-1, 0.0)
        self.extend(corpus)

    @property
    def corpus_size(self) -> int:
        """Number of documents, deleted ones included until `compact`."""
        return self._size

    @property
    def avgdl(self) -> float:
        """Mean document length in terms."""
        return self._total / max(1, self._size)

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
        self.frequencies[segment.terms] += np.diff(segment.indptr).astype(np.uint32)
        segments = [*self.segments, segment] if len(flat) else list(self.segments)
        while len(segments) > 1 and len(segments[-2].docs) < _MERGE_RATIO * len(segments[-1].docs):
            segments[-2:] = [merged(segments[-2:])]
        self.segments = tuple(segments)
        self._total += int(lengths.sum())
        self._size += len(documents)  # last: readers see a document when everything about it is in place

    def _grow(self, documents: int, lengths: NDArray[np.uint32]) -> None:
        need = self._size + documents
        if need > len(self.lengths):
            room = max(1024, need * 5 // 4)
            more = room - len(self.lengths)
            self.lengths = np.concatenate([self.lengths, np.zeros(more, np.uint32)])
            self.until = np.concatenate([self.until, np.zeros(more, np.int32)])
        self.lengths[self._size : need], self.until[self._size : need] = lengths, _FOREVER
        if (words := len(self.vocabulary)) > len(self.frequencies):
            grown = np.zeros(words * 5 // 4 + 64, np.uint32)
            grown[: len(self.frequencies)] = self.frequencies
            self.frequencies = grown

    def delete(self, documents: Sequence[int] | NDArray[np.int64]) -> None:
        """Hide documents at once; their share of the statistics leaves at the next `compact`."""
        self.until[documents] = 0

    @property
    def deleted(self) -> int:
        """Documents hidden but still counted."""
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
            self.frequencies = np.zeros(len(self.vocabulary), np.uint32)
            self.frequencies[segment.terms] = np.diff(segment.indptr)
        self.lengths = self.lengths[: self._size][alive]
        self.until = np.full(len(self.lengths), _FOREVER, np.int32)
        self._size, self._total, self._floor = len(self.lengths), int(self.lengths.sum()), (-1, 0.0)
        return renumbered

    def frequency(self, word: str) -> int:
        """In how many documents a term stands, deleted ones included until `compact`."""
        term = self.vocabulary.get(word)
        return 0 if term is None or term >= len(self.frequencies) else int(self.frequencies[term])

    def _idf(self, df: int, size: int) -> float:
        idf = math.log(max(size - df, 0) + 0.5) - math.log(df + 0.5)
        if idf >= 0:
            return idf
        if self._floor[0] != size:
            seen = self.frequencies[self.frequencies > 0].astype(np.float64)
            mean = float(np.mean(np.log(np.maximum(size - seen, 0) + 0.5) - np.log(seen + 0.5)))
            self._floor = (size, self.epsilon * mean)
        return self._floor[1]

    def _rows(self, query: Sequence[str], size: int) -> tuple[Docs, Floats, list[slice]]:
        """Which of the first `size` hold a term and what it is worth there, rarest first; where each term's are."""
        segments, lengths, avgdl = self.segments, self.lengths, self.avgdl
        found = []
        for word, times in Counter(query).items():
            df, pieces = self.frequency(word), standing(segments, self.vocabulary.get(word, -1), size)
            if pieces:
                found.append((df, times * self._idf(df, size) * (self.k1 + 1), pieces))
        found.sort(key=lambda part: part[0])
        # one pass over all terms together: numpy's calls cost more than their work where terms are rare
        docs = joined([piece for _, _, pieces in found for piece in pieces])
        worth = np.concatenate([_NOTHING, *(tfs for _, _, pieces in found for _, tfs in pieces)], dtype=np.float64)
        norm = lengths.take(docs) * (self.k1 * self.b / (avgdl or 1))
        norm += self.k1 * (1 - self.b)
        norm += worth
        worth /= norm
        spans, first = [], 0
        for _, weight, pieces in found:
            last = first + sum(len(holding) for holding, _ in pieces)
            worth[first:last] *= weight
            spans.append(slice(first, last))
            first = last
        return docs, worth, spans

    def get_scores(self, query: Sequence[str]) -> Floats:
        """The score of every document, as the parent's method of this name."""
        size = self._size
        (docs, worth, spans), scores = self._rows(query, size), np.zeros(size)
        for span in spans:
            scores[docs[span]] += worth[span]
        return scores

    def get_batch_scores(self, query: Sequence[str], doc_ids: Sequence[int]) -> list[float]:
        """The scores of some documents, as the parent's method of this name."""
        return [float(score) for score in self.get_scores(query)[list(doc_ids)]]

    def top(self, query: Sequence[str], n: int = 50, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The n best living documents that hold a query term, best first, as (number, score)."""
        docs, scores = self.best(query, n, allowed)
        return list(zip(docs.tolist(), scores.tolist(), strict=True))

    def best(self, query: Sequence[str], n: int, allowed: Allowed | None = None) -> tuple[Docs, Floats]:
        """As `top`, in two arrays.

        A score may be zero or negative in a small corpus, so that holding a term decides, not the score.
        """
        size = self._size
        docs, worth, spans = self._rows(query, size)
        scores = cleared(size)
        try:
            for span in spans:
                scores[docs[span]] += worth[span]
            found = strongest(docs, scores, n, lambda some: self._shown(some, size, allowed))
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
        self.until, self._size, self._total = np.full(size, _FOREVER, np.int32), size, int(self.lengths.sum())
        self.frequencies = np.zeros(words, np.uint32)
        self.frequencies[segment.terms] = np.diff(segment.indptr)
        self._floor = (-1, 0.0)
