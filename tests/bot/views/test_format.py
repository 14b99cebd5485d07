import time

import pytest
from aiogram.utils.formatting import BlockQuote, Bold, Text, TextLink, as_list
from hypothesis import given
from hypothesis import strategies as st

from bot.sandbox.messages import prepare_text
from bot.views.format import MAX_ENTITIES, MAX_MESSAGE_LENGTH, find_link_spans, neutralize_links, split_pages

# Latin, Cyrillic, Hebrew, Arabic, emoji (pairs of UTF-16 units), joiners, blanks and lines.
LETTERS = st.sampled_from("abж ыи של مر😀👩‍👧🇷🇺\n .é")
WORDS = st.text(LETTERS, min_size=1, max_size=30)


def links(page):
    return [(e.extract_from(page.text), e.url) for e in page.entities if e.type == "text_link" and e.url]


@st.composite
def contents(draw):
    """A formatted text of plain, bold, linked and quoted pieces, and the links in it."""
    pieces = []
    linked = []
    for number in range(draw(st.integers(1, 30))):
        text = draw(WORDS) * draw(st.integers(1, 8))
        kind = draw(st.sampled_from("pblq"))
        label, url = f"[{number}]", f"https://t.me/x/{number}"
        if kind in "lq":
            linked.append((label, url))
        marked = TextLink(label, url=url)
        pieces.append({"p": text, "b": Bold(text), "l": marked, "q": BlockQuote(text, marked)}[kind])
    return Text(*pieces), linked


@given(contents(), st.integers(40, 600))
def test_whatever_is_cut_stays_within_limits_and_loses_nothing(content, limit):
    whole, linked = content
    text, _ = whole.render()
    cut = split_pages(whole, limit)
    assert "".join("".join(page.text.split()) for page in cut) == "".join(text.split())
    assert [pair for page in cut for pair in links(page)] == linked
    for page in cut:
        size = len(page.text.encode("utf-16-le")) // 2
        assert 0 < size <= limit
        assert page.text == page.text.strip()
        assert len(page.entities) <= MAX_ENTITIES
        for entity in page.entities:
            assert 0 <= entity.offset < entity.offset + entity.length <= size
            entity.extract_from(page.text).encode("utf-8")  # no half of a pair


@pytest.mark.parametrize("seam", ["\n\n", "\n", " "])
def test_a_cut_falls_between_paragraphs_lines_words(seam):
    first, second = split_pages(Text("a" * 30 + seam + "b" * 30), 40)
    assert (first.text, second.text) == ("a" * 30, "b" * 30)


def test_a_quote_goes_on_in_the_next_message():
    lines = [Text(f"{n}. ", TextLink("x" * 60, url=f"https://t.me/x/{n}")) for n in range(1, 11)]
    cut = split_pages(as_list("Sources", BlockQuote(as_list(*lines))), 300)
    assert len(cut) > 2
    for page in cut:
        (quote,) = (e for e in page.entities if e.type == "blockquote")
        assert page.text.endswith(quote.extract_from(page.text))
    assert [url for page in cut for _, url in links(page)] == [f"https://t.me/x/{n}" for n in range(1, 11)]


def test_a_link_longer_than_a_message_opens_from_each_of_its_parts():
    cut = split_pages(Text(TextLink("л" * (MAX_MESSAGE_LENGTH + 10), url="https://t.me/x/1")))
    assert [links(page) for page in cut] == [
        [("л" * MAX_MESSAGE_LENGTH, "https://t.me/x/1")],
        [("л" * 10, "https://t.me/x/1")],
    ]


@pytest.mark.parametrize(
    "text",
    ["https://evil.example/x", "see evil.example.", "злой.рф/приз", "tg://resolve?domain=evil_bot", "@evil_bot",
     "prize@evil.example", "/grant 666", "https://t.me@evil.example", "EVIL.COM", "http://a.b.c.d.e.f.g.h.i.j.k.l.com",
     f"http://{'a' * 200}.com", "1.2.3.4/x", "#tag", "#tag@evil_chat", "$TAG", "$1INCH", "+7 999 123-45-67",
     "+1-212-555-0123", "88005553535", "8 (800) 555-35-35", "4111 1111 1111 1111", "4111-1111-1111-1111",
     "x.ru " * 300, "@aaaaa #б /c " * 60],
)  # fmt: skip
def test_what_telegram_would_make_a_link_is_code(text):
    said, marks = neutralize_links(text).render()
    assert said == text
    assert len(marks) <= 6
    found = prepare_text(said, [mark.model_dump(exclude_none=True, mode="json") for mark in marks])[1]
    assert {mark["type"] for mark in found} == {"code"}
    assert any(mark["type"] == "code" for mark in found)


@pytest.mark.parametrize(
    "text",
    ["closed.Come in", "и т.д. в 7.30", "и/или", "12.5.2024", "No links. Here.", "#1", "$5", "2024-03-12", "1,234,567",
     "id 123456789"],
)  # fmt: skip
def test_other_words_stay_words(text):
    assert find_link_spans(text) == []


@pytest.mark.parametrize(
    "piece", ["a", "a.", "a@", "@a", "://", "x.ru ", "a-", "1.", "a.b@", "tg:", "\u0301", "1 ", "+1", "#1", "$A", "(1"]
)
def test_no_text_takes_long(piece):
    started = time.process_time()
    find_link_spans(piece * (100_000 // len(piece)))
    assert time.process_time() - started < 2
