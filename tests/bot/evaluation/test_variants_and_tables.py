from dataclasses import replace

import pytest

from bot.evaluation.data import Variant, draw_sample
from bot.evaluation.metrics import (
    compute_difference_intervals,
    compute_ratios,
    format_difference_intervals,
    format_report,
)
from rag_core.planning.plan import plan_with_spelling_and_aliases
from rag_core.storage.channels import load_channels
from rag_core.types import HYBRID

# Ways.


@pytest.fixture
def rag(library):
    """As if both models were open: a way only passes them on."""
    return replace(library.rag, dense=object(), reranker=object())


def test_without_a_plan_the_question_is_the_one_query_of_both_legs(library, rag):
    question = library.question("When did Harbour News write about the ferry to Owl Island in March 2025?")
    with_plan, without = (Variant(plan=plan).over(rag).plan(question, {}) for plan in ("on", "off"))
    assert with_plan.since and len(with_plan.queries) > 2
    assert (without.queries, without.since, without.until, without.channels) == ((question.text,), None, None, None)
    assert without.legs == HYBRID
    with_planner = replace(rag, planner=object())
    assert Variant().over(with_planner).planner and not Variant(plan="off").over(with_planner).planner


async def test_without_a_plan_spelling_and_aliases_are_left_as_they_are(library):
    question = library.question("Почом курс кирамики?")  # a word of asking is no typo
    for way, read_as in (("on", (("кирамики", "керамики"),)), ("off", ())):
        rag = Variant(plan=way).over(library.rag)
        plan = await plan_with_spelling_and_aliases(question, await load_channels(rag.archive), (), rag)
        assert plan.read_as == read_as
        assert plan.aliases == () or way == "on"


# Questions.


def test_rows_are_the_first_or_those_that_a_seed_draws_in_their_order():
    rows = tuple(range(100))
    assert draw_sample(rows, None) == draw_sample(rows, None, 7) == rows
    assert draw_sample(rows, 3) == (0, 1, 2)
    chosen = draw_sample(rows, 10, 7)
    assert chosen == tuple(sorted(chosen)) == draw_sample(rows, 10, 7)
    assert len(set(chosen)) == 10
    assert chosen != draw_sample(rows, 10, 8)
    assert draw_sample(rows, 500, 7) == rows


# Tables.


def test_shares_are_said_with_their_interval_and_of_thirty_rows_at_least():
    found = {"": {"all": {"recall@1": 0.5, "recall@5": 1.0, "recall@20": 1.0}}}
    few, many = (format_report("retrieval", found, rows, everything=False) for rows in (29, 30))
    assert few.splitlines()[0] == (
        "Of the posts that answer 29 questions, 14 are found first, 29 among the first five, 29 among the first twenty."
    )
    assert "%" not in few and "Measured: 29. Too few for shares: take 30 or more." in few
    assert "answer 30 questions, 50% (33% to 67%) are found first, 100% (89% to 100%) among" in many


def test_ratios_are_of_what_was_measured():
    found = {
        "slow-way": {"all": {"right": 0.5, "latency_ms_p50": 10.0, "latency_ms_p95": None}},
        "other": {"all": {"right": 1.0, "latency_ms_p50": 25.0, "latency_ms_p95": 2.0}},
    }
    assert compute_ratios(found) == {"other": {"all": {"latency_ms_p50": 2.5, "latency_ms_p95": None}}}


def test_an_interval_of_paired_questions_holds_no_zero_where_one_variant_wins():
    def share(rows):
        return {"shown_right": sum(rows) / len(rows), "latency_ms_p50": 1.0, "nothing": None}

    rows = {"first": [False] * 40, "better": [True] * 40, "alike": [False] * 40, "mixed": [True] * 3 + [False] * 37}
    found = compute_difference_intervals(rows, share)
    assert found["better"] == {"shown_right": (1.0, 1.0, 1.0)}
    assert found["alike"] == {"shown_right": (0.0, 0.0, 0.0)}
    difference, low, high = found["mixed"]["shown_right"]
    assert difference == 0.075
    assert low == 0.0  # three of forty may be chance
    assert 0.1 < high < 0.2
    assert found == compute_difference_intervals(rows, share)
    told = format_difference_intervals("answers", found, "first").splitlines()
    assert told[0] == "shown_right of better less that of first: +1.000 (+1.000 to +1.000)"
