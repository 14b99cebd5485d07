"""Which posts tell something of a claim beyond its nearest sentence, and which only look as if they did."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from rag_core.text.tokens import detect_language
from rag_core.types import Passage, Post
from rag_core.verification import Claim, Label, Support
from rag_core.verification.facts import extract_facts
from rag_core.verification.stance import assess_by_words
from rag_core.verification.things import find_other_thing
from rag_core.verification.verify import AssessedPassage, decide_verdict

NOTHING = Support(Label.NOT_FOUND, 0.1, "rules")


def even(_: str) -> float:
    return 1.0


def passage(post: Post, header: str = "Harbour News · 2025-03-01") -> Passage:
    return Passage(post.key, 0, header, post.text, 0, len(post.text), post.date)


def stance(post: Post, claim: str, header: str = "Harbour News · 2025-03-01") -> Support:
    lang = "en" if claim.isascii() else "ru"
    return assess_by_words(Claim(claim, lang), [passage(post, header)], even)[0]


YES, NO, OPEN = Label.SUPPORTED, Label.CONTRADICTED, Label.NOT_FOUND


@pytest.mark.parametrize(
    ("claim", "post", "label"),
    [
        # corrections
        ("The upgrade arm costs 3,200 roubles.", "Correction: the upgrade arm is 2,300 ₽, not 3,200.", NO),
        ("Observing nights are on Saturdays.", "Observing nights from March on: Fridays instead of Saturdays.", NO),
        ("Горячей воды не будет с 18 мая.", "Без горячей воды сидим с 25 мая, а не с 18-го.", NO),
        # denials, in the sentence and beside it
        ("The lighthouse was sold to a hotel.", "Was the lighthouse sold to a hotel? No. It belongs to the town.", NO),
        ("Маяк продали гостинице.", "Ходят слухи, что маяк продали гостинице. Это неправда.", NO),
        ("Паром отменили.", "Говорят, паром отменили. Не отменили: капитан заболел, вышел другой.", NO),
        ("The ferry company is bankrupt.", "The director denied that the ferry company is bankrupt.", NO),
        ("The market is closed on Mondays.", "The market is not closed on Mondays any longer.", NO),
        ("Рынок не работает по понедельникам.", "Рынок по понедельникам не работает.", YES),
        # a timetable without a verb is of the thing named before it
        ("The choir meets on Tuesdays at 18:30.", "The choir needs basses. Tuesday, 18:30, school hall.", YES),
        ("The choir meets on Mondays at 18:30.", "The choir needs basses. Tuesday, 18:30, school hall.", OPEN),
        ("The team scored 10 goals.", "The team scored 9 goals. UPD: the team scored 10 goals.", YES),
        # rumours, questions, plans and offers assert nothing
        ("The mayor bought a yacht.", "Reportedly the mayor bought a yacht.", OPEN),
        ("Мэр купил яхту.", "По слухам, мэр купил яхту.", OPEN),
        ("The mayor bought a yacht.", "Who says the mayor bought a yacht?", OPEN),
        ("A new pier was built.", "The council plans to build a new pier.", OPEN),
        ("Новый причал построили.", "Новый причал обещают построить к осени.", OPEN),
        ("The museum sold the anchor.", "A dealer offered to buy the anchor from the museum.", OPEN),
        # a plan that failed
        ("Причал открыли 5 мая.", "Причал к 5 мая открыть не успели.", NO),
        ("The pier opened on 5 May.", "The pier will not open on 5 May: the steel is late.", NO),
        # units and other writings
        ("Билет на паром стоит 400 рублей.", "Паром: билет 400 ₽, дети бесплатно.", YES),
        ("The ferry ticket costs 12 euros.", "The ferry ticket is €12 now.", YES),
        ("Паром отходит в шесть вечера.", "Паром отходит в 18:00.", YES),
        ("The ferry runs every 15 minutes.", "The ferry runs every half hour.", NO),
        ("Мост стоил 2 млн рублей.", "Мост стоил 2 000 000 ₽.", YES),
        # a number of another thing
        ("Час на лодке стоит 600 ₽.", "Прокат: лодка 400 ₽ в час, катамаран 600 ₽ в час.", NO),
        ("Adult tickets cost 5 euros.", "Adult tickets 12 euros, children 5 euros.", NO),
        ("Билет на паром стоит 150 рублей.", "Билет на паром 400 рублей, кофе на борту 150 рублей.", NO),
        # closed on one day says nothing of another
        ("The library is open on Sundays.", "The library is open from 10 to 20, closed on Mondays.", OPEN),
        # what is asked, tried, announced or said of a part asserts nothing
        (
            "The council is selling the field.",
            "People have asked whether the council is selling the field.",
            OPEN,
        ),
        ("Пожарные задержали грабителя.", "Грабитель связал троих сотрудников и сбежал.", OPEN),
        ("Режим действует по всей стране.", "Режим действует только в четырёх областях страны.", OPEN),
        ("Режим действует по всей стране.", "Режим действует в четырёх областях страны.", OPEN),
        # two values of one sentence belong to different verbs
        ("Anna Berg died in 640.", "Anna Berg (born 640 – died 724).", NO),
        # a claim that says itself that something was put off
        ("Игры отложены.", "Комитет постановил отложить игры.", YES),
        ("Торги юанем приостановлены.", "Банк восстановил торги юанем.", NO),
        # nothing of it
        ("The lighthouse has a sauna.", "The lighthouse has a museum and a cafe.", OPEN),
        ("В музее открыли планетарий.", "В музее открыли выставку якорей.", OPEN),
    ],
)
def test_the_stance_of_a_post_is_read_with_what_stands_around_a_sentence(
    make_post: Any, claim: str, post: str, label: Label
) -> None:
    told = stance(make_post(1, post), claim)
    assert told.label is label, told
    assert post[told.start : told.end] in post


@pytest.mark.parametrize(
    ("claim", "said", "other"),
    [
        ("Bus 41 goes to the station.", "Bus 27 goes to the station.", True),
        ("Автобус № 41 ходит до вокзала.", "Автобус № 27 ходит до вокзала.", True),
        ("The ferry ticket costs 41 euros.", "The ferry ticket costs 27 euros.", False),
        ("About 41 visitors came.", "About 27 visitors came.", False),
        ("Фильтр 150 рублей.", "Фильтр 27 рублей.", False),
    ],
)
def test_a_number_that_names_a_thing_is_another_thing(claim: str, said: str, other: bool) -> None:
    lang = detect_language(claim)
    assert bool(find_other_thing(extract_facts(claim, lang), extract_facts(said, lang))) is other


@pytest.mark.parametrize(
    ("claim", "line", "label"),
    [
        ("Ржаной подовый стоит 140 рублей.", "ржаной 160 ₽", NO),
        ("Ржаной подовый стоит 140 рублей.", "С 1 марта багет 95 ₽, ржаной 160 ₽, плетёнка 120 ₽", NO),
        ("Мешок угля 10 кг стоит 500 рублей.", "С мая мешок 10 кг — 560 ₽", NO),
        ("A jar of honey costs 300 roubles.", "Jar, from June: 340 roubles", NO),
        ("Ржаной подовый стоит 140 рублей.", "ржаной с тмином 180 ₽", YES),
        ("Ржаной подовый стоит 140 рублей.", "багет 95 ₽", YES),
        ("Мешок угля 10 кг стоит 500 рублей.", "мешок 25 кг — 900 ₽", YES),
        ("Anna Berg is the harbour master.", "The new harbour master is Tom Reed.", NO),
        ("Анна Берг — начальник порта.", "Порт выбрал нового начальника: Олег Рид.", NO),
    ],
)
def test_a_later_line_changes_what_an_earlier_post_of_the_channel_said(
    make_post: Any, claim: str, line: str, label: Label
) -> None:
    said = Claim(claim, "en" if claim.isascii() else "ru")
    first, last = make_post(1, claim), replace(make_post(2, line), date=datetime(2025, 4, 1, tzinfo=UTC))
    older = replace(last, date=datetime(2025, 2, 1, tzinfo=UTC))
    first = replace(first, date=datetime(2025, 3, 1, tzinfo=UTC))

    def decide(*posts: Post) -> Label:
        return decide_verdict(said, [AssessedPassage(passage(post), stance(post, claim)) for post in posts])[0].label

    assert decide(first, last) is label
    assert decide(first, older) is YES
