"""The search by words on a server against the one in the folder: the same posts, nearly the same order.

What differs is said in rag_core/index/sparse_qdrant.py: the mean length, and the rarity of common terms.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from qdrant_node import needs_server
from sample_sizes import choose_size

from bot.cli.demo import import_sample_channels
from ingest.indexer import build_lexical_entry, split_into_passages
from rag_core.engine import Engine, make_lexical_index, open_engine
from rag_core.index.lexical_index import Bm25Index, IndexEntry, LexicalIndex
from rag_core.settings import QdrantSettings, RagSettings
from rag_core.storage import channels, posts
from rag_core.text.tokens import tokenize
from rag_core.types import PassageRef, PostKey, SearchFilter

pytestmark = pytest.mark.slow

DAY = datetime(2025, 3, 1, tzinfo=UTC)
TOP = 10


@pytest.fixture(params=["memory", pytest.param("server", marks=needs_server)])
def served(request: pytest.FixtureRequest) -> Iterator[LexicalIndex]:
    url = ":memory:" if request.param == "memory" else request.getfixturevalue("qdrant_server")
    key = SecretStr(os.environ.get("QDRANT__KEY", ""))
    index = make_lexical_index(QdrantSettings(url=url, key=key, words=True, collection="citegram-test-ranking"))
    yield index
    index.replace({one.key for one in index.all_of(SearchFilter(frozenset(index.chats)))}, ())
    index.close()


def ranked(index: LexicalIndex, question: str, only: SearchFilter) -> list[PassageRef]:
    return [place for place, _ in index.search(tokenize(question), only, TOP)]


def overlap(one: Sequence[PassageRef], other: Sequence[PassageRef]) -> float:
    """The share of the shorter list that is in the other."""
    fewer = min(len(one), len(other))
    return len({*one} & {*other}) / fewer if fewer else 1.0


def tau(one: Sequence[PassageRef], other: Sequence[PassageRef]) -> float:
    """Kendall's: over what both have, pairs in the same order less those in the other, over all."""
    both = [place for place in one if place in set(other)]
    signs = [1 if other.index(a) < other.index(b) else -1 for a, b in combinations(both, 2)]
    return sum(signs) / len(signs) if signs else 1.0


def compared(
    folder: LexicalIndex, served: LexicalIndex, asked: Sequence[str], only: SearchFilter
) -> tuple[float, float]:
    """Mean overlap of the first ten, and mean tau."""
    pairs = [(ranked(folder, text, only), ranked(served, text, only)) for text in asked]
    assert sum(bool(one) for one, _ in pairs) > len(pairs) / 2
    overlaps = sum(overlap(*pair) for pair in pairs) / len(pairs)
    return overlaps, sum(tau(*pair) for pair in pairs) / len(pairs)


async def sample_entries(folder: Path) -> tuple[list[IndexEntry], list[str]]:
    """The passages of the sample channels, and a question of each tenth post: its longest words."""
    async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
        await import_sample_channels(rag.archive)
        return await _read(rag)


async def _read(rag: Engine) -> tuple[list[IndexEntry], list[str]]:
    known = await channels.load_channels(rag.archive)
    changes = await posts.list_post_changes(rag.archive, 0, 5000)
    texts = [change.post for change in changes if change.post]
    found = [build_lexical_entry(p) for post in texts for p in split_into_passages(post, known[post.key.chat_id], None)]
    asked = [" ".join(sorted(set(post.text.split()), key=len)[-4:]) for post in texts[::12] if post.text]
    return found, asked


async def test_the_sample_channels_are_ranked_as_in_the_folder(served: LexicalIndex, tmp_path: Path) -> None:
    entries, asked = await sample_entries(tmp_path / "data")
    folder = Bm25Index()
    folder.replace((), entries)
    served.replace((), entries)
    assert len(served) == len(folder) > 100
    overlaps, order = compared(folder, served, asked, SearchFilter(frozenset(folder.chats)))
    assert (overlaps > 0.9, order > 0.9) == (True, True), (overlaps, order)


def test_of_the_variants_of_a_word_only_the_best_counts(served: LexicalIndex) -> None:
    texts = ["bus lane", "coach lane", "coach shuttle lane", "lane lane"]
    served.replace(
        (), [IndexEntry(PassageRef(PostKey(-1, n), 0, 0, 9), DAY, t.split()) for n, t in enumerate(texts, 1)]
    )
    variants = {"bus": {"coach": 0.8, "shuttle": 0.8}}
    found = served.search(["bus"], SearchFilter(frozenset({-1})), 9, variants)
    scores = {place.key.message_id: score for place, score in found}
    assert set(scores) == {1, 2, 3}
    assert scores[1] == max(scores.values())


def of_xquad(shared_data: Path, name: str) -> list[dict[str, Any]]:
    with (shared_data / "xquad" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def recall(index: LexicalIndex, asked: Sequence[dict[str, Any]], numbers: dict[str, int], only: SearchFilter) -> float:
    """The share of questions with an answering paragraph among the first five."""
    hits = 0
    for row in asked:
        first = {place.key.message_id for place in ranked(index, row["text"], only)[:5]}
        hits += not first.isdisjoint(numbers[name] for name in row["relevant"])
    return hits / len(asked)


def test_questions_find_their_paragraphs_as_well_as_in_the_folder(served: LexicalIndex, shared_data: Path) -> None:
    rows = of_xquad(shared_data, "corpus")
    numbers = {row["id"]: n for n, row in enumerate(rows, 1)}
    entries = [
        IndexEntry(PassageRef(PostKey(-1, numbers[r["id"]]), 0, 0, len(r["text"])), DAY, tokenize(r["text"]))
        for r in rows
    ]
    folder = Bm25Index()
    folder.replace((), entries)
    served.replace((), entries)
    asked = [row for row in of_xquad(shared_data, "queries") if row["relevant"]][:: choose_size(5, 30)]
    only = SearchFilter(frozenset({-1}))
    overlaps, order = compared(folder, served, [row["text"] for row in asked], only)
    there, here = recall(served, asked, numbers, only), recall(folder, asked, numbers, only)
    assert (overlaps > 0.9, order > 0.85, there >= here - 0.01) == (True, True, True), (overlaps, order, there, here)
