from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rag_core.planning.router import Route, route_plan
from rag_core.planning.rule_planner import plan_by_rules
from rag_core.types import Channel, Kind, Plan, Question, Viewer

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
        ("Что писали о пароме на прошлой неделе?", "agent", "a filter"),
        ("How many posts mention the ferry in May 2025?", "direct", "short and specific"),
    ],
)  # fmt: skip
def test_the_recipe_and_why(text: str, recipe: str, why: str) -> None:
    plan = plan_by_rules(Question(text, "en", NOW, Viewer(1, frozenset(KNOWN))), KNOWN)
    assert plan.reasons[1] == f"{recipe}: {why}"


def test_a_plan_without_queries_has_a_route_too() -> None:
    assert route_plan(Plan(())) == Route("lexical", "direct", ("lexical: no terms", "direct: short and specific"))
    assert route_plan(replace(Plan(("ferry",)), kind=Kind.LIST)).recipe == "agent"
