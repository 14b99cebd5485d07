from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.planning.plan import MAX_PARTS, split_question


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("When does the ferry leave and what does a ticket cost?",
         ("When does the ferry leave", "what does a ticket cost")),
        ("кто ведёт кружок, а где он проходит?", ("кто ведет кружок", "где он проходит")),
        ("What do Anna and Boris sell?", ("What do Anna and Boris sell?",)),
    ],
)  # fmt: skip
def test_a_question_is_split_where_another_one_begins(text: str, parts: tuple[str, ...]) -> None:
    assert split_question(text) == parts


def test_a_long_text_is_no_question_of_several_parts() -> None:
    text = "When does it open and where is it? " * 20
    assert split_question(text) == (text,)


@given(st.text(max_size=200))
def test_whatever_is_asked_has_at_least_one_part_and_not_too_many(text: str) -> None:
    assert 1 <= len(split_question(text)) <= MAX_PARTS
