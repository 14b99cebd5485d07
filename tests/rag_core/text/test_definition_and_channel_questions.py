"""Questions for what a name stands for, and for what a channel is about and who runs it."""

from __future__ import annotations

import pytest

from rag_core.text.channel_questions import ChannelAspect, asks_of_this_channel, detect_channel_question
from rag_core.text.definition_questions import compile_definition, find_defined_name

NAMES = {
    "who is Moth": "Moth", "who's ludo?": "ludo", "what is Tawny?": "Tawny", "кто такая Зинаида?": "Зинаида",
    "что за чинильня": "чинильня", "савва пименов это кто вообще": "савва пименов", "палыч это кто?": "палыч",
    "who's the Captain?": "Captain", "зинаида эт кто": "зинаида",
    "who is the treasurer": None, "who is it": None, "what's new": None, "who are you": None, "кто ведёт урок": None,
    "what is on": None, "where is Moth": None, "": None,
}  # fmt: skip
SAID = {
    "Moth": (("(For newcomers, Moth is Timothy Oakes.)", True), ("Moth says it is DNS.", False)),
    "Ludo": (("Ludo is a dog.", True), ("Ask Ludo for the key.", False), ("Our dog Ludo barked.", False)),
    "палыч": (("Палыч (всё, что сварили в СССР) уехал.", True), ("Палыч уехал.", False)),
    "Гематоген": (("кот на ресепшене — Гематоген.", True),),
}


@pytest.mark.parametrize(("question", "name"), NAMES.items())
def test_the_name_is_found(question: str, name: str | None) -> None:
    assert find_defined_name(question) == name


@pytest.mark.parametrize("name", SAID)
def test_what_says_plainly_who_it_is(name: str) -> None:
    assert [(text, bool(compile_definition(name).plain.search(text))) for text, _ in SAID[name]] == list(SAID[name])
    assert compile_definition("Ludo").any.search("Our dog Ludo barked.")
    assert not compile_definition("Зинаида").any.search("Назвали не Зинаидой, хотя мы голосовали")


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
