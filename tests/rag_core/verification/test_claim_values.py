"""Claims whose number, day, hour, name or negation a sentence repeats, changes or lacks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rag_core.types import Passage, PostKey
from rag_core.verification import Claim, Label, Support
from rag_core.verification.stance import assess_by_words


def assess(claim: str, text: str, lang: str) -> Support:
    passage = Passage(PostKey(1, 1), 0, "", text, 0, len(text), datetime(2025, 3, 4, tzinfo=UTC))
    return assess_by_words(Claim(claim, lang), [passage])[0]


@pytest.mark.parametrize(
    ("claim", "passage", "lang"),
    [
        ("Паром стоит 5 млн рублей", "Паром стоит 5 000 000 руб.", "ru"),
        ("Встреча пройдёт 12 августа", "Встреча пройдёт 12.08 в парке.", "ru"),
        ("The ferry leaves at 7:30 pm", "The ferry leaves at 19:30.", "en"),
        ("Putin visited Kazan", "Путин посетил Казань", "ru"),
        ("Цены снизились", "Цены не выросли", "ru"),
        ("Lopez sang in May", "In May Jennifer Lopez sang.", "en"),
        ("Jennifer Lopez sang in May", "In May, Lopez sang twice.", "en"),
        ("ООН приняла резолюцию", "Организация Объединённых Наций приняла резолюцию.", "ru"),
        ("More than 100 people came", "120 people came to the museum.", "en"),
        ("Она родилась в 1970-х", "Она родилась 4 октября 1971 года.", "ru"),
        ("Membership costs 1500", "2027 membership: unchanged, 1,500 ₽.", "en"),  # no year
        ("Абонемент стоит 1900", "В 2026 абонемент стоит 1 900 ₽.", "ru"),
    ],
)
def test_what_is_said_in_another_way_is_not_objected_to(claim: str, passage: str, lang: str) -> None:
    assert assess(claim, passage, lang).label is not Label.CONTRADICTED


@pytest.mark.parametrize(
    ("claim", "passage", "lang"),
    [
        ("Паром стоит 6 млн рублей", "Паром стоит 5 000 000 руб.", "ru"),
        ("Встреча пройдёт 13 августа", "Встреча пройдёт 12.08 в парке.", "ru"),
        ("The ferry leaves at 7:30 pm", "The ferry leaves at 7:30.", "en"),
        ("Выставку откроют в Казани", "Выставку откроют в Москве.", "ru"),
        ("Паром не отменили", "Паром отменили из-за шторма.", "ru"),
        ("The museum is open on Monday", "The museum is not open on Monday.", "en"),
        ("Prices rose sharply", "Prices fell sharply.", "en"),
        ("Паром отменили завтра", "Паром отменили вчера.", "ru"),
    ],
)
def test_what_differs_in_the_same_place_contradicts(claim: str, passage: str, lang: str) -> None:
    told = assess(claim, passage, lang)
    assert told.label is Label.CONTRADICTED
    assert told.why


@pytest.mark.parametrize(
    ("claim", "passage", "lang"),
    [
        ("Паром стоит 500 рублей", "Паром ходит каждый день.", "ru"),
        ("The museum opens on 5 May", "The museum opens soon.", "en"),
        ("Паром водит капитан Морган", "Паром ходит каждый день.", "ru"),
        ("The bridge is closed", "The bridge may be closed.", "en"),
        ("See ferry.example for the ferry", "The ferry leaves at seven.", "en"),
        ("anything", "", "en"),
    ],
)
def test_what_is_not_there_is_not_found(claim: str, passage: str, lang: str) -> None:
    assert assess(claim, passage, lang).label is Label.NOT_FOUND


def test_a_number_of_something_else_in_the_post_does_not_bear_a_claim_out() -> None:
    post = "Билет в музей стоит 300 рублей. Билет на паром стоит 500 рублей."
    assert assess("Билет на паром стоит 300 рублей", post, "ru").label is not Label.SUPPORTED
    assert assess("Билет на паром стоит 500 рублей", post, "ru").label is Label.SUPPORTED


@pytest.mark.parametrize(
    ("claim", "passage", "lang"),
    [
        ("Музей открыт по воскресеньям с 10 до 18", "Музей открыт по субботам с 10 до 18.", "ru"),
        ("Приём по выходным с 9 до 12", "Приём по будням с 9 до 12.", "ru"),
        ("Каток работает в субботу", "Каток работает с понедельника по пятницу.", "ru"),
        ("The café is open on Sundays", "The café is open Mon-Fri, 9 to 17.", "en"),
        ("The pool is open at weekends", "The pool is open on weekdays.", "en"),
        ("Репетиция хора в половине восьмого", "Репетиция хора в 18:30.", "ru"),
        ("The gate closes at half past six", "The gate closes at 19:30.", "en"),
        ("Пекарня работает по выходным", "Пекарня работает с понедельника по пятницу, в выходные закрыто.", "ru"),
        ("Музей открыт по понедельникам", "Музей открыт ежедневно, кроме понедельника.", "ru"),
        ("The museum is open every day", "The museum is open on weekdays.", "en"),
        ("Мост разводят в полночь", "Мост разводят в полдень.", "ru"),
    ],
)
def test_another_weekday_or_hour_for_the_same_thing_contradicts(claim: str, passage: str, lang: str) -> None:
    assert assess(claim, passage, lang).label is Label.CONTRADICTED


@pytest.mark.parametrize(
    ("claim", "passage", "lang"),
    [
        ("Музей открыт по средам", "Музей открыт с понедельника по пятницу.", "ru"),
        ("Музей открыт с понедельника по пятницу", "Музей открыт по будням.", "ru"),
        ("The café is open on weekdays", "The café is open Mon–Fri.", "en"),
        ("The café is open on Saturdays", "The café is open at weekends.", "en"),
        ("Хор поёт в половине седьмого вечера", "Хор поёт в 18:30.", "ru"),
        ("Хор поёт без четверти восемь", "Хор поёт в 19:45.", "ru"),
        ("The gate closes at half past six", "The gate closes at 18:30.", "en"),
        ("The gate opens at a quarter to eight", "The gate opens at 7:45.", "en"),
        ("Музей открыт по вторникам", "Музей открыт ежедневно, кроме понедельника.", "ru"),
        ("The museum is open on Sundays", "The museum is open daily.", "en"),
        ("Каток закрывается в десять вечера", "Каток открыт с 10:00 до 22:00.", "ru"),
        ("On Mondays the museum is closed", "The museum is closed on Mondays.", "en"),
        ("Паром ходит каждый день", "Паром ходит, как и всегда, утром и вечером.", "ru"),
        ("Лавка открыта с 13:00 до 17:00", "Лавка открыта с 13 до 17.", "ru"),
    ],
)
def test_weekdays_and_hours_may_be_said_in_other_words(claim: str, passage: str, lang: str) -> None:
    assert assess(claim, passage, lang).label is not Label.CONTRADICTED


@pytest.mark.parametrize(
    ("claim", "passage", "lang"),
    [
        ("Багет стоит 160 рублей", "Ржаной 160 ₽, багет 90 ₽, плетёнка 120 ₽.", "ru"),
        ("Билет на паром стоит 780 рублей", "Билет на паром теперь 820.", "ru"),
        ("The ferry ticket costs 12 euros", "The ferry ticket is now 15.", "en"),
    ],
)
def test_a_price_without_its_unit_is_a_price_beside_the_same_thing(claim: str, passage: str, lang: str) -> None:
    assert assess(claim, passage, lang).label is Label.CONTRADICTED


@pytest.mark.parametrize(
    ("claim", "passage", "lang", "label"),
    [
        (
            "За причал отвечает Морган",
            "За причал отвечает Ольга Рысь, за билетную кассу Морган.",
            "ru",
            Label.CONTRADICTED,
        ),
        (
            "The harbour choir is led by Morgan",
            "The harbour choir is led by Olga Rys, the school orchestra by Morgan.",
            "en",
            Label.CONTRADICTED,
        ),
        ("The ferry director was Morgan", "She was the director of the ferry firm ABC.", "en", None),
        ("Причал открыл Морган", "Причал открыл Сергей Рысь вместе с Морганом.", "ru", None),
        ("Причал открыл Морган", "Причал открыли Рысь, Морган и Зимин.", "ru", None),
        (
            "Olga Rys built the pier",
            "The pier was built by Sam Morgan, Olga Rys and masons hired in Kent.",
            "en",
            None,
        ),
        ("Морган открыл причал Рыси", "Морган, капитан парома, открыл причал Рыси.", "ru", None),
    ],
)
def test_a_role_that_the_sentence_gives_to_somebody_else(
    claim: str, passage: str, lang: str, label: Label | None
) -> None:
    told = assess(claim, passage, lang).label
    assert told is label if label else told is not Label.CONTRADICTED


@pytest.mark.parametrize(
    ("claim", "passage", "lang", "label"),
    [
        ("Паром продают на металл", "Слухи, что паром продают на металл, неправда.", "ru", Label.CONTRADICTED),
        ("Паром продают на металл", "Говорят, что паром продают на металл. Это неправда.", "ru", Label.CONTRADICTED),
        ("Паром продают на металл", "Ходят слухи, что паром продают на металл.", "ru", Label.NOT_FOUND),
        ("Паром продают на металл", "Паром продают на металл, сообщил капитан.", "ru", None),
        ("Паром продают на металл", "Паром продают на металл. Не так всё плохо, есть мост.", "ru", None),
        ("The ferry is being sold", "It is not true that the ferry is being sold.", "en", Label.CONTRADICTED),
        ("The ferry is being sold", "Rumour has it the ferry is being sold; it is false.", "en", Label.CONTRADICTED),
        ("The ferry is being sold", "Rumour has it the ferry is being sold.", "en", Label.NOT_FOUND),
        ("Слухи о продаже парома — неправда", "Слухи о продаже парома — неправда.", "ru", None),
        ("The ferry is not being sold", "It is not true that the ferry is being sold.", "en", None),
        ("Паром не продают", "Слухи, что паром продают, неправда.", "ru", None),
    ],
)
def test_what_is_called_a_rumour_or_false_bears_nothing_out(
    claim: str, passage: str, lang: str, label: Label | None
) -> None:
    told = assess(claim, passage, lang).label
    assert told is label if label else told is not Label.CONTRADICTED
