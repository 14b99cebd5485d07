"""Contract of lexical engines: the lexical leg and its peers with the same terms, the same queries, the 50 best.

Each is used as its own documentation advises for one box; where the ranking can be set it is set to ours
(k1 0.9, b 0.4, for rank-bm25 the idf, too). rank-bm25 is charged for `get_scores` alone, choosing comes on top.
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


class Tantivy:
    """tantivy (Rust), through its Python package; posts are told by a fast field."""

    def __init__(self, corpus, folder):
        import tantivy

        self.corpus, self.t = corpus, tantivy
        schema = tantivy.SchemaBuilder().add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        for name in ("post", "chat", "date"):
            schema = schema.add_integer_field(name, indexed=name == "chat", fast=True)
        self.schema = schema.build()
        self.index = tantivy.Index(self.schema, str(folder))
        self.index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())

    def build(self, documents):
        writer, frame = self.index.writer(256_000_000, 1), self.corpus.frame
        for n, terms in enumerate(documents):
            row = {"chat": frame.key(n).chat_id, "date": int(frame.date[n]), "post": n}
            writer.add_document(self.t.Document(terms=" ".join(terms), **row))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()
        self.searcher = self.index.searcher()

    def _terms(self, query):
        should = self.t.Occur.Should
        return self.t.Query.boolean_query(
            [(should, self.t.Query.term_query(self.schema, "terms", term)) for term in query.terms]
        )

    def search(self, query):
        return self._found(self._terms(query))

    def _found(self, query):
        hits = self.searcher.search(query, MOST, count=False).hits
        return hits, self.searcher.fast_field_values("post", [address for _, address in hits])

    def within(self, query):
        must, window = self.t.Occur.Must, query.window
        dated = (int(window.since.timestamp()), int(window.until.timestamp()), True, False)
        chats = self.t.Query.term_set_query(self.schema, "chat", list(window.channels))
        dates = self.t.Query.range_query(self.schema, "date", self.t.FieldType.Integer, *dated)
        only = [(must, self.t.Query.const_score_query(part, 0.0)) for part in (chats, dates)]
        return self._found(self.t.Query.boolean_query([(must, self._terms(query)), *only]))

    def best(self, found):
        return [(post, score) for (score, _), post in zip(*found, strict=True)]


ENGINES = {"citegram": Ours, "rank-bm25": RankBM25, "tantivy": Tantivy}
NEEDS = {"rank-bm25": "rank_bm25", "tantivy": "tantivy"}  # engine -> module
