from __future__ import annotations

import time
from typing import Any

import pytest

from rag_core.storage.visible_posts import list_latest_texts
from rag_core.text.post_text import cover_spoilers, list_spoilers
from rag_core.types import Entity


def hide(make_post: Any, text: str, *hidden: str, **link: str) -> Any:
    entities = [
        Entity("spoiler", len(text[: text.index(one)].encode("utf-16-le")) // 2, len(one.encode("utf-16-le")) // 2)
        for one in hidden
    ]
    entities += [Entity("text_link", entities[0].offset, 1, url) for url in link.values()]
    return list_spoilers([make_post(1, text, entities=tuple(entities))])


@pytest.mark.parametrize(
    ("text", "hidden", "shown", "covered"),
    [
        ("The code is MARLIN.", "MARLIN", "“The code is MARLIN. [1]”", "“The code is ▒▒▒▒▒▒. [1]”"),
        ("🎁 Код — ОМУЛЬ!", "ОМУЛЬ", "Отгадка — код омуля.", "Отгадка — код ▒▒▒▒▒."),
        ("In the end the butler did it.", "the butler did it", "the butler", "▒▒▒ ▒▒▒▒▒▒"),
        ("In the end it was so. It ends well.", "It ends well", "At last it ends well!", "At last ▒▒ ▒▒▒▒ ▒▒▒▒!"),
        ("He comes at 7:30, she at 7:45.", "7:30", "at 7:30 or 7:45", "at ▒▒▒▒ or 7:45"),
        ("Winner: 🐟", "🐟", "Winner: 🐟", "Winner: ▒▒"),
        ("Winner: one\ntwo", "one\ntwo", "Winner: one two", "Winner: ▒▒▒ ▒▒▒"),
    ],
)
def test_what_a_text_shows_of_a_spoiler_is_covered(
    make_post: Any, text: str, hidden: str, shown: str, covered: str
) -> None:
    assert cover_spoilers(shown, hide(make_post, text, hidden)) == covered


def test_an_address_under_hidden_words_is_covered_and_nothing_of_a_post_without_spoilers(make_post: Any) -> None:
    spoilers = hide(make_post, "The map is here.", "here", url="https://example.org/marlin")
    assert "marlin" not in cover_spoilers("See https://example.org/marlin", spoilers)
    assert list_spoilers([make_post(1, "The code is MARLIN.")]) == ()


def test_thousands_of_spoilers_take_no_seconds_and_hide_all(make_post: Any) -> None:
    words = [f"w{n}" for n in range(4000)]
    text = " ".join(words)
    places = [Entity("spoiler", text.index(f"w{n}"), len(f"w{n}")) for n in range(4000)]
    started = time.thread_time()
    spoilers = list_spoilers([make_post(1, text, entities=tuple(places))])
    assert cover_spoilers("w17 and w3999", spoilers) == "▒▒▒ and ▒▒▒▒▒"
    cover_spoilers(text[:4096], spoilers)
    assert time.thread_time() - started < 1


async def test_profiles_of_channels_are_made_of_what_posts_show(library: Any, make_post: Any) -> None:
    post = make_post(50, "The code is MARLIN.", chat=library.safe, entities=(Entity("spoiler", 12, 6),))
    await library.keep(post)
    assert await list_latest_texts(library.rag.archive, library.safe, 5) == ["The code is       ."]
