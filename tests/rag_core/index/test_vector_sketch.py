"""The shard of the embedded store: its sketch finds the candidates, follows every change, and is never behind it."""

import asyncio
import os
import platform
import random
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import qdrant_edge as edge
from numpy.typing import NDArray
from sample_sizes import choose_size
from vector_store_helpers import copy_store

from rag_core.index import vector_sketch
from rag_core.index.edge_shard_process import VectorShard
from rag_core.index.vector_sketch import VectorSketch, decode_point_ids, encode_point_ids
from rag_core.index.vector_store import VectorPoint, hash_to_number, make_point_id
from rag_core.index.vectors_edge import open_vector_store
from rag_core.types import PassageRef, PostKey, PostKeySet, SearchFilter

pytestmark = pytest.mark.slow

DAY = 86_400
NOW = int(datetime.now(UTC).timestamp())
SIZE = 8
CHANNELS = [-1001000000000 - n for n in range(5)] + [-4_500_000_000_000, 777]
Rows = NDArray[np.float32]
MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ .*?(/.*)?$")


def edges():
    """Seconds at which a month begins, and those beside them."""
    firsts = [datetime(year, month, 1, tzinfo=UTC) for year in range(2019, 2029) for month in range(1, 13)]
    exact = [int(day.timestamp()) for day in firsts]
    return [second + beside for second in (*exact, NOW, NOW + 400 * DAY) for beside in (-1, 0, 1)]


EDGES = edges()


def made():
    rng, some = np.random.default_rng(3), random.Random(3)
    rows = rng.standard_normal((choose_size(5_000, 2_500), SIZE)).astype(np.float32)
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
CHATS = np.array([point.place.key.chat_id for point in POINTS])
SECONDS = np.array([point.date.timestamp() for point in POINTS])
LANGUAGES = np.array([point.lang for point in POINTS])
ROWS = np.stack([point.vector / np.linalg.norm(point.vector) for point in POINTS])


def drawn(some):
    """A filter with both bounds of time, or one, or none; a third of them names single posts."""

    def second():
        return datetime.fromtimestamp(some.choice(EDGES) if some.random() < 0.7 else some.randrange(EDGES[0], NOW), UTC)

    low, high = sorted((second(), second()))
    since, until = some.choice([(low, high), (low, high), (high, None), (low, None), (None, low), (None, None)])
    channels = frozenset(some.sample(CHANNELS, some.randint(1, len(CHANNELS))))
    share = some.choice([0.002, 0.05, 0.6])
    keys = some.choice([None, None, PostKeySet.of(p.place.key for p in POINTS if some.random() < share)])
    return SearchFilter(channels, since, until, keys), some.choice([None, None, "en"])


async def differing(store, only, lang, seed):
    """What is wrong with the hits of one search, or None."""
    fits = np.isin(CHATS, [*only.channels]) & np.isin(LANGUAGES, lang or LANGUAGES)
    if only.since:
        fits &= only.since.timestamp() <= SECONDS
    if only.until:
        fits &= only.until.timestamp() > SECONDS
    if only.keys is not None:  # a post's number is its place among the points
        fits &= np.isin(np.arange(len(POINTS)), np.concatenate([[], *only.keys.by_chat.values()]))
    allowed = np.flatnonzero(fits)
    asked = np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32)
    hits = await store.search(asked, only, 20, lang)
    cosines = ROWS[allowed] @ (asked / np.linalg.norm(asked))
    by_place = {POINTS[n].place: cosine for n, cosine in zip(allowed, cosines, strict=True)}
    found = [by_place.get(place, np.inf) for place, _ in hits]
    best = np.sort(cosines)[::-1][:20]
    same = (
        len(found) == len(best) and len({place for place, _ in hits}) == len(hits) and np.allclose(found, best, 0, 2e-3)
    )
    scores = np.allclose([score for _, score in hits], best, 0, 2e-3) if same else False
    return None if scores else f"{only} {lang}: {len(found)} hits for {len(best)}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")

    async def fill():
        store = await opened(folder)
        await store.upsert(POINTS)
        await store.close()

    asyncio.run(fill())
    return folder


@pytest.fixture
def filled(kept, tmp_path):
    return copy_store(kept, tmp_path / "store")


async def opened(folder):
    return await open_vector_store(folder, model="tiny", dimension=SIZE)


async def test_random_filters_find_what_a_comparison_with_everything_finds(filled):
    some = random.Random(8)
    store = await opened(filled)
    searches = choose_size(300, 60)
    assert [await differing(store, *drawn(some), seed) for seed in range(searches)] == [None] * searches
    await store.close()


# Rows of a sketch by itself


def payload(chat, message, date=1, lang="ru"):
    text_hash = f"{chat} {message}"
    return {
        "chat": chat, "message": message, "part": 0, "start": 0, "end": 9, "date": date, "lang": lang,
        "hash": hash_to_number(text_hash), "text_hash": text_hash,
    }  # fmt: skip


def ids_of(payloads):
    return [make_point_id(PassageRef(PostKey(row["chat"], row["message"]), row["part"], 0, 9)) for row in payloads]


def put(sketch, payloads, vectors):
    """Write rows as the worker does; the ids as the sketch spells them."""
    ids = decode_point_ids(ids_of(payloads))
    for at in range(0, len(ids), 256):
        sketch.write(sketch.make_rows(ids[at : at + 256], payloads[at : at + 256], vectors[at : at + 256]))
    return encode_point_ids(ids)


def any_of(*channels, **bounds):
    return {"channels": [*channels], "posts": None, "since": None, "until": None, "lang": None} | bounds


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_the_fifty_nearest_are_among_the_candidates_of_one_block_and_of_two():
    """Two blocks as in the offline models: English texts have zeros in the one, Russian ones in the other."""
    rng, count = np.random.default_rng(1), choose_size(30_000, 10_000)
    topics = rng.standard_normal((40, 684)).astype(np.float32)
    rows = topics[rng.integers(40, size=count)] + 1.2 * rng.standard_normal((count, 684), dtype=np.float32)
    english = np.arange(len(rows)) % 10 == 0
    rows[english, 384:], rows[~english, :384] = 0, 0
    asked = topics + rng.standard_normal(topics.shape, dtype=np.float32)
    asked[::2, 384:], asked[1::2, :384] = 0, 0
    sketch = VectorSketch(684)
    rows, asked = unit(rows), unit(asked)
    names = np.array(put(sketch, [payload(-1, n) for n in range(len(rows))], rows))
    found = []
    for vector in asked:
        candidates = sketch.find_candidates(vector, any_of(-1), 50)
        best = np.argsort(-(rows @ vector))[:50]
        found.append(len(candidates & set(names[best].tolist())) / 50)
        assert 768 <= len(candidates) <= 983
        assert not candidates & set(names[rows @ vector == 0].tolist())  # rows of the other block come last
    assert float(np.mean(found)) >= 0.995


def test_what_an_outsider_finds_does_not_depend_on_hidden_rows(monkeypatch):
    """Also among rows that are equal for the sketch, of which not all are candidates, whatever their order."""
    for name, rows_of_64 in (("_CANDIDATES", 64), ("_POOL_ROWS", 256), ("_COMPONENTS", 64)):
        monkeypatch.setattr(vector_sketch, name, rows_of_64)
    for name in ("_CANDIDATES_PER_HIT", "_POOL_ROWS_PER_HIT"):
        monkeypatch.setattr(vector_sketch, name, 1)
    rng = np.random.default_rng(2)
    rows = unit(rng.standard_normal((3_000, 64), dtype=np.float32))
    rows[1_000:2_000] = rows[0]  # reposts
    public = [payload(-1, n, date=n) for n in range(len(rows))]
    order = rng.permutation(len(rows))
    plain, other = VectorSketch(64), VectorSketch(64)
    put(plain, public, rows)
    hidden = [payload(-2, n, date=n) for n in range(4_000)]
    near = unit(rows[rng.integers(3_000, size=4_000)] + 0.1 * rng.standard_normal((4_000, 64), dtype=np.float32))
    put(other, hidden[:2_000], near[:2_000])
    other.remove(decode_point_ids(ids_of(hidden[:1_500])))  # their rows are used again
    put(other, [public[n] for n in order[:1_500]], rows[order[:1_500]])
    put(other, hidden[2_000:], near[2_000:])
    put(other, [public[n] for n in order[1_500:]], rows[order[1_500:]])
    affected = 0
    for n in range(60):
        asked, only = rows[n * 40], any_of(-1, since=n * 10)
        expected = plain.find_candidates(asked, only, 10)
        assert other.find_candidates(asked, only, 10) == expected
        assert len(expected) == 64
        affected += other.find_candidates(asked, any_of(-1, -2, since=n * 10), 10) != expected
    assert affected > 30  # else this could not fail


def test_rows_of_edited_and_removed_points_leave_and_the_table_does_not_grow():
    rng = np.random.default_rng(3)
    sketch = VectorSketch(64)
    first = unit(rng.standard_normal((1_500, 64), dtype=np.float32))
    names = put(sketch, [payload(-1, n, date=1) for n in range(1_500)], first)
    size = sketch._table.nbytes
    for turn in range(2, 6):
        rows = unit(rng.standard_normal((1_500, 64), dtype=np.float32))
        put(sketch, [payload(-1, n, date=turn, lang="en") for n in range(1_500)], rows)
        assert len(sketch) == 1_500
        assert sketch.find_candidates(first[0], any_of(-1, until=turn), 5) == set()
        assert sketch.find_candidates(first[0], any_of(-1, lang="ru"), 5) == set()
        assert len(sketch.find_candidates(first[0], any_of(-1, since=turn, lang="en"), 5)) == 1_500
        gone = decode_point_ids(names[: turn * 100])
        sketch.remove(gone)
        assert len(sketch) == 1_500 - turn * 100
        assert len(sketch.find_posts([(-1, range(1_500)), (-9, [1])])) == 1_500 - turn * 100
        assert not sketch.find_candidates(first[0], any_of(-1), 5) & set(names[: turn * 100])
    put(sketch, [payload(-1, n) for n in range(1_500)], first)
    assert sketch._table.nbytes == size


# The saved sketch, and changes that are refused


def differ_from_engine(shard):
    """In what the sketch differs from the engine, or None."""
    sketch, page = shard._sketch, edge.ScrollRequest(limit=10_000, with_payload=True, with_vector=True)
    records = shard._shard.scroll(page)[0]
    if len(records) != len(sketch):
        return f"{len(sketch)} rows for {len(records)} points"
    for record in records[::20]:
        row, vector = record.payload or {}, np.array(record.vector["dense"], np.float32)
        only = any_of(-1, posts=[(-1, [row["message"]])], since=row["date"], until=row["date"] + 1, lang=row["lang"])
        if sketch.find_candidates(vector, only, 1) != {str(record.id).replace("-", "")}:
            return f"{row} is not found by its own values"
    return None


@pytest.fixture
def shard(tmp_path):
    shard = VectorShard(str(tmp_path / "shard"), 64, make=True)
    shard.upsert(*ask_for(700, 4))
    return shard


def ask_for(count, seed):
    rows = unit(np.random.default_rng(seed).standard_normal((count, 64), dtype=np.float32))
    payloads = [payload(-1, n, date=seed) for n in range(count)]
    return {"ids": ids_of(payloads), "payloads": payloads}, rows.tobytes()


def test_a_change_that_the_engine_refuses_is_no_change(shard):
    ask, raw = ask_for(150, 5)
    with pytest.raises(OverflowError):
        shard.upsert({**ask, "payloads": [{**row, "date": 2**70} for row in ask["payloads"]]}, raw)
    assert differ_from_engine(shard) is None
    engine = shard._shard

    def refuse(operation):
        raise ValueError("refused")

    shard._shard = SimpleNamespace(update=refuse)
    with pytest.raises(ValueError, match="refused"):
        shard.upsert(ask, raw)
    shard._shard = engine
    assert differ_from_engine(shard) is None
    shard.remove({"posts": [[-1, [0]]], "but": []}, b"")
    assert differ_from_engine(shard) is None
    shard.close()


def write_noise(file):
    with file.open("r+b") as data:
        data.seek(4_800)
        data.write(b"\xa7" * 800)


HARM = {
    "nothing": lambda file: None,
    "gone": Path.unlink,
    "cut": lambda file: os.truncate(file, 4_800),
    "empty": lambda file: os.truncate(file, 0),
    "noise": write_noise,
    "a link": lambda file: file.rename(file.parent / "elsewhere") and file.symlink_to(file.parent / "elsewhere"),
    "of fewer points": lambda file: VectorSketch(64).save(file),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_sketch_is_made_anew_and_a_whole_one_is_not(shard, tmp_path, harm, capfd):
    shard.remove({"posts": [[-1, range(100, 140)]], "but": []}, b"")
    shard.close()
    HARM[harm](tmp_path / "shard" / "sketch.bin")
    again = VectorShard(str(tmp_path / "shard"), 64, make=False)
    assert again.count({}, b"")[0]["points"] == 660
    assert differ_from_engine(again) is None
    assert ("made anew" in capfd.readouterr().err) == (harm != "nothing")
    again.upsert(*ask_for(200, 6))
    again._shard.flush()
    shutil.copytree(tmp_path / "shard", tmp_path / "killed")
    again.close()
    killed = VectorShard(str(tmp_path / "killed"), 64, make=False)
    assert differ_from_engine(killed) is None
    killed.close()


# The log of changes


def resident_kb(folder):
    """Resident kB of the mapped files in a folder."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines():
        if mapping := MAPPING.match(line):
            inside = (mapping[1] or "").startswith(f"{folder}/")
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="madvise is called through glibc")
def test_what_was_written_to_the_log_leaves_memory_and_is_read_again_after_a_kill(tmp_path):
    size, changes = 3072, 200
    shard = VectorShard(str(tmp_path / "shard"), size, make=True)
    for number, row in enumerate(np.random.default_rng(1).normal(size=(changes, size)).astype(np.float32)):
        payloads = [payload(-1, number)]
        shard.upsert({"ids": ids_of(payloads), "payloads": payloads}, row.tobytes())
    written = changes * size * 4 // 1024  # kB of vectors alone
    assert resident_kb(tmp_path / "shard" / "wal") < written / 2
    shutil.copytree(tmp_path / "shard", tmp_path / "killed")  # nothing was flushed
    shard.close()
    again = VectorShard(str(tmp_path / "killed"), size, make=False)
    assert again.count({}, b"")[0]["points"] == changes
    again.close()
