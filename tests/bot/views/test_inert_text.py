"""No words of a post become something to tap."""

from __future__ import annotations

import time

import pytest

from bot.sandbox.messages import prepare_text
from bot.views.format import find_link_spans, neutralize_links


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
