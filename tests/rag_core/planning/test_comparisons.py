"""Comparisons: which questions are one, what is asked for each thing, and what the values say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.planning.comparison_questions import parse_comparison
from rag_core.recipes.value_comparison import compare_values, is_about


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("What is cheaper, tea or coffee?", ("how much is tea?", "how much is coffee?")),
        ("is the red boat cheaper than the blue one", ("how much is the red boat?", "how much is the blue one?")),
        ("Were there more guests in May or in June?", ("how many guests in May?", "how many guests in June?")),
        ("что дороже: чай или кофе?", ("сколько стоит чай?", "сколько стоит кофе?")),
        ("где сахар дешевле, у Анны или на рынке", ("сколько стоит сахар у Анны?", "сколько стоит сахар на рынке?")),
        ("билет был дешевле, чем абонемент?", ("сколько стоит билет?", "сколько стоит абонемент?")),
        ("чай дороже кофе или нет?", ("сколько стоит чай?", "сколько стоит кофе?")),
    ],
)
def test_each_thing_is_asked_for_by_itself(text: str, asked: tuple[str, str]) -> None:
    comparison = parse_comparison(text)
    assert comparison
    assert tuple(map(comparison.ask, comparison.things)) == asked


@pytest.mark.parametrize(
    "text",
    [
        "What is more important, price or quality?", "Is it more than 300 roubles?",
        "Is there anything cheaper than the kit?", "Есть ли что-нибудь дешевле 200 рублей или бесплатно?",
        "До скольки открыто: раньше восьми или позже?", "чай дороже?", "дороже чая или чая",
        "How much is tea or coffee?", "",
    ],
)  # fmt: skip
def test_other_questions_are_no_comparison(text: str) -> None:
    assert parse_comparison(text) is None


@given(st.text(alphabet="абв abc,:?-или дороже чем cheaper or than more first", max_size=120))
def test_no_text_is_too_odd(text: str) -> None:
    comparison = parse_comparison(text)
    if comparison:
        for sentence in (text, f"{comparison.things[0]} 5 ₽, {comparison.things[1]} 7 ₽"):
            compare_values(comparison, [sentence, sentence], "ru")


@pytest.mark.parametrize(
    ("text", "sentences", "result"),
    [
        ("что дешевле, чай или кофе?", ("Чай 90 ₽ стакан.", "Кофе 120 рублей."), (0, ("90 ₽", "120 рублей"))),
        ("что дороже, чай или кофе?", ("Чай 90 ₽, кофе 120.", "Чай 90 ₽, кофе 120."), (1, ("90 ₽", "120"))),
        ("что дороже, чай или кофе?", ("Чай — 90 ₽.", "Кофе — 90 ₽."), (-1, ("90 ₽", "90 ₽"))),
        ("what costs more, tea or cake?", ("Tea is £2.", "A slice of cake: £1,200."), (1, ("£2", "£1,200"))),
        ("что выше, башня или мост?", ("Высота башни 46 метров.", "Мост длиной 14 м."), (0, ("46 метров", "14 м"))),
        # no number of its own, two prices, other units, times of day, and days are not compared
        ("что дороже, чай или кофе?", ("Чай есть.", "Кофе 120 ₽."), None),
        ("что дороже, чай или кофе?", ("Чай 90 ₽ или 100 ₽.", "Кофе 120 ₽."), None),
        ("что дороже, чай или кофе?", ("Соки 90 ₽.", "Кофе 120 ₽."), None),
        ("что выше, башня или мост?", ("Башня весит 46 тонн.", "Мост — 14 метров."), None),
        ("что дороже, чай или кофе?", ("Чай с 10:30.", "Кофе 120 ₽."), None),
        ("что раньше, чай или кофе?", ("Чай в 2024 году.", "Кофе в 2025 году."), None),
    ],
)  # fmt: skip
def test_values_are_compared_where_the_sentences_say_them_plainly(
    text: str, sentences: tuple[str, str], result: tuple[int, tuple[str, str]] | None
) -> None:
    comparison = parse_comparison(text)
    assert comparison
    assert compare_values(comparison, sentences, "ru" if "что" in text else "en") == result


def test_a_sentence_is_about_the_thing_whose_own_words_it_holds() -> None:
    comparison = parse_comparison("что дороже, прокат лодки или прокат коньков?")
    assert comparison
    assert is_about(comparison, 0, "Прокат лодок 400 ₽.")
    assert not is_about(comparison, 1, "Прокат лодок 400 ₽.")
