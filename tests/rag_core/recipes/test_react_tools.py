"""Tools: what they bring, the form they answer in, and that nothing put into them breaks it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_sizes import choose_size

from rag_core.recipes.react import build_calculation_sentence
from rag_core.recipes.react_tools import (
    TOOLS,
    Tool,
    ToolContext,
    call_tool,
    make_tool,
    select_allowed_tools,
)
from rag_core.run import Budgets, Run

SECONDS = 0.5  # a tool may take in these tests
GRACE = 0.5  # on a busy machine a timer is late


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory, open_library: Any) -> None:
    """Load what is loaded with the first search: it takes longer than a tool has here."""

    async def ask() -> None:
        async with open_library(tmp_path_factory.mktemp("warm")) as library:
            await library.ask("How much does a ferry ticket cost?")

    asyncio.run(ask())


def desk_of(library: Any, text: str = "How much does a ferry ticket cost?", **fields: Any) -> ToolContext:
    return ToolContext(library.question(text), library.rag, Run(Budgets(tool=SECONDS), "react"), **fields)


async def use(desk: ToolContext, name: str, /, **given: Any) -> dict[str, Any]:
    """The data of a call that must succeed."""
    outcome = await call_tool({"tool": name, "input": given}, TOOLS, desk)
    assert outcome.ok, outcome.error
    assert outcome.data is not None
    return outcome.data


def keys(desk: ToolContext, found: dict[str, Any]) -> list[tuple[int, int]]:
    return [tuple(desk.passage(post["post"]).key) for post in found["posts"]]


async def test_search_brings_posts_in_short_under_numbers(library: Any) -> None:
    desk = desk_of(library)
    found = await use(desk, "search", queries=["ferry ticket cost"])
    assert keys(desk, found)[0] == (library.harbour, 5)
    assert found["posts"][0] == {
        "post": 1,
        "score": 1.0,
        "channel": "Harbour News",
        "date": "2025-04-10",
        "snippet": "A ferry ticket costs twelve euros; children under six sail for nothing.",
    }
    assert await use(desk, "search", queries=["ferry ticket cost"]) == found
    read = await use(desk, "fetch", posts=[1])
    assert read["posts"][0]["text"].endswith("children under six sail for nothing.")
    of_may = await use(desk, "search", queries=["ferry"], since="2025-05-01", until="2025-05-31")
    assert keys(desk, of_may) == [(library.harbour, 6)]


async def test_neighbours_are_of_the_same_channel_in_order(library: Any) -> None:
    desk = desk_of(library)
    await use(desk, "search", queries=["lighthouse museum lamps"])
    found = await use(desk, "neighbours", post=1, before=1, after=1)
    assert keys(desk, found) == [(library.harbour, 2), (library.harbour, 4)]


async def test_the_newest_come_first_of_all_and_about_something(library: Any) -> None:
    desk = desk_of(library)
    assert keys(desk, await use(desk, "newest", limit=2)) == [(library.harbour, 6), (library.kiln, 4)]
    assert keys(desk, await use(desk, "newest", about="обжиг", limit=1)) == [(library.kiln, 4)]


async def test_mentions_are_counted_exactly_and_leave_a_cited_answer(library: Any) -> None:
    desk = desk_of(library)
    assert await use(desk, "count_mentions", topic="ferry") == {
        "count": 3, "first": "2025-03-01", "last": "2025-05-20"
    }  # fmt: skip
    assert desk.exact is not None
    assert desk.exact.sentences[0].citations
    assert keys(desk, await use(desk, "first_mention", topic="ferry")) == [(library.harbour, 1)]
    line = await use(desk, "timeline", topic="ferry", since="2025-04-01", until=None)
    assert (line["count"], keys(desk, line)) == (2, [(library.harbour, 5), (library.harbour, 6)])
    assert (await use(desk, "count_mentions", topic="submarine"))["count"] == 0
    assert (await use(desk, "first_mention", topic="submarine"))["posts"] == []
    assert desk.exact is None  # what was counted first is not the answer to what was counted last


async def test_an_index_on_a_server_is_not_waited_for_on_the_event_loop(library: Any, monkeypatch: Any) -> None:
    real, threads = library.rag.lexical.known, set[str]()

    def known(*given: Any) -> bool:
        threads.add(threading.current_thread().name)
        return real(*given)

    monkeypatch.setattr(library.rag.lexical, "known", known)
    await use(desk_of(library), "count_mentions", topic="ferry")
    assert threads
    assert threading.main_thread().name not in threads


async def test_a_key_that_no_tool_takes_is_neither_repeated_nor_traced(
    library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    desk = desk_of(library)
    for asked in (
        {"tool": "search", "input": {"queries": ["ferry"], "a secret thought": 1}},
        {"tool": "search", "input": {"queries": ["ferry"]}, "a secret thought": 1},
    ):
        outcome = await call_tool(asked, TOOLS, desk)
        assert not outcome.ok
        assert "secret" not in f"{outcome} {caplog.text} {desk.run.spans}"


async def test_words_of_time_become_days(library: Any) -> None:
    desk = desk_of(library)
    assert await use(desk, "time_normalize", text="в марте 2025") == {"since": "2025-03-01", "until": "2025-04-01"}
    assert await use(desk, "time_normalize", text="purple") == {"since": None, "until": None}


async def test_rerank_puts_the_post_that_answers_first(library: Any) -> None:
    desk = desk_of(library)
    await use(desk, "newest", limit=9)
    numbers = [n for n, hit in enumerate(desk.found, 1) if hit.passage.key.chat_id == library.harbour][:5]
    found = await use(desk, "rerank", query="ticket for children", posts=numbers)
    assert keys(desk, found)[0] == (library.harbour, 5)
    assert sorted(post["post"] for post in found["posts"]) == sorted(numbers)


async def test_verify_searches_for_itself_and_keeps_its_form(library: Any) -> None:
    desk = desk_of(library)
    right = await use(desk, "verify", claim="A ferry ticket costs twelve euros")
    wrong = await use(desk, "verify", claim="A ferry ticket costs 99 euros")
    nothing = await use(desk, "verify", claim="The zeppelin was painted green")
    for told in (right, wrong, nothing):
        assert list(told) == ["verified", "confidence", "evidence", "documents_found"]
        assert all(one["quote"] in desk.passage(one["post"]).text for one in told["evidence"])
    assert (right["verified"], right["evidence"][0]["supports"]) == (True, True)
    assert (wrong["verified"], wrong["evidence"][0]["supports"]) == (False, False)
    assert (nothing["verified"], nothing["evidence"]) == (False, [])
    assert right["documents_found"] > 0
    assert wrong["confidence"] < 0.5 <= right["confidence"]


async def test_search_takes_several_queries_channels_and_a_threshold(library: Any) -> None:
    desk = desk_of(library)
    both = await use(desk, "search", queries=["ferry ticket cost", "lighthouse museum lamps"], k=50)
    found = keys(desk, both)
    alone = [keys(desk, await use(desk, "search", queries=[q], k=1))[0]
             for q in ("ferry ticket cost", "lighthouse museum lamps")]  # fmt: skip
    assert set(alone) <= set(found[:4])
    scores = [post["score"] for post in both["posts"]]
    assert scores == sorted(scores, reverse=True)
    kiln = await use(desk, "search", queries=["абонемент в мастерскую"], channels=[both["posts"][0]["channel"]])
    assert all(chat == desk.passage(1).key.chat_id for chat, _ in keys(desk, kiln))
    bar = scores[1]
    above = await use(desk, "search", queries=["ferry ticket cost", "lighthouse museum lamps"], k=50, threshold=bar)
    assert [post["score"] for post in above["posts"]] == [score for score in scores if score >= bar]


async def test_a_channel_that_is_closed_to_the_asker_is_unknown(library: Any) -> None:
    outcomes = [
        await call_tool(
            {"tool": "search", "input": {"queries": ["ferry"], "channels": [name]}}, TOOLS, desk_of(library)
        )
        for name in ("The safe", "No such channel")
    ]
    assert {outcome.error for outcome in outcomes} == {
        "There is no channel of this name: give a name that a search showed, or null."
    }


async def test_both_legs_and_their_fusion_are_tools(library: Any) -> None:
    desk = desk_of(library)
    words = await use(desk, "bm25_search", query="ferry ticket", k=3)
    assert keys(desk, words)[0] == (library.harbour, 5)
    assert keys(desk, await use(desk, "hybrid_search", query="ferry ticket", k=3)) == keys(desk, words)
    fused = await use(desk, "fusion_rank", rankings=[[2, 1], [2, 1], [1, 2]])
    assert [post["post"] for post in fused["posts"]] == [2, 1]
    assert fused["posts"][0]["score"] < 1.0


async def test_a_plan_and_a_route_are_shown_in_the_form_of_the_planner(library: Any) -> None:
    desk = desk_of(library)
    plan = await use(desk, "query_plan", query="What did Harbour News write about ferry tickets in April 2025?")
    assert list(plan) == ["normalized_queries", "must_phrases", "should_phrases", "metadata_filters", "k_per_query",
                          "fusion"]  # fmt: skip
    assert (plan["metadata_filters"]["date_from"], plan["metadata_filters"]["date_to"]) == ("2025-04-01", "2025-04-30")
    route = await use(desk, "route", query="ferry tickets")
    assert route["recipe"] in {"direct", "agent"}
    assert route["reasons"]


async def test_a_summary_keeps_its_length_and_evidence_is_composed(library: Any) -> None:
    desk = desk_of(library)
    await use(desk, "search", queries=["ferry ticket cost"])
    for most in (60, 200, 600):
        told = await use(desk, "summarize", posts=[1, 2, 3], max_length=most)
        assert sum(len(sentence["text"]) for sentence in told["sentences"]) <= most
        assert all(sentence["text"] in desk.passage(sentence["post"]).text for sentence in told["sentences"])
    composed = await use(desk, "compose", posts=[1, 2])
    assert {post["post"] for post in composed["posts"]} | set(composed["left_out"]) >= {1, 2}


async def test_rewrite_asks_the_planner_and_else_the_rules(library: Any) -> None:
    from dataclasses import replace

    from scripted_model import FakeLlm

    by_rules = await use(desk_of(library), "rewrite", query="How much does a ferry ticket cost?")
    assert by_rules["queries"]
    model = FakeLlm('["ferry fare", "price of the crossing"]')
    library.rag = replace(library.rag, planner=model)
    told = await use(desk_of(library), "rewrite", query="How much does a ferry ticket cost?")
    assert told["queries"] == ["ferry fare", "price of the crossing"]


async def test_a_sum_cites_the_posts_its_numbers_are_from(library: Any) -> None:
    desk = desk_of(library, "Сколько стоит абонемент в мастерскую на 12 месяцев?")
    await use(desk, "search", queries=["абонемент в мастерскую"])
    await use(desk, "calculate", expression="2 750 * 12")
    summed = build_calculation_sentence(desk)
    assert summed is not None
    assert summed.text == "2 750 * 12 = 33000"
    assert [tuple(c.post) for c in summed.citations] == [(library.kiln, 3)]
    await use(desk, "calculate", expression="2 750 * 17")
    assert build_calculation_sentence(desk) is None


async def test_the_year_of_a_date_is_a_number_of_its_post(library: Any, make_post: Any) -> None:
    await library.keep(make_post(95, "Маяк основан 01.09.1998, перестроен в 2024 году.", chat=library.kiln, days=9))
    desk = desk_of(library, "Сколько лет было маяку?")
    await use(desk, "search", queries=["маяк основан перестроен"])
    await use(desk, "calculate", expression="2024 - 1998")
    aged = build_calculation_sentence(desk)
    assert aged is not None and aged.text == "2024 - 1998 = 26" and [c.post.message_id for c in aged.citations] == [95]


@pytest.mark.parametrize("name", [tool.name for tool in TOOLS])
async def test_no_tool_sees_a_channel_that_the_asker_may_not_read(library: Any, make_post: Any, name: str) -> None:
    await library.keep(make_post(9, "The ferry safe code is 4711, ticket and all.", chat=library.safe, days=90))
    desk = desk_of(library, "What is the ferry safe code?")
    await use(desk, "search", queries=["ferry safe code"])
    given: dict[str, dict[str, Any]] = {
        "search": {"queries": ["ferry safe code 4711", "safe code"]}, "newest": {"limit": 9},
        "bm25_search": {"query": "code 4711", "k": 50}, "dense_search": {"query": "code 4711"},
        "hybrid_search": {"query": "code 4711"}, "fusion_rank": {"rankings": [[1, 2], [2]]},
        "rewrite": {"query": "safe code"}, "query_plan": {"query": "safe code"}, "route": {"query": "safe code"},
        "compose": {"posts": [1, 2]},
        "neighbours": {"post": 1, "before": 3, "after": 3},
        "first_mention": {"topic": "code"}, "count_mentions": {"topic": "code"}, "timeline": {"topic": "code"},
        "fetch": {"posts": [1, 2]}, "summarize": {"posts": [1, 2]}, "rerank": {"query": "code", "posts": [1, 2]},
        "verify": {"claim": "The ferry safe code is 4711"}, "calculate": {"expression": "1+1"},
        "time_normalize": {"text": "today"},
    }  # fmt: skip
    if name == "dense_search":  # there is no embedding model in these tests
        outcome = await call_tool({"tool": name, "input": given[name]}, TOOLS, desk)
        assert outcome.error == "There is no embedding model here: use bm25_search."
        return
    data = await use(desk, name, **given[name])
    assert "4711" not in json.dumps(data)
    assert data.get("count", 0) == 0
    assert all(hit.passage.key.chat_id in desk.question.viewer.channels for hit in desk.found)


def test_the_allow_list_allows_by_name_or_all() -> None:
    assert [tool.name for tool in select_allowed_tools("search, Calculate,nothing")] == ["search", "calculate"]
    assert select_allowed_tools("none") == ()
    assert select_allowed_tools("all") == TOOLS


async def test_a_tool_plugged_in_is_called_like_the_others_and_lays_nothing_down(library: Any) -> None:
    async def work(desk: ToolContext, queries: list[str]) -> dict[str, Any]:
        return {"pages": [{"title": queries[0], "snippet": "b"}]}

    desk = desk_of(library)
    outcome = await call_tool({"tool": "pages", "input": {"queries": ["ferry"]}}, [make_tool("pages", work)], desk)
    assert outcome.data == {"pages": [{"title": "ferry", "snippet": "b"}]}
    assert desk.found == []


async def test_a_tool_that_takes_too_long_is_ended(library: Any) -> None:
    async def sleeping(desk: ToolContext, queries: list[str]) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {"pages": []}

    slow, desk = make_tool("slow", sleeping), desk_of(library)
    outcome = await call_tool({"tool": "slow", "input": {"queries": ["x"]}}, [slow], desk)
    assert outcome.error == "The tool took longer than 0.5 s."
    assert desk.run.spans[-1].took_ms < (SECONDS + GRACE) * 1000


async def test_a_broken_tool_is_said_and_logged_and_breaks_nothing(
    library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(desk: ToolContext, queries: list[str]) -> dict[str, Any]:
        raise KeyError("secret")

    outcome = await call_tool({"tool": "b", "input": {"queries": ["x"]}}, [make_tool("b", broken)], desk_of(library))
    assert outcome.error == "The tool failed: its log says why."
    assert any(record.exc_info for record in caplog.records)


async def test_each_call_leaves_a_line_in_the_trace_without_texts(
    library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk = desk_of(library)
    desk.step = 2
    with caplog.at_level(logging.INFO, "rag_core.recipes.react_tools"):
        await use(desk, "search", queries=["ferry ticket cost"])
        await call_tool({"tool": "fetch", "input": {"posts": [77]}}, TOOLS, desk)
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [set(line) for line in lines] == [{"request_id", "step", "tool", "took_ms", "ok", "error"}] * 2
    assert [(line["step"], line["tool"], line["ok"]) for line in lines] == [(2, "search", True), (2, "fetch", False)]
    assert lines[0]["request_id"] == desk.run.trace_id
    assert "ticket" not in caplog.text
    assert [span.stage for span in desk.run.spans if span.stage.startswith("tool.")] == ["tool.search", "tool.fetch"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=4) | st.dates(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
FIELDS = sorted({field for tool in TOOLS for field in tool.wants.model_fields})
DAYS = st.dates(min_value=date(1, 1, 1)).map(str)
LIKELY = st.dictionaries(
    st.sampled_from(FIELDS),
    st.text(max_size=130) | st.integers(-2, 120) | st.lists(st.integers(-2, 120), max_size=7) | DAYS | st.none(),
)


def fitting(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs that mostly are what the tool takes."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "posts": st.lists(st.integers(1, 12), min_size=1, max_size=5), "post": st.integers(1, 12),
        "limit": st.integers(1, 9),
        "queries": st.lists(st.text(min_size=1, max_size=99), min_size=1, max_size=3), "k": st.integers(1, 50),
        "channels": st.lists(st.sampled_from(["Harbour", "@kiln", "?"]), min_size=1, max_size=3) | st.none(),
        "threshold": st.floats(0, 1), "max_length": st.integers(60, 600),
        "rankings": st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=5), min_size=2, max_size=4),
        "before": st.integers(0, 3), "after": st.integers(0, 3), "since": DAYS | st.none(), "until": DAYS | st.none(),
    }  # fmt: skip
    words = st.text(min_size=1, max_size=119) | st.sampled_from(
        ["ferry", "обжиг", "the", "2**9", "\ud800", "«»", "\u202e"]
    )
    return st.fixed_dictionaries({name: kinds.get(name, words) for name in tool.wants.model_fields})


@settings(max_examples=choose_size(25, 8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
async def test_whatever_is_put_in_there_is_an_answer_in_time(library: Any, tool: Tool, data: st.DataObject) -> None:
    desk = desk_of(library)
    await call_tool({"tool": "newest", "input": {"limit": 9}}, TOOLS, desk)
    given_input = data.draw(fitting(tool) | LIKELY | ANYTHING)
    outcome = await call_tool({"tool": tool.name, "input": given_input}, TOOLS, desk)
    json.dumps(outcome.data)
    assert outcome.ok == (outcome.error is None) == (outcome.data is not None)
    assert desk.run.spans[-1].took_ms < (SECONDS + GRACE) * 1000
    assert outcome.error != "The tool failed: its log says why."


@settings(max_examples=choose_size(60, 30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=ANYTHING | st.fixed_dictionaries({"tool": ANYTHING, "input": ANYTHING}))
async def test_whatever_is_called_is_refused_in_the_same_form(library: Any, asked: object) -> None:
    outcome = await call_tool(asked, TOOLS, desk_of(library))
    assert not outcome.ok
    assert outcome.error
