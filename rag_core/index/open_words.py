"""Lexical index selection: opens the file index or the Qdrant index (QDRANT__WORDS) that the settings name.

On the server a passage's vector holds the BM25 weight of each term by its count and the passage's length; the weights
of the query are the terms' idf over the channels of the filter, counted here. The server's own IDF modifier is not
used: it counts every channel of a shard, also those that the asker may not read. The ranking is BM25's with one
exception, which is measured in tests/rag_core/test_words_ranking.py: the mean length of passages is a constant
(`ASSUMED_MEAN_LENGTH`), so that a vector never has to be made again.

A post's old passages and its new ones are in the collection together for a moment, whereas the file index exchanges
them atomically.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from rag_core.index.bm25 import Bm25Index, LexicalIndex
from rag_core.settings import QdrantSettings

__all__ = ["LexicalIndex", "load_saved_lexical_index", "make_lexical_index", "parse_qdrant_settings"]


def _is_on_qdrant(qdrant: QdrantSettings | None) -> TypeGuard[QdrantSettings]:
    return bool(qdrant and qdrant.url and qdrant.words)


def make_lexical_index(qdrant: QdrantSettings | None = None) -> LexicalIndex:
    """Make an empty lexical index as the settings say. An unreachable server is no error: it is tried again."""
    if not _is_on_qdrant(qdrant):
        return Bm25Index()
    from rag_core.index.sparse_qdrant import (
        QdrantLexicalIndex,  # imported here: it takes a second, and is seldom needed
    )

    return QdrantLexicalIndex(qdrant)


def load_saved_lexical_index(qdrant: QdrantSettings | None, folder: Path, archive: str) -> LexicalIndex | None:
    """Load the lexical index saved in `folder` for this archive, as the settings say; None if there is none."""
    if not _is_on_qdrant(qdrant):
        return Bm25Index.load(folder, archive)
    from rag_core.index.sparse_qdrant import QdrantLexicalIndex

    return QdrantLexicalIndex.load(qdrant, folder, archive)


def parse_qdrant_settings(told: str) -> QdrantSettings | None:
    """Parse the settings that `LexicalIndex.told` gave to another process. Raises ValueError."""
    return QdrantSettings.model_validate_json(told) if told.strip() else None
