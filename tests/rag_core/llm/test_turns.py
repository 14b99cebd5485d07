"""The queue for the model: fair between readers, told by place.

A model has three times its own estimate, at least a second; then it is given up, and left alone for longer and
longer. Of a server only the time of a yes or no is known, from those before.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from faulty_model import FaultyLlm
from scripted_model import FakeLlm

from rag_core.errors import GenerationFailed, ModelLeftAlone, StageTimeout
from rag_core.llm import protocol, turns
from rag_core.llm.protocol import CircuitBreaker, DecodingParams, Prompt, TokenRates
from rag_core.llm.turns import FairScheduler
from rag_core.run import Budgets, Run, Stage

pytestmark = pytest.mark.slow


class Hall:
    """Readers who wait, are served and leave, in the order of `served`."""

    def __init__(self):
        self.turns = FairScheduler()
        self.served = []
        self.places = {}
        self.leave = asyncio.Event()
        self.tasks = []

    async def _visit(self, reader, name):
        async with self.turns.acquire(reader, self.places.setdefault(name, []).append):
            self.served.append(name)
            await self.leave.wait()
            await asyncio.sleep(0)

    async def come(self, *visits):
        """ "1a" is reader 1 with the request a."""
        for name in visits:
            self.tasks.append(asyncio.create_task(self._visit(int(name[0]), name)))
            await asyncio.sleep(0)

    async def empty(self):
        self.leave.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("come", "served"), [("1a 1b 1c 1d 2a 3a 2b", "1a 1b 2a 3a 1c 2b 1d"), ("1a 2a 3a 1b 2b", "1a 2a 3a 1b 2b")]
)
async def test_readers_take_turns_and_each_ones_requests_keep_their_order(come, served):
    hall = Hall()
    await hall.come(*come.split())
    await hall.empty()
    assert hall.served == served.split()


async def test_places_are_told_as_they_change():
    hall = Hall()
    await hall.come("1a", "1b", "1c", "2a")
    assert hall.turns.waiting == 4
    assert hall.places == {"1a": [0], "1b": [1], "1c": [2, 3], "2a": [2]}
    await hall.empty()
    assert hall.places == {"1a": [0], "1b": [1, 0], "1c": [2, 3, 2, 1, 0], "2a": [2, 1, 0]}
    assert hall.turns.waiting == 0


async def test_who_gives_up_leaves_the_queue_and_the_others_move_up():
    hall = Hall()
    await hall.come("1a", "2a", "3a")
    hall.tasks[1].cancel()
    await asyncio.sleep(0)
    assert hall.places["3a"] == [2, 1]
    assert hall.turns.waiting == 2
    await hall.empty()
    assert hall.served == ["1a", "3a"]


@pytest.mark.parametrize("granted", [True, False])
async def test_a_turn_that_comes_to_somebody_who_is_just_giving_up_goes_to_the_next(granted):
    hall = Hall()
    await hall.come("1a", "2a", "3a")
    hall.leave.set()
    if granted:
        hall.tasks[0].add_done_callback(lambda _: hall.tasks[1].cancel())
    else:
        await asyncio.sleep(0)  # the one in the seat is about to leave
        hall.tasks[1].cancel()
    async with asyncio.timeout(30):
        await hall.empty()
    assert hall.served[0] == "1a"
    assert hall.served[-1] == "3a"
    assert hall.turns.waiting == 0


async def test_an_urgent_turn_is_the_next_one_and_a_newcomer_waits_for_no_second_turn():
    hall = Hall()
    await hall.come("1a", "2a", "2b")

    async def acquire_first():
        async with hall.turns.acquire(None):
            hall.served.append("urgent")

    hall.tasks.append(asyncio.create_task(acquire_first()))
    await asyncio.sleep(0)
    await hall.come("3a")
    await hall.empty()
    assert hall.served == ["1a", "urgent", "2a", "3a", "2b"]


async def test_when_there_are_no_more_turns_everybody_is_told():
    hall = Hall()
    await hall.come("1a", "2a")
    hall.turns.close("Closed.")
    with pytest.raises(GenerationFailed, match="Closed"):
        await hall.tasks[1]
    with pytest.raises(GenerationFailed, match="Closed"):
        async with hall.turns.acquire(3):
            pass
    await hall.empty()
    assert hall.served == ["1a"]
    assert hall.turns.waiting == 0


GPU, ASKED = TokenRates(3000.0, 100.0), Prompt("Judge.", "Is it so?")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    assert turns.MIN_PATIENCE_S == 1.0
    monkeypatch.setattr(turns, "MIN_PATIENCE_S", 0.1)


async def judge(model, budget=20.0):
    run = Run(Budgets(judge=budget), "direct")
    async with asyncio.timeout(10), run.stage(Stage.JUDGE), run.open_session(model, 1) as session:
        return await session.odds(ASKED, "yes", "no")


async def write(model):
    run = Run(Budgets(), "direct")
    async with asyncio.timeout(10):
        return await run.require(Stage.WRITE, run.ask_model(model, 1, ASKED, DecodingParams(200)))


@pytest.mark.parametrize("fault", ["hung", "slow", "dripping"])
async def test_a_model_behind_its_rates_is_given_up_and_left_alone(fault):
    for ask in (judge, write):
        model = FaultyLlm(fault, GPU)
        with pytest.raises(StageTimeout, match="did not answer in time"):
            await ask(model)
        asked = len(model.asked), len(model.weighed)
        for again in (judge, write):
            with pytest.raises(ModelLeftAlone, match="left alone"):
                await again(model)
        assert (len(model.asked), len(model.weighed)) == asked


async def test_a_model_that_keeps_up_with_half_of_its_rates_is_not_given_up():
    model = FakeLlm("word" * 6)
    model.rates, model.pause = TokenRates(1000.0, 10.0), 0.2
    assert await write(model) == "word" * 6


async def test_questions_that_waited_behind_the_one_that_met_the_hang_wait_no_longer():
    class InTurn(FaultyLlm):
        @asynccontextmanager
        async def turn(self, reader, on_place=None):
            async with busy, super().turn(reader, on_place) as session:
                yield session

    model, busy = InTurn("hung", GPU), asyncio.Lock()
    outcomes = await asyncio.gather(*(judge(model) for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in outcomes] == [StageTimeout, *[ModelLeftAlone] * 4]


async def test_a_server_that_hangs_costs_what_its_judgements_took_before():
    server = FaultyLlm("")
    assert await judge(server) == 0.0
    server.fault = "hung"
    with pytest.raises(StageTimeout, match="did not answer in time"):
        await judge(server)


async def test_a_server_of_which_nothing_is_known_costs_one_budget():
    server = FaultyLlm("hung")
    with pytest.raises(StageTimeout, match="took longer"):
        await judge(server, budget=0.4)
    with pytest.raises(ModelLeftAlone, match="left alone"):
        await judge(server)


async def test_a_stage_that_ends_soon_after_the_model_was_asked_says_nothing_about_it():
    server = FaultyLlm("hung")
    for _ in range(2):
        with pytest.raises(StageTimeout, match="took longer"):
            await judge(server, budget=0.05)


async def test_of_a_model_that_is_left_alone_is_told_once():
    model, run = FaultyLlm("", GPU), Run(Budgets(), "direct")
    model.breaker.record_hang()
    for stage in (Stage.PLAN, Stage.WRITE):
        assert await run.attempt(stage, run.ask_model(model, 1, ASKED, DecodingParams(9)), "") == ""
    assert [one.stage for one in run.shortfalls] == ["plan"]


async def test_the_pause_grows_and_an_answer_ends_it(monkeypatch):
    breaker = CircuitBreaker()
    assert [breaker.record_hang() for _ in range(5)] == [15.0, 60.0, 240.0, 600.0, 600.0]
    breaker.record_answer()
    monkeypatch.setattr(protocol, "_FIRST_PAUSE_S", 0.0)
    assert breaker.record_hang() == 0.0
    breaker.require_closed()


async def test_a_model_that_hung_and_is_loaded_again_is_not_waited_for():
    model = FaultyLlm("queued", GPU)
    model.breaker.hangs = 1
    with pytest.raises(ModelLeftAlone, match="not ready yet"):
        await judge(model)
