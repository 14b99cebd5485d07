from __future__ import annotations

from typing import Any

import pytest

from rag_core.text.post_text import find_poll, label_poll
from rag_core.types import Certainty, Media

POLL = Media("poll")


@pytest.mark.parametrize(
    ("text", "media", "poll"),
    [
        ("Best knot\n— Bowline\n— Hitch", POLL, "Best knot\n— Bowline\n— Hitch"),
        ("Vote by Friday.\nBest knot\n— Bowline\n— Hitch\nThe bowline holds.", POLL, "Best knot\n— Bowline\n— Hitch"),
        ("Which knot?\n— Bowline\n— Hitch", None, "Which knot?\n— Bowline\n— Hitch"),
        ("To bring:\n— rope\n— gloves", None, None),
        ("No options here", POLL, None),
    ],
)
def test_a_poll_is_told_by_its_media_or_by_its_question(
    make_post: Any, text: str, media: Any, poll: str | None
) -> None:
    post = make_post(1, text, media=media)
    span = find_poll(post)
    assert (text[slice(*span)] if span else None) == poll
    assert label_poll(post).count("Poll: ") == (poll is not None)


@pytest.mark.parametrize(
    ("question", "poll"),
    [
        ("What does slack in a mooring line refer to?", "Slack in a mooring line refers to\n— Loose length\n— Tension"),
        ("What is a bowline?", "A Bowline is\n— a knot of the sea\n— a kind of boat"),
        (
            "Какой мост разводят первым?",
            "Который из мостов разводят?\nКакой мост разводят первым\n— Лодочный\n— Мучной",
        ),
    ],
)
async def test_a_poll_is_never_a_sure_answer(library: Any, make_post: Any, question: str, poll: str) -> None:
    await library.keep(make_post(50, poll, chat=library.harbour, media=POLL))
    answer = await library.ask(question)
    assert answer.certainty is not Certainty.SURE
    assert not any("— " in sentence.text for sentence in answer.sentences)


async def test_a_statement_stands_before_a_poll_about_the_same(library: Any, make_post: Any) -> None:
    poll = make_post(51, "Suggest a time for the daily quiz\n— 2 pm\n— 3 pm", chat=library.harbour, days=5, media=POLL)
    await library.keep(make_post(50, "Join the daily live quiz at 4pm.", chat=library.harbour), poll)
    answer = await library.ask("At what time is the daily live quiz?")
    assert [sentence.text for sentence in answer.sentences] == ["Join the daily live quiz at 4pm."]
