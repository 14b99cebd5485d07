"""What the embedded store has to bear: damage, which is seen, said and mended; kills, panics, a second process."""

import asyncio
import errno
import logging
import os
import random
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from vector_store_helpers import SIZE, copy_store, get_engine, open_store, points

from rag_core.errors import VectorsUnavailable
from rag_core.index import vectors_edge
from rag_core.index.vectors_edge import open_vector_store
from rag_core.types import PassageRef, PostKey, SearchFilter

pytestmark = pytest.mark.slow


@pytest.fixture
async def store(tmp_path):
    vectors = await open_store(tmp_path / "vectors")
    yield vectors
    await vectors.close()


def cut(share, name):
    def harm(folder):
        (file,) = folder.glob(f"shard-*/**/{name}")
        os.truncate(file, int(file.stat().st_size * share))

    return harm


def noise(name):
    def harm(folder):
        (file,) = folder.glob(name)
        with file.open("r+b") as data:
            data.write(b"\xa7" * min(3_000, file.stat().st_size))

    return harm


def gone(name):
    def harm(folder):
        (path,) = folder.glob(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def written(name, text):
    return lambda folder: (folder / name).write_text(text) and None


LOST = {
    "the ids are cut": cut(0.5, "mutable_id_tracker.mappings"),
    "the vectors are cut": cut(0.01, "chunk_0.mmap"),
    "a segment's state is cut": cut(0.5, "segment.json"),
    "a segment's mark is gone": gone("shard-*/segments/*/version.info"),
    "the segments are gone": gone("shard-*/segments"),
}
HARM = {
    **LOST,
    "the shard is gone": gone("shard-*"),
    "the description is cut": written("store.json", '{"format": 1, "identity": "5'),
    "the description is gone": gone("store.json"),
    "another version wrote it": written("store.json", '{"format": 99}'),
    "the list says nothing": written(
        "store.json", '{"format": 4, "identity": "5", "model": "tiny", "dimension": 32, "closed": true, "files": [1]}'
    ),
    "noise in the payloads": noise("shard-*/segments/*/payload_storage/page_0.dat"),
    "noise in the vectors": noise("shard-*/segments/*/vector_storage-dense/vectors/chunk_0.mmap"),
    "noise in the log": noise("shard-*/wal/first-index"),
}
# After a kill files may differ from what was noted last: only what got lost can be seen.
CASES = [("closed", name) for name in HARM] + [("killed", name) for name in LOST]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Two stores with 500 points, to be copied: one was closed properly, one killed after a flush."""

    async def make(folder, end):
        vectors = await open_store(folder)
        await vectors.upsert(points(500))
        await vectors.flush()
        if end == "killed":
            os.kill(get_engine(vectors)._engine.pid, signal.SIGKILL)
        await vectors.close()
        return folder

    return {end: asyncio.run(make(tmp_path_factory.mktemp(end) / "vectors", end)) for end in ("closed", "killed")}


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_a_folder_that_was_moved_is_still_whole(stores, tmp_path, end):
    whole = stores[end]
    vectors = await open_store(copy_store(whole, tmp_path / "vectors"))
    assert (await vectors.count(), f"shard-{vectors.about.identity}") == (500, next(whole.glob("shard-*")).name)
    await vectors.close()


async def test_a_store_that_was_killed_between_its_first_flush_and_the_seal_of_it_is_whole(tmp_path):
    vectors, seal = await open_store(tmp_path / "vectors"), tmp_path / "vectors" / "store.json"
    identity, sealed_empty = vectors.about.identity, seal.read_bytes()
    await vectors.upsert(points(500))
    await vectors.flush()
    os.kill(get_engine(vectors)._engine.pid, signal.SIGKILL)
    await vectors.close()
    seal.write_bytes(sealed_empty)
    again = await open_store(tmp_path / "vectors")
    assert (again.about.identity, await again.count()) == (identity, 500)
    await again.close()


async def test_a_killed_store_that_cannot_be_read_now_is_kept(stores, tmp_path, monkeypatch):
    folder, real = copy_store(stores["killed"], tmp_path / "vectors"), vectors_edge.read_regular_file

    def read(file):
        if file.name == "segment.json":
            raise OSError(errno.EMFILE, "Too many open files")
        return real(file)

    with monkeypatch.context() as patch, pytest.raises(VectorsUnavailable):
        patch.setattr(vectors_edge, "read_regular_file", read)
        await open_store(folder)
    vectors = await open_store(folder)
    assert await vectors.count() == 500
    await vectors.close()


@pytest.mark.parametrize(("end", "harm"), CASES)
async def test_a_damaged_folder_is_built_anew_with_a_new_identity(stores, tmp_path, end, harm, caplog):
    folder = copy_store(stores[end], tmp_path / "vectors")
    HARM[harm](folder)
    vectors = await open_store(folder)
    assert f"shard-{vectors.about.identity}" != next(stores[end].glob("shard-*")).name
    assert await vectors.count() == 0
    await vectors.upsert(points(10))
    assert await vectors.count() == 10
    await vectors.close()
    assert [path.name for path in folder.glob("shard-*")] == [f"shard-{vectors.about.identity}"]
    (line,) = [r for r in caplog.records if r.name.startswith("rag_core") and r.levelno == logging.WARNING]
    assert "is damaged" in line.getMessage()


async def test_damage_in_use_is_a_sentence_and_mended_by_the_next_start(store, tmp_path):
    await store.upsert(points(500))
    await store.flush()
    os.kill(get_engine(store)._engine.pid, signal.SIGKILL)
    cut(0, "segment.json")(tmp_path / "vectors")
    with pytest.raises(VectorsUnavailable, match=r"was damaged while it was in use .*Restart Citegram"):
        await store.count()
    await store.close()
    again = await open_store(tmp_path / "vectors")
    assert again.about.identity != store.about.identity
    await again.close()


async def test_an_engine_that_cannot_start_says_why_and_harms_nothing(stores, tmp_path, monkeypatch):
    folder = copy_store(stores["closed"], tmp_path / "vectors")
    broken = tmp_path / "engine.py"
    broken.write_text("import no_such_engine")
    with monkeypatch.context() as patched:
        patched.setattr("rag_core.index.vectors_edge._WORKER_ARGUMENTS", (str(broken),))
        with pytest.raises(VectorsUnavailable, match=r"does not run .*No module named 'no_such_engine'"):
            await open_store(folder)
    vectors = await open_store(folder)
    assert await vectors.count() == 500
    await vectors.close()


@pytest.fixture
def writer(tmp_path):
    """A process of its own that writes points from a number on, and prints what is done."""
    begun = []

    def begin(first=0):
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "vector_store_programs", str(tmp_path / "vectors"), str(first)],
            stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        begun.append(child)
        assert child.stdout.readline().startswith("open ")
        return child

    yield begin
    for child in begun:
        child.kill()
        child.wait()
        child.stdout.close()


async def test_kill_9_during_upserts_loses_nothing_acknowledged_and_doubles_nothing(tmp_path, writer):
    done, identities = 0, set()
    for turn in range(4):
        child = writer(done)
        # on a slow machine 0.15 s are over before anything is acknowledged: the last turn waits for it
        first = await asyncio.to_thread(child.stdout.readline) if turn == 3 and child.stdout else ""
        await asyncio.sleep(random.uniform(0, 0.15))
        if turn % 2:
            os.killpg(child.pid, signal.SIGKILL)  # the engine with it
        else:
            child.kill()  # the engine notices by itself
        said = [*first.split(), *(child.stdout.read().split() if child.stdout else [])]
        done = int(said[-1]) if said else done
        vectors = await open_store(tmp_path / "vectors")
        places = [PassageRef(PostKey(-1, n), 0, 0, 9) for n in range(done)]
        assert len(await vectors.vectors_of(places)) == done
        there = await vectors.search(np.ones(SIZE, np.float32), SearchFilter(frozenset({-1})), 1_000_000)
        found = [place.key.message_id for place, _ in there]
        assert len(found) == len(set(found)) == await vectors.count()
        assert done <= len(found) <= done + 40
        identities.add(vectors.about.identity)
        await vectors.close()
    assert done > 0
    assert len(identities) == 1


async def test_an_engine_that_is_killed_is_started_again_and_nobody_notices(store):
    identity, all_points, engines = store.about.identity, points(2_000), set()
    for at in range(0, 2_000, 500):
        writing = asyncio.create_task(store.upsert(all_points[at : at + 500]))
        await asyncio.sleep(random.uniform(0, 0.02))
        engines.add(get_engine(store)._engine.pid)
        os.kill(get_engine(store)._engine.pid, signal.SIGKILL)
        await writing
        assert await store.count() == at + 500
    assert len(engines) == 4
    assert store.about.identity == identity


async def test_an_engine_that_hangs_is_ended_and_started_again(store, monkeypatch):
    await store.upsert(points(10))
    monkeypatch.setattr("rag_core.index.vectors_edge.EDGE_CALL_TIMEOUT_S", 0.3)
    os.kill(get_engine(store)._engine.pid, signal.SIGSTOP)
    assert await store.count() == 10


PANICKING = """
from pathlib import Path
from rag_core.index import edge_shard_process as edge_worker
from rag_core.processes import open_parent_pipes

class Panic(BaseException):
    pass

def panic(self, ask, raw):
    if not Path({flag!r}).exists():
        Path({flag!r}).touch()
        raise Panic("assertion failed")
    return counted(self, ask, raw)

counted, edge_worker.VectorShard.count = edge_worker.VectorShard.count, panic
edge_worker.main(*open_parent_pipes())
"""


async def test_an_engine_that_panics_is_replaced(tmp_path, monkeypatch):
    program = tmp_path / "engine.py"
    program.write_text(PANICKING.format(flag=str(tmp_path / "flag")))
    monkeypatch.setattr(vectors_edge, "_WORKER_ARGUMENTS", (str(program),))
    vectors = await open_store(tmp_path / "vectors")
    await vectors.upsert(points(10))
    assert await vectors.count() == 10
    assert (tmp_path / "flag").exists()
    await vectors.close()


async def test_a_second_opening_of_the_folder_is_refused_here_and_in_another_process(tmp_path, writer):
    child = writer()
    with pytest.raises(
        VectorsUnavailable,
        match=rf"Another Citegram \(process {child.pid}\) uses the vector index in .*: stop it first",
    ):
        await open_store(tmp_path / "vectors")
    child.kill()
    child.wait()
    vectors = await open_store(tmp_path / "vectors")
    with pytest.raises(VectorsUnavailable, match="Another Citegram"):
        await open_store(tmp_path / "vectors")
    assert await vectors.count() >= 0
    await vectors.close()


async def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(VectorsUnavailable, match=r"cannot use the folder .*check its permissions"):
        await open_store(tmp_path / "file" / "vectors")


async def test_an_opening_that_is_cancelled_lets_go_of_the_folder(tmp_path):
    opening = asyncio.create_task(open_store(tmp_path / "vectors"))
    await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    async with asyncio.timeout(30):
        while True:
            try:
                vectors = await open_store(tmp_path / "vectors")
                break
            except VectorsUnavailable:
                await asyncio.sleep(0.05)
    await vectors.close()


# A process that does nothing, and says how long it was kept waiting: the lag of the machine.
IDLE = """
import signal, time
longest, on = 0.0, True
def stop(*_):
    global on
    on = False
signal.signal(signal.SIGTERM, stop)
print(flush=True)
while on:
    before = time.perf_counter()
    time.sleep(0.005)
    longest = max(longest, time.perf_counter() - before - 0.005)
print(longest)
"""


@pytest.mark.alone
async def test_the_event_loop_is_free_while_points_are_written_and_searched(tmp_path, loop_lag):
    """50 ms at most, beside what a process that does nothing is kept waiting; tried five times."""
    written, late = points(5_000, size=384), []
    vectors = await open_vector_store(tmp_path / "vectors", model="tiny", dimension=384)
    while len(late) < 5 and min(late, default=1.0) > 0.05:
        with subprocess.Popen([sys.executable, "-c", IDLE], stdout=subprocess.PIPE, text=True) as idle:  # noqa: ASYNC220
            idle.stdout.readline()
            async with loop_lag() as lags:
                writing = asyncio.create_task(vectors.upsert(written))
                while not writing.done():
                    await vectors.search(written[0].vector, SearchFilter(frozenset({-1})))
                    await vectors.by_hash([f"-1 {n}" for n in range(50)])
                await vectors.flush()
                await vectors.remove(p.place.key for p in written[:2_500])
            idle.terminate()
            late.append(max(lags) - float(idle.stdout.read()))
        assert await vectors.count() == 2_500
    await vectors.close()
    assert min(late) <= 0.05, late
