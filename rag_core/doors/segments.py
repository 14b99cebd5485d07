"""Postings on the shelf: which documents hold which term, in immutable pieces that merge as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts", "Docs", "Ints", "Segment", "joined", "merged", "standing"]

Ints = NDArray[np.int32]
Counts = NDArray[np.uint16]
Docs = NDArray[np.intp]  # document numbers as numpy wants them: with int32 every look-up converts them again

_NOBODY = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Segment:
    """Postings of some documents: `docs[indptr[i]:indptr[i+1]]` hold term `terms[i]`, `tfs` times each."""

    terms: Ints
    indptr: NDArray[np.int64]
    docs: Ints
    tfs: Counts

    def find(self, term: int) -> slice:
        """Where the postings of a term lie; empty when it has none."""
        at = int(self.terms.searchsorted(np.int32(term)))  # of the same type, or the whole array is converted
        if at == len(self.terms) or self.terms[at] != term:
            return slice(0, 0)
        return slice(int(self.indptr[at]), int(self.indptr[at + 1]))

    @classmethod
    def of(cls, terms: Ints, docs: Ints, tfs: Counts) -> Segment:
        """From one row per (term, document), sorted by term."""
        starts = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]]) if len(terms) else np.zeros(0, np.int64)
        return cls(terms[starts].copy(), np.r_[starts, len(terms)].astype(np.int64), docs, tfs)

    @classmethod
    def counted(cls, flat: Ints, lengths: NDArray[np.uint32], first: int) -> Segment:
        """From the term numbers of documents, one document after the other; they are numbered from `first`."""
        # one int64 per token, term above document: sorting it groups equal pairs, their runs are the frequencies
        pairs = flat.astype(np.int64) << 32
        pairs |= np.repeat(np.arange(first, first + len(lengths), dtype=np.int64), lengths)
        rows, counts = np.unique(pairs, return_counts=True)
        terms, docs = (rows >> 32).astype(np.int32), (rows & 0xFFFFFFFF).astype(np.int32)
        return cls.of(terms, docs, np.minimum(counts, 65_535).astype(np.uint16))

    def check(self, documents: int, words: int) -> None:
        """Raises ValueError where the parts do not fit together, or name more documents or terms than there are."""
        whole = len(self.indptr) == len(self.terms) + 1 and len(self.docs) == len(self.tfs)
        if not whole or int(self.indptr[-1]) != len(self.docs):
            raise ValueError("the postings do not fit together")
        if int(self.indptr[0]) or np.any(np.diff(self.indptr) < 0) or np.any(np.diff(self.terms) <= 0):
            raise ValueError("the postings are not in order")
        if len(self.docs) and (int(self.docs.max()) >= documents or int(self.terms.max()) >= words):
            raise ValueError("the postings name documents or terms that are not there")
        if len(self.docs) and (int(self.docs.min()) < 0 or int(self.terms.min()) < 0):
            raise ValueError("the postings name documents or terms that are not there")

    def rows(self) -> tuple[Ints, Ints, Counts]:
        """One row per (term, document), sorted by term."""
        return np.repeat(self.terms, np.diff(self.indptr)), self.docs, self.tfs


def merged(segments: Sequence[Segment]) -> Segment:
    """One segment out of several; the documents of each must come before those of the next."""
    term, docs, tfs = (np.concatenate(column) for column in zip(*(s.rows() for s in segments), strict=True))
    order = np.argsort(term, kind="stable")  # a merge of sorted runs; documents stay in order within a term
    return Segment.of(term[order], docs[order], tfs[order])


def standing(segments: Sequence[Segment], term: int, size: int) -> list[tuple[Ints, Counts]]:
    """The documents below `size` that hold a term, ascending, and how often each does: piece by piece."""
    pieces = [(s.docs[span], s.tfs[span]) for s in segments if (span := s.find(term)).stop]
    if pieces and pieces[-1][0][-1] >= size:  # added after the question began
        pieces = [(docs[: (known := int(docs.searchsorted(size)))], tfs[:known]) for docs, tfs in pieces]
    return pieces


def joined(pieces: Sequence[tuple[Ints, Counts]]) -> Docs:
    """The documents of all pieces in one array."""
    return np.concatenate([_NOBODY, *(docs for docs, _ in pieces)], dtype=np.intp)
