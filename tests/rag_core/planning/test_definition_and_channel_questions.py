from datetime import UTC, datetime

import pytest

from rag_core.planning.intents import Request, asks_of_this_channel, classify_request, find_defined_name
from rag_core.planning.plan import plan_by_rules
from rag_core.planning.queries import mask_channel_names
from rag_core.retrieval.channel_answers import Definition, is_written_as_name, read_definition
from rag_core.types import Channel, Kind, Question, Viewer

NOW = datetime(2026, 11, 20, tzinfo=UTC)

NAMES = {
    "who is Moth": "Moth", "who's ludo?": "ludo", "what is Tawny?": "Tawny", "кто такая Зинаида?": "Зинаида",
    "что за чинильня": "чинильня", "савва пименов это кто вообще": "савва пименов", "палыч это кто?": "палыч",
    "who's the Captain?": "Captain", "зинаида эт кто": "зинаида",
    "who is the treasurer": None, "who is it": None, "what's new": None, "who are you": None, "кто ведёт урок": None,
    "what is on": None, "where is Moth": None, "": None,
}  # fmt: skip
SAID = (
    ("Ludo", "Ludo is a dog.", Definition.PLAIN),
    ("Зинаида", "Знакомьтесь: Зинаида.", Definition.PLAIN),
    ("Moth", "(For newcomers, Moth is Timothy Oakes.)", Definition.IN_PASSING),
    ("Ludo", "Our dog Ludo barked.", Definition.IN_PASSING),
    ("палыч", "Палыч (всё, что сварили в СССР) уехал.", Definition.IN_PASSING),
    ("Гематоген", "кот на ресепшене — Гематоген.", Definition.IN_PASSING),
    ("Otto", "Otto is no longer chairman.", Definition.IN_PASSING),
    ("Марина", "Ждём всех на уборку берега — Марина", Definition.IN_PASSING),  # a signature: never plain
    ("Moth", "Moth says it is DNS.", Definition.NONE),
    ("Ludo", "Ask Ludo for the key.", Definition.NONE),
    ("Зинаида", "Назвали не Зинаидой, хотя мы голосовали", Definition.NONE),
)


@pytest.mark.parametrize(("question", "name"), NAMES.items())
def test_the_name_is_found(question, name):
    assert find_defined_name(question) == name


@pytest.mark.parametrize(("name", "sentence", "how"), SAID)
def test_a_sentence_says_plainly_in_passing_or_not_at_all_who_it_is(name, sentence, how):
    assert read_definition(sentence, name) is how


def test_a_common_word_is_not_written_as_a_name():
    assert is_written_as_name("Thank Pixel for the mice.", "pixel") and is_written_as_name(
        "Новое: «Чинильня».", "чинильня"
    )
    assert not is_written_as_name("Coming (we hope) on Friday.", "coming")
    assert not is_written_as_name("Missing: a grey cat.", "missing")


@pytest.mark.parametrize(
    ("asked", "request_", "name"),
    [
        ("о чем кирпичики", Request.ABOUT, "кирпичики"),
        ("what is owl hill about?", Request.ABOUT, "owl hill"),
        ("this channel, what is it all about", Request.ABOUT, ""),
        ("кто тут админ", Request.OWNER, ""),
        ("who's behind this page", Request.OWNER, ""),
        ("who runs the mirror class", Request.OWNER, "mirror class"),
    ],
)
def test_a_channel_question_says_what_it_asks_and_of_which(asked, request_, name):
    known = {-n: Channel(-n, title, "") for n, title in enumerate(("Кирпичики", "Owl Hill", "Mirror class"), 1)}
    plan = plan_by_rules(Question(asked, "en", NOW, Viewer(0, frozenset(known))), known)
    assert (plan.kind, plan.topic) == (Kind.INTRODUCTION, name)
    assert classify_request(mask_channel_names(asked, known, "en")) is request_
    assert asks_of_this_channel(asked) is not bool(name)


@pytest.mark.parametrize("asked", ["кто пришел", "who writes", "what is on", "когда канал", "", "?" * 500])
def test_other_questions_are_of_no_channel(asked):
    assert plan_by_rules(Question(asked, "en", NOW, Viewer(0, frozenset()))).kind is not Kind.INTRODUCTION
    assert not asks_of_this_channel(asked)
