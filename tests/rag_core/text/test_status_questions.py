"""Questions for how something stands, and what is left of them without the words that ask so."""

from __future__ import annotations

import pytest

from rag_core.text.status_questions import (
    asks_for_status,
    extract_status_stems,
    names_status_topic,
    strip_status_words,
)


@pytest.mark.parametrize(
    "question",
    [
        "что там с лифтом?", "чё с рентгеном", "как дела с ремонтом библиотеки", "как идёт стройка моста",
        "чем кончилась история с печью", "шлагбаум в итоге поставят", "фонари починили?", "нашли того, кто стрелял",
        "12-й вернут или как", "what's up with the lift?", "any update on the ferry", "how's the roof going",
        "what became of the old baker", "did they ever fix the gate", "is the library still shut",
        "has the clinic reopened",
    ],
)  # fmt: skip
def test_a_known_thing_and_no_other_word_of_asking_asks_for_its_status(question: str) -> None:
    assert asks_for_status(question)


@pytest.mark.parametrize(
    "question",
    [
        "когда починили лифт?",
        "сколько мусора вынесли?",
        "дорогой ли бассейн, сильно подорожал?",
        "как доехать до клуба",
        "что появилось в новом парке?",
        "с кем сотрудничал музей?",
        "Что с собой взять в поход?",
        "Говорят, что с 1 мая проезд дороже?",
        "как там добраться?",
        "What is the latest bus?",
        "What's the story time at the library?",
        "any word limit for submissions?",
        "have you got parking?",
        "best cake ever",
        "мыла?",
        "библиотека открыта в воскресенье?",
        "how much did you have when last year ended",
        "when is the library back",
        "last bus back from the hill normally?",
        "is the pool open on Sunday",
        "can I bring a dog",
        "что с лифтом " + "и с мостом " * 20,
    ],
)
def test_a_question_for_a_value_a_rule_or_a_plain_fact_does_not(question: str) -> None:
    assert not asks_for_status(question)
    assert not extract_status_stems(question)


@pytest.mark.parametrize(
    ("question", "topic"),
    [
        ("что там с лифтом?", "лифтом?"),
        ("чем кончилась история с печью", "печью"),
        ("any update on Tawny 1.0?", "Tawny 1.0?"),
        ("is the photography group still a thing", "is the photography group"),
        ("что с ним", "что с ним"),  # nothing would be left
        ("что с музеем истории?", "музеем истории?"),
    ],
)
def test_the_topic_is_what_is_left(question: str, topic: str) -> None:
    assert strip_status_words(question) == topic


def test_the_verb_is_what_is_asked_for() -> None:
    assert extract_status_stems("лифт починили?") == {"почин"}
    assert extract_status_stems("did they ever fix the gate") == {"fix"}


def test_a_question_that_names_no_thing_is_no_whole_one() -> None:
    assert names_status_topic("что там с мостом") and names_status_topic("did they fix the gate?")
    assert not any(map(names_status_topic, ("did they fix it?", "уже починили?", "did they win?", "а в итоге?")))
