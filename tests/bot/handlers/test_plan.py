"""/plan and `citegram ask --show-plan`: queries, filters, legs and ranks, for admins alone, of posts they may read."""

from __future__ import annotations

import json
from datetime import UTC

from bot.control.answers import TerminalAnswerer
from bot.views.terminal_text import format_answer_trace, format_plan_lines, plan_as_json
from rag_core.storage.questions import fetch_trace

ASKED = "How much does a ferry ticket cost in April 2025?"


async def test_a_plan_shows_queries_legs_and_ranks(library):
    found = await plan_as_json(library.question(ASKED), library.rag)
    assert found["plan"]["normalized_queries"][0] == "How much does a ferry ticket cost in April 2025?"
    assert found["fused"][0]["lexical"] == 1 and found["fused"][0]["dense"] is None
    lines = format_plan_lines(found)
    assert lines[0].startswith("normalized_queries: ")
    assert any(line.startswith("legs: ") for line in lines)
    assert lines[-1].endswith(found["fused"][-1]["link"])


async def test_a_plan_holds_nothing_of_closed_channels(library, make_post):
    before = json.dumps(await plan_as_json(library.question("What is the ferry safe code?"), library.rag))
    await library.keep(make_post(9, "The ferry safe code is 4711, ferry and all.", chat=library.safe, days=90))
    assert json.dumps(await plan_as_json(library.question("What is the ferry safe code?"), library.rag)) == before


async def test_the_terminal_sees_results_and_logs_and_traces_do_not(library, caplog):
    answerer = TerminalAnswerer(library.rag, UTC)
    with caplog.at_level(0):
        found = await answerer.ask(ASKED, trace=True)
    assert found is not None
    shown = "\n".join(format_answer_trace(found))
    assert "--- plan" in shown and "--- search" in shown and "twelve euros" in shown
    assert found["answer"]["actions"] and all(set(a) == {"tool", "took_ms", "ok"} for a in found["answer"]["actions"])
    assert "twelve euros" not in caplog.text
    trace = await fetch_trace(library.rag.archive, found["answer"]["trace_id"])
    assert "twelve euros" not in f"{trace}{library.runs[-1].spans}"
    silent = await answerer.ask(ASKED, trace=False)
    assert silent is not None and silent["results"] == []
