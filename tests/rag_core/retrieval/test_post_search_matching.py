from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.retrieval.post_search import TextMatcher, select_snippet
from rag_core.text.tokens import fold_case


def shown(words: str, text: str, phrases: tuple[str, ...] = ()) -> list[str]:
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
def test_words_are_found_in_their_forms(words: str, text: str, found: list[str]) -> None:
    assert shown(words, text) == found


def test_a_phrase_is_found_word_for_word_signs_and_stress_marks_aside() -> None:
    text = "Паром уходит. Паро́м, уходит! Паромы уходят, а паром не уходит."
    assert shown("паром уходит", text, ("паром уходит",))[:2] == ["Паром уходит", "Паро́м, уходит"]
    spots = TextMatcher.of("паром уходит", ("паром уходит",))
    assert spots.all_in(text)
    assert not spots.all_in("Паромы уходят, а паром не уходит.")
    assert not TextMatcher.of("пар", ("пар",)).phrases_in("паром")


def test_a_tag_is_found_as_a_tag() -> None:
    spots = TextMatcher.of("#паром", ("#паром",))
    assert spots.all_in("Расписание #Паром!")
    assert not spots.all_in("Расписание: паром")
    assert not spots.all_in("#паромы")


def test_all_words_have_to_stand_there_in_any_order() -> None:
    spots = TextMatcher.of("island ferry")
    assert spots.all_in("Ferries to the islands")
    assert not spots.all_in("Ferries to the mainland")


def test_a_text_full_of_stress_marks_takes_no_longer() -> None:
    text = ("а" + "\u0301" * 60) * 60
    began = time.perf_counter()
    assert not TextMatcher.of("а б", ("а а а а а а б",)).phrases_in(text)
    assert time.perf_counter() - began < 0.5


def test_the_piece_shown_holds_the_most_of_the_words_and_begins_and_ends_with_a_word() -> None:
    text = f"{'ferry first ' * 5}{'something else ' * 40}the ferry to Owl Island leaves{' and so on' * 40}"
    spots = TextMatcher.of("ferry island").within(text)
    start, end = select_snippet(text, spots, 100)
    assert "ferry to Owl Island" in text[start:end]
    assert text[start - 1] == " "
    assert text[end] == " "
    assert end - start <= 100


@given(st.text("аб \u0301ё𝗳İ#«x", max_size=120), st.text("аб ё#x", max_size=12), st.integers(1, 50))
def test_places_are_in_the_text_in_order_and_the_piece_is_short_enough(text: str, words: str, longest: int) -> None:
    assert len(fold_case(text)) == len(text)
    spots = TextMatcher.of(words, (words,) if words.strip() else ()).within(text)
    assert all(0 <= spot.start < spot.end <= len(text) for spot in spots)
    assert all(one.end <= other.start for one, other in pairwise(spots))
    start, end = select_snippet(text, spots, longest)
    assert 0 <= start <= end <= len(text)
    assert end - start <= longest
