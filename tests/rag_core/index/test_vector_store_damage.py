"""A damaged folder is derived data: it is seen, said, and built anew."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from vector_store_helpers import SIZE, get_engine, open_store, points

from rag_core.errors import VectorsUnavailable
from rag_core.index.vector_store import VectorStore
from rag_core.index.vectors_edge import StoreFolder

pytestmark = pytest.mark.slow


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[VectorStore]:
    vectors = await open_store(tmp_path / "vectors")
    yield vectors
    await vectors.close()


def cut(share: float, name: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (file,) = folder.glob(f"shard-*/**/{name}")
        os.truncate(file, int(file.stat().st_size * share))

    return harm


def noise(name: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (file,) = folder.glob(name)
        with file.open("r+b") as data:
            data.write(b"\xa7" * min(3_000, file.stat().st_size))

    return harm


def gone(name: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (path,) = folder.glob(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def written(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None  # type: ignore[return-value]


LOST = {
    "the ids are cut": cut(0.5, "mutable_id_tracker.mappings"),
    "the vectors are cut": cut(0.01, "chunk_0.mmap"),
    "a segment's mark is gone": gone("shard-*/segments/*/version.info"),
    "the segments are gone": gone("shard-*/segments"),
}
HARM = {
    **LOST,
    "the shard is gone": gone("shard-*"),
    "about.json is cut": written("about.json", '{"format": 1, "identity": "5'),
    "about.json is gone": gone("about.json"),
    "another version wrote it": written("about.json", '{"format": 99}'),
    "the seal is gone": gone("seal.json"),
    "the seal says nothing": written("seal.json", '{"closed": true, "files": [1]}'),
    "noise in the payloads": noise("shard-*/segments/*/payload_storage/page_0.dat"),
    "noise in the vectors": noise("shard-*/segments/*/vector_storage-dense/vectors/chunk_0.mmap"),
    "noise in the log": noise("shard-*/wal/first-index"),
}
# After a kill files may differ from what was noted last: only what got lost can be seen.
CASES = [("closed", name) for name in HARM] + [("killed", name) for name in LOST]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two stores with 500 points, to be copied: one was closed properly, one killed after a flush."""

    async def make(folder: Path, end: str) -> Path:
        vectors = await open_store(folder)
        await vectors.upsert(points(500))
        await vectors.flush()
        if end == "killed":
            os.kill(get_engine(vectors)._engine.pid, signal.SIGKILL)
        await vectors.close()
        return folder

    return {end: asyncio.run(make(tmp_path_factory.mktemp(end) / "vectors", end)) for end in ("closed", "killed")}


AIR = bytes(1 << 18)


def copied(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "vectors", copy_function=without_air))


def without_air(source: str, target: str) -> None:
    """Copy a file that is mostly room for later: 170 MB in a store of 500 points."""
    with Path(source).open("rb") as old, Path(target).open("wb") as new:
        while data := old.read(len(AIR)):
            if data == AIR:
                new.seek(len(AIR), os.SEEK_CUR)
            else:
                new.write(data)
        new.truncate(old.tell())


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_a_folder_that_was_moved_is_still_whole(stores: dict[str, Path], tmp_path: Path, end: str) -> None:
    whole = stores[end]
    vectors = await open_store(copied(whole, tmp_path))
    assert (await vectors.count(), f"shard-{vectors.identity}") == (500, next(whole.glob("shard-*")).name)
    await vectors.close()


@pytest.mark.parametrize(("end", "harm"), CASES)
async def test_a_damaged_folder_is_built_anew_with_a_new_identity(
    stores: dict[str, Path], tmp_path: Path, end: str, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = copied(stores[end], tmp_path)
    HARM[harm](folder)
    vectors = await open_store(folder)
    assert f"shard-{vectors.identity}" != next(stores[end].glob("shard-*")).name
    assert await vectors.count() == 0
    await vectors.upsert(points(10))
    assert await vectors.count() == 10
    await vectors.close()
    assert [path.name for path in folder.glob("shard-*")] == [f"shard-{vectors.identity}"]
    (line,) = [r for r in caplog.records if r.name.startswith("rag_core") and r.levelno == logging.WARNING]
    assert "is damaged" in line.getMessage()


async def test_a_making_that_was_interrupted_is_begun_anew(tmp_path: Path) -> None:
    home = StoreFolder(tmp_path / "vectors")
    home.reset("tiny", SIZE)
    home.release()
    vectors = await open_store(tmp_path / "vectors")
    assert await vectors.count() == 0
    await vectors.close()


async def test_damage_in_use_is_a_sentence_and_mended_by_the_next_start(store: VectorStore, tmp_path: Path) -> None:
    await store.upsert(points(500))
    await store.flush()
    os.kill(get_engine(store)._engine.pid, signal.SIGKILL)
    cut(0, "segment.json")(tmp_path / "vectors")
    with pytest.raises(VectorsUnavailable, match=r"was damaged while it was in use .*Restart Citegram"):
        await store.count()
    await store.close()
    again = await open_store(tmp_path / "vectors")
    assert again.identity != store.identity
    await again.close()


async def test_an_engine_that_cannot_start_says_why_and_harms_nothing(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(stores["closed"], tmp_path)
    broken = tmp_path / "engine.py"
    broken.write_text("import no_such_engine")
    with monkeypatch.context() as patched:
        patched.setattr("rag_core.index.vectors_edge._WORKER_ARGUMENTS", (str(broken),))
        with pytest.raises(VectorsUnavailable, match=r"does not run .*No module named 'no_such_engine'"):
            await open_store(folder)
    vectors = await open_store(folder)
    assert await vectors.count() == 500
    await vectors.close()
