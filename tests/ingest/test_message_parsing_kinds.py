"""What channels post beside plain text, as the Bot API sends it; each sample is one that Telegram could send."""

from __future__ import annotations

from typing import Any

import pytest
from aiogram.types import Update

from ingest.json_values import MalformedMessage
from ingest.message_parsing import parse_exported_post, parse_live_post
from rag_core.types import Entity, Media, Origin, Post

UNIX = 1_710_244_800
CHAT = {"id": -1001234567890, "type": "channel", "title": "Пекарня", "username": "bread"}
ELSEWHERE = {"id": -1009876543210, "type": "channel", "title": "Мельница", "username": "mill"}
FILE = {"file_id": "BQAC", "file_unique_id": "AgAD"}
PHOTO = [{**FILE, "width": 90, "height": 60}]


def posted(**more: Any) -> Post:
    """The post of a message that Telegram's own model knows."""
    message = {"message_id": 7, "chat": CHAT, "sender_chat": CHAT, "date": UNIX} | more
    Update.model_validate({"update_id": 1, "channel_post": message})
    return parse_live_post(message)[1]


def exported(**more: Any) -> Post | None:
    head = {"id": 7, "type": "message", "date_unixtime": str(UNIX), "from": "Пекарня", "from_id": "channel1234567890"}
    return parse_exported_post(head | more, CHAT["id"])  # type: ignore[arg-type]


def poll(*options: str, **more: Any) -> dict[str, Any]:
    shown = [{"persistent_id": str(n), "text": text, "voter_count": n} for n, text in enumerate(options)]
    known = {"id": "1", "total_voter_count": 3, "is_closed": False, "is_anonymous": True, "type": "quiz"}
    known |= {"allows_multiple_answers": False, "allows_revoting": True, "members_only": False}
    return known | {"options": shown} | more


def test_a_quiz_is_its_description_its_question_its_options_and_its_explanation() -> None:
    quiz = poll(
        "100",
        "90",
        question="Почём хлеб?",
        description="🍞 Угадайте",
        description_entities=[{"type": "bold", "offset": 3, "length": 8}],
        explanation="С марта по 90.",
        correct_option_ids=[1],
    )
    post = posted(poll=quiz)
    assert post.text == "🍞 Угадайте\nПочём хлеб?\n— 100\n— 90\nС марта по 90."
    assert (post.media, post.entities) == (Media("poll"), (Entity("bold", 3, 8),))


def test_an_exported_poll_with_a_text_is_the_same_post() -> None:
    live = posted(poll=poll("да", "нет", question="Печём?", description="Решаем вместе"))
    kept = exported(
        text="Решаем вместе", poll={"question": "Печём?", "answers": [{"text": "да", "voters": 1}, {"text": "нет"}]}
    )
    assert kept == live


@pytest.mark.parametrize("above", [{}, {"show_caption_above_media": True}])
def test_a_document_is_its_caption_and_its_name(above: dict[str, Any]) -> None:
    marks = [{"type": "bold", "offset": 0, "length": 5}]
    document = {**FILE, "file_name": "прайс-март.pdf", "mime_type": "application/pdf", "file_size": 10}
    post = posted(document=document, caption="Прайс на март", caption_entities=marks, **above)
    assert (post.text, post.entities) == ("Прайс на март", (Entity("bold", 0, 5),))
    assert post.media == Media("document", "прайс-март.pdf", "application/pdf")


def test_a_live_photo_is_its_caption() -> None:
    live = {**FILE, "width": 90, "height": 60, "duration": 3}
    post = posted(live_photo=live, photo=PHOTO, caption="Печь")
    assert (post.text, post.media) == ("Печь", Media("live_photo"))


def test_a_place_is_its_name_and_address_live_and_exported() -> None:
    where = {"latitude": 59.9, "longitude": 30.3}
    live = posted(venue={"location": where, "title": "Лавка", "address": "Мельничная, 4"}, location=where)
    assert (live.text, live.media) == ("Лавка\nМельничная, 4", Media("venue"))
    assert exported(place_name="Лавка", address="Мельничная, 4", location_information=where) == live
    assert posted(location=where).text == ""


@pytest.mark.parametrize("number", ["79991234567", "+79991234567", "+7 999 123-45-67"])
def test_a_contact_is_a_name_and_a_number_however_it_is_written(number: str) -> None:
    live = posted(contact={"phone_number": number, "first_name": "Тамара", "last_name": "Печкина"})
    assert (live.text, live.media) == ("Тамара Печкина\n+79991234567", Media("contact"))
    about = {"first_name": "Тамара", "last_name": "Печкина", "phone_number": "+7 999 123 45 67"}
    assert exported(contact_information=about) == live
    assert exported(contact_information={"first_name": "Тамара", "last_name": "", "phone_number": ""}) == posted(
        contact={"phone_number": "", "first_name": "Тамара"}
    )


def test_a_checklist_is_its_title_and_its_tasks() -> None:
    tasks = [{"id": 1, "text": "мука"}, {"id": 2, "text": "соль", "completion_date": UNIX}]
    post = posted(checklist={"title": "Купить", "tasks": tasks})
    assert (post.text, post.media) == ("Купить\n— мука\n— соль", Media("checklist"))


def rich(*blocks: dict[str, Any]) -> Post:
    return posted(rich_message={"blocks": list(blocks)})


def test_a_rich_message_without_text_is_the_text_of_its_blocks() -> None:
    cell = {"align": "left", "valign": "top"}
    post = rich(
        {"type": "heading", "size": 1, "text": "Цены с марта"},
        {"type": "paragraph", "text": ["Хлеб ", {"type": "bold", "text": ["по ", {"type": "italic", "text": "90"}]}]},
        {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "мука"}]}]},
        {"type": "divider"},
        {"type": "table", "cells": [[cell | {"text": "Ржаной"}, cell | {"text": "90 ₽"}], [cell, cell]]},
        {"type": "details", "summary": "Ещё", "blocks": [{"type": "pre", "text": "с 8 до 20"}]},
        {"type": "blockquote", "blocks": [{"type": "paragraph", "text": "Вкусно"}], "credit": "Покупатель"},
        {"type": "mathematical_expression", "expression": "90+10"},
        {"type": "photo", "photo": PHOTO, "caption": {"text": "Витрина", "credit": "Ада"}},
        {
            "type": "footer",
            "text": [{"type": "custom_emoji", "custom_emoji_id": "1", "alternative_text": "🍞"}, " всё"],
        },
    )
    assert post.text.split("\n") == [
        "Цены с марта",
        "Хлеб по 90",
        "1. мука",
        "Ржаной | 90 ₽",
        "Ещё",
        "с 8 до 20",
        "Вкусно",
        "Покупатель",
        "90+10",
        "Витрина",
        "Ада",
        "🍞 всё",
    ]
    assert post.media is None


def test_a_rich_message_keeps_its_links_and_the_names_of_its_files() -> None:
    post = rich(
        {"type": "paragraph", "text": ["Меню ", {"type": "url", "text": "тут", "url": "https://a.example/"}]},
        {"type": "buttons", "buttons": [{"text": "Заказать", "url": "https://b.example/"}]},
        {"type": "document", "document": {**FILE, "file_name": "меню.pdf"}, "caption": {"text": "Меню"}},
    )
    assert post.text == "Меню тут\nЗаказать: https://b.example/\nМеню"
    assert post.links == ("https://a.example/", "https://b.example/")
    assert post.media == Media("document", "меню.pdf")


def test_a_rich_message_without_words_is_a_post_without_text() -> None:
    assert (rich({"type": "divider"}).text, rich().text) == ("", "")


ORIGIN = {"type": "channel", "chat": ELSEWHERE, "message_id": 3, "date": UNIX}
PARENT = {"message_id": 3, "chat": CHAT, "date": UNIX, "text": "Печём?"}


@pytest.mark.parametrize(
    ("fields", "reply_to"),
    [
        ({"reply_to_message": PARENT}, 3),
        ({"reply_to_message": PARENT, "quote": {"text": "Печём", "position": 0}}, 3),
        ({"reply_to_message": {"message_id": 3, "chat": CHAT, "date": 0}}, 3),
        ({"external_reply": {"origin": ORIGIN, "chat": ELSEWHERE, "message_id": 3}}, None),
        ({"external_reply": {"origin": ORIGIN}, "quote": {"text": "Мука кончилась", "position": 0}}, None),
        ({"reply_to_message": PARENT | {"chat": ELSEWHERE}}, None),
        ({"reply_to_story": {"chat": CHAT, "id": 3}}, None),
        ({}, None),
    ],
)
def test_only_a_reply_to_a_post_of_the_same_channel_is_a_reply(fields: dict[str, Any], reply_to: int | None) -> None:
    post = posted(text="Да", **fields)
    assert (post.reply_to, post.text) == (reply_to, "Да")


def test_the_copy_of_a_post_in_its_discussion_group_is_not_taken_for_a_post() -> None:
    origin = {"type": "channel", "chat": CHAT, "message_id": 3, "date": UNIX}
    with pytest.raises(MalformedMessage, match="discussion group"):
        posted(text="Хлеб", is_automatic_forward=True, forward_origin=origin)


def test_who_signed_a_forward_did_not_write_it() -> None:
    """Channels sign what they forward with the name of whoever pressed the button."""
    signed = posted(text="Мука дорожает", author_signature="Маша", forward_origin=ORIGIN)
    assert (signed.author, signed.origin and signed.origin.name) == (None, "Мельница")
    known = posted(text="Мука дорожает", author_signature="Маша", forward_origin=ORIGIN | {"author_signature": "Пётр"})
    assert known.author == "Пётр"
    assert posted(text="Хлеб", author_signature="Маша").author == "Маша"

    kept = exported(text="Мука дорожает", author="Маша", forwarded_from="Мельница")
    assert kept and (kept.author, kept.origin) == (None, Origin("Мельница"))
    grouped = parse_exported_post(
        {"id": 7, "type": "message", "date_unixtime": str(UNIX), "from": "Ада", "text": "x", "forwarded_from": "Пётр"},
        -1001,
        broadcast=False,
    )
    assert grouped and (grouped.author, grouped.origin) == (None, Origin("Пётр"))
