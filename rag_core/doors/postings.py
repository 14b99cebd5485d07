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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

__all__ = ["PostingsBM25", "Segment"]

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Allowed = Callable[[Ints], Bools]  # document numbers -> which of them may be shown

_MERGE_RATIO = 4  # a segment joins its left neighbour when that is less than so many times larger
_BATCH_TOKENS = 2_000_000  # tokens gathered before a segment is made: 16 MB of working memory


@dataclass(frozen=True, slots=True)
class Segment:
    """Postings of some documents: `docs[indptr[i]:indptr[i+1]]` hold term `terms[i]`, `tfs` times each."""

    terms: Ints
    indptr: NDArray[np.int64]
    docs: Ints
    tfs: NDArray[np.uint16]

    def find(self, term: int) -> slice:
        """Where the postings of a term lie; empty when it has none."""
        at = int(np.searchsorted(self.terms, np.int32(term)))  # of the same type, or the whole array is converted
        if at == len(self.terms) or self.terms[at] != term:
            return slice(0, 0)
        return slice(int(self.indptr[at]), int(self.indptr[at + 1]))

    @classmethod
    def of(cls, terms: Ints, docs: Ints, tfs: NDArray[np.uint16]) -> Segment:
        """From one row per (term, document), sorted by term."""
        starts = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]]) if len(terms) else np.zeros(0, np.int64)
        return cls(terms[starts].copy(), np.r_[starts, len(terms)].astype(np.int64), docs, tfs)

    def rows(self) -> tuple[Ints, Ints, NDArray[np.uint16]]:
        """One row per (term, document), sorted by term."""
        return np.repeat(self.terms, np.diff(self.indptr)), self.docs, self.tfs


def _merged(segments: Sequence[Segment]) -> Segment:
    term, docs, tfs = (np.concatenate(column) for column in zip(*(s.rows() for s in segments), strict=True))
    order = np.argsort(term, kind="stable")  # a merge of sorted runs; documents stay in order within a term
    return Segment.of(term[order], docs[order], tfs[order])


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
        self.alive = np.zeros(0, np.bool_)
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

    def _add(self, documents: Sequence[Sequence[str]]) -> None:
        number = self.vocabulary
        flat = array("i", [number.setdefault(w, len(number)) for w in chain.from_iterable(documents)])
        lengths = np.fromiter(map(len, documents), np.uint32, len(documents))
        # one int64 per token, term above document: sorting it groups equal pairs, their runs are the frequencies
        pairs = np.frombuffer(flat, np.int32).astype(np.int64) << 32
        pairs |= np.repeat(np.arange(self._size, self._size + len(documents), dtype=np.int64), lengths)
        rows, counts = np.unique(pairs, return_counts=True)
        terms, docs = (rows >> 32).astype(np.int32), (rows & 0xFFFFFFFF).astype(np.int32)
        segment = Segment.of(terms, docs, np.minimum(counts, 65_535).astype(np.uint16))
        self._grow(len(documents), lengths)
        self.frequencies[segment.terms] += np.diff(segment.indptr).astype(np.uint32)
        segments = [*self.segments, segment] if len(rows) else list(self.segments)
        while len(segments) > 1 and len(segments[-2].docs) < _MERGE_RATIO * len(segments[-1].docs):
            segments[-2:] = [_merged(segments[-2:])]
        self.segments = tuple(segments)
        self._total += int(lengths.sum())
        self._size += len(documents)  # last: readers see a document when everything about it is in place

    def _grow(self, documents: int, lengths: NDArray[np.uint32]) -> None:
        need = self._size + documents
        if need > len(self.lengths):
            room = max(1024, need * 5 // 4)
            more = room - len(self.lengths)
            self.lengths = np.concatenate([self.lengths, np.zeros(more, np.uint32)])
            self.alive = np.concatenate([self.alive, np.zeros(more, np.bool_)])
        self.lengths[self._size : need], self.alive[self._size : need] = lengths, True
        if (words := len(self.vocabulary)) > len(self.frequencies):
            grown = np.zeros(words * 5 // 4 + 64, np.uint32)
            grown[: len(self.frequencies)] = self.frequencies
            self.frequencies = grown

    def delete(self, documents: Sequence[int] | NDArray[np.int64]) -> None:
        """Hide documents at once; their share of the statistics leaves at the next `compact`."""
        self.alive[documents] = False

    @property
    def deleted(self) -> int:
        """Documents hidden but still counted."""
        return self._size - int(np.count_nonzero(self.alive[: self._size]))

    def compact(self) -> Ints:
        """Fold everything into one segment without the deleted. Returns old number -> new, -1 for gone."""
        alive = self.alive[: self._size]
        renumbered = np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)
        if self.segments:
            terms, docs, tfs = _merged(self.segments).rows()
            docs = renumbered[docs]
            keep = docs >= 0
            segment = Segment.of(terms[keep], docs[keep], tfs[keep])
            self.segments = (segment,) if len(segment.docs) else ()
            self.frequencies = np.zeros(len(self.vocabulary), np.uint32)
            self.frequencies[segment.terms] = np.diff(segment.indptr)
        self.lengths = self.lengths[: self._size][alive]
        self.alive = np.ones(len(self.lengths), np.bool_)
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

    def _score(self, query: Sequence[str]) -> tuple[Floats, list[Ints]]:
        size, segments, lengths, avgdl = self._size, self.segments, self.lengths, self.avgdl
        scores, touched = np.zeros(size), list[Ints]()
        for word in query:
            if not (df := self.frequency(word)):
                continue
            idf, term = self._idf(df, size), self.vocabulary[word]
            for segment in segments:
                span = segment.find(term)
                docs, tf = segment.docs[span], segment.tfs[span].astype(np.float64)
                if not len(docs) or docs[-1] >= size:  # a document that came after we began
                    docs, tf = docs[docs < size], tf[: np.count_nonzero(docs < size)]
                norm = self.k1 * (1 - self.b + self.b * lengths[docs] / avgdl)
                scores[docs] += idf * (tf * (self.k1 + 1) / (tf + norm))
                touched.append(docs)
        return scores, touched

    def get_scores(self, query: Sequence[str]) -> Floats:
        """The score of every document, as the parent's method of this name."""
        return self._score(query)[0]

    def get_batch_scores(self, query: Sequence[str], doc_ids: Sequence[int]) -> list[float]:
        """The scores of some documents, as the parent's method of this name."""
        return [float(score) for score in self.get_scores(query)[list(doc_ids)]]

    def top(self, query: Sequence[str], n: int = 50, allowed: Allowed | None = None) -> list[tuple[int, float]]:
        """The n best living documents that hold a query term, best first, as (number, score).

        A score may be zero or negative in a small corpus, so that holding a term decides, not the score.
        """
        scores, touched = self._score(query)
        if not touched:
            return []
        found = np.concatenate(touched)
        found = found[self.alive[found]]
        if allowed is not None:
            found = found[allowed(found)]
        # A document stands here once per term it holds, so that this many rows hold the n best. Everything
        # as good as the last of them stays: equal scores are cut by document number, not by chance.
        if len(found) > (most := n * len(touched)):
            reached = scores[found]
            found = found[reached >= np.partition(reached, len(found) - most)[len(found) - most]]
        found = np.unique(found)
        order = found[np.lexsort((found, -scores[found]))][:n]
        return [(int(doc), float(scores[doc])) for doc in order]

    def matching(self, words: Sequence[str], allowed: Allowed | None = None) -> Ints:
        """Numbers of the living documents that hold every one of the terms, ascending."""
        found: Ints | None = None
        for word in words:
            term = self.vocabulary.get(word, -1)
            parts = [s.docs[s.find(term)] for s in self.segments]
            docs = np.concatenate(parts) if parts else np.zeros(0, np.int32)
            found = docs if found is None else np.intersect1d(found, docs)
        found = np.zeros(0, np.int32) if found is None else np.sort(found[self.alive[found]])
        return found if allowed is None else found[allowed(found)]

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
        whole = len(segment.indptr) == len(segment.terms) + 1 and len(segment.docs) == len(segment.tfs)
        if not whole or int(segment.indptr[-1]) != len(segment.docs):
            raise ValueError("the postings do not fit together")
        if len(segment.docs) and (int(segment.docs.max()) >= size or int(segment.terms.max()) >= words):
            raise ValueError("the postings name documents or terms that are not there")
        self.segments = (segment,) if len(segment.docs) else ()
        self.alive, self._size, self._total = np.ones(size, np.bool_), size, int(self.lengths.sum())
        self.frequencies = np.zeros(words, np.uint32)
        self.frequencies[segment.terms] = np.diff(segment.indptr)
        self._floor = (-1, 0.0)
