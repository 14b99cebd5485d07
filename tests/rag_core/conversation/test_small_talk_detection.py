"""Small talk is told from questions, and courtesies around a question are no part of it."""

import json

import pytest

from rag_core.conversation.small_talk import TalkKind, detect_talk, strip_courtesies

TALK = {
    TalkKind.GREETING: "Здравствуйте!|привееет|добрый вечер всем|превет|Hello there|good evening|hi bot",
    TalkKind.THANKS: "спасибо большое|спс, понял|спосибо|за помощь спасибо|thanks for your help|you are great",
    TalkKind.ACK: "ок|ясно, ага|нет|хахаха|Okay cool|got it|nope",
    TalkKind.BYE: "ну пока|до свидания|спокойной ночи|bye bye|see you later",
    TalkKind.HOW_ARE_YOU: "привет, как дела?|как жизнь|what's up|how are you doing today?",
    TalkKind.WHO_ARE_YOU: "а ты кто вообще|ты бот или человек?|who made you|do you ever sleep|ты думаешь обо мне",
    TalkKind.WHAT_CAN_YOU_DO: "что ты умеешь|чем можешь помочь|о чём тебя можно спросить|what can I ask you?",
    TalkKind.HELP: "помогите, пожалуйста|как тобой пользоваться|help me|how does this work",
    TalkKind.ABOUT_CHANNEL: "о чём этот канал?|что за канал|what is this channel about|which channels do you read",
    TalkKind.JOKE: "расскажи анекдот|пошути|tell me a joke please|make me laugh",
    TalkKind.ABUSE: "тупой бот|бесполезная штука|fuck you|you are useless|why are you so dumb",
    TalkKind.EMOJI: "👍|❤️|:)|)))",
    TalkKind.UNCLEAR: "???|.",
}
QUESTIONS = (
    "помощь с ремонтом чайника где", "привет, сколько стоит проезд?", "пока ремонт, где библиотека", "почему?", "how?",
    "класс керамики когда", "is it good?", "а точно?", "а в субботу", "нет воды", "help with moving", "good coffee",
    "do you have parking", "do you sell bread", "can you open it on friday", "меню", "мусор",
    "можешь подробнее", "знаешь где почта",
    "что ты думаешь о выборах", "who is it", "что это", "ВГТРК", "правда", "tree", "канал Волга — Дон",
    "Привет, Андрей: что это за передача",
    "what do you know about the bridge", "", "   ",
)  # fmt: skip


@pytest.mark.parametrize("kind", TALK)
def test_small_talk_is_told_by_kind(kind):
    told = {text: detect_talk(text) for text in TALK[kind].split("|")}
    assert {text: talk and talk.kind for text, talk in told.items()} == dict.fromkeys(told, kind)


def test_the_language_is_that_of_the_letters():
    assert [talk and talk.lang for talk in map(detect_talk, ("хелп", "Thanks", "👍"))] == ["ru", "en", None]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_is_no_small_talk(text):
    assert detect_talk(text) is None


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
