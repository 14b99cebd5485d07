"""The embedded store finds exactly what a comparison with every allowed vector finds, whichever way it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from vector_store_helpers import DAY, SIZE, open_store, points

from rag_core.index.vectors import VectorPoint, VectorStore
from rag_core.types import PostKeySet, SearchFilter

pytestmark = pytest.mark.slow


# Channels of 1,500, 1,000, 500 and 3,000 points.
MANY = [p for chat, n in ((-1, 1_500), (-2, 1_000), (-3, 500), (-4, 3_000)) for p in points(n, chat=chat, seed=-chat)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorStore]:
    """The store with all of MANY in it."""

    async def make(folder: Path) -> VectorStore:
        vectors = await open_store(folder)
        await vectors.upsert(MANY)
        return vectors

    vectors = asyncio.run(make(tmp_path_factory.mktemp("many") / "vectors"))
    yield vectors
    asyncio.run(vectors.close())


@pytest.mark.parametrize("lang", [None, "ru"])
@pytest.mark.parametrize("hours", [None, (100, 1_200), (0, 4), (3, 10_000)])
@pytest.mark.parametrize("channels", [{-1}, {-1, -2}, {-1, -2, -3, -4}])
async def test_every_filter_finds_exactly_what_a_comparison_with_everything_finds(
    many: VectorStore, channels: set[int], hours: tuple[int, int] | None, lang: str | None
) -> None:
    since, until = (None, None) if hours is None else (DAY + timedelta(hours=h) for h in hours)
    only = SearchFilter(frozenset(channels), since, until)
    allowed = [
        p for p in MANY
        if p.place.key.chat_id in channels and (lang is None or p.lang == lang)
        and (since is None or until is None or since <= p.date < until)
    ]  # fmt: skip
    rows = np.stack([p.vector / np.linalg.norm(p.vector) for p in allowed])
    for seed in range(3):
        asked = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
        hits = await many.search(asked, only, 20, lang)
        cosines = dict(zip((p.place for p in allowed), rows @ (asked / np.linalg.norm(asked)), strict=True))
        best = sorted(cosines.values(), reverse=True)[:20]
        assert [score for _, score in hits] == pytest.approx(best, abs=2e-3)
        assert [cosines[place] for place, _ in hits] == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize("share", [0.002, 0.05, 0.6])
@pytest.mark.parametrize("hours", [None, (100, 1_200)])
async def test_single_posts_are_found_exactly_however_many_are_named(
    many: VectorStore, hours: tuple[int, int] | None, share: float
) -> None:
    rng = np.random.default_rng(4)
    named = {p.place.key for p in MANY if rng.random() < share}
    keys = PostKeySet.of(named)
    since, until = (None, None) if hours is None else (DAY + timedelta(hours=h) for h in hours)
    only = SearchFilter(frozenset({-1, -2, -4}), since, until, keys)
    allowed = [
        p for p in MANY
        if p.place.key.chat_id in only.channels and p.place.key in named
        and (since is None or until is None or since <= p.date < until)
    ]  # fmt: skip
    asked = np.random.default_rng(9).standard_normal(SIZE).astype(np.float32)
    hits = await many.search(asked, only, 20)
    rows = np.stack([p.vector / np.linalg.norm(p.vector) for p in allowed])
    cosines = dict(zip((p.place for p in allowed), rows @ (asked / np.linalg.norm(asked)), strict=True))
    assert [cosines[place] for place, _ in hits] == pytest.approx(sorted(cosines.values(), reverse=True)[:20], abs=2e-3)


async def test_a_crowd_of_nearer_private_vectors_hides_nobody_in_a_large_store(tmp_path: Path) -> None:
    """The channels are of one size, so that the engine is expected to rank first, and the ranking is all private."""
    vectors = await open_store(tmp_path / "vectors")
    public = points(3_000, chat=-1)
    private = [
        VectorPoint(p.place, p.date, p.lang, p.text_hash, np.abs(p.vector) + 5) for p in points(3_000, chat=-2, seed=1)
    ]
    await vectors.upsert([*public, *private])
    hits = await vectors.search(np.ones(SIZE, np.float32), SearchFilter(frozenset({-1})), 10)
    sums = {p.place: float(p.vector.sum() / np.linalg.norm(p.vector)) for p in public}
    assert [place for place, _ in hits] == sorted(sums, key=lambda place: -sums[place])[:10]
    named = SearchFilter(frozenset({-1}), keys=PostKeySet.of(p.place.key for p in public))
    assert await vectors.search(np.ones(SIZE, np.float32), named, 10) == hits
    await vectors.close()
