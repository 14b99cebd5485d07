from __future__ import annotations

from typing import Any

import pytest

from rag_core.text.spoilers import cover_spoilers, list_spoilers
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
