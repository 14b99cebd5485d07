from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.text.post_text import build_header
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, split_long_span, split_sentences
from rag_core.types import Channel, Media, Origin, Post, PostKey

# What posts are made of: words of both languages, marks that end sentences or seem to, odd white space, odd characters.
BITS = [
    "Паром", "идёт", "Mr.", "St. Petersburg", "г.", "J.", "7:30", "1 200 ₽", "!!!", "…", "?", ".", '."', "»", "(", ")",
    "—", ",", ";", " ", "\n", "\n\n", "\t", "\u00a0", "\u2028", "\x1c", "\u200b", "👩‍🍳", "🔥", "e\u0301",
    "שלום", "مرحبا", "t.me/a/1", "#тег", "x" * 60,
]  # fmt: skip
texts = st.one_of(st.text(max_size=600), st.lists(st.sampled_from(BITS), max_size=120).map("".join),
                  st.lists(st.sampled_from(BITS), max_size=120).map(" ".join))  # fmt: skip


def shown(text):
    return [text[a:b] for a, b in split_sentences(text)]


@given(texts)
def test_sentences_stand_in_order_apart_and_hold_every_character_but_white_space(text):
    found = split_sentences(text)
    assert all(0 <= a < b <= len(text) for a, b in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    covered = {n for a, b in found for n in range(a, b)}
    assert {n for n, char in enumerate(text) if not char.isspace()} <= covered
    assert all(text[a:b] == text[a:b].strip() for a, b in found)


@given(texts, st.integers(20, MAX_SENTENCE_LENGTH))
def test_pieces_are_short_enough_and_together_hold_the_whole_sentence(text, longest):
    for span in split_sentences(text):
        found = split_long_span(text, span, longest)
        assert all(span[0] <= a < b <= span[1] and b - a <= longest for a, b in found)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(found))
        covered = {n for a, b in found for n in range(a, b)}
        assert {n for n in range(*span) if not text[n].isspace()} <= covered


def test_the_end_of_a_long_sentence_without_commas_is_a_piece_too():
    text = "слово " * 150 + "развязка"
    assert text[slice(*split_long_span(text, (0, len(text)))[-1])].endswith("развязка")


def test_pieces_begin_and_end_between_clauses():
    text = ", ".join(f"здесь стоит часть предложения номер {n}" for n in range(20))
    for a, b in split_long_span(text, (0, len(text)), 120):
        assert text[a:b].startswith("здесь")
        assert b == len(text) or text[a:b].endswith(",")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Паром идёт. Завтра нет!", ["Паром идёт.", "Завтра нет!"]),
        ("Dr. Smith came at 7.30. He left.", ["Dr. Smith came at 7.30.", "He left."]),
        ("Книга К. Чуковского у нас. Берите.", ["Книга К. Чуковского у нас.", "Берите."]),
        ("Дом на ул. Кирпичной, 9. Вход со двора.", ["Дом на ул. Кирпичной, 9.", "Вход со двора."]),
        ("Первая строка\nвторая строка", ["Первая строка", "вторая строка"]),
        ("Так… и дальше. Потом", ["Так… и дальше.", "Потом"]),
        ("«Приходите!» Мы ждём.", ["«Приходите!»", "Мы ждём."]),
        ("Wow!!! 🔥 Hot", ["Wow!!!", "🔥 Hot"]),
        ("\n \n", []),
        ("", []),
    ],
)
def test_where_sentences_end(text, expected):
    assert shown(text) == expected


KEY = PostKey(-1001, 7)
NIGHT = datetime(2024, 3, 12, 23, 59, tzinfo=UTC)
BAKERY = Channel(-1001, "Пекарня\n у моста")


def test_a_header_says_where_when_from_whom_what_and_in_reply_to_what():
    post = Post(KEY, NIGHT, "x", media=Media("document", "price.pdf"), origin=Origin("Соседи"), reply_to=3)
    parent = "Сколько  стоит\nхлеб " + "слово " * 20
    assert build_header(post, BAKERY, parent) == (
        "Соседи → Пекарня у моста · 2024-03-12 · price.pdf · Сколько стоит хлеб " + " ".join(["слово"] * 9)
    )
