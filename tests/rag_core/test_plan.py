from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.analysis import terms
from rag_core.plan import plan_by_rules
from rag_core.types import Kind, Plan, Question, Viewer

NOW = datetime(2026, 1, 15, 9, tzinfo=UTC)


def plan(text: str) -> Plan:
    return plan_by_rules(Question(text, "ru", NOW, Viewer(1, frozenset())))


@pytest.mark.parametrize(
    ("text", "kind", "topic"),
    [
        ("Сколько постов о мосте?", Kind.HOW_MANY, "мост"),
        ("Сколько было сообщений про мост?", Kind.HOW_MANY, "мост"),
        ("Сколько раз писали о мосте?", Kind.HOW_MANY, "мост"),
        ("Как часто упоминают мост?", Kind.HOW_MANY, "мост"),
        ("В скольких постах упоминается мост?", Kind.HOW_MANY, "мост"),
        ("В скольких сообщениях есть слово мост?", Kind.HOW_MANY, "мост"),
        ("How many posts mention the bridge?", Kind.HOW_MANY, "bridge"),
        ("How many posts are there about the bridge?", Kind.HOW_MANY, "bridge"),
        ("How often did you write about the bridge?", Kind.HOW_MANY, "bridge"),
        ("Когда впервые написали о мосте?", Kind.FIRST, "мост"),
        ("Когда о мосте заговорили впервые?", Kind.FIRST, "мост"),
        ("Когда в первый раз упомянули мост?", Kind.FIRST, "мост"),
        ("Первое упоминание моста", Kind.FIRST, "мост"),
        ("When was the bridge first mentioned?", Kind.FIRST, "bridge"),
        ("When did you first write about the bridge?", Kind.FIRST, "bridge"),
        ("When did the bridge first come up?", Kind.FIRST, "bridge"),
        ("When did you mention the bridge for the first time?", Kind.FIRST, "bridge"),
        ("What is the earliest mention of the bridge?", Kind.FIRST, "bridge"),
        ("When was the first post about the bridge?", Kind.FIRST, "bridge"),
        ("Когда в последний раз писали про мост?", Kind.LAST, "мост"),
        ("Когда мост упоминали последний раз?", Kind.LAST, "мост"),
        ("Последние новости о мосте", Kind.LAST, "мост"),
        ("When was the bridge last mentioned?", Kind.LAST, "bridge"),
        ("When was the bridge mentioned last?", Kind.LAST, "bridge"),
        ("What is the latest post about the bridge?", Kind.LAST, "bridge"),
        ("Когда писали о мосте?", Kind.WHEN, "мост"),
        ("Какого числа сообщили о мосте?", Kind.WHEN, "мост"),
        ("When did you post about the bridge?", Kind.WHEN, "bridge"),
    ],
)
def test_questions_about_the_posts_are_known_with_what_they_are_about(text: str, kind: Kind, topic: str) -> None:
    found = plan(text)
    assert found.kind is kind
    assert terms(found.topic) == terms(topic)


@pytest.mark.parametrize(
    "text",
    [
        "Сколько постов ГАИ стоит на трассе?",
        "Сколько поставок зерна было в марте?",
        "Сколько постояльцев принимает гостиница?",
        "Сколько новостроек сдали о прошлом годе?",
        "Сколько записалось на курс о керамике?",
        "Сколько раз переписывали устав?",
        "Сколько стоит абонемент?",
        "Сколько постов было в марте?",  # of nothing: there is no topic
        "How many posts hold up the roof?",
        "How many messages did Otto send?",
        "How many times was the report rewritten?",
        "When did the first computer appear?",
        "Who was the first woman to publish a paper?",
        "What did the first president say?",
        "Кто впервые опубликовал периодическую таблицу?",
        "Первый пост охраны у ворот сняли?",
        "When was Postgres 16 released?",
        "When does the post office open?",
        "How long did the talk last?",
        "When is the board going to talk about a dome?",
        "Когда вышел рассказ Чехова?",
        "Когда открывается запись?",
        "When does the ferry leave?",
        "",
    ],
)
def test_questions_about_the_world_are_searched_as_they_were_asked(text: str) -> None:
    found = plan(text)
    assert found.kind is Kind.FACT
    assert (found.since, found.until) == (None, None)


def test_a_period_bounds_questions_about_the_posts_only() -> None:
    counted = plan("Сколько постов о мосте в марте 2025?")
    assert (counted.since, counted.until) == (datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 4, 1, tzinfo=UTC))
    assert terms(counted.topic) == terms("мост")
    # the post that answers may be written before or after the time it speaks of
    assert plan("Сколько стоил хлеб в марте 2025?").since is None


@pytest.mark.parametrize("text", ["", "  \n ", "🔥🔥", "?!", "что это такое?", "what is it", "\x00\x1b\u202e"])
def test_a_question_without_terms_has_no_queries(text: str) -> None:
    assert plan(text).queries == ()


def test_a_query_is_the_question_on_one_line() -> None:
    assert plan("  Где\n\nмост? ").queries == ("Где мост?",)


@given(st.text(max_size=400))
def test_every_text_has_a_plan(text: str) -> None:
    found = plan(text)
    assert len(found.queries) == bool(terms(text))
    assert (found.since is None) == (found.until is None)
    assert found.kind is Kind.FACT or terms(found.topic)


@pytest.mark.parametrize(
    "bit", ["впервые ", "когда впервые ", "first post ", "when first ", "сколько постов ", "писал "]
)
def test_a_long_question_is_planned_in_no_time(bit: str) -> None:
    started = time.perf_counter()
    plan((bit * 1000)[:4000])
    assert time.perf_counter() - started < 2
