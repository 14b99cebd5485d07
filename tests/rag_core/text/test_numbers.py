from __future__ import annotations

import pytest

from rag_core.text.numbers import parse_numbers


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1’050 руб.", {1050}), ("1.150 руб.", {1150, 1.15}), ("€1.250,00", {1250}), ("1,050.50 pounds", {1050.5}),
        ("1\u2009450 ₽", {1450}), ("15т.р.", {15000}), ("15 тр", {15000}), ("£2k", {2000}),
        ("1,2 млн рублей", {1200000}),
        ("$5.5mn", {5500000}), ("5 м рублей", {5000000}), ("0,150 кг", {150}),
    ],
)  # fmt: skip
def test_a_number_is_read_in_every_usual_writing(text: str, values: set[float]) -> None:
    (number,) = parse_numbers(text, "ru")
    assert set(number.values) == values
