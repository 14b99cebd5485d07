"""Slots narrow what the embedded engine gathers, and change nothing that is found."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import qdrant_edge as edge

from rag_core.index.vectors import (
    VectorPoint,
    VectorStore,
    compute_slot,
    list_filter_slots,
    make_store_filter,
    open_vector_store,
)
from rag_core.index.vectors_edge import StoreFolder
from rag_core.types import PassageRef, PostKey, SearchFilter

pytestmark = pytest.mark.slow

DAY, FORTNIGHT = 86_400, 14 * 86_400
NOW = int(datetime.now(UTC).timestamp())
SIZE = 8
CHANNELS = [-1001000000000 - n for n in range(5)] + [-4_500_000_000_000, 777]


def edges() -> list[int]:
    """Seconds at which a period begins or ends, in calendars or in slots, and those beside them."""
    firsts = [datetime(year, month, 1, tzinfo=UTC) for year in range(2019, 2029) for month in range(1, 13)]
    leaps = [datetime(year, 2, 29, tzinfo=UTC) for year in (2020, 2024, 2028)]
    spans = [span * FORTNIGHT for span in range(NOW // FORTNIGHT - 60, NOW // FORTNIGHT + 5)]
    exact = [int(day.timestamp()) for day in (*firsts, *leaps, *(leap + timedelta(days=1) for leap in leaps))]
    return [second + beside for second in (*exact, *spans, NOW, NOW + 400 * DAY) for beside in (-1, 0, 1)]


EDGES = edges()


def made() -> list[VectorPoint]:
    rng, some = np.random.default_rng(3), random.Random(3)
    rows = rng.standard_normal((5_000, SIZE)).astype(np.float32)
    seconds = [some.choice(EDGES) if n % 2 else some.randrange(EDGES[0], NOW) for n in range(len(rows))]
    return [
        VectorPoint(
            PassageRef(PostKey(some.choice(CHANNELS), n), 0, 0, 9),
            datetime.fromtimestamp(second, UTC),
            some.choice(["ru", "ru", "ru", "en"]),
            str(n),
            row,
        )
        for n, (second, row) in enumerate(zip(seconds, rows, strict=True))
    ]


POINTS = made()
ROWS = np.stack([point.vector / np.linalg.norm(point.vector) for point in POINTS])


def drawn(some: random.Random) -> tuple[SearchFilter, str | None]:
    """A filter with both bounds, or one, or none."""

    def second() -> datetime:
        return datetime.fromtimestamp(some.choice(EDGES) if some.random() < 0.7 else some.randrange(EDGES[0], NOW), UTC)

    low, high = sorted((second(), second()))
    since, until = some.choice([(low, high), (low, high), (high, None), (low, None), (None, low), (None, None)])
    channels = frozenset(some.sample(CHANNELS, some.randint(1, len(CHANNELS))))
    return SearchFilter(channels, since, until), some.choice([None, None, "en"])


async def differing(store: VectorStore, only: SearchFilter, lang: str | None, seed: int) -> str | None:
    """What is wrong with the hits of one search, or None."""
    allowed = [
        n for n, p in enumerate(POINTS)
        if p.place.key.chat_id in only.channels and (lang is None or p.lang == lang)
        and (only.since is None or only.since <= p.date) and (only.until is None or p.date < only.until)
    ]  # fmt: skip
    asked = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
    hits = await store.search(asked, only, 20, lang)
    cosines = ROWS[allowed] @ (asked / np.linalg.norm(asked))
    by_place = {POINTS[n].place: cosine for n, cosine in zip(allowed, cosines, strict=True)}
    found = [by_place.get(place, np.inf) for place, _ in hits]
    best = np.sort(cosines)[::-1][:20]
    same = (
        len(found) == len(best) and len({place for place, _ in hits}) == len(hits) and np.allclose(found, best, 0, 2e-3)
    )
    return None if same else f"{only} {lang}: {len(found)} hits for {len(best)}"


async def filled(folder: Path) -> VectorStore:
    store = await open_vector_store(folder, model="tiny", dimension=SIZE)
    await store.upsert(POINTS)
    return store


async def test_random_filters_find_what_a_comparison_with_everything_finds(tmp_path: Path) -> None:
    some = random.Random(8)
    filters = [drawn(some) for _ in range(300)]
    store = await filled(tmp_path)
    wrong = [await differing(store, only, lang, seed) for seed, (only, lang) in enumerate(filters)]
    await store.close()
    assert [what for what in wrong if what] == []
    spelt = [make_store_filter(only, lang) for only, lang in filters]
    assert sum(asked["slots"] is not None and asked["later"] is None for asked in spelt) > 60
    assert sum(asked["slots"] is not None and asked["later"] is not None for asked in spelt) > 60
    assert sum(asked["slots"] is None for asked in spelt) > 60


async def test_a_store_from_before_there_were_slots_finds_all_the_same(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    folder = StoreFolder(tmp_path)
    about = folder.about()
    assert about is not None
    shard = edge.EdgeShard.load(str(folder.shard(about)))
    shard.update(edge.UpdateOperation.delete_field_index("slot"))
    shard.update(edge.UpdateOperation.delete_payload_by_filter(edge.Filter(), ["slot"]))
    shard.close()
    folder.seal(about, closed=True)
    folder.release()
    file = tmp_path / "about.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 1}))
    some = random.Random(5)
    store = await open_vector_store(tmp_path, model="tiny", dimension=SIZE)
    assert (store.identity, await store.count()) == (about.identity, len(POINTS))
    assert [await differing(store, *drawn(some), seed) for seed in range(40)] == [None] * 40
    await store.upsert(POINTS[:100])  # new points beside old ones do not make the old ones vanish
    assert [await differing(store, *drawn(some), seed) for seed in range(40)] == [None] * 40
    await store.close()


@pytest.mark.parametrize("chat", CHANNELS)
def test_every_second_of_a_period_has_its_slot_in_the_list(chat: int) -> None:
    some = random.Random(chat)
    for _ in range(300):
        since, until = sorted(some.sample(EDGES, 2))
        found = list_filter_slots([chat], since, until, NOW)
        assert found is not None or since > NOW + FORTNIGHT
        named, later = found or ([], since)
        for second in (since, until - 1, some.randrange(since, until)):
            assert compute_slot(chat, second) in named or (later is not None and second >= later)


def test_a_slot_is_a_number_that_the_engine_takes() -> None:
    for chat in (*CHANNELS, -(2**52), 2**52):
        for second in (-1, 0, NOW, 2**32):
            assert 0 <= compute_slot(chat, second) < 2**63


def test_slots_are_given_where_they_help_only() -> None:
    assert list_filter_slots([-1], None, NOW, NOW) is None
    assert list_filter_slots([-1], None, None, NOW) is None
    assert list_filter_slots([-1], NOW, NOW, NOW) is None
    assert list_filter_slots([-1], NOW + 60 * DAY, None, NOW) is None
    assert list_filter_slots(range(100), NOW - 365 * DAY, NOW, NOW) is None
    assert list_filter_slots([-1, -2], 10 * FORTNIGHT, 12 * FORTNIGHT, NOW) == (
        [compute_slot(c, n * FORTNIGHT) for c in (-1, -2) for n in (10, 11)],
        None,
    )
