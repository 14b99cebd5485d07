from __future__ import annotations

import pytest

from rag_core.text.answer_type import AnswerType
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import measure_stem_similarity, stem, tokenize


def equally(term: str) -> float:
    return 1.0


def test_the_shares_of_a_question_add_up_to_one() -> None:
    asked = QueryTerms.of("Сколько стоит паром до Совиного острова? Паром!", equally)
    assert sum(asked.share.values()) == pytest.approx(1)
    assert asked.order.count(stem("паром")) == 2
    assert asked.want is AnswerType.PRICE


def test_words_that_say_how_it_is_asked_weigh_less_than_what_is_asked_about() -> None:
    asked = QueryTerms.of("What is the name of the lighthouse?", equally)
    assert asked.share["name"] < asked.share[stem("lighthouse")]


def test_a_question_without_terms_has_no_shares() -> None:
    asked = QueryTerms.of("что это? 🔥", equally)
    assert (asked.share, asked.matched_share(frozenset({"a"})), asked.similar_share(frozenset({"a"}))) == ({}, 0, 0)


def test_met_and_kin_divide_the_question_between_them() -> None:
    asked = QueryTerms.of("мозаика моста", equally)
    found = frozenset(tokenize("мозаичный мост"))
    assert asked.matched_share(found) == pytest.approx(0.5)
    assert 0 < asked.similar_share(found) < 0.5


@pytest.mark.parametrize(
    ("term", "other", "kin"),
    [
        ("учител", "учительниц", True),
        ("кот", "котел", False),  # three letters are chance
        ("паром", "порог", False),
        ("абонемент", "абонент", False),
        ("керамик", "керамическ", True),
    ],
)
def test_kin_are_stems_with_a_long_beginning_in_common(term: str, other: str, kin: bool) -> None:
    assert (measure_stem_similarity(term, [other]) > 0) is kin
    assert measure_stem_similarity(term, [other]) == measure_stem_similarity(other, [term])


@pytest.mark.parametrize(("term", "others"), [("", ["паром"]), ("паром", [""]), ("", [""]), ("", [])])
def test_an_empty_stem_is_kin_to_nothing(term: str, others: list[str]) -> None:
    assert measure_stem_similarity(term, others) == 0
