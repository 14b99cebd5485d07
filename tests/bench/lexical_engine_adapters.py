"""The peers of the lexical leg that are installed for the bench alone: bm25s, SQLite's FTS5, tantivy."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench.synthetic_posts import Corpus, Query
from numpy.typing import NDArray

from rag_core.index.lexical_index import BM25_B, BM25_K1

MOST = 50

Documents = Sequence[Sequence[str]]


class BM25S:
    """bm25s with its own scorer; filtered by a weight mask, added to by building anew."""

    add = None

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        self.corpus, self.folder = corpus, folder

    def build(self, documents: Documents) -> None:
        import bm25s

        self.index = bm25s.BM25(k1=BM25_K1, b=BM25_B, method="robertson")
        self.index.index(documents, show_progress=False)

    def search(self, query: Query, mask: NDArray[np.float32] | None = None) -> Any:
        return self.index.retrieve([list(query.terms)], k=MOST, show_progress=False, weight_mask=mask)

    def within(self, query: Query) -> Any:
        return self.search(query, self.corpus.frame.inside(query.window).astype(np.float32))

    def best(self, found: Any) -> list[tuple[int, float]]:
        return list(zip(found.documents[0].tolist(), found.scores[0].tolist(), strict=True))

    def save(self) -> None:
        self.index.save(self.folder, show_progress=False)


class FTS5:
    """SQLite's full text index without the texts, beside a table with channel and date."""

    _FIND = "SELECT posts.rowid, bm25(posts) AS score FROM posts {} WHERE posts MATCH ? {} ORDER BY score LIMIT ?"

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        self.corpus, self.db = corpus, sqlite3.connect(folder / "fts.db", isolation_level=None)
        self.db.executescript(
            "PRAGMA journal_mode=WAL; CREATE TABLE about (id INTEGER PRIMARY KEY, chat INT, date INT);"
            "CREATE VIRTUAL TABLE posts USING fts5(terms, content='')"
        )

    def build(self, documents: Documents) -> None:
        self._put(enumerate(documents))

    def _put(self, rows: Any) -> None:
        self.db.execute("BEGIN")
        for n, terms in rows:
            post = min(n, len(self.corpus) - 1)
            self.db.execute("INSERT INTO posts (rowid, terms) VALUES (?, ?)", (n, " ".join(terms)))
            about = (n, self.corpus.frame.key(post).chat_id, int(self.corpus.frame.date[post]))
            self.db.execute("INSERT INTO about VALUES (?, ?, ?)", about)
        self.db.execute("COMMIT")

    def search(self, query: Query) -> Any:
        return self.db.execute(self._FIND.format("", ""), (_any_of(query), MOST)).fetchall()

    def within(self, query: Query) -> Any:
        window = query.window
        where = f"AND chat IN ({','.join('?' * len(window.channels))}) AND date >= ? AND date < ?"
        values = (_any_of(query), *window.channels, window.since.timestamp(), window.until.timestamp(), MOST)
        return self.db.execute(self._FIND.format("JOIN about ON id = posts.rowid", where), values).fetchall()

    def best(self, found: Any) -> list[tuple[int, float]]:
        return [(n, -score) for n, score in found]

    def add(self, terms: Sequence[str]) -> None:
        ((last,),) = self.db.execute("SELECT max(id) FROM about")
        self._put([(last + 1, terms)])

    def save(self) -> None:
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class Tantivy:
    """tantivy (Rust), through its Python package; posts are told by a fast field."""

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        import tantivy

        self.corpus, self.t = corpus, tantivy
        schema = tantivy.SchemaBuilder().add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        for name in ("post", "chat", "date"):
            schema = schema.add_integer_field(name, indexed=name == "chat", fast=True)
        self.schema = schema.build()
        self.index = tantivy.Index(self.schema, str(folder))
        self.index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())

    def build(self, documents: Documents) -> None:
        self.writer = self.index.writer(256_000_000, 1)
        for n, terms in enumerate(documents):
            self._put(n, terms)
        self.writer.commit()
        self.writer.wait_merging_threads()
        self.writer = self.index.writer(64_000_000, 1)
        self._reload()

    def _put(self, post: int, terms: Sequence[str]) -> None:
        row = {"chat": self.corpus.frame.key(post).chat_id, "date": int(self.corpus.frame.date[post]), "post": post}
        self.writer.add_document(self.t.Document(terms=" ".join(terms), **row))

    def _reload(self) -> None:
        self.index.reload()
        self.searcher = self.index.searcher()

    def _terms(self, query: Query) -> Any:
        should = self.t.Occur.Should
        return self.t.Query.boolean_query(
            [(should, self.t.Query.term_query(self.schema, "terms", term)) for term in query.terms]
        )

    def search(self, query: Query) -> Any:
        return self._found(self._terms(query))

    def _found(self, query: Any) -> Any:
        hits = self.searcher.search(query, MOST, count=False).hits
        return hits, self.searcher.fast_field_values("post", [address for _, address in hits])

    def within(self, query: Query) -> Any:
        must, window = self.t.Occur.Must, query.window
        dated = (int(window.since.timestamp()), int(window.until.timestamp()), True, False)
        chats = self.t.Query.term_set_query(self.schema, "chat", list(window.channels))
        dates = self.t.Query.range_query(self.schema, "date", self.t.FieldType.Integer, *dated)
        only = [(must, self.t.Query.const_score_query(part, 0.0)) for part in (chats, dates)]
        return self._found(self.t.Query.boolean_query([(must, self._terms(query)), *only]))

    def best(self, found: Any) -> list[tuple[int, float]]:
        return [(post, score) for (score, _), post in zip(*found, strict=True)]

    def add(self, terms: Sequence[str]) -> None:
        self._put(0, terms)
        self.writer.commit()
        self._reload()

    def save(self) -> None:
        """Nothing to do: a commit is on disk."""


def _any_of(query: Query) -> str:
    return " OR ".join(f'"{term}"' for term in query.terms)
