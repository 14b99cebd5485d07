import argparse
import json
import re
import shutil

import pytest

from bot.cli import doctor
from bot.cli import models as models_command
from bot.settings import Settings
from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import MODELS, find_models


@pytest.fixture
def settings(tmp_path):
    return Settings.model_validate({"data": {"dir": tmp_path / "data"}})


async def run_models(settings, *words):
    parser = argparse.ArgumentParser()
    models_command.declare(parser, "models")
    args = parser.parse_args(words)
    return int(await args.run(args, settings))


@pytest.fixture
def stick(tmp_path):
    """A folder with the files of the default embedder."""
    (row,) = find_models("multilingual-e5-small")
    for file in row.source.files:
        place = tmp_path / "stick" / row.source.repo / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"{}")
    return tmp_path / "stick"


async def test_the_list_names_every_model_with_its_licence_and_what_is_here(settings, stick, capsys):
    assert await run_models(settings, "pull", "multilingual-e5-small", "--from", str(stick)) == 0
    assert "multilingual-e5-small: " in capsys.readouterr().out
    assert await run_models(settings, "list", "--all") == 0
    _, *lines = capsys.readouterr().out.splitlines()
    for row, line in zip(MODELS, lines, strict=False):
        assert row.name in line
        assert row.licence in line
        assert row.published in line
        assert line[1:].split()[0] == row.tier
        assert line.startswith("*") == (row.name == "multilingual-e5-small")
        assert ("~" in line) == (not row.checked)
        assert ("  yes" in line) == row.checked


def measured(prefill, decode):
    speed = {"gpu": False, "threads": 1, "parameters": 4_000_000_000, "bytes": 2_500_000_000, "made_by": {}}
    return json.dumps({"prefill": prefill, "decode": decode, **speed})


@pytest.mark.parametrize("rates", [None, (29.4, 7.4)])
async def test_the_list_fits_into_80_columns_with_everything_in_use(settings, rates):
    widest = max(MODELS, key=lambda row: len(row.name)).name
    if rates:
        (settings.data.dir / "models" / widest).mkdir(parents=True)
        (settings.data.dir / "models" / widest / "rates.json").write_text(measured(*rates))
    used = {"writer": widest, "embedder": MODELS[0].name, "reranker": MODELS[0].name}
    folder = settings.data.dir / "models"
    lines = [line for line in models_command.format_model_list(folder, used, settings.rag()) if str(folder) not in line]
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("*") for line in lines) == 2
    assert f"The writer is {widest}." in lines


async def test_the_list_says_what_the_writer_does_in_time_here_and_why_not_more(settings):
    models = settings.data.dir / "models"
    place = models / "qwen3-4b-instruct"
    place.mkdir(parents=True)
    used = {"embedder": "minilm-navec", "writer": "qwen3-4b-instruct"}

    def listed():
        return "\n".join(models_command.format_model_list(models, used, settings.rag()))

    for unmeasured in (None, "", "[]", '{"prefill": 0, "decode": 7}', '{"prefill": "x", "decode": 1}'):
        if unmeasured is not None:
            (place / "rates.json").write_text(unmeasured)
        assert "What it does here is known after its first load" in listed()
    (place / "rates.json").write_text(measured(29.4, 7.4))
    said = listed()
    assert "It reads 29 and writes 7.4 tokens/s: it judges answers.\n" in said
    assert "Off: plan, which would take 36 s of 10 s.\n" in said
    assert "Off: write, which would take 51 s of 20 s.\n" in said
    (place / "rates.json").write_text(measured(900, 60))
    assert "it judges answers, plans searches, writes answers." in listed()
    assert "Off:" not in listed()
    small = models / "qwen2.5-coder-1.5b"
    small.mkdir()
    (small / "rates.json").write_text(measured(900, 60))
    used["writer"] = small.name
    assert "reads 900 tokens/s and judges; it is too small to plan and to write" in listed()
    used["writer"] = "LLM__URL"
    assert "The server judges, plans and writes" in listed()


async def test_a_pulled_writer_is_switched_on_by_one_word(settings, tiny_gguf, capsys):
    folder = settings.data.dir / "models" / "qwen2.5-coder-1.5b"
    folder.mkdir(parents=True)
    shutil.copy(tiny_gguf, folder / "model.gguf")
    for llm, said in (
        ({}, "The bot uses it from its next start on; at once with: citegram models use offline-writer"),
        ({"model": "none"}, "LLM__MODEL is none: set it to offline-writer to use this model."),
        ({"url": "http://127.0.0.1:9"}, "LLM__URL is set, and that server writes: empty it to use this model."),
    ):
        changed = Settings.model_validate({"data": {"dir": settings.data.dir}, "llm": llm})
        assert await run_models(changed, "pull", "offline-writer") == 0
        assert capsys.readouterr().out.splitlines()[-1] == said
    assert await run_models(settings, "use", "offline-writer") == 0
    assert "offline-writer is the writer from the next start on." in capsys.readouterr().out
    await run_models(settings, "list", "--all")
    out = capsys.readouterr().out
    assert "The writer is qwen2.5-coder-1.5b." in out
    (line,) = (line for line in out.splitlines() if line.startswith("*") and "qwen2.5-coder-1.5b" in line)
    assert " GB" in line


async def test_the_first_model_that_cannot_be_pulled_ends_the_pull_of_a_tier(settings, stick, capsys):
    with pytest.raises(ModelUnavailable, match="of the model mmarco-minilm"):
        await run_models(settings, "pull", "default", "--from", str(stick))
    place = settings.data.dir / "models" / "multilingual-e5-small"
    assert (place / "files.json").exists()
    assert await run_models(settings, "use", place.name) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert "from the next start on" in said and "citegram reindex" in said
    (place / "model.onnx").write_bytes(b"")
    lines = models_command.format_model_list(settings.data.dir / "models", {}, settings.rag())
    assert not [line for line in lines[: len(MODELS) + 1] if line.startswith("+")]  # a damaged one is not here
    assert await run_models(settings, "pull", "none") == 0
    assert "needs no model" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        await run_models(settings, "pull", "gpt")
    assert ended.value.code == 2
    assert "minilm-navec" in capsys.readouterr().err


async def test_a_model_is_chosen_for_the_next_start_where_no_bot_runs(settings, tiny_gguf, capsys):
    assert await run_models(settings, "use", str(tiny_gguf)) == 0
    assert capsys.readouterr().out == f"{tiny_gguf} is the writer from the next start on.\n"
    await run_models(settings, "list")
    assert f"The writer is {tiny_gguf}." in capsys.readouterr().out
    for words in (("use", "bge-m3"), ("use", "nowhere.gguf"), ("use", "none"), ("use", "gpt-9")):
        with pytest.raises(ModelUnavailable):
            await run_models(settings, *words)


async def test_a_bot_that_runs_changes_over_at_once(live, home, tiny_gguf, capsys):
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


async def test_the_doctor_says_why_a_model_is_off(home, tmp_path, capsys):
    gone = {"model": str(tmp_path / "gone.gguf")}
    for llm, said in (
        (gone, "BAD  no writer, answers are word for word from the posts: There is no"),
        ({"url": "http://127.0.0.1:9"}, "BAD  writer: The language model's server 127.0.0.1:9 cannot be reached"),
    ):
        await doctor.run(argparse.Namespace(), Settings.model_validate({"data": {"dir": home}, "llm": llm}))
        assert said in capsys.readouterr().out
