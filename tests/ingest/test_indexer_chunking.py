import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.indexer import split_into_passages
from rag_core.text.tokens import normalize_characters
from rag_core.types import Channel, Media, Origin, Post, PostKey

NOON = datetime(2024, 3, 12, 12, tzinfo=UTC)
BAKERY = Channel(-1001, "Пекарня")


def cut(text, parent=None, **more):
    return split_into_passages(Post(PostKey(-1001, 7), NOON, text, **more), BAKERY, parent)


def tokens(text):
    return len(re.findall(r"\w{1,6}|[^\w\s]", text))


paragraphs = st.lists(
    st.lists(st.sampled_from(["хлеб", "по", "девяносто", "рублей.", "price", "—", "12,5", "Завтра!", "👩‍🍳"])).map(
        " ".join
    ),
    max_size=60,
).map("\n\n".join)


@given(st.one_of(paragraphs, st.text(max_size=3000), st.text("аб", min_size=3000, max_size=4096)))
def test_passages_are_pieces_of_the_text_that_cover_it_in_order(text):
    found = cut(text)

    covered = set()
    for n, passage in enumerate(found):
        assert passage.part == n
        assert passage.text == text[passage.start : passage.end]
        assert passage.text == passage.text.strip() != ""
        assert tokens(passage.text) <= 300
        covered.update(range(passage.start, passage.end))
    assert [p.start for p in found] == sorted({p.start for p in found})
    assert {n for n, char in enumerate(text) if not char.isspace()} <= covered


def test_long_posts_are_cut_at_the_ends_of_sentences_and_overlap():
    text = " ".join(f"Это предложение номер {n} про хлеб и цены на него." for n in range(100))
    found = cut(text)

    assert len(found) > 3
    for one, other in pairwise(found):
        assert one.text.endswith(".") and other.text.startswith("Это")
        assert 30 <= tokens(text[other.start : one.end]) <= 70
    assert all(150 <= tokens(p.text) <= 300 for p in found)


def test_the_header_says_where_a_passage_comes_from():
    parent = "Подскажите пожалуйста\nсколько " + "очень " * 20
    (passage,) = cut("Вот", parent, origin=Origin("Заслонка"), media=Media("document", "прайс\u200b 2024.pdf"))
    assert passage.header == (
        "Заслонка → Пекарня · 2024-03-12 · прайс  2024.pdf · "
        "Подскажите пожалуйста сколько очень очень очень очень очень очень очень очень очень"
    )
    assert (passage.key, passage.date, passage.origin) == (PostKey(-1001, 7), NOON, Origin("Заслонка"))


def test_a_file_without_words_is_found_by_its_name_and_a_photo_is_not():
    (passage,) = cut(" \n", media=Media("document", "прайс.pdf"))
    assert (passage.text, passage.start, passage.end) == ("", 0, 0)
    assert "прайс.pdf" in passage.header
    assert cut("", media=Media("photo")) == ()


@given(st.text())
@example("\u1da6")
def test_cleaning_keeps_every_offset(text):
    cleaned = normalize_characters(text)
    assert len(cleaned) == len(text)
    assert normalize_characters(cleaned) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("хлеб\u202e по\u200b\u00ad 90\x00\x0b\t₽\nзавтра", "хлеб  по   90   ₽\nзавтра"),
        ("𝗕𝗼𝗹𝗱 Ｗｉｄｅ 𝟵𝟬\u00a0₽", "Bold Wide 90 ₽"),
        ("10² м², ½ ё Ё ﷺ", "10² м², ½ ё Ё ﷺ"),
    ],
)
def test_hidden_marks_become_spaces_and_dressed_up_letters_plain(text, cleaned):
    assert normalize_characters(text) == cleaned
