from __future__ import annotations

import pytest

from rag_core.analysis import stem
from rag_core.wants import Want, holds, names_in, numbers_in, wanted


@pytest.mark.parametrize(
    ("question", "want"),
    [
        ("When does the ferry leave?", Want.DATE),
        ("В каком году построили маяк?", Want.DATE),
        ("Во сколько отходит паром?", Want.DATE),
        ("Какого числа открытие?", Want.DATE),
        ("How many dogs are there?", Want.NUMBER),
        ("Сколько стоит абонемент?", Want.NUMBER),
        ("Почём хлеб?", Want.NUMBER),
        ("Какая часть урожая пропала?", Want.NUMBER),
        ("Who keeps the keys?", Want.NAME),
        ("Как зовут кота?", Want.NAME),
        ("В каком городе музей?", Want.NAME),
        ("Why is the bridge closed?", Want.ANYTHING),
        ("Расскажи про мост", Want.ANYTHING),
        ("", Want.ANYTHING),
        ("Whenever", Want.ANYTHING),
    ],
)
def test_what_a_question_asks_for(question: str, want: Want) -> None:
    assert wanted(question) is want


@pytest.mark.parametrize(
    ("want", "text", "question", "held"),
    [
        (Want.DATE, "Откроется 5 сентября.", "Когда откроется?", True),
        (Want.DATE, "Откроется скоро.", "Когда откроется?", False),
        (Want.DATE, "В 1998 году.", "Что было в 1998 году?", False),
        (Want.DATE, "По четвергам.", "Когда?", True),
        (Want.NUMBER, "Стоит 2 750 рублей.", "Сколько стоит?", True),
        (Want.NUMBER, "Пришли трое.", "Сколько пришло?", True),
        (Want.NUMBER, "Дорого.", "Сколько стоит?", False),
        (Want.NUMBER, "Дом 9.", "Сколько окон в доме 9?", False),
        (Want.NAME, "Ключи у Тамары.", "У кого ключи?", True),
        (Want.NAME, "Ключи у сторожа.", "У кого ключи?", False),
        (Want.NAME, "Ключи у Тамары.", "Где ключи Тамары?", False),
        (Want.ANYTHING, "", "Почему?", True),
    ],
)
def test_whether_a_text_holds_what_is_asked_for_and_not_said(want: Want, text: str, question: str, held: bool) -> None:
    assert holds(want, text, question) is held


def test_the_first_word_of_a_sentence_is_no_name() -> None:
    text = "Завтра придёт Тамара Игоревна. Паром ждёт. «Чайка» стоит.\nЛёва спит, а Зоя нет"
    assert names_in(text) == {stem(name) for name in ("тамара", "игоревна", "зоя")}


def test_numbers_are_taken_as_they_are_written() -> None:
    assert numbers_in("с 7:30 до 21.45, 1 200 шт., v2") == {"7:30", "21.45", "1", "200", "2"}
