"""BM25 postings lists in numpy segments, with statistics counted over the channels a viewer may see.

Compared with rank-bm25's Okapi this adds insert, delete, filter and compact. rank-bm25 keeps one dict per document
and looks into every document at every query. Here each term has a postings list in immutable segments that are merged
as they grow: a query touches only the documents that hold its terms, and a reader thread works on the state at which
it began. One writer, any number of readers.

Document frequency, number of documents and average length are counted over an `IndexSnapshot`, the living documents
that one viewer may see. Counted over all channels, a weight would tell an outsider whether a word occurs in a channel
that is closed to them.

Formula: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), term frequencies as in
rank_bm25.BM25Okapi, idf as in Lucene (`compute_idf`): it is never negative, so it needs no floor taken from the whole
vocabulary, which would have to be counted anew for every viewer.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

# Query term -> its variants (synonyms, translations, aliases) with their weights, above 0; its own weight is 1 unless
# it is listed too. A document scores the best of them.
TermVariants = Mapping[str, Mapping[str, float]]
NO_VARIANTS: TermVariants = {}

IntArray = NDArray[np.int32]
CountArray = NDArray[np.uint16]
DocIdArray = NDArray[np.intp]  # document numbers in numpy's index type: int32 would be converted at every look-up

# Frequencies are counted up to 32,767. The highest bit marks a term that the document has in its header only.
_MAX_FREQUENCY, _HEADER_ONLY = 0x7FFF, 0x8000


# Arrays of a saved index.
ARRAY_KINDS = {"terms": np.int32, "indptr": np.int64, "docs": np.int32, "tfs": np.uint16, "lengths": np.uint32}


@dataclass(frozen=True, slots=True)
class PostingsSegment:
    """Postings: `docs[indptr[i]:indptr[i+1]]` hold term `terms[i]`, `tfs` times each (see `_HEADER_ONLY`)."""

    terms: IntArray
    indptr: NDArray[np.int64]
    docs: IntArray
    tfs: CountArray

    @classmethod
    def of(cls, terms: IntArray, docs: IntArray, tfs: CountArray) -> PostingsSegment:
        """Build from one row per (term, document), sorted by term."""
        starts = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]]) if len(terms) else np.zeros(0, np.int64)
        return cls(terms[starts].copy(), np.r_[starts, len(terms)].astype(np.int64), docs, tfs)

    @classmethod
    def counted(
        cls, flat: IntArray, lengths: NDArray[np.uint32], first: int, headers: tuple[IntArray, IntArray]
    ) -> PostingsSegment:
        """Build from the term numbers of documents, concatenated; the documents are numbered from `first`.

        `headers`: the term numbers that only a header has, concatenated, and how many each document has of them.
        """
        # one int64 per token, term in the high half, document in the low: runs of equal pairs are the frequencies
        pairs, marked = (
            (some.astype(np.int64) << 32) | np.repeat(np.arange(first, first + len(sizes), dtype=np.int64), sizes)
            for some, sizes in ((flat, lengths), headers)
        )
        rows, counts = np.unique(pairs, return_counts=True)
        terms, docs = (rows >> 32).astype(np.int32), (rows & 0xFFFFFFFF).astype(np.int32)
        tfs = np.minimum(counts, _MAX_FREQUENCY).astype(np.uint16)
        tfs[rows.searchsorted(marked)] |= _HEADER_ONLY
        return cls.of(terms, docs, tfs)

    def check(self, documents: int, words: int) -> None:
        """Raise ValueError if the arrays are inconsistent, or name documents or terms that do not exist."""
        whole = len(self.indptr) == len(self.terms) + 1 and len(self.docs) == len(self.tfs)
        if not whole or int(self.indptr[-1]) != len(self.docs):
            raise ValueError("the postings do not fit together")
        if int(self.indptr[0]) or np.any(np.diff(self.indptr) < 0) or np.any(np.diff(self.terms) <= 0):
            raise ValueError("the postings are not in order")
        for numbers, count in ((self.docs, documents), (self.terms, words)) if len(self.docs) else ():
            if int(numbers.min()) < 0 or int(numbers.max()) >= count:
                raise ValueError("the postings name documents or terms that are not there")

    def rows(self) -> tuple[IntArray, IntArray, CountArray]:
        """Return one row per (term, document), sorted by term."""
        return np.repeat(self.terms, np.diff(self.indptr)), self.docs, self.tfs


def merge_segments(segments: Sequence[PostingsSegment]) -> PostingsSegment:
    """Merge segments into one; the documents of each must come before those of the next."""
    term, docs, tfs = (np.concatenate(column) for column in zip(*(s.rows() for s in segments), strict=True))
    order = np.argsort(term, kind="stable")  # a merge of sorted runs; documents stay in order within a term
    return PostingsSegment.of(term[order], docs[order], tfs[order])


ScoreArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
DocFilter = Callable[[DocIdArray], BoolArray]  # document numbers -> mask of those that may be shown

_FIRST_STEP_ROWS, _STEP_GROWTH = 1024, 8  # rows of the first step, and the growth factor of each further step

_thread_buffers = threading.local()  # a zeroed score buffer for each thread: new memory would cost more than the query


def select_top_docs(rows: DocIdArray, scores: ScoreArray, n: int, shown: Sequence[DocFilter]) -> DocIdArray:
    """Select the n best documents that all filters let through, best first; of equal scores the least numbers.

    A document may occur in `rows` several times. Likely ones should come first: they set the threshold, and few of
    the rest pass it.
    """
    pool, threshold, at, step = rows[:0], -math.inf, 0, _FIRST_STEP_ROWS
    while at < len(rows):
        some = rows[at : at + step]
        # Sort and deduplicate like numpy.unique, which takes three times as long for small arrays
        some = some[scores.take(some) >= threshold]
        for may_be_shown in shown:
            some = some[may_be_shown(some)]
        docs = np.concatenate([pool, some])
        docs.sort()
        first = np.ones(len(docs), np.bool_)
        np.not_equal(docs[1:], docs[:-1], out=first[1:])
        pool = docs[first]
        if len(pool) > n:
            pool_scores = scores.take(pool)
            threshold = float(np.partition(pool_scores, len(pool) - n)[len(pool) - n])
            pool = pool[pool_scores >= threshold]
        at, step = at + step, step * _STEP_GROWTH
    return pool[np.argsort(-scores.take(pool), kind="stable")[:n]]


# Posts are short and of uneven length, so length should count little: these are Anserini's values for passages (Yang
# et al. 2017). On XQuAD paragraphs among news posts they gain 3 points at rank 1 over rank-bm25's 1.5 and 0.75.
BM25_K1, BM25_B = 0.9, 0.4
# Minimal number of passages that `weight` assumes. The thresholds of verification and coverage were fitted on thousands
# of posts, and hold for small channels too: of 40 claims over two channels with 200 posts 34 are right, without it 32.
_MIN_PASSAGE_COUNT = 1000


def compute_idf(count: int, frequency: int) -> float:
    """Inverse document frequency, smoothed as in Lucene: above 0 for every term, greatest for one never seen."""
    return math.log1p((max(count - frequency, 0) + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Term statistics of the passages in some channels, at one moment."""

    count: int  # number of passages, BM25's N
    average_length: float  # mean length of the passages in terms
    frequency: Callable[[str], int]  # term -> number of passages with the term (document frequency)

    def weight(self, term: str) -> float:
        """Idf of a term, assuming at least `_MIN_PASSAGE_COUNT` passages: too few do not show which terms are rare."""
        return compute_idf(max(_MIN_PASSAGE_COUNT, self.count), self.frequency(term))

    def score(self, query: Sequence[str], passage: Sequence[str], variants: TermVariants = NO_VARIANTS) -> float:
        """BM25 score of any passage, given by its terms, with `weight` as idf; of a term's variants the best counts."""
        times = Counter(passage)
        norm = BM25_K1 * (1 - BM25_B + BM25_B * len(passage) / (self.average_length or 1))
        best = list[float]()
        for term in query:
            scores = [0.0]
            for one, weight in {term: 1.0, **variants.get(term, {})}.items():
                if held := times[one]:
                    idf = self.weight(max(one, term, key=self.frequency))
                    scores.append(weight * idf * held * (BM25_K1 + 1) / (held + norm))
            best.append(max(scores))
        return sum(best)


_NO_DOC_IDS, _NO_COUNTS = np.zeros(0, np.intp), np.zeros(0, np.uint16)
_MERGE_RATIO = 4  # a segment is merged with its left neighbour if that is less than 4 times larger
_NEVER_DELETED = 2**31 - 1
_MIN_SEEN_SHARE = 0.7  # of a term's documents: if a lower share is visible, the others are removed before scoring
_MAX_CACHED_FREQUENCIES = 20_000  # terms whose frequency a snapshot caches: 2 MB


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """Snapshot: the documents that a viewer may see at one moment, and BM25's statistics over them alone."""

    size: int  # documents with this number or a greater one were added later
    seen: DocFilter | None  # filter for documents below `size` that are living and visible; None if all are
    count: int  # number of visible documents, BM25's N
    average_length: float  # mean length of visible documents in terms
    frequencies: dict[str, int] = field(default_factory=dict)  # cache of document frequencies by term


class PostingsBM25(BM25Okapi):  # type: ignore[misc]  # rank-bm25 is published without types
    """BM25Okapi over postings lists. Documents are numbered from 0 in the order they were added."""

    def __init__(self, corpus: Sequence[Sequence[str]] = (), *, k1: float = 1.5, b: float = 0.75) -> None:
        # The parent's __init__ is not called: it builds one dict per document and fails on an empty corpus.
        self.k1, self.b = k1, b
        self.vocabulary: dict[str, int] = {}
        self.segments: tuple[PostingsSegment, ...] = ()
        self.lengths = np.zeros(0, np.uint32)
        # A document is visible to readers whose snapshot size is below this number.
        self.until = np.zeros(0, np.int32)
        self.corpus_size = 0  # with deleted documents until `compact`
        self.replace(_NO_DOC_IDS, corpus)

    @property
    def alive(self) -> BoolArray:
        """Mask of documents that are not deleted."""
        size = self.corpus_size
        alive: BoolArray = self.until[:size] > size
        return alive

    def replace(
        self, gone: DocIdArray, corpus: Sequence[Sequence[str]], headers: Sequence[Collection[str]] = ()
    ) -> None:
        """Replace documents by others atomically; `headers`: those of their terms that only a header has."""
        first, size = self.corpus_size, self.corpus_size + len(corpus)
        self.until[gone] = size if corpus else 0  # without successors they are hidden from running searches too
        number = self.vocabulary
        flat = array("i", [number.setdefault(w, len(number)) for w in chain.from_iterable(corpus)])
        lengths = np.fromiter(map(len, corpus), np.uint32, len(corpus))
        marked = np.array([number[w] for w in chain.from_iterable(headers)], np.int32)
        marks = marked, np.fromiter(map(len, headers), np.int32, len(headers))
        if size > len(self.lengths):
            more = max(1024, size * 5 // 4) - len(self.lengths)
            self.lengths = np.concatenate([self.lengths, np.zeros(more, np.uint32)])
            self.until = np.concatenate([self.until, np.zeros(more, np.int32)])
        self.lengths[first:size], self.until[first:size] = lengths, _NEVER_DELETED
        segments = list(self.segments)
        if flat:
            segments.append(PostingsSegment.counted(np.frombuffer(flat, np.int32), lengths, first, marks))
        while len(segments) > 1 and len(segments[-2].docs) < _MERGE_RATIO * len(segments[-1].docs):
            segments[-2:] = [merge_segments(segments[-2:])]
        self.segments = tuple(segments)
        self.corpus_size = size  # last, so that readers see a document only when all its data is in place

    def delete(self, documents: Sequence[int] | NDArray[np.int64]) -> None:
        """Delete documents from later searches and their statistics; `compact` frees their memory."""
        self.until[documents] = 0

    @property
    def is_compact(self) -> bool:
        """Whether there is nothing to free: no deleted document, one segment, no word without postings."""
        words = sum(len(segment.terms) for segment in self.segments)
        return bool(self.alive.all()) and len(self.segments) <= 1 and words == len(self.vocabulary)

    def compact(self) -> IntArray:
        """Merge all into one segment without what was deleted; old -> new document number, -1 for deleted."""
        alive = self.alive
        renumbered = np.where(alive, np.cumsum(alive) - 1, -1).astype(np.int32)
        if self.segments:
            terms, docs, tfs = merge_segments(self.segments).rows()
            docs = renumbered[docs]
            keep = docs >= 0
            segment = PostingsSegment.of(terms[keep], docs[keep], tfs[keep])
            words = list(self.vocabulary)
            self.vocabulary = {words[term]: number for number, term in enumerate(segment.terms.tolist())}
            segment = replace(segment, terms=np.arange(len(segment.terms), dtype=np.int32))
            self.segments = (segment,) if len(segment.docs) else ()
        else:
            self.vocabulary = {}
        self.lengths = self.lengths[: self.corpus_size][alive]
        self.until = np.full(len(self.lengths), _NEVER_DELETED, np.int32)
        self.corpus_size = len(self.lengths)
        return renumbered

    def snapshot(self) -> IndexSnapshot:
        """Make a snapshot of the living documents."""
        size, seen = self.corpus_size, self.alive
        count, total = int(np.count_nonzero(seen)), int(self.lengths[:size][seen].sum(dtype=np.int64))
        return IndexSnapshot(size, None if count == size else seen.take, count, total / max(1, count))

    def frequency(self, word: str, snapshot: IndexSnapshot) -> int:
        """Document frequency of a term in the snapshot."""
        known = snapshot.frequencies.get(word)
        return self._postings(word, snapshot)[2] if known is None else known

    def _postings(self, word: str, snapshot: IndexSnapshot) -> tuple[DocIdArray, NDArray[np.uint16], int]:
        """Postings of a term: documents, ascending, term frequencies, and the document frequency in the snapshot.

        Documents outside the snapshot are removed only if that saves work: the caller has to filter them.
        """
        docs, tfs = self._find(word, snapshot.size)
        known, total = snapshot.frequencies.get(word), len(docs)
        if snapshot.seen is None or known == total:
            frequency = total
        elif known is not None and known > _MIN_SEEN_SHARE * total:
            frequency = known
        else:
            seen = snapshot.seen(docs)
            frequency = int(np.count_nonzero(seen))
            if frequency <= _MIN_SEEN_SHARE * total:
                inside = np.flatnonzero(seen)  # a third of the time of indexing twice by the mask
                docs, tfs = docs.take(inside), tfs.take(inside)
        if known is None and len(snapshot.frequencies) < _MAX_CACHED_FREQUENCIES:
            snapshot.frequencies[word] = frequency
        return docs, tfs, frequency

    def best_of_each(
        self, queries: Sequence[Sequence[str]], n: int, snapshot: IndexSnapshot, allowed: DocFilter | None = None,
        variants: TermVariants = NO_VARIANTS,
    ) -> list[tuple[DocIdArray, ScoreArray]]:  # fmt: skip
        """Find the n best documents with a term of each query, and scores; `allowed` restricts hits, not statistics."""
        # terms that several queries share are read once
        words = dict.fromkeys(one for word in chain.from_iterable(queries) for one in (word, *variants.get(word, ())))
        read = {word: postings for word in words if (postings := self._postings(word, snapshot))[2]}
        # one pass over all terms together: for rare terms numpy's call overhead costs more than the work
        docs = np.concatenate([_NO_DOC_IDS, *(docs for docs, _, _ in read.values())])
        # term frequencies, weighed against the lengths of their documents: BM25 without idf
        tfs = np.concatenate([_NO_COUNTS, *(tfs for _, tfs, _ in read.values())])
        worth = (tfs & _MAX_FREQUENCY).astype(np.float64)
        norm = self.lengths.take(docs) * (self.k1 * self.b / (snapshot.average_length or 1))
        norm += self.k1 * (1 - self.b)
        norm += worth
        worth /= norm
        ends = np.cumsum([len(docs) for docs, _, _ in read.values()]).tolist()
        spans = dict(zip(read, map(slice, [0, *ends], ends), strict=True))
        scores: ScoreArray | None = getattr(_thread_buffers, "scores", None)
        if scores is None or len(scores) < snapshot.size:
            scores = _thread_buffers.scores = np.zeros(snapshot.size * 5 // 4 + 1024)
        results = []
        for query in queries:
            groups = []  # for each term the least document frequency, and the spans of its variants with their factors
            for word, times in Counter(query).items():
                known = [(one, weight) for one, weight in {word: 1.0, **variants.get(word, {})}.items() if one in read]
                # A variant is worth no more than the word itself: "loaf" may be rare where "bread" is not.
                own = read[word][2] if word in read else 0
                factors = [
                    (spans[one], times * weight * compute_idf(snapshot.count, max(read[one][2], own)) * (self.k1 + 1))
                    for one, weight in known
                ]
                if known:
                    groups.append((min(read[one][2] for one, _ in known), factors))
            # Rarest first: this fixes the order in which floats are added, so that it depends on the snapshot alone.
            groups.sort(key=lambda group: group[0])
            rows = docs
            if len(queries) > 1:
                rows = np.concatenate([_NO_DOC_IDS, *(docs[span] for _, factors in groups for span, _ in factors)])
            try:
                for _, factors in groups:
                    if len(factors) == 1:
                        ((span, factor),) = factors
                        scores[docs[span]] += worth[span] * factor
                    else:  # of the variants only the best counts
                        holding = np.concatenate([docs[span] for span, _ in factors])
                        some, at = np.unique(holding, return_inverse=True)
                        best = np.zeros(len(some))
                        np.maximum.at(best, at, np.concatenate([worth[span] * factor for span, factor in factors]))
                        scores[some] += best
                found = select_top_docs(rows, scores, n, [*filter(None, (snapshot.seen, allowed))])
                results.append((found, scores[found]))
            finally:
                scores[rows] = 0.0
        return results

    def get_scores(self, query: Sequence[str]) -> ScoreArray:
        """Compute the score of every document, 0 for deleted ones, as the parent does: its `get_top_n` works by it."""
        snapshot = self.snapshot()
        scores = np.zeros(snapshot.size)
        ((docs, found),) = self.best_of_each([query], snapshot.size, snapshot)
        scores[docs] = found
        return scores

    def _shown(self, docs: DocIdArray, size: int, allowed: DocFilter | None) -> DocIdArray:
        docs = docs[self.until.take(docs) > size]
        return docs if allowed is None else docs[allowed(docs)]

    def _find(self, word: str, size: int) -> tuple[DocIdArray, CountArray]:
        """Documents below `size` with a term, ascending, and its frequency in each."""
        if (term := self.vocabulary.get(word)) is None:
            return _NO_DOC_IDS, _NO_COUNTS
        pieces = []
        for one in self.segments:
            at = int(one.terms.searchsorted(np.int32(term)))  # the same type, or numpy converts the whole array
            if at < len(one.terms) and one.terms[at] == term:
                span = slice(int(one.indptr[at]), int(one.indptr[at + 1]))
                pieces.append((one.docs[span], one.tfs[span]))
        if pieces and pieces[-1][0][-1] >= size:  # documents added after the search began
            pieces = [(docs[: (known := int(docs.searchsorted(size)))], tfs[:known]) for docs, tfs in pieces]
        docs = np.concatenate([_NO_DOC_IDS, *(docs for docs, _ in pieces)], dtype=np.intp)
        return docs, np.concatenate([_NO_COUNTS, *(tfs for _, tfs in pieces)])

    def matching(self, words: Sequence[str], allowed: DocFilter | None = None) -> DocIdArray:
        """Find the living documents with all of the terms, ascending."""
        size = self.corpus_size
        lists = sorted((self._find(word, size)[0] for word in words), key=len)
        found = lists[0] if lists else _NO_DOC_IDS
        for docs in lists[1:]:
            found = found[np.searchsorted(docs, found, "right") > np.searchsorted(docs, found)]
        return self._shown(found, size, allowed)

    def list_own(self, word: str, allowed: DocFilter | None = None) -> DocIdArray:
        """List the living documents that have a term elsewhere than in their header, ascending."""
        size = self.corpus_size
        docs, tfs = self._find(word, size)
        return self._shown(docs[tfs < _HEADER_ONLY], size, allowed)

    def holds(self, word: str, allowed: DocFilter | None = None) -> bool:
        """Whether a living document has the term."""
        size = self.corpus_size
        docs, _ = self._find(word, size)
        # a common word usually has an allowed document among the first 1,000
        return any(len(self._shown(some, size, allowed)) for some in (docs[:1000], docs[1000:]))

    def dump(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a compacted index, of the types in ARRAY_KINDS (call `compact` first)."""
        empty = PostingsSegment.of(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint16))
        segment = self.segments[0] if self.segments else empty
        fields = {name: getattr(segment, name) for name in PostingsSegment.__slots__}
        return {**fields, "lengths": self.lengths[: self.corpus_size]}

    def restore(self, arrays: dict[str, NDArray[Any]], vocabulary: Sequence[str]) -> None:
        """Restore the arrays of `dump`. Raises ValueError, LookupError if they are inconsistent."""
        segment = PostingsSegment(*(arrays[name] for name in PostingsSegment.__slots__))
        self.vocabulary = {word: i for i, word in enumerate(vocabulary)}
        if len(self.vocabulary) < len(vocabulary):
            raise ValueError("a word is there twice")
        self.lengths = arrays["lengths"]
        size, words = len(self.lengths), len(self.vocabulary)
        segment.check(size, words)
        self.segments = (segment,) if len(segment.docs) else ()
        self.until, self.corpus_size = np.full(size, _NEVER_DELETED, np.int32), size
