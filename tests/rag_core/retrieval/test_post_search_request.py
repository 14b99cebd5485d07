import time
from datetime import UTC, date, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.retrieval.post_search import TextMatcher, parse_search_request, select_snippet
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import Channel, Question, Viewer

HARBOUR, KILN, CREW = -1, -2, -3
KNOWN = {
    HARBOUR: Channel(HARBOUR, "Harbour News", "harbour_news"),
    KILN: Channel(KILN, "Печь и глина", "pech_i_glina"),
    CREW: Channel(CREW, "Crew only", "crew_only"),
}
NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


def looked_for(text, now=NOW):
    return parse_search_request(Question(text, "ru", now, Viewer(1, frozenset({HARBOUR, KILN}))), KNOWN)


def days(found):
    plan = found.plan
    return (plan.since and plan.since.date(), plan.until and plan.until.date())


@pytest.mark.parametrize(
    ("text", "words", "filters", "since", "until"),
    [
        ("паром в августе", "паром", ("в августе",), date(2025, 8, 1), date(2025, 9, 1)),
        ("@harbour_news Ferry since March", "Ferry", ("@harbour_news", "since March"), date(2026, 3, 1), None),
        ("посты за вчера", "", ("за вчера",), date(2026, 3, 14), date(2026, 3, 15)),
        ("news of yesterday", "", ("of yesterday",), date(2026, 3, 14), date(2026, 3, 15)),
        ("что писали вчера про паром", "паром", ("вчера",), date(2026, 3, 14), date(2026, 3, 15)),
        ("posts about the ferry in March", "the ferry", ("in March",), date(2026, 3, 1), date(2026, 4, 1)),
        ("Ёлка до 5 января 2026", "Ёлка", ("до 5 января 2026",), None, date(2026, 1, 5)),
        ("İstanbul в августе", "İstanbul", ("в августе",), date(2025, 8, 1), date(2025, 9, 1)),
        ("first aid", "first aid", (), None, None),
        ("новости", "новости", (), None, None),
    ],
)
def test_times_and_channels_are_told_from_the_words(text, words, filters, since, until):
    found = looked_for(text)
    assert (found.words, found.filters, days(found)) == (words, filters, (since, until))
    assert bool(found.plan.queries) == bool(words)


def test_titles_channels_and_what_is_beside_the_text_are_filters():
    found = looked_for("«Первый в августе» в августе")  # a title in quotes is no time
    assert (found.words, found.filters, found.plan.must) == (
        "«Первый в августе»",
        ("в августе",),
        ("Первый в августе",),
    )
    assert looked_for("mackerel @HARBOUR_News").plan.channels == {HARBOUR}
    found = looked_for("обжиг в канале «Печь и глина»")
    assert (found.words, found.plan.channels, found.plan.must) == ("обжиг", {KILN}, ())
    found = looked_for("посты с фото за вчера")
    assert (found.words, found.beside, found.plan.media) == ("", ("посты с фото",), ("photo",))
    found = looked_for("ferry posts by Tamara last week")
    assert (found.words, found.beside, found.plan.authors) == ("ferry", ("posts by Tamara",), ("Tamara",))


def test_a_channel_that_the_asker_may_not_read_is_a_word_like_any_other():
    known, unknown = looked_for("padlock @crew_only"), looked_for("padlock @no_such_one")
    assert known.plan.channels is unknown.plan.channels is None
    assert (known.words, unknown.words) == ("padlock @crew_only", "padlock @no_such_one")


def test_nothing_that_can_be_found_is_no_search():
    for text in ("", "и в на", "🔥🔥", "the of", "?!", "«»", "##"):
        found = looked_for(text)
        assert (found.words, found.filters, found.plan.queries) == ("", (), ())


def test_yesterday_is_that_of_the_asker():
    late = datetime(2026, 3, 14, 22, 30, tzinfo=UTC)
    assert days(looked_for("вчера", late)) == (date(2026, 3, 13), date(2026, 3, 14))
    there = looked_for("вчера", late.astimezone(ZoneInfo("Europe/Moscow")))
    assert there.plan.since == datetime(2026, 3, 14, tzinfo=ZoneInfo("Europe/Moscow"))


@given(st.text(max_size=300) | st.text('ab@#«»"“” ёЁİ вчера harbour_news from since 2024.-', max_size=80))
def test_any_text_gives_words_that_can_be_searched_or_filters_or_nothing(text):
    found = looked_for(text)
    assert bool(found.words) == bool(found.plan.queries)
    assert not found.words or (tokenize(found.words) and found.plan.queries[0] == found.words)
    assert set(found.beside) <= set(found.filters)
    assert found.plan.channels is None or found.plan.channels <= {HARBOUR, KILN}


def shown(words, text, phrases=()):
    return [text[spot.start : spot.end] for spot in TextMatcher.of(words, phrases).within(text)]


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        ("ferry", "Ferries: the FERRY, 𝗳𝗲𝗿𝗿𝘆 and ferryman", ["Ferries", "FERRY", "𝗳𝗲𝗿𝗿𝘆"]),
        ("дорога", "Доро́га и дорогой, но не дорожная", ["Доро́га", "дорогой"]),
        ("ёлка", "Ёлки и елки", ["Ёлки", "елки"]),
        ("Торосов", "Торосова, Торосовым и торосы", ["Торосова", "Торосовым"]),
        ("Магазин", "магазинов и магазином", ["магазинов", "магазином"]),
        ("the of", "the end of it", []),
    ],
)
def test_words_are_found_in_their_forms(words, text, found):
    assert shown(words, text) == found


def test_a_phrase_is_found_signs_and_stress_marks_aside():
    text = "Паром уходит. Паро́м, уходит! Паромы уходят, а паром не уходит."
    assert shown("паром уходит", text, ("паром уходит",))[:2] == ["Паром уходит", "Паро́м, уходит"]
    assert not TextMatcher.of("пар", ("пар",)).phrases_in("паром")


@pytest.mark.parametrize(
    ("words", "phrases", "text", "whole"),
    [
        ("паром уходит", ("паром уходит",), "Паро́м, уходит!", True),
        ("паром уходит", ("паром уходит",), "Паромы уходят, а паром не уходит.", False),
        ("#паром", ("#паром",), "Расписание #Паром!", True), ("#паром", ("#паром",), "Расписание: паром", False),
        ("#паром", ("#паром",), "#паромы", False), ("island ferry", (), "Ferries to the islands", True),
        ("island ferry", (), "Ferries to the mainland", False),
    ],
)  # fmt: skip
def test_all_words_and_phrases_have_to_stand_there(words, phrases, text, whole):
    assert TextMatcher.of(words, phrases).all_in(text) is whole


def test_a_text_full_of_stress_marks_takes_no_longer():
    text = ("а" + "\u0301" * 60) * 60
    began = time.perf_counter()
    assert not TextMatcher.of("а б", ("а а а а а а б",)).phrases_in(text)
    assert time.perf_counter() - began < 0.5


def test_the_piece_shown_holds_the_most_of_the_words_and_begins_and_ends_with_a_word():
    text = f"{'ferry first ' * 5}{'something else ' * 40}the ferry to Owl Island leaves{' and so on' * 40}"
    spots = TextMatcher.of("ferry island").within(text)
    start, end = select_snippet(text, spots, 100)
    assert "ferry to Owl Island" in text[start:end]
    assert text[start - 1] == " "
    assert text[end] == " "
    assert end - start <= 100


@given(st.text("аб \u0301ё𝗳İ#«x", max_size=120), st.text("аб ё#x", max_size=12), st.integers(1, 50))
def test_places_are_in_the_text_in_order_and_the_piece_is_short_enough(text, words, longest):
    assert len(fold_case(text)) == len(text)
    spots = TextMatcher.of(words, (words,) if words.strip() else ()).within(text)
    assert all(0 <= spot.start < spot.end <= len(text) for spot in spots)
    assert all(one.end <= other.start for one, other in pairwise(spots))
    start, end = select_snippet(text, spots, longest)
    assert 0 <= start <= end <= len(text)
    assert end - start <= longest
