from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.planning.plan import plan_by_rules, route_plan
from rag_core.types import Channel, Kind, Plan, Question, Viewer

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared" / "data"
KNOWN = {1: Channel(1, "Harbour News", "harbour_news")}
NOW = datetime(2026, 1, 15, tzinfo=UTC)
LONG = (
    "why do people who sail alone often speak of silence longing water light distance patience wonder and fear at night"
)


@pytest.mark.parametrize(
    ("text", "legs", "why"),
    [
        ("Where is the ferry?", "hybrid", "several terms"),
        ("When does the island ferry leave?", "hybrid", "several terms"),
        ("What does ticket 4417 of the ferry cost?", "lexical", "numbers or quotes"),
        ("Когда «Белая чайка» уходит с причала?", "lexical", "numbers or quotes"),
        ("Где ИЛ-96 построили у моста?", "lexical", "numbers or quotes"),
        ("Что писали о паромах у старого причала на прошлой неделе?", "lexical", "a filter and few terms"),
        ("Сколько стоит обжиг большой вазы, по данным @harbour_news?", "lexical", "a filter and few terms"),
        ("What does a ferry ticket to the island cost in winter?", "hybrid", "several terms"),
        (LONG, "meaning first", "long and without names"),
        (f"{LONG} on Owl Island", "hybrid", "several terms"),
    ],
)
def test_the_legs_and_why(text: str, legs: str, why: str) -> None:
    plan = plan_by_rules(Question(text, "en", NOW, Viewer(1, frozenset(KNOWN))), KNOWN)
    assert (plan.legs, plan.reasons[0]) == (legs, f"{legs}: {why}")


@pytest.mark.parametrize(
    ("text", "recipe", "why"),
    [
        ("What does a ferry ticket cost?", "direct", "short and specific"),
        ("Compare the ferry and the bridge", "agent", "compare"),
        ("Правда ли, что паром отменили?", "agent", "claim"),
        ("Перечисли причалы города", "agent", "list"),
        ("Кратко: что с мостом?", "agent", "summary"),
        ("Who built the lighthouse, where does its keeper live, and what do lamps weigh?", "agent", "several parts"),
        ("Что писали о пароме на прошлой неделе?", "direct", "short and specific"),
        ("How many posts mention the ferry in May 2025?", "agent", "how many"),
        ("Is it true that the ferry sank?", "agent", "claim"),
        ("Что дороже: паром или мост?", "agent", "a comparison"),
        ("Which is longer, the pier or the bridge?", "agent", "a comparison"),
        ("Как менялась цена билета?", "agent", "a span of time"),
        ("What is the name of the ferry?", "direct", "short and specific"),
        ("Кто возит почту и хлеб на остров?", "direct", "short and specific"),
    ],
)  # fmt: skip
def test_the_recipe_and_why(text: str, recipe: str, why: str) -> None:
    plan = plan_by_rules(Question(text, "en", NOW, Viewer(1, frozenset(KNOWN))), KNOWN)
    assert plan.reasons[1] == f"{recipe}: {why}"


def test_a_plan_without_queries_has_a_route_too() -> None:
    reasons = ("lexical: no terms", "direct: short and specific")
    assert route_plan(Plan(()), "") == Plan((), legs="lexical", reasons=reasons)
    assert route_plan(Plan(("ferry",), Kind.LIST), "ferry").reasons[-1] == "agent: list"


SETS = {"musique": "musique_100", "hotpotqa": "hotpotqa_100", "xquad": "xquad", "people-samples": "people/samples",
        "people-real": "people/real"}  # fmt: skip
SAMPLES = ROOT / "bot" / "sandbox" / "channels" / "questions.jsonl"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the evaluation data is not beside the checkout")
def test_three_in_four_complex_questions_are_known_and_one_in_ten_simple_ones_taken_for_them() -> None:
    """300 questions labelled by two readers; those on which they differ, and chains alone, are left out."""
    files = {name: SHARED / folder / "queries.jsonl" for name, folder in SETS.items()} | {"samples": SAMPLES}
    texts = {
        (name, row["id"]): row["text"]
        for name, file in files.items()
        for row in map(json.loads, file.read_text("utf-8").splitlines())
    }
    agent: dict[str, list[bool]] = {"complex": [], "simple": []}
    labels = (ROOT / "tests" / "data" / "routing" / "labels.jsonl").read_text("utf-8").splitlines()
    for row in map(json.loads, labels):
        if len(set(row["labels"])) == 1 and set(row["types"]) != {"chain"}:
            text = texts[row["set"], row["source_id"]]
            plan = plan_by_rules(Question(text, row["lang"], NOW, Viewer(1, frozenset())))
            agent[row["labels"][0]].append(bool(plan.reasons) and plan.reasons[-1].startswith("agent"))
    assert sum(agent["complex"]) / len(agent["complex"]) >= 0.75
    assert sum(agent["simple"]) / len(agent["simple"]) <= 0.1
