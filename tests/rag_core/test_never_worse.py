"""A model with a fault, or one that refuses or says nothing of use, leaves the answer that is given without it.

The same sentences (conflicting posts are among them), the same sources, the same certainty, after at most one of the
model's budgets; and the extract stands before the model is waited for.
"""

import asyncio
import json
import os
import signal
from dataclasses import replace
from datetime import datetime

import pytest
from faulty_model import FAULTS, FaultyLlm

from rag_core import Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.llm import local
from rag_core.llm.local import open_local_model
from rag_core.llm.protocol import TokenRates
from rag_core.recipe_steps import is_model_late
from rag_core.run import Budgets
from rag_core.settings import LlmSettings
from rag_core.types import Certainty

pytestmark = pytest.mark.slow

BUDGETS = Budgets(plan=1.0, rewrite=1.0, judge=1.0, write=4.0)  # the rules need a moment of two of them
MODEL_STAGES = {"plan", "rewrite", "hyde", "judge", "write"}


@pytest.fixture
async def samples(sample_channels):
    given = {"data": {"dir": sample_channels}, "memory": {"enabled": False}}
    async with open_engine(RagSettings.model_validate(given)) as rag:
        rag.budgets = BUDGETS
        yield rag


@pytest.fixture(scope="module")
def without():
    """What a question is answered without a model, which is asked once for all faults."""
    known = {}

    async def answer(question, rag, recipe="auto"):
        key = question.text, recipe
        if key not in known:
            known[key], _ = await ask(question, replace(rag, budgets=BUDGETS), None, recipe)
        return known[key]

    return answer


def list_questions(root):
    """Twenty of the sample channels, of every kind."""
    folder = root / "bot/sandbox/channels"
    places = [row["chat_id"] for row in json.loads((folder / "channels.json").read_text("utf-8"))]
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]
    seen = Viewer(1, frozenset(places))
    return [Question(one["text"], one["lang"], datetime.fromisoformat(one["asked_at"]), seen) for one in rows[::4]]


def given(answer, *, graded=True):
    """What must be the same with a model that is of no use."""
    certainty = answer.certainty if graded else answer.refused
    return (answer.sentences, certainty, answer.nearest, answer.found, answer.missing, answer.addresses)


async def ask(question, rag, model, recipe="auto"):
    runs = []
    with_model = replace(rag, writer=model, planner=model, recipe=recipe, traced=runs.append)
    return await answer_question(question, with_model), runs[-1]


async def gather_some(work, asked, at_once=7):
    """What is found for each question; so many wait for their model at the same time."""
    groups = [asked[n : n + at_once] for n in range(0, len(asked), at_once)]
    return [found for group in groups for found in await asyncio.gather(*map(work, group))]


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_model_of_no_use_leaves_the_answer_of_without(samples, root, without, fault):
    asked = list_questions(root)
    assert len(asked) == 20
    if fault == "queued":  # half of the question's time is waited for it
        samples = replace(samples, budgets=replace(samples.budgets, question=4.0, rewrite=0.2, judge=0.2))

    async def compare(question):
        """Whether the model refused what is answered without it."""
        plain = await without(question, samples)
        answer, run = await ask(question, samples, FaultyLlm(fault))
        assert given(answer, graded=fault != "refusing") == given(plain, graded=fault != "refusing"), question.text
        late = [span for span in run.spans if span.stage in MODEL_STAGES and span.error == "StageTimeout"]
        assert len(late) <= 1, [span.stage for span in late]
        if fault == "refusing" and not answer.refused:  # by one step at most
            assert answer.certainty in {Certainty.PROBABLE, plain.certainty}
            return True
        return False

    found = await gather_some(compare, asked)
    assert any(found) == (fault == "refusing")


async def test_the_extract_stands_before_the_model_is_waited_for(samples, root, without):
    for question in list_questions(root):
        plain = await without(question, samples, "direct")
        shown = []
        model = FaultyLlm("refusing")  # it is asked, and ends

        def show(answer, shown=shown, model=model):
            assert not model.asked and not model.weighed
            shown.append(answer)

        rag = replace(samples, writer=model, recipe="direct")
        await answer_question(question, rag, on_extract=show)
        assert bool(shown) == bool(model.asked)
        for early in shown:
            assert (early.sentences, early.certainty) == (plain.sentences, plain.certainty)


async def test_of_a_model_that_hangs_one_budget_is_lost_at_most(samples, root):
    async def lose(question):
        _, run = await ask(question, samples, FaultyLlm("hung"), "direct")
        lost = [span.took_ms / 1000 for span in run.spans if span.stage in MODEL_STAGES and span.error]
        assert is_model_late(run) == bool(lost)
        judged = [span for span in run.spans if span.stage == "judge"]
        assert not judged or "write" not in [span.stage for span in run.spans]
        return bool(lost)

    assert any(await gather_some(lose, list_questions(root)))


@pytest.mark.parametrize("fault", ["hung", "slow", "dripping", "dying", "dead"])
async def test_a_model_that_does_not_deliver_costs_a_second_once(samples, root, without, fault):
    rag, model, lost = replace(samples, budgets=Budgets()), FaultyLlm(fault, TokenRates(3000.0, 100.0)), []
    for question in list_questions(root):
        plain = await without(question, rag, "direct")
        answer, run = await ask(question, rag, model, "direct")
        assert given(answer) == given(plain), question.text
        lost.append(sum(span.took_ms / 1000 for span in run.spans if span.stage in MODEL_STAGES and span.error))
    assert len([seconds for seconds in lost if seconds]) > 1
    # the second that it has, and what a busy machine adds; the pause is short for twenty questions of such a machine
    assert max(lost) < 1.5
    assert sum(lost) < 3.0


async def test_a_real_worker_that_hangs_costs_a_second_once(samples, root, without, tiny_gguf, monkeypatch):
    monkeypatch.setattr(local, "_EXIT_TIMEOUT_S", 0.1)  # it is stopped, and does not end by itself
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1))
    rag = replace(samples, budgets=Budgets())
    lost = []
    try:
        assert model.pid
        os.kill(model.pid, signal.SIGSTOP)
        for question in list_questions(root)[:8]:
            plain = await without(question, rag, "direct")
            answer, run = await ask(question, rag, model, "direct")
            assert answer.sentences == plain.sentences
            lost.append(sum(span.took_ms / 1000 for span in run.spans if span.stage in MODEL_STAGES and span.error))
    finally:
        await model.close()
    assert 0.5 < max(lost) < 2.0
    assert sum(lost) < 3.0


async def test_a_real_worker_that_is_killed_leaves_the_answer_of_without(samples, root, without, tiny_gguf):
    model = await open_local_model(tiny_gguf, LlmSettings(threads=1))
    rag = replace(samples, budgets=replace(samples.budgets, judge=10.0))
    killed = 0
    try:
        for question in list_questions(root)[:8]:
            plain = await without(question, rag, "direct")

            def kill(sentence_or_stage):
                nonlocal killed
                if sentence_or_stage == "write" and model._child is not None:
                    asyncio.get_running_loop().call_later(0.02, model._child.worker.kill)
                    killed += 1

            runs = []
            with_model = replace(rag, writer=model, recipe="direct", traced=runs.append)
            answer = await answer_question(question, with_model, on_stage=kill)
            assert answer.model is None
            assert answer.sentences == plain.sentences
    finally:
        await model.close()
    assert killed
