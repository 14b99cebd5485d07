"""What a local model knows at its second start: its rates, and the constant beginnings of its prompts."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install 'citegram[local]'")

from rag_core.llm import local
from rag_core.llm.local import open_local_model
from rag_core.llm.protocol import DecodingParams, Prompt, TokenRates, collect_generation
from rag_core.settings import LlmSettings
from rag_core.writing.prompts import list_prompt_prefixes, load_prompt, quote_question

SETTINGS = LlmSettings(context=4096, threads=1)
PLANNER = Prompt("You plan a search. " * 30, "", (("Where is it?", "the museum"),))
QUESTION = Prompt(PLANNER.system, "Where does the ferry leave?", PLANNER.shots)
GREEDY = DecodingParams(12, temperature=0.0)


@pytest.fixture
def path(tiny_gguf, tmp_path):
    """The tiny model in a folder of its own."""
    return Path(shutil.copy2(tiny_gguf, tmp_path / "tiny.gguf"))


@asynccontextmanager
async def started(path, *prompts, **settings):
    model = await open_local_model(path, SETTINGS.model_copy(update=settings), prefixes=lambda rates: prompts)
    try:
        yield model
    finally:
        await model.close()


async def generate(model, prompt=QUESTION):
    async with model.turn(1) as session:
        return await collect_generation(session.stream(prompt, GREEDY))


@pytest.fixture(autouse=True)
def measured_soon(monkeypatch):
    monkeypatch.setattr(local, "_MEASURING_PAUSE_S", 0.0)


async def warmed(model):
    assert model._warming is not None
    await asyncio.wait_for(asyncio.shield(model._warming), 30)


async def test_the_rates_are_kept_and_measured_again_while_idle(path):
    async with started(path) as model:
        await warmed(model)
        measured = model.rates
    assert measured
    kept = json.loads((path.parent / "rates.json").read_text())
    assert (kept["prefill"], kept["decode"]) == (measured.prefill, measured.decode)
    # one was measured at a busy moment
    (path.parent / "rates.json").write_text(json.dumps({**kept, "prefill": 0.5, "decode": 1e9}))
    async with started(path) as model:
        assert model.rates and (model.rates.prefill, model.rates.decode) == (0.5, 1e9)
        await warmed(model)
        assert model.rates.prefill > 0.5
        assert model.rates.decode == 1e9  # the faster of both
    async with started(path, threads=2) as model:  # measured with others
        assert model.rates.decode != 1e9


@pytest.mark.parametrize("written", ["", "{", "[]", "null", '{"prefill": 28, "decode": 8}', "nan", "zero"])
async def test_rates_that_make_no_sense_are_measured_anew(path, written):
    async with started(path):
        kept = json.loads((path.parent / "rates.json").read_text())
    odd = {"nan": {**kept, "decode": float("nan")}, "zero": {**kept, "prefill": 0}}
    (path.parent / "rates.json").write_text(json.dumps(odd[written]) if written in odd else written)
    async with started(path) as model:
        assert min(model.rates.prefill, model.rates.decode) > 10
    assert json.loads((path.parent / "rates.json").read_text())["prefill"] > 10


async def test_the_second_start_reads_less_of_the_same_prompt(path):
    async with started(path) as model:
        cold = await generate(model)
    async with started(path, PLANNER) as model:
        await warmed(model)
        first = await generate(model)
    async with started(path) as model:
        second = await generate(model)
    assert cold.figures.evaluated > 500
    assert first.figures.evaluated < 60
    assert second.figures.evaluated < 60
    assert cold.text == first.text == second.text


def test_only_stages_that_have_time_for_the_rest_are_warmed():
    listed = {
        speed: {prompt.system for prompt in list_prompt_prefixes(TokenRates(speed, speed / 4))}
        for speed in (0.5, 30.0, 4000.0)
    }
    plan, support = load_prompt("plan", "all").system, load_prompt("support", "ru").system
    assert listed[0.5] == set()
    assert support in listed[30.0]
    assert plan not in listed[30.0]
    assert {plan, support} <= listed[4000.0]


async def test_the_prompts_of_the_project_begin_with_what_was_warmed(path):
    prompts = list_prompt_prefixes(TokenRates(4000.0, 1000.0))
    async with started(path, *prompts) as model:
        await warmed(model)
        asked = [replace(prompt, ask=quote_question("Где музей?")) for prompt in prompts]
        async with model.turn(1) as session:
            counts = [(await session.count_unread([one]))[0] for one in asked]
    assert max(counts) < 100


def spoil(file, how):
    raw = file.read_bytes()
    header, _, state = raw.partition(b"\n")
    file.write_bytes(
        {
            "cut": raw[: len(raw) // 2],
            "empty": b"",
            "bits": header + b"\n" + state[:5000] + bytes(64) + state[5064:],
            "foreign": header.replace(b"tiny.gguf", b"huge.gguf") + b"\n" + state,
            "text": b"hello",
            "deep": b"[" * 100_000 + b"\n",
            "tokens": header.replace(b'"tokens": [', b'"tokens": [7, ') + b"\n" + state,
        }[how]
    )


@pytest.mark.parametrize("how", ["cut", "empty", "bits", "foreign", "text", "deep", "tokens"])
async def test_a_damaged_or_foreign_state_is_as_none_and_is_removed(path, how):
    async with started(path, PLANNER) as model:
        await warmed(model)
        right = await generate(model)
    (file,) = path.parent.glob("prefix-*.state")
    spoil(file, how)
    async with started(path) as model:
        pid = model.pid
        done = await generate(model)
        assert (done.text, done.figures.evaluated > 500, model.pid) == (right.text, True, pid)
    assert how == "tokens" or not list(path.parent.glob("prefix-*"))  # a state of other tokens is never asked for


async def test_no_more_states_are_kept_than_there_is_room_for(path):
    prompts = [Prompt("Go.", ""), *(Prompt(f"{n} judges. " * 20, "") for n in range(15))]  # the first is too short
    async with started(path, *prompts) as model:
        await warmed(model)
    assert len(list(path.parent.glob("prefix-*"))) == 12
    async with started(path, context=2048):  # they are of another context
        pass
    assert not list(path.parent.glob("prefix-*"))


@pytest.mark.parametrize("where", ["data", None])
async def test_a_folder_that_cannot_be_written_is_replaced_by_that_of_the_data(path, where, monkeypatch, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setattr(local.os, "access", lambda folder, mode: folder == data)
    model = await open_local_model(path, SETTINGS, data=data if where else None, prefixes=lambda rates: [PLANNER])
    await warmed(model)
    assert model.rates
    await model.close()
    kept = sorted(file.name[:6] for file in data.iterdir())
    assert kept == (["prefix", "rates."] if where else [])


async def test_a_stop_in_a_long_prompt_loses_at_most_one_batch(slow_gguf):
    """Also where somebody else is asked something in between."""
    long = Prompt("Long words. " * 100, "Who?")
    async with started(slow_gguf) as model:
        seconds, left = 300 / model.rates.prefill, []
        for _ in range(3):
            async with model.turn(1) as session:
                left.append((await session.count_unread([long]))[0])
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await collect_generation(session.stream(long, DecodingParams(1)))
            await generate(model, Prompt("", "Something else"))
    assert left[0] > 1200
    assert left[2] < left[1] < left[0] - 100, left


async def test_a_question_does_not_wait_for_what_is_warmed(slow_gguf, tmp_path):
    prompts = [Prompt(f"{n} long words. " * 50, "") for n in range(2)]
    path = Path(shutil.copy2(slow_gguf, tmp_path / "slow.gguf"))
    async with started(path, *prompts) as model:
        assert model._warming is not None
        await asyncio.sleep(0.2)  # in the middle of the first prompt, which takes half a second or more
        assert not model._warming.done()
        assert model.waiting == 0  # nobody is told that the model is busy
        async with model.turn(1) as session:
            await session.count(["a"])
            assert not list(tmp_path.glob("prefix-*"))
        await warmed(model)
        figures = [(await generate(model, Prompt(p.system, "Who?"))).figures for p in prompts]
    assert all(one.evaluated < 60 for one in figures)


async def test_what_would_be_read_is_counted_beforehand(path):
    async with started(path) as model, model.turn(1) as session:
        whole, twice = await session.count_unread([QUESTION, QUESTION])
        done = await collect_generation(session.stream(QUESTION, GREEDY))
        assert (done.figures.evaluated, twice) == (whole, 1)
        assert await session.count_unread([QUESTION]) == [1]
