from __future__ import annotations

import pytest

from rag_core.analysis import stem, terms
from rag_core.asked import Asked, kinship
from rag_core.wants import Want


def equally(term: str) -> float:
    return 1.0


def test_the_shares_of_a_question_add_up_to_one() -> None:
    asked = Asked.of("Сколько стоит паром до Совиного острова? Паром!", equally)
    assert sum(asked.share.values()) == pytest.approx(1)
    assert asked.order.count(stem("паром")) == 2
    assert asked.want is Want.NUMBER


def test_words_that_say_how_it_is_asked_weigh_less_than_what_is_asked_about() -> None:
    asked = Asked.of("What is the name of the lighthouse?", equally)
    assert asked.share["name"] < asked.share[stem("lighthouse")]


def test_a_question_without_terms_has_no_shares() -> None:
    asked = Asked.of("что это? 🔥", equally)
    assert (asked.share, asked.met(frozenset({"a"})), asked.kin(frozenset({"a"}))) == ({}, 0, 0)


def test_met_and_kin_divide_the_question_between_them() -> None:
    asked = Asked.of("керамика моста", equally)
    found = frozenset(terms("керамический мост"))
    assert asked.met(found) == pytest.approx(0.5)
    assert 0 < asked.kin(found) < 0.5


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
    assert (kinship(term, [other]) > 0) is kin
    assert kinship(term, [other]) == kinship(other, [term])


@pytest.mark.parametrize(("term", "others"), [("", ["паром"]), ("паром", [""]), ("", [""]), ("", [])])
def test_an_empty_stem_is_kin_to_nothing(term: str, others: list[str]) -> None:
    assert kinship(term, others) == 0
