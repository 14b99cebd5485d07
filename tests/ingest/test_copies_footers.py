import json
from pathlib import Path

import pytest

from ingest.copies import strip_footers, write_out_links
from rag_core.types import Entity

NEWS = "Мост через Оку закрыт на ремонт.\nОбъезд по Полевой улице."


FILE = Path(__file__).parents[1] / "data" / "copies" / "lines.jsonl"
LINES = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("line", [row["line"] for row in LINES if row["footer"]])
def test_a_footer_is_no_part_of_the_body_at_the_end_or_on_top(line):
    assert strip_footers(f"{NEWS}\n\n{line}") == NEWS
    if not line.startswith("Фото:"):
        assert strip_footers(f"{line}\n\n{NEWS}") == NEWS
    assert strip_footers(f"{NEWS}\n\n{line}\n🔴 Подписаться") == NEWS


@pytest.mark.parametrize("line", [row["line"] for row in LINES if not row["footer"]])
def test_a_line_that_says_something_is_no_footer(line):
    assert len(strip_footers(f"{NEWS}\n{line}")) > len(NEWS) + 5
    assert len(strip_footers(f"{line}\n{NEWS}")) > len(NEWS) + 5


def test_a_footer_in_the_middle_and_links_inside_leave_the_words_around_them():
    text = "Мост [закрыт](https://example.org/a).\nПодписаться\nПишите @reka до мая."
    assert strip_footers(text).split() == "Мост закрыт. Подписаться Пишите до мая.".split()
    assert strip_footers("Подписаться | Прислать новость\n@reka") == ""
    headline = f"Видео: мост в Кашире\n{NEWS}"  # on top it is no credit
    assert strip_footers(headline) == headline


def test_a_hidden_link_to_a_channel_tells_a_signature(make_post):
    text = "Мост 🌉 закрыт на ремонт.\n\nРека сегодня"
    start = len(text.encode("utf-16-le")) // 2 - 12
    hidden = make_post(1, text, entities=(Entity("text_link", start, 12, "https://t.me/reka"),))
    assert write_out_links(hidden) == "Мост 🌉 закрыт на ремонт.\n\n[Река сегодня](https://t.me/reka)"
    assert strip_footers(write_out_links(hidden)) == "Мост 🌉 закрыт на ремонт."
    assert write_out_links(make_post(2, text)) == text
    elsewhere = make_post(3, text, entities=(Entity("text_link", 0, 4, "https://example.org"),))
    assert write_out_links(elsewhere) == text
