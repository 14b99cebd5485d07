import pytest

from rag_core.text.query_terms import (
    AnswerType,
    asks_for_changes,
    contains_answer_type,
    detect_answer_type,
    extract_name_stems,
)
from rag_core.text.tokens import stem


@pytest.mark.parametrize(
    ("question", "want"),
    [
        ("When does the ferry leave?", AnswerType.DATE), ("В каком году построили маяк?", AnswerType.DATE),
        ("Во сколько отходит паром?", AnswerType.HOURS), ("Какого числа открытие?", AnswerType.DATE),
        ("How many dogs are there?", AnswerType.NUMBER), ("Сколько стоит абонемент?", AnswerType.PRICE),
        ("Почём хлеб?", AnswerType.PRICE), ("проезд 36 рублей", AnswerType.PRICE),
        ("Какая часть урожая пропала?", AnswerType.NUMBER), ("Who keeps the keys?", AnswerType.PERSON),
        ("Как зовут кота?", AnswerType.NAME), ("В каком городе музей?", AnswerType.PLACE),
        ("Why is the bridge closed?", AnswerType.REASON), ("Расскажи про мост", AnswerType.ANYTHING),
        ("", AnswerType.ANYTHING), ("Whenever", AnswerType.ANYTHING),
    ],
)  # fmt: skip
def test_what_a_question_asks_for(question, want):
    assert detect_answer_type(question)[0] is want


@pytest.mark.parametrize(
    ("want", "text", "question", "held"),
    [
        (AnswerType.DATE, "Откроется 5 сентября.", "Когда откроется?", True),
        (AnswerType.DATE, "Откроется скоро.", "Когда откроется?", False),
        (AnswerType.DATE, "В 1998 году.", "Что было в 1998 году?", False),
        (AnswerType.DATE, "По четвергам.", "Когда?", True),
        (AnswerType.NUMBER, "Стоит 2 750 рублей.", "Сколько стоит?", True),
        (AnswerType.NUMBER, "Пришли трое.", "Сколько пришло?", True),
        (AnswerType.NUMBER, "Дорого.", "Сколько стоит?", False),
        (AnswerType.HOURS, "С 24 сентября снова в библиотеке.", "До скольки открыто?", False),
        (AnswerType.HOURS, "Открыто с 9 до 19.", "До скольки открыто?", True),
        (AnswerType.NUMBER, "Дом 9.", "Сколько окон в доме 9?", False),
        (AnswerType.NAME, "Ключи у Тамары.", "У кого ключи?", True),
        (AnswerType.NAME, "Ключи у сторожа.", "У кого ключи?", False),
        (AnswerType.NAME, "Ключи у Тамары.", "Где ключи Тамары?", False),
        (AnswerType.ANYTHING, "", "Почему?", True),
    ],
)
def test_whether_a_text_holds_what_is_asked_for_and_not_said(want, text, question, held):
    assert contains_answer_type(want, text, question) is held


def test_the_first_word_of_a_sentence_is_no_name():
    text = "Завтра придёт Тамара Игоревна. Паром ждёт. «Чайка» стоит.\nЛёва спит, а Зоя нет"
    assert extract_name_stems(text) == {stem(name) for name in ("тамара", "игоревна", "зоя")}


@pytest.mark.parametrize(
    "question", ["Как изменилась цена ржаного?", "как менялись цены на кофе", "how did the price of entry change?"]
)
def test_how_a_value_changed_asks_for_all_of_its_values(question):
    assert asks_for_changes(question)
    assert not asks_for_changes("Сколько стоит ржаной?")
