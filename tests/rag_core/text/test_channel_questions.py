"""Questions for what a channel is about, and who runs it."""

from __future__ import annotations

import pytest

from rag_core.text.channel_questions import (
    ChannelAspect,
    asks_of_this_channel,
    detect_channel_question,
)


@pytest.mark.parametrize(
    ("asked", "aspect", "name"),
    [
        ("о чем кирпичики", ChannelAspect.ABOUT, "кирпичики"),
        ("what is owl hill about?", ChannelAspect.ABOUT, "owl hill"),
        ("this channel, what is it all about", ChannelAspect.ABOUT, ""),
        ("кто тут админ", ChannelAspect.OWNER, ""),
        ("who's behind this page", ChannelAspect.OWNER, ""),
        ("who runs the mirror class", ChannelAspect.OWNER, "mirror class"),
    ],
)
def test_a_channel_question_says_what_it_asks_and_of_which(asked: str, aspect: ChannelAspect, name: str) -> None:
    found = detect_channel_question(asked)
    assert found is not None
    assert (found.aspect, found.name) == (aspect, name)
    assert asks_of_this_channel(asked) is not bool(name)


@pytest.mark.parametrize("asked", ["кто пришел", "who writes", "what is on", "когда канал", "", "?" * 500])
def test_other_questions_are_of_no_channel(asked: str) -> None:
    assert detect_channel_question(asked) is None
