from __future__ import annotations

from datetime import UTC, datetime

from rag_core.text.sentences import build_header
from rag_core.types import Channel, Media, Origin, Post, PostKey

KEY = PostKey(-1001, 7)
NIGHT = datetime(2024, 3, 12, 23, 59, tzinfo=UTC)
BAKERY = Channel(-1001, "Пекарня\n у моста")


def test_a_header_says_where_when_from_whom_what_and_in_reply_to_what() -> None:
    post = Post(KEY, NIGHT, "x", media=Media("document", "price.pdf"), origin=Origin("Соседи"), reply_to=3)
    parent = "Сколько  стоит\nхлеб " + "слово " * 20
    assert build_header(post, BAKERY, parent) == (
        "Соседи → Пекарня у моста · 2024-03-12 · price.pdf · Сколько стоит хлеб " + " ".join(["слово"] * 9)
    )


def test_a_channel_that_repeats_itself_and_a_source_without_a_name_are_not_named_twice() -> None:
    for origin in (Origin("Пекарня у моста", KEY.chat_id, 3), Origin("")):
        assert build_header(Post(KEY, NIGHT, "x", origin=origin), BAKERY) == "Пекарня у моста · 2024-03-12"
    assert build_header(Post(KEY, NIGHT, "x", origin=Origin("Соседи")), None) == "Соседи · 2024-03-12"


def test_what_is_not_known_is_left_out() -> None:
    assert build_header(Post(KEY, NIGHT, "x"), None) == "2024-03-12"
    assert build_header(Post(KEY, NIGHT, "x", media=Media("photo")), Channel(-1, "")) == "2024-03-12"
