"""The lexical leg: in the data folder (rag_core/doors/lexical.py), or on a Qdrant server as sparse vectors.

On the server a passage's vector holds what BM25 makes of each term's count and of the passage's length; the weights
of the query are the terms' idf over the channels of the filter, counted here (`counts.py`). The server's own IDF
modifier is not used: it counts every channel of a shard, also those that the asker may not read. So the ranking is
BM25's but for one thing, which is measured in tests/rag_core/test_words_ranking.py: the mean length of passages is a
constant (`weights.MEAN_LENGTH`), so that a vector never has to be made again.

A post's old passages and its new ones are there together for a moment, where the folder exchanges them as one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from rag_core.doors.lexical import Lexical
from rag_core.doors.word_index import WordIndex
from rag_core.settings import QdrantSettings

__all__ = ["WordIndex", "heard_words", "new_words", "saved_words"]


def _served(qdrant: QdrantSettings | None) -> TypeGuard[QdrantSettings]:
    return bool(qdrant and qdrant.url and qdrant.words)


def new_words(qdrant: QdrantSettings | None = None) -> WordIndex:
    """An empty index, where the settings say. A server that does not answer is no error: it is looked for."""
    if not _served(qdrant):
        return Lexical()
    from rag_core.doors.words.served import ServedWords  # a second to import, and seldom needed

    return ServedWords(qdrant)


def saved_words(qdrant: QdrantSettings | None, folder: Path, archive: str) -> WordIndex | None:
    """The index that was saved in `folder` for this archive, where the settings say; None where there is none."""
    if not _served(qdrant):
        return Lexical.load(folder, archive)
    from rag_core.doors.words.served import ServedWords

    return ServedWords.load(qdrant, folder, archive)


def heard_words(told: str) -> QdrantSettings | None:
    """The settings of which `WordIndex.told` told another process. Raises ValueError."""
    return QdrantSettings.model_validate_json(told) if told.strip() else None
