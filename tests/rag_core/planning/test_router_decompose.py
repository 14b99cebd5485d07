"""Questions of several parts, and what a later part leaves out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.planning.router import MAX_PARTS, split_question

NOW = datetime(2026, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("When does the ferry leave and what does a ticket cost?",
         ["When does the ferry leave?", "what does a ticket cost (ferry leave)?"]),
        ("Когда уходит паром и сколько стоит билет?", ["Когда уходит паром?", "сколько стоит билет (уходит паром)?"]),
        ("Where is the museum? How much is it?", ["Where is the museum?", "How much is it (museum)?"]),
        ("кто ведёт кружок, а где он проходит?", ["кто ведет кружок?", "где он проходит (ведет кружок)?"]),
        ("штоллен когда заказывать и почём", ["штоллен когда заказывать?", "почем (штоллен когда заказывать)?"]),
        ("What do Anna and Boris sell?", ["What do Anna and Boris sell?"]),
        ("Правда ли, что паром утонул?", ["Правда ли, что паром утонул?"]),
        ("В какой день отдают хлеб тем, кто заплатил вперёд?", ["В какой день отдают хлеб тем, кто заплатил вперёд?"]),
        ("паром и причал", ["паром и причал"]),
        ("", [""]),
    ],
)  # fmt: skip
def test_the_parts_of_a_question_stand_alone(text: str, parts: list[str]) -> None:
    assert [part.text for part in split_question(text, NOW)] == parts


def test_a_long_text_is_no_question_of_several_parts() -> None:
    text = "When does it open and where is it? " * 20
    assert [part.text for part in split_question(text, NOW)] == [text]


@given(st.text(max_size=200))
def test_whatever_is_asked_has_at_least_one_part_and_not_too_many(text: str) -> None:
    assert 1 <= len(split_question(text, NOW)) <= MAX_PARTS
