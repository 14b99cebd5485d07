"""Contract of lexical engines: the lexical leg and rank-bm25 with the same terms, the same queries, the 50 best.

The ranking of rank-bm25 is set to ours (k1 0.9, b 0.4, the idf, too). It is charged for `get_scores` alone, choosing
comes on top.
"""

from collections import Counter
from itertools import chain
from typing import Protocol

import numpy as np
from bench.synthetic_posts import CHANNELS

from rag_core.index.bm25_postings import compute_idf
from rag_core.index.lexical_index import BM25_B, BM25_K1, IndexEntry, LexicalIndex
from rag_core.types import PassageRef, SearchFilter

MOST = 50
_SLICE = 2000  # documents at a time, as the indexer hands them over


class Engine(Protocol):
    """One index in a folder. Document n is post n of the corpus."""

    def __init__(self, corpus, folder): ...

    def build(self, documents):
        """Take in all documents; they can be searched when it returns."""

    def search(self, query):
        """The best of all posts, in whatever form the engine gives them."""

    def within(self, query):
        """The best of the posts that pass the query's filter."""

    def best(self, found):
        """What `search` gave as (post, score), best first. Not timed."""


class Ours:
    """rag_core.index.lexical_index, filled the way the indexer fills it."""

    def __init__(self, corpus, folder):
        self.corpus, self.folder, self.index = corpus, folder, LexicalIndex()
        self.all = SearchFilter(frozenset(channel.chat_id for channel in CHANNELS))

    def build(self, documents):
        for first in range(0, len(documents), _SLICE):
            numbers = range(first, min(first + _SLICE, len(documents)))
            self.index.replace((), [self._entry(n, documents[n]) for n in numbers])

    def _entry(self, post, terms):
        return IndexEntry(PassageRef(self.corpus.frame.key(post), 0, 0, 100), self.corpus.frame.when(post), terms)

    def search(self, query):
        return self.index.search(query.terms, self.all, MOST)

    def within(self, query):
        return self.index.search(query.terms, query.window, MOST)

    def best(self, found):
        return [(place.key.message_id - 1, score) for place, score in found]


class RankBM25:
    """rank_bm25.BM25Okapi; filtered by scoring everything."""

    def __init__(self, corpus, folder):
        self.corpus, self.folder = corpus, folder

    def build(self, documents):
        from rank_bm25 import BM25Okapi

        self.index = BM25Okapi(documents, k1=BM25_K1, b=BM25_B)
        held = Counter(chain.from_iterable(map(set, documents)))
        self.index.idf = {word: compute_idf(len(documents), count) for word, count in held.items()}

    def search(self, query):
        return self.index.get_scores(query.terms)

    def within(self, query):
        return np.where(self.corpus.frame.inside(query.window), self.search(query), -np.inf)

    def best(self, found):
        top = np.argsort(-found, kind="stable")[:MOST]
        return [(int(n), float(found[n])) for n in top]


ENGINES = {"citegram": Ours, "rank-bm25": RankBM25}
