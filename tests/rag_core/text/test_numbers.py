import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_core.text.numbers import parse_numbers, write_numbers_in_digits
from rag_core.text.tokens import tokenize


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1’050 руб.", {1050}), ("1.150 руб.", {1150, 1.15}), ("€1.250,00", {1250}), ("1,050.50 pounds", {1050.5}),
        ("1\u2009450 ₽", {1450}), ("15т.р.", {15000}), ("15 тр", {15000}), ("£2k", {2000}),
        ("1,2 млн рублей", {1200000}),
        ("$5.5mn", {5500000}), ("5 м рублей", {5000000}), ("0,150 кг", {150}),
    ],
)  # fmt: skip
def test_a_number_is_read_in_every_usual_writing(text, values):
    (number,) = parse_numbers(text, "ru")
    assert set(number.values) == values


@pytest.mark.parametrize(
    ("text", "lang", "values"),
    [
        ("a dozen eggs", "en", [12]), ("he sold two dozen.", "en", [24]), ("half a dozen boats", "en", [6]),
        ("3 dozen eggs for 300 rub", "en", [36, 300]), ("a dozen", "en", [12]), ("dozens of boats", "en", []),
        ("дюжина яиц", "ru", [12]), ("две дюжины яиц", "ru", [24]), ("полдюжины яиц", "ru", [6]),
        ("дюжины яиц", "ru", []), ("тысяча рублей", "ru", [1000]), ("it cost a million.", "en", [1e6]),
        ("two million.", "en", [2e6]), ("thousands of people", "en", []), ("hundreds of millions.", "en", []),
    ],
)  # fmt: skip
def test_a_dozen_counts_as_twelve_alone_and_behind_a_number(text, lang, values):
    assert [value for number in parse_numbers(text, lang) for value in number.values] == values


@given(st.text(alphabet="0123456789٢५ \u00a0\u2009'’.,-+()/:тмкркmbt$€", max_size=24))
@example("phone 01555 014 220")
@example("0.123.456")
@example("٢٥ руб.")
def test_no_text_of_figures_raises(text):
    """A telephone number in a post once stopped the answers over it."""
    for lang in ("ru", "en"):
        parse_numbers(text, lang)
    write_numbers_in_digits(text)
    tokenize(text)
