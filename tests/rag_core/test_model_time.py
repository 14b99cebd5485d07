"""A model's measured rates decide what is begun; what it does take leaves the others their time."""

import asyncio
import time
from dataclasses import replace

import pytest
from openai_server import OpenAiServer, make_event, stream
from scripted_model import FakeLlm
from scripted_roles import SLOW, RoleLlm

from rag_core import recipe_steps
from rag_core.errors import ModelLeftAlone, ModelTooSlow, StageTimeout
from rag_core.llm import openai_client
from rag_core.llm.openai_client import RemoteModel
from rag_core.llm.protocol import DecodingParams, Prompt, TokenRates
from rag_core.planning.plan import make_plan
from rag_core.run import MODEL_STAGES, Budgets, Run, Stage
from rag_core.settings import LlmSettings
from rag_core.verification.judge import judge_relevance
from rag_core.verification.verify import verify_text

FERRY = "When does the ferry to Owl Island leave in the morning?"
TICKET = "How much does a ferry ticket cost?"
SNAIL, PROCESSOR, GPU = TokenRates(5.0, 2.0), TokenRates(80.0, 20.0), TokenRates(4000.0, 200.0)
WORDS = {"write": "x", "map": "{}", "parts": "{}", "hyde": "x", "other": "{}"}


class RatedLlm(RoleLlm):
    """A model that says what it says at these rates, as far as others are told."""

    def __init__(self, rates, **replies):
        super().__init__({**WORDS, **replies})
        self.rates, self.limits = rates, []

    def stream(self, prompt, decoding, **constraint):
        self.limits.append(decoding.max_tokens)
        return super().stream(prompt, decoding, **constraint)


@pytest.mark.parametrize("recipe", ["direct", "agent", "mapreduce", "council", "auto"])
async def test_a_model_that_is_known_to_be_too_slow_changes_nothing(library, recipe):
    without = await library.ask(FERRY)
    model = RatedLlm(SNAIL)
    library.rag = replace(library.rag, writer=model, planner=model, recipe=recipe)
    answer = await library.ask(FERRY)
    assert (answer.sentences, answer.nearest, answer.shortfalls) == (without.sentences, without.nearest, ())
    assert model.calls == []
    spans = {span.stage: span for span in library.runs[-1].spans if "skipped" in span.counts}
    assert spans
    assert all(span.error is None and not span.is_action for span in spans.values())
    assert max(float(span.counts["skipped"]) for span in spans.values()) > 10


async def test_a_plan_is_made_where_there_is_time_for_it(library):
    for rates, calls in ((SNAIL, 0), (GPU, 1)):
        model = RatedLlm(rates, other='{"normalized_queries": ["boat fares", "harbour times", "билет"]}')
        library.rag = replace(library.rag, planner=model)
        run = Run(Budgets(), "direct")
        plan = await run.require(Stage.PLAN, make_plan(library.question(FERRY), library.rag, run))
        assert (len(model.calls), "boat fares" in plan.queries, run.shortfalls) == (calls, bool(calls), [])


async def test_a_statement_is_judged_by_its_words_where_the_model_is_too_slow(library):
    for text in (FERRY, "Ferry tickets for adults cost twelve euros.", "The lighthouse museum is open in the morning."):
        without = await verify_text(library.question(text), replace(library.rag, writer=None))
        model = RatedLlm(SNAIL)
        library.rag = replace(library.rag, writer=model)
        found = await verify_text(library.question(text), library.rag)
        assert ([v.label for v in found.verdicts], [v.likely for v in found.verdicts]) == (
            [v.label for v in without.verdicts],
            [v.likely for v in without.verdicts],
        )
        assert (model.calls, found.shortfalls) == ([], ())


async def test_posts_and_answer_are_as_long_as_they_can_be_read_and_written(library, make_post):
    for n in range(40, 60):
        text = " ".join(f"Clerk {n} of row {k} sells ferry tickets in ticket office {n}." for k in range(30))
        await library.keep(make_post(n, text, chat=library.harbour))
    for rates, posts, tokens in ((PROCESSOR, 800, 200), (GPU, 1800, 600), (TokenRates(40.0, 10.0), 0, 0)):
        model = RatedLlm(rates)
        library.rag = replace(library.rag, writer=model)
        await library.ask(TICKET)
        written = [prompt for prompt in model.asked if "<question>" in prompt.ask]
        if not posts:
            assert written == []
            continue
        shown = written[0].ask.split("<question>")[0]
        assert 0 < (await model.count([shown]))[0] <= posts
        assert model.limits == [tokens]


async def ask_in_stage(run, model, tokens):
    prompt = Prompt("s" * 396, "a" * 396)  # 200 tokens
    return await run.require(Stage.WRITE, run.ask_model(model, 1, prompt, DecodingParams(tokens)))


async def test_a_reply_is_cut_to_what_can_be_written_in_the_time_left():
    model = RatedLlm(TokenRates(40.0, 10.0), other="long " * 400)
    run = Run(Budgets(write=20.0), "direct")
    for tokens, limit in ((100, 100), (200, 149), (290, 149)):  # 5 s to read, 15 s to write
        await ask_in_stage(run, model, tokens)
        assert model.limits[-1] == pytest.approx(limit, abs=1)
    with pytest.raises(ModelTooSlow):  # less than half of it is no reply
        await ask_in_stage(run, model, 310)
    assert len(model.calls) == 3
    assert run.spans[-1].counts["skipped"] == pytest.approx(20.5)


async def test_the_time_that_is_left_counts_and_not_the_budget():
    model, run = RatedLlm(TokenRates(1000.0, 1000.0)), Run(Budgets(write=60.0), "direct")
    await ask_in_stage(run, model, 400)
    async with run.within(0.5):
        with pytest.raises(ModelTooSlow):
            await ask_in_stage(run, model, 400)
    assert len(model.calls) == 1


async def test_judgements_that_do_not_all_fit_are_not_begun(library):
    passages = [source.passage for source in (await library.ask(FERRY)).found]
    model, run = RatedLlm(TokenRates(60.0, 10.0)), Run(Budgets(judge=2.0), "council")

    async def judge(most):
        async with run.open_session(model, 1) as session:
            return await judge_relevance(library.question(FERRY), passages[:most], session)

    assert await run.require(Stage.JUDGE, judge(1)) == [1.0]
    with pytest.raises(ModelTooSlow):
        await run.require(Stage.JUDGE, judge(len(passages)))
    assert model.calls == ["judge"]


async def test_where_no_rates_are_known_nothing_is_left_out():
    model = FakeLlm("x")
    run = Run(Budgets(judge=0.5), "direct")
    async with run.stage(Stage.JUDGE), run.open_session(model, 1) as session:
        assert await session.require_time([Prompt("", "x" * 10**6)], 10**6) == 10**6


@pytest.mark.parametrize("rates", [None, TokenRates(1e6, 1e5)])
async def test_a_writer_that_takes_all_its_time_loses_no_conflicting_post(library, make_post, monkeypatch, rates):
    await library.keep(make_post(7, "A ferry ticket costs fifteen euros now.", chat=library.harbour, days=90))
    finding = recipe_steps.add_conflicting_post

    def find_slowly(*given):
        time.sleep(0.15)
        return finding(*given)

    monkeypatch.setattr(recipe_steps, "add_conflicting_post", find_slowly)
    without = await library.ask(TICKET)
    assert len({citation.post for one in without.sentences for citation in one.citations}) == 2
    library.rag = replace(library.rag, budgets=Budgets(question=3.0), writer=RatedLlm(rates, write=SLOW))
    answer = await library.ask(TICKET)
    assert answer.sentences == without.sentences
    assert [one.stage for one in answer.shortfalls] == ["write"]


async def test_every_stage_that_asks_a_model_leaves_time_to_the_others():
    run = Run(Budgets(), "direct")
    async with run.within(30.0):
        for name in Stage:
            async with run.stage(name):
                left = run.stage_time_left
                async with run.use_separate_budgets(), run.stage(Stage.LEXICAL):
                    assert run.stage_time_left <= left
            assert left < 26.1 if name in MODEL_STAGES else left > 28.9


async def test_a_server_that_drips_holds_its_turn_no_longer_than_its_stage(monkeypatch):
    async def drip(request, asked):
        return await stream(request, *[make_event("a")] * 1000, pause=1.0)

    monkeypatch.setattr(openai_client, "_DRIP_AFTER_S", 0.2)
    async with OpenAiServer(drip) as server:
        model = RemoteModel(LlmSettings(url=server.url))
        run = Run(Budgets(write=0.8), "direct")
        try:
            async with model.turn(1):
                pass  # the server is met
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(StageTimeout):
                await ask_in_stage(run, model, 100)
            assert loop.time() - began < 1.5
            assert model.waiting == 0
            with pytest.raises(ModelLeftAlone):  # those who waited do not lose their time as well
                await ask_in_stage(run, model, 100)
            assert len(server.asked) == 1
        finally:
            await model.close()
