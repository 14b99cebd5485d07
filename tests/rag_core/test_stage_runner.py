import asyncio
import time
from dataclasses import fields

import pytest

from rag_core.errors import ArchiveUnavailable, IndexUnavailable, StageTimeout
from rag_core.run import Budgets, Run, Stage


def run(**budgets):
    return Run(Budgets(**budgets), "direct")


async def value(found):
    return found


async def test_a_stage_that_passes_its_budget_is_a_timeout_that_says_what_to_do():
    with pytest.raises(StageTimeout, match=r"search took longer than 0\.01 s: ask again") as caught:
        await run(search=0.01).require("search", asyncio.sleep(5))
    assert isinstance(caught.value.__cause__, TimeoutError)


async def test_a_library_s_own_timeout_error_is_not_ours():
    async def library():
        raise TimeoutError("the library's")

    with pytest.raises(TimeoutError, match="the library's") as caught:
        await run().require("search", library())
    assert not isinstance(caught.value, StageTimeout)


async def test_an_outer_deadline_is_not_a_stage_s():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run(search=5).require("search", asyncio.sleep(5))


async def test_cancelling_is_no_failure_to_be_done_without():
    notebook = run()
    task = asyncio.create_task(notebook.attempt("search", asyncio.sleep(5, 1), 2))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notebook.shortfalls == []


async def test_what_was_planned_for_is_a_shortfall_and_the_stand_in_is_used():
    async def broken():
        raise IndexUnavailable("The index is damaged.")

    notebook = run(plan=0.01)
    assert await notebook.attempt("search", broken(), 7) == 7
    assert await notebook.attempt("search", broken(), lambda: 8) == 8
    assert await notebook.attempt("plan", asyncio.sleep(5, 1), 9) == 9
    assert await notebook.attempt("write", value(3), 10) == 3
    assert [(s.stage, s.reason.split(" ")[0]) for s in notebook.shortfalls] == [
        ("search", "The"), ("search", "The"), ("plan", "The"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("way", "failure"), [("require", ArchiveUnavailable("locked")), ("attempt", KeyError("a bug"))]
)
async def test_bugs_and_failures_without_a_stand_in_go_up(way, failure):
    async def fail():
        raise failure

    notebook = run()
    with pytest.raises(type(failure)):
        await (notebook.require("search", fail()) if way == "require" else notebook.attempt("search", fail(), 7))
    assert notebook.shortfalls == []
    assert [(span.stage, span.error) for span in notebook.spans] == [("search", type(failure).__name__)]


async def test_a_trace_has_stages_timings_counts_and_the_kind_of_error():
    notebook = run(search=0.02)
    async with notebook.stage("plan"):
        notebook.note(queries=3)
        notebook.note(terms=2)
    with pytest.raises(StageTimeout):
        await notebook.require("search", asyncio.sleep(5))
    plan, search = notebook.spans
    assert (plan.stage, plan.counts, plan.error) == ("plan", {"queries": 3, "terms": 2}, None)
    assert (search.stage, search.counts, search.error) == ("search", {}, "StageTimeout")
    assert 20 <= search.took_ms < 2000
    seconds = f"plan={plan.took_ms / 1000:.3f}s search={search.took_ms / 1000:.3f}s"
    assert notebook.line().startswith(f"{notebook.trace_id} direct {seconds} ")


async def test_stages_of_one_question_have_a_budget_each():
    notebook = run(search=0.2, fetch=0.2)
    started = time.perf_counter()
    for name in ("chronicle", "search", "cite", "current"):
        await notebook.require(name, asyncio.sleep(0.06))
    assert time.perf_counter() - started > 0.2
    with pytest.raises(StageTimeout, match="cite took longer"):
        await notebook.require("cite", asyncio.sleep(5))
    with pytest.raises(ValueError):  # a stage without a budget could run for ever
        async with notebook.stage("unheard of"):
            pass


def test_every_stage_has_a_budget():
    assert {stage.budget for stage in Stage} <= {field.name for field in fields(Budgets)}
