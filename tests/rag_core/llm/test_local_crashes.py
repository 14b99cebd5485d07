import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rag_core.errors import GenerationFailed, ModelLeftAlone
from rag_core.llm.local import open_local_model
from rag_core.llm.protocol import DecodingParams, Prompt, collect_generation
from rag_core.settings import LlmSettings

pytestmark = pytest.mark.slow

pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install 'citegram[local]'")

SETTINGS = LlmSettings(context=2048, threads=1)
ENDLESS = 'root ::= "a"{1900}'
SHORT, LONG = Prompt("You answer.", "Who?"), Prompt("You answer.", "Who? " * 300)
WORD = DecodingParams(4)


@pytest.fixture
async def model(tiny_gguf):
    one = await open_local_model(tiny_gguf, SETTINGS)
    yield one
    await one.close()


def send(model, number):
    assert model.pid is not None
    os.kill(model.pid, number)


async def says(model, reader=1):
    async with model.turn(reader) as seat:
        return (await collect_generation(seat.stream(SHORT, WORD, grammar='root ::= "fine"'))).text


async def writing(seat, then):
    pieces = seat.stream(SHORT, DecodingParams(1900), grammar=ENDLESS)
    await anext(pieces)
    then()
    async for _ in pieces:
        pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_an_end_in_a_generation_fails_that_one_and_the_next_is_served(model, number):
    async with model.turn(1) as seat:
        waiting = asyncio.create_task(says(model, 2))
        with pytest.raises(GenerationFailed, match=rf"^The model went away \(-{number:d}: .*\): ask again"):
            await writing(seat, lambda: send(model, number))
        assert await seat.count(["aa"]) == [3]  # in the same turn
    assert await waiting == "fine"


async def test_an_end_while_nobody_asks_is_noticed_by_nobody(model):
    for pause in (0.0, 0.3):
        send(model, signal.SIGKILL)
        await asyncio.sleep(pause)
        assert await says(model) == "fine"
    async with model.turn(1) as seat:
        send(model, signal.SIGKILL)
        assert await seat.count(["aa"]) == [3]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, "There is not enough memory for tiny"),
        (signal.SIGSEGV, "tiny.gguf cannot be loaded, it may be"),
    ],
)
async def test_an_end_while_it_loads_is_told_and_the_next_turn_loads_it(model, number, said, monkeypatch):
    await model.unload()
    start = subprocess._fork_exec

    def start_and_end(*args):
        pid = start(*args)
        os.kill(pid, number)  # at once: the tiny model is loaded in some milliseconds
        return pid

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "_fork_exec", start_and_end)
        with pytest.raises(GenerationFailed, match=said):
            await says(model)
    assert await says(model) == "fine"


async def test_a_model_that_ended_three_times_in_a_row_is_left_alone_for_a_while(model):
    for _ in range(3):
        with pytest.raises(GenerationFailed, match="went away"):
            async with model.turn(1) as seat:
                await writing(seat, lambda: send(model, signal.SIGKILL))
    with pytest.raises(ModelLeftAlone):
        await says(model)
    model.breaker.leave_alone(0.0)  # instead of waiting for it
    assert await says(model) == "fine"
    assert model.breaker.failures == 0


async def test_a_child_that_hangs_is_killed(tiny_gguf):
    model = await open_local_model(tiny_gguf, SETTINGS, patience=1.0)
    async with model.turn(1) as seat:
        with pytest.raises(GenerationFailed, match="went away"):
            await writing(seat, lambda: send(model, signal.SIGSTOP))
    assert await says(model) == "fine"
    await model.close()


async def test_a_child_given_up_that_goes_on_is_asked_again_soon(model):
    async with model.turn(1) as seat:
        pieces = seat.stream(SHORT, DecodingParams(1900), grammar=ENDLESS)
        await anext(pieces)
        send(model, signal.SIGSTOP)
        pauses = [model.breaker.record_hang() for _ in range(3)]
    send(model, signal.SIGCONT)
    await _until(lambda: not model.breaker.hangs)
    assert pauses[-1] == 240
    assert model.breaker._until < asyncio.get_running_loop().time() + 4


async def test_an_idle_model_is_unloaded_and_the_next_turn_loads_it(tiny_gguf):
    model = await open_local_model(tiny_gguf, SETTINGS.model_copy(update={"idle_minutes": 0.3 / 60}))
    first = model.pid
    async with model.turn(1) as seat:
        await asyncio.sleep(0.5)  # a model in use is not idle
        assert await seat.count(["a"]) == [2]
    assert model.pid == first
    await _until(lambda: model.pid is None)
    assert await says(model) == "fine"
    assert model.pid not in (None, first)
    await model.close()


async def _until(true):
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - nobody tells when a process has ended
            await asyncio.sleep(0.02)


async def test_a_caller_who_leaves_while_the_model_loads_leaves_it_loading(model):
    await model.unload()
    leaving = asyncio.create_task(says(model))
    while model._loading is None:  # noqa: ASYNC110 - it takes some milliseconds from then on
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert leaving.cancelled()
    assert await says(model, 2) == "fine"


async def test_closing_tells_who_waits_and_fails_who_is_served(tiny_gguf):
    model = await open_local_model(tiny_gguf, SETTINGS)
    async with model.turn(1) as seat:
        waiting = asyncio.create_task(says(model, 2))
        await asyncio.sleep(0)
        closing = asyncio.create_task(model.close())
        with pytest.raises(GenerationFailed):
            await writing(seat, lambda: None)
    await closing
    with pytest.raises(GenerationFailed, match="being closed"):
        await waiting
    with pytest.raises(GenerationFailed, match="being closed"):
        await says(model)
    assert model.pid is None


PARENT = """
import asyncio, sys
from pathlib import Path
from rag_core.llm.protocol import DecodingParams, Prompt
from rag_core.llm.local import open_local_model
from rag_core.settings import LlmSettings

async def main():
    model = await open_local_model(Path(sys.argv[1]), LlmSettings(context=4096, threads=1))
    async with model.turn(1) as seat:
        print(model.pid, flush=True)
        async for piece in seat.stream(Prompt("", "a " * 1500), DecodingParams(2000), grammar='root ::= "a"{2000}'):
            pass
asyncio.run(main())
"""


async def test_the_child_ends_with_its_parent_even_in_the_middle_of_its_work(slow_gguf):
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, slow_gguf, stdout=subprocess.PIPE)
    child = int(await parent.stdout.readline())
    await asyncio.sleep(0.2)
    parent.kill()
    await parent.wait()
    await _until(lambda: not alive(child))


def alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
