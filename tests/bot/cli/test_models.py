from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aiohttp import web
from local_server import LocalServer

from bot.cli import doctor, model_commands
from bot.settings import Settings
from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import MODELS, HubSource, ModelRole, find_models

Live = Callable[..., AbstractAsyncContextManager[None]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"data": {"dir": tmp_path / "data"}})


async def run_models(settings: Settings, *words: str) -> int:
    """`citegram models` with these words; its exit code."""
    parser = argparse.ArgumentParser()
    model_commands.declare(parser)
    args = parser.parse_args(words)
    return int(await args.run(args, settings))


@pytest.fixture
def stick(tmp_path: Path) -> Path:
    """A folder with the files of the default embedder."""
    (row,) = find_models("multilingual-e5-small")
    assert isinstance(row.source, HubSource)
    for file in row.source.files:
        place = tmp_path / "stick" / row.source.repo / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"{}")
    return tmp_path / "stick"


async def test_the_list_names_every_model_with_its_licence_and_what_is_here(
    settings: Settings, stick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_models(settings, "pull", "multilingual-e5-small", "--from", str(stick)) == 0
    assert "multilingual-e5-small: " in capsys.readouterr().out
    assert await run_models(settings, "list", "--all") == 0
    _, *lines = capsys.readouterr().out.splitlines()
    for row, line in zip(MODELS, lines, strict=False):
        assert row.name in line
        assert row.licence in line
        assert line.startswith(row.tier)
        assert (" MB, in use" in line) == (row.name == "multilingual-e5-small")
        assert ("~" in line) == (not row.checked)


async def test_the_list_fits_into_100_columns_with_everything_in_use(settings: Settings) -> None:
    used = {"writer": MODELS[-1].name, "planner": MODELS[-1].name, "embedder": MODELS[0].name}
    lines = model_commands.format_model_list(Path("data/models"), used)
    assert max(map(len, lines)) <= 100
    assert lines[len(MODELS)].endswith(", in use as writer and planner")


async def test_a_damaged_model_is_not_here(settings: Settings, stick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await run_models(settings, "pull", "multilingual-e5-small", "--from", str(stick))
    (settings.data.dir / "models" / "multilingual-e5-small" / "model.onnx").write_bytes(b"")
    assert not [
        line
        for line in model_commands.format_model_list(settings.data.dir / "models", {})
        if "multilingual-e5-small" in line and "  no" not in line
    ]


async def test_the_first_model_that_cannot_be_pulled_ends_the_pull_of_a_tier(settings: Settings, stick: Path) -> None:
    with pytest.raises(ModelUnavailable, match="of the model mmarco-minilm"):
        await run_models(settings, "pull", "default", "--from", str(stick))
    (row,) = find_models("multilingual-e5-small")
    assert (settings.data.dir / "models" / row.name / "files.json").exists()


async def test_the_lowest_tier_needs_nothing(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_models(settings, "pull", "none") == 0
    assert "needs no model" in capsys.readouterr().out


async def test_an_unknown_name_is_wrong_use_and_the_known_ones_are_named(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        await run_models(settings, "pull", "gpt")
    assert ended.value.code == 2
    assert "minilm-navec" in capsys.readouterr().err


async def test_the_list_shows_memory_and_what_is_in_use(
    settings: Settings, tiny_gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = next(row for row in find_models("small") if row.role is ModelRole.WRITER)
    folder = settings.data.dir / "models" / row.name
    folder.mkdir(parents=True)
    shutil.copy(tiny_gguf, folder / row.file)
    await run_models(settings, "list", "--all")
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if row.name in line]
    assert "~491 MB" in line
    assert "~0.8 GB" in line
    assert ", in use as writer and planner" in line
    assert "~ as published" in out
    assert not (settings.data.dir / "citegram.db").exists()  # looking makes no archive


async def test_a_model_is_chosen_for_the_next_start_where_no_bot_runs(
    settings: Settings, tiny_gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run_models(settings, "use", str(tiny_gguf)) == 0
    assert capsys.readouterr().out == f"{tiny_gguf} is the writer from the next start on.\n"
    await run_models(settings, "list")
    assert f"The writer is {tiny_gguf}." in capsys.readouterr().out
    for words in (("use", "bge-m3"), ("use", "nowhere.gguf"), ("use", "none"), ("use", "gpt-9")):
        with pytest.raises(ModelUnavailable):
            await run_models(settings, *words)


async def test_a_bot_that_runs_changes_over_at_once(
    live: Live, home: Path, tiny_gguf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.model_validate({"data": {"dir": home}})
    async with live():
        await run_models(settings, "use", str(tiny_gguf))
        assert capsys.readouterr().out == f"The bot uses {tiny_gguf} as writer now.\n"
        await doctor.run(argparse.Namespace(), settings)
        out = capsys.readouterr().out
        assert re.search(
            r"ok   writer: tiny-random \(.*\) reads [\d,]+ and writes [\d,.]+ tokens/s .*; this llama.cpp can", out
        )
        await run_models(settings, "use", "none", "--for", "writer")
        await doctor.run(argparse.Namespace(), settings)
        assert "no writer, answers are word for word from the posts" in capsys.readouterr().out


async def test_the_doctor_says_why_a_model_is_off(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = {"model": str(tmp_path / "gone.gguf")}
    for llm, said in (
        (gone, "BAD  no writer, answers are word for word from the posts: There is no"),
        ({"url": "http://127.0.0.1:9"}, "BAD  writer: The language model's server 127.0.0.1:9 cannot be reached"),
    ):
        await doctor.run(argparse.Namespace(), Settings.model_validate({"data": {"dir": home}, "llm": llm}))
        assert said in capsys.readouterr().out


async def test_another_embedder_is_for_the_next_start(
    settings: Settings, stick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("pull", "multilingual-e5-small", "--from", str(stick)), ("use", "multilingual-e5-small")):
        await run_models(settings, *words)
    said = capsys.readouterr().out.splitlines()[-1]
    assert "from the next start on" in said
    assert "citegram reindex" in said


async def test_a_hub_without_checksums_is_used_where_that_is_said(settings: Settings) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"{}")

    async with LocalServer(web.get("/{path:.+}", answer)) as hub:
        words = ("pull", "multilingual-e5-small", "--from", hub.url)
        with pytest.raises(ModelUnavailable, match=r"names no checksum of onnx/.*, or add --unverified"):
            await run_models(settings, *words)
        assert await run_models(settings, *words, "--unverified") == 0
