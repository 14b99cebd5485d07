from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bot.commands import models
from bot.settings import Settings
from rag_core.errors import ModelUnavailable
from rag_core.models import MODELS, HubSource, rows_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"data": {"dir": tmp_path / "data"}})


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    models.declare(parser.add_subparsers(required=True))
    return parser.parse_args(["models", *words])


@pytest.fixture
def stick(tmp_path: Path) -> Path:
    """A folder with the files of the default embedder."""
    (row,) = rows_of("multilingual-e5-small")
    assert isinstance(row.source, HubSource)
    for file in row.source.files:
        place = tmp_path / "stick" / row.source.repo / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"{}")
    return tmp_path / "stick"


async def test_the_list_names_every_model_with_its_licence_and_what_is_here(
    settings: Settings, stick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = parsed("pull", "multilingual-e5-small", "--from", str(stick))
    assert await args.run(args, settings) == 0
    assert "multilingual-e5-small: " in capsys.readouterr().out
    args = parsed("list")
    assert await args.run(args, settings) == 0
    lines = capsys.readouterr().out.splitlines()
    for row, line in zip(MODELS, lines, strict=False):
        assert row.name in line
        assert row.licence in line
        assert line.startswith(row.tier)
        assert ("here (" in line) == (row.name == "multilingual-e5-small")
        assert ("~" in line) == (not row.checked)


async def test_a_damaged_model_is_not_here(settings: Settings, stick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = parsed("pull", "multilingual-e5-small", "--from", str(stick))
    await args.run(args, settings)
    (settings.data.dir / "models" / "multilingual-e5-small" / "model.onnx").write_bytes(b"")
    assert not [line for line in models.listed(settings.data.dir / "models") if "here (" in line]


async def test_the_first_model_that_cannot_be_pulled_ends_the_pull_of_a_tier(settings: Settings, stick: Path) -> None:
    args = parsed("pull", "default", "--from", str(stick))
    with pytest.raises(ModelUnavailable, match="of the model mmarco-minilm"):
        await args.run(args, settings)
    (row,) = rows_of("multilingual-e5-small")
    assert (settings.data.dir / "models" / row.name / "files.json").exists()


async def test_the_lowest_tier_needs_nothing(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    args = parsed("pull", "none")
    assert await args.run(args, settings) == 0
    assert "needs no model" in capsys.readouterr().out


def test_an_unknown_name_is_wrong_use_and_the_known_ones_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed("pull", "gpt")
    assert ended.value.code == 2
    assert "minilm-navec" in capsys.readouterr().err
