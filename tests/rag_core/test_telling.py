"""Which posts tell something of a claim beyond its nearest sentence, and which only look as if they did."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from rag_core.types import Citation, Passage, Post, Sentence, Source
from rag_core.verification.compare import is_repriced
from rag_core.verification.entailment import assess_text
from rag_core.verification.relevance import (
    AssessedPassage,
    is_different_subject,
    measure_relevance,
    select_relevant_passages,
)
from rag_core.verification.support import keep_supported_citations
from rag_core.verification.types import Claim, Label, Support

NOTHING = Support(Label.NOT_FOUND, 0.1, "rules")


def even(_: str) -> float:
    return 1.0


def passage(post: Post, header: str = "Harbour News · 2025-03-01") -> Passage:
    return Passage(post.key, 0, header, post.text, 0, len(post.text), post.date)


@pytest.mark.parametrize(
    ("claim", "post"),
    [
        ("The upgrade arm costs 3,200 roubles.", "Correction: the upgrade arm is 2,300 ₽, not 3,200."),
        ("Observing nights are on Saturdays.", "Observing nights from March on: Fridays instead of Saturdays."),
        ("Горячей воды не будет с 18 мая.", "Без горячей воды сидим с 25 мая, а не с 18-го."),
    ],
)
def test_a_post_that_takes_the_very_words_back_contradicts_them(make_post: Any, claim: str, post: str) -> None:
    lang = "en" if claim.isascii() else "ru"
    (told,) = select_relevant_passages(
        Claim(claim, lang), [AssessedPassage(passage(make_post(1, post)), assess_text(claim, post, lang))], even
    )
    assert told.support.label is Label.CONTRADICTED
    assert post[told.support.start : told.support.end] in post


def test_what_a_channel_calls_itself_makes_no_post_speak_of_a_claim() -> None:
    claim, words = "The harbour opened a cinema.", "The museum opened at nine."
    here = measure_relevance(claim, NOTHING, words, "Cinema of the harbour · 2025-03-01", even)
    replied = measure_relevance(claim, NOTHING, words, "News · 2025-03-01 · A cinema in the harbour?", even)
    assert here == 1.0  # only "opened" is left to be said
    assert measure_relevance(claim, NOTHING, words, "News · 2025-03-01", even) < 0.5
    assert replied == 1.0


@pytest.mark.parametrize(
    ("claim", "said", "other"),
    [
        ("Bus 41 goes to the station.", "41", True),
        ("Автобус № 41 ходит до вокзала.", "41", True),
        ("The ferry ticket costs 41 euros.", "41", False),
        ("About 41 visitors came.", "41", False),
        ("Фильтр 150 рублей.", "150", False),
    ],
)
def test_a_number_that_names_a_thing_is_another_thing(claim: str, said: str, other: bool) -> None:
    assert is_different_subject(claim, Support(Label.CONTRADICTED, 0.0, "rules", f"{said} ≠ 27")) is other


def test_a_source_that_says_otherwise_is_not_cited_for_a_sentence(make_post: Any) -> None:
    """A model cites two posts of which one contradicts it; where it cites only that one, the other is found."""
    right, wrong = make_post(1, "A ferry ticket costs twelve euros."), make_post(2, "A ferry ticket costs nine euros.")
    sources = [Source(n, passage(post), 1.0) for n, post in enumerate((right, wrong), 1)]
    cites = [Citation(p.key, p.text, 0, len(p.text), p.date) for p in (right, wrong)]
    text = "A ticket for the ferry costs twelve euros."
    both = keep_supported_citations(Sentence(text, tuple(cites), 0.9), sources, "en")
    moved = keep_supported_citations(Sentence(text, (cites[1],), 0.9), sources, "en")
    assert both is not None
    assert moved is not None
    assert [c.post for c in both.citations] == [c.post for c in moved.citations] == [right.key]
    assert keep_supported_citations(Sentence(text, (cites[1],), 0.9), sources[1:], "en") is None


@pytest.mark.parametrize(
    ("claim", "line", "anew"),
    [
        ("Ржаной подовый стоит 140 рублей.", "ржаной 160 ₽", True),
        ("Ржаной подовый стоит 140 рублей.", "С 1 марта багет 95 ₽, ржаной 160 ₽, плетёнка 120 ₽", True),
        ("Мешок угля 10 кг стоит 500 рублей.", "С мая мешок 10 кг — 560 ₽", True),
        ("A jar of honey costs 300 roubles.", "Jar, from June: 340 roubles", True),
        ("Ржаной подовый стоит 140 рублей.", "ржаной 140 ₽", False),
        ("Ржаной подовый стоит 140 рублей.", "ржаной с тмином 180 ₽", False),
        ("Ржаной подовый стоит 140 рублей.", "багет 95 ₽", False),
        ("Мешок угля 10 кг стоит 500 рублей.", "мешок 25 кг — 900 ₽", False),
        ("Вход на ярмарку 3 мая стоил 100 рублей.", "вход 150 ₽", False),
    ],
)
def test_a_terse_line_prices_a_thing_anew_where_all_it_names_is_of_the_claim(claim: str, line: str, anew: bool) -> None:
    assert is_repriced(claim, line, "en" if claim.isascii() else "ru") is anew


@pytest.mark.parametrize(("later", "label"), [(True, Label.CONTRADICTED), (False, Label.NOT_FOUND)])
def test_only_a_later_line_of_the_same_channel_outdates_a_price(make_post: Any, later: bool, label: Label) -> None:
    claim = Claim("Ржаной подовый стоит 140 рублей.", "ru")
    texts = ("Ржаной подовый стоит 140 рублей.", "ржаной 160 ₽")
    days = (datetime(2025, 3, 1, tzinfo=UTC), datetime(2025, 4 if later else 2, 1, tzinfo=UTC))
    posts = [replace(make_post(n, text), date=day) for n, (text, day) in enumerate(zip(texts, days, strict=True), 1)]
    told = select_relevant_passages(
        claim, [AssessedPassage(passage(post), assess_text(claim.text, post.text, "ru")) for post in posts], even
    )
    said = {one.passage.key: one.support.label for one in told}
    assert said[posts[0].key] is Label.SUPPORTED
    assert said.get(posts[1].key, Label.NOT_FOUND) is label
