"""Tools: what they bring, the form they answer in, and that nothing put into them breaks it."""

import asyncio
import json
import logging
import threading
from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_sizes import choose_size

from rag_core.recipes.react import TOOLS, ToolContext, build_calculation_sentence, call_tool, make_tool
from rag_core.run import Budgets, Run
from rag_core.storage.channels import Synonym, add_synonym

SECONDS = 0.5  # a tool may take in these tests
GRACE = 0.5  # on a busy machine a timer is late
PRICE = "ferry ticket cost"


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory, open_library):
    """Load what is loaded with the first search: it takes longer than a tool has here."""

    async def ask():
        async with open_library(tmp_path_factory.mktemp("warm")) as library:
            await library.ask("How much does a ferry ticket cost?")

    asyncio.run(ask())


def context_of(library, text="How much does a ferry ticket cost?"):
    return ToolContext(library.question(text), library.rag, Run(Budgets(tool=SECONDS), "react"))


async def use(context, name, /, **given):
    """The data of a call that must succeed."""
    data, ok = await call_tool(name, given, context)
    assert ok, data
    return data


def keys(context, listed):
    return [tuple(context.found[post["post"] - 1].passage.key) for post in listed]


async def test_search_brings_posts_in_short_under_numbers(library):
    context = context_of(library)
    found = await use(context, "search", queries=[PRICE])
    assert keys(context, found["posts"])[0] == (library.harbour, 5)
    assert found["posts"][0] == {
        "post": 1, "channel": "Harbour News", "date": "2025-04-10",
        "snippet": "A ferry ticket costs twelve euros; children under six sail for nothing.",
    }  # fmt: skip
    assert await use(context, "search", queries=[PRICE]) == found
    await add_synonym(library.rag.archive, Synonym(library.harbour, "beacon", "lighthouse"), 1)
    by_synonym = await use(context, "search", queries=["beacon"])  # planned as a reader's question is
    assert keys(context, by_synonym["posts"])[0] == (library.harbour, 3)
    of_may = await use(context, "search", queries=["ferry"], since="2025-05-01", until="2025-05-31")
    assert keys(context, of_may["posts"]) == [(library.harbour, 6)]
    both = await use(context, "search", queries=[PRICE, "lighthouse museum lamps"], limit=9)
    alone = [await use(context, "search", queries=[q], limit=1) for q in (PRICE, "lighthouse museum lamps")]
    assert {keys(context, one["posts"])[0] for one in alone} <= set(keys(context, both["posts"])[:4])
    kiln = await use(context, "search", queries=["абонемент в мастерскую"], channels=["Harbour"])
    assert {chat for chat, _ in keys(context, kiln["posts"])} <= {library.harbour}


async def test_a_post_is_opened_with_those_around_it_in_its_channel(library):
    context = context_of(library)
    await use(context, "search", queries=["lighthouse museum lamps"])
    opened = await use(context, "open", post=1, around=1)
    assert keys(context, opened["posts"]) == [(library.harbour, n) for n in (2, 3, 4)]
    (alone,) = (await use(context, "open", post=1))["posts"]
    assert alone["text"] == context.found[0].passage.text


async def test_posts_are_listed_newest_first_of_all_or_about_something(library):
    context = context_of(library)
    newest = await use(context, "list", limit=2)
    assert keys(context, newest["posts"]) == [(library.harbour, 6), (library.kiln, 4)]
    assert keys(context, (await use(context, "list", about="обжиг", limit=1))["posts"]) == [(library.kiln, 4)]
    early = await use(context, "list", channels=["Harbour"], until="2025-03-31", limit=9)
    assert {chat for chat, _ in keys(context, early["posts"])} == {library.harbour}


async def test_posts_are_counted_exactly_and_leave_a_cited_answer(library):
    context = context_of(library)
    ferry = await use(context, "count", about="ferry")
    assert (ferry["count"], keys(context, ferry["ends"])) == (3, [(library.harbour, 1), (library.harbour, 6)])
    assert context.exact is not None and context.exact.sentences[0].citations
    assert (await use(context, "count", about="ferry", since="2025-04-01", until=None))["count"] == 2
    assert await use(context, "count", about="submarine") == {"count": 0, "ends": []}
    assert context.exact is None  # what was counted first is not the answer to what was counted last


async def test_an_index_on_a_server_is_not_waited_for_on_the_event_loop(library, monkeypatch):
    real, threads = library.rag.lexical.known, set()

    def known(*given):
        threads.add(threading.current_thread().name)
        return real(*given)

    monkeypatch.setattr(library.rag.lexical, "known", known)
    await use(context_of(library), "count", about="ferry")
    assert threads and threading.main_thread().name not in threads


async def test_a_channel_that_is_closed_to_the_asker_is_unknown(library):
    calls = [
        await call_tool("search", {"queries": ["ferry"], "channels": [name]}, context_of(library))
        for name in ("The safe", "No such channel")
    ]
    assert (
        calls
        == [({"error": "There is no channel of this name: give a name that a search showed, or null."}, False)] * 2
    )


@pytest.mark.parametrize("name", [tool.name for tool in TOOLS])
async def test_no_tool_sees_a_channel_that_the_asker_may_not_read(library, make_post, name):
    await library.keep(make_post(9, "The ferry safe code is 4711, ticket and all.", chat=library.safe, days=90))
    context = context_of(library, "What is the ferry safe code?")
    await use(context, "search", queries=["ferry safe code"])
    given = {
        "search": {"queries": ["ferry safe code 4711", "safe code"]}, "list": {"limit": 9},
        "open": {"post": 1, "around": 3}, "count": {"about": "code"}, "calculate": {"expression": "1+1"},
    }  # fmt: skip
    data = await use(context, name, **given[name])
    assert "4711" not in json.dumps(data) and data.get("count", 0) == 0
    assert all(hit.passage.key.chat_id in context.question.viewer.channels for hit in context.found)


@pytest.mark.parametrize(
    ("text", "search", "sums", "cited"),
    [
        ("Сколько стоит абонемент в мастерскую на 12 месяцев?", "абонемент в мастерскую",
         {"2 750 * 12": "2 750 * 12 = 33000", "2 750 * 17": None}, 3),
        ("Сколько лет было маяку?", "маяк основан перестроен", {"2024 - 1998": "2024 - 1998 = 26"}, 95),
    ],
)  # fmt: skip
async def test_a_sum_cites_the_posts_its_numbers_are_from(library, make_post, text, search, sums, cited):
    await library.keep(make_post(95, "Маяк основан 01.09.1998, перестроен в 2024 году.", chat=library.kiln, days=9))
    context = context_of(library, text)
    await use(context, "search", queries=[search])
    for expression, said in sums.items():
        await use(context, "calculate", expression=expression)
        summed = build_calculation_sentence(context)
        assert (summed and summed.text) == said
        if summed:
            assert [tuple(c.post) for c in summed.citations] == [(library.kiln, cited)]


async def test_a_tool_that_hangs_or_breaks_is_said_and_breaks_nothing(library, caplog):
    async def sleeping(context, queries: list[str]):
        await asyncio.sleep(60)
        return {}

    async def broken(context, queries: list[str]):
        raise KeyError("secret")

    context = context_of(library)
    tools = [make_tool("slow", sleeping), make_tool("broken", broken)]
    outcome = await call_tool("slow", {"queries": ["x"]}, context, tools)
    assert outcome == ({"error": "The tool took longer than 0.5 s."}, False)
    assert context.run.spans[-1].took_ms < (SECONDS + GRACE) * 1000
    outcome = await call_tool("broken", {"queries": ["x"]}, context, tools)
    assert outcome == ({"error": "The tool failed: its log says why."}, False)
    assert any(record.exc_info for record in caplog.records)


async def test_each_call_leaves_a_line_in_the_trace_without_texts(library, caplog):
    context = context_of(library)
    context.step = 2
    with caplog.at_level(logging.INFO, "rag_core.recipes.react"):
        await use(context, "search", queries=[PRICE])
        await call_tool("open", {"post": 77}, context)
        refused, _ = await call_tool("search", {"queries": ["ferry"], "a secret thought": 1}, context)
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    assert [set(line) for line in lines] == [{"request_id", "step", "tool", "took_ms", "ok", "error"}] * 3
    called = [(line["step"], line["tool"], line["ok"]) for line in lines]
    assert called == [(2, "search", True), (2, "open", False), (2, "search", False)]
    assert lines[0]["request_id"] == context.run.trace_id
    assert "ticket" not in caplog.text
    assert "secret" not in f"{refused} {caplog.text} {context.run.spans}"
    stages = [span.stage for span in context.run.spans if span.stage.startswith("tool.")]
    assert stages == ["tool.search", "tool.open", "tool.search"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
DAYS = st.dates(min_value=date(1, 1, 1)).map(str) | st.none()
WORDS = st.text(min_size=1, max_size=119) | st.sampled_from(["ferry", "обжиг", "the", "2**9", "\ud800", "«»", "\u202e"])
FIELDS = {
    "post": st.integers(1, 12), "around": st.integers(0, 3), "limit": st.integers(1, 9), "since": DAYS, "until": DAYS,
    "queries": st.lists(st.text(min_size=1, max_size=99), min_size=1, max_size=3), "about": WORDS, "expression": WORDS,
    "channels": st.lists(st.sampled_from(["Harbour", "@kiln", "?"]), min_size=1, max_size=3) | st.none(),
}  # fmt: skip
LIKELY = st.dictionaries(
    st.sampled_from(sorted(FIELDS)) | st.text(max_size=12),
    st.text(max_size=130) | st.integers(-2, 120) | st.lists(st.integers(-2, 120), max_size=7) | DAYS | ANYTHING,
)


@settings(max_examples=choose_size(40, 12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("tool", [*TOOLS, None], ids=lambda tool: tool.name if tool else "none")
async def test_whatever_is_put_in_there_is_an_answer_in_time(library, tool, data):
    context = context_of(library)
    await use(context, "list", limit=9)
    taken = st.fixed_dictionaries({name: FIELDS[name] for name in tool.wants.model_fields}) if tool else LIKELY
    name = tool.name if tool else data.draw(st.text().filter(lambda name: name not in {one.name for one in TOOLS}))
    found, ok = await call_tool(name, data.draw(taken | LIKELY), context)
    json.dumps(found)
    assert ok == ("error" not in found) and (ok or found["error"])
    assert ok is False or tool is not None
    assert context.run.spans[-1].took_ms < (SECONDS + GRACE) * 1000
    assert found.get("error") != "The tool failed: its log says why."
