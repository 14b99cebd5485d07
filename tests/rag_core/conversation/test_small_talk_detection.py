import json

import pytest

from rag_core.conversation.small_talk import TalkKind, detect_talk, strip_courtesies


def read_talk(file, least):
    """The kinds that are told in a set, of which `least` is the least share; its questions are no small talk.

    No row is shown where it fails: `validation` only reports.
    """
    rows = [json.loads(line) for line in (file / "talk.jsonl").read_text("utf-8").splitlines()]
    assert sum(row["search"] and detect_talk(row["text"]) is not None for row in rows) == 0
    talk = [(row["kind"], detect_talk(row["text"])) for row in rows if not row["search"]]
    right = [kind for kind, found in talk if found and found.kind == kind]
    assert len(right) >= least * len(talk)
    return {*right}


def test_small_talk_is_told_by_kind(root):
    also = {"which channels do you read": TalkKind.ABOUT_CHANNEL, "help me": TalkKind.HELP}
    assert read_talk(root / "tests" / "data" / "validation", 0.755) | {*also.values()} == {*TalkKind}
    assert {text: detect_talk(text).kind for text in also} == also


def test_small_talk_of_another_set_is_told_by_kind(shared_data):
    assert read_talk(shared_data / "people", 0.94) == {*TalkKind}


@pytest.mark.parametrize("text", ["", "   ", "how?", "почему?", "меню", "ВГТРК"])
def test_no_word_or_one_of_something_else_is_no_small_talk(text):
    assert detect_talk(text) is None


def test_the_language_is_that_of_the_letters():
    assert [talk and talk.lang for talk in map(detect_talk, ("хелп", "Thanks", "👍"))] == ["ru", "en", None]


def test_no_question_of_any_set_is_taken_for_small_talk(shared_data):
    files = ("people/samples/queries.jsonl", "people/real/queries.jsonl", "xquad/queries.jsonl", "rubq/queries.jsonl")
    rows = [json.loads(line) for file in files for line in (shared_data / file).read_text("utf-8").splitlines()]
    assert len(rows) > 1000
    assert [row["text"] for row in rows if detect_talk(row["text"])] == []
    assert [row["text"] for row in rows if strip_courtesies(row["text"]) != row["text"].strip()] == []


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Привет, сколько стоит проезд?", "сколько стоит проезд?"),
        ("спасибо! а в субботу до скольки библиотека?", "а в субботу до скольки библиотека?"),
        ("Добрый день! Подскажите, пожалуйста, где почта", "где почта"),
        ("thanks, and who is the treasurer?", "and who is the treasurer?"),
        ("ok so when was the last firmware", "so when was the last firmware"),
        ("Where is the library? Thank you!", "Where is the library?"),
        ("сколько стоит хлеб, спасибо", "сколько стоит хлеб"),
        ("нет горячей воды почему", "нет горячей воды почему"),
        ("hi-fi магазин где", "hi-fi магазин где"),
        ("кому сказали спасибо", "кому сказали спасибо"),
        ("спасибо", "спасибо"),
    ],
)
def test_courtesies_are_no_part_of_a_question(text, question):
    assert strip_courtesies(text) == question
