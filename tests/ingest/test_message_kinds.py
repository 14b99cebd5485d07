"""What channels post beside plain text, as the Bot API sends it; each sample is one that Telegram could send."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiogram.enums import ContentType
from aiogram.types import Message, Update

from ingest.message_kinds import (
    ABOUT_EXPORTED_MESSAGES,
    ABOUT_LIVE_MESSAGES,
    MESSAGE_KINDS,
    SERVICE_FIELDS,
    MalformedMessage,
    find_exported_kind,
    find_unknown_fields,
)
from ingest.messages import UnreadMessage, parse_exported_post, parse_live_post, parse_topic_title, read_rich_message
from rag_core.types import Channel, Entity, Media, Origin, Post, PostKey

UNIX, NOON = 1_710_244_800, datetime(2024, 3, 12, 12, tzinfo=UTC)
CHAT_ID = -1001234567890
CHAT = {"id": CHAT_ID, "type": "channel", "title": "Пекарня", "username": "bread"}
ELSEWHERE = {"id": -1009876543210, "type": "channel", "title": "Мельница", "username": "mill"}
FILE = {"file_id": "BQAC", "file_unique_id": "AgAD"}
PHOTO = [{**FILE, "width": 90, "height": 60}]
LIVE: dict[str, Any] = {"message_id": 7, "chat": CHAT, "sender_chat": CHAT, "date": UNIX}


def posted(**more: Any) -> Post:
    """The post of a message that Telegram's own model knows."""
    message = LIVE | more
    Update.model_validate({"update_id": 1, "channel_post": message})
    return parse_live_post(message)[1]


def exported(**more: Any) -> Post | None:
    head = {"id": 7, "type": "message", "date_unixtime": str(UNIX), "from": "Пекарня", "from_id": "channel1234567890"}
    return parse_exported_post(head | more, CHAT_ID)


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


@pytest.mark.parametrize("number", ["79991234567", "+79991234567", "+7 999 123-45-67"])
def test_a_contact_is_a_name_and_a_number_however_it_is_written(number: str) -> None:
    live = posted(contact={"phone_number": number, "first_name": "Тамара", "last_name": "Печкина"})
    assert (live.text, live.media) == ("Тамара Печкина\n+79991234567", Media("contact"))
    about = {"first_name": "Тамара", "last_name": "Печкина", "phone_number": "+7 999 123 45 67"}
    assert exported(contact_information=about) == live
    assert exported(contact_information={"first_name": "Тамара", "last_name": "", "phone_number": ""}) == posted(
        contact={"phone_number": "", "first_name": "Тамара"}
    )


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


def test_every_field_of_a_bot_api_message_has_one_place_in_the_table() -> None:
    places = [*(kind.name for kind in MESSAGE_KINDS), *ABOUT_LIVE_MESSAGES, *SERVICE_FIELDS]
    assert len(places) == len(set(places))
    names = {field.alias or name for name, field in Message.model_fields.items()}
    assert names - {*places} == set()
    assert {kind.value for kind in ContentType} - {*places} == {"any", "unknown"}


# kind -> the Bot API's attachment, and the same in an export; each of the words is somewhere else in it


@pytest.mark.parametrize("kind", MESSAGE_KINDS, ids=lambda kind: kind.name)
def test_an_exported_kind_is_known_by_each_of_its_marks(kind: Any) -> None:
    for mark in kind.marks:
        fields = {"file": "x", "media_type": mark} if mark.endswith(("_file", "_message")) else {mark: {}}
        assert find_exported_kind(fields) == kind
        assert find_unknown_fields(fields, exported=True) == ()
        assert mark not in ABOUT_EXPORTED_MESSAGES


def test_a_giveaway_tells_prize_number_and_day_in_the_language_of_the_prize() -> None:
    raw = {"winners_selection_date": UNIX, "winner_count": 5, "prize_description": "five copper lanterns"}
    english = parse_live_post(LIVE | {"giveaway": raw})[1].text
    assert english == "Giveaway\nPrize: five copper lanterns\nWinners: 5\nWinners selection date: 2024-03-12"
    raw |= {"prize_description": "пять медных фонарей", "premium_subscription_month_count": 3}
    russian = parse_live_post(LIVE | {"giveaway": raw})[1].text
    assert russian.splitlines()[:3] == ["Розыгрыш", "Приз: пять медных фонарей", "Приз: Telegram Premium, месяцев: 3"]


@pytest.mark.parametrize(
    ("amount", "currency", "price"),
    [(4550, "EUR", "45.50 EUR"), (4500, "RUB", "45 RUB"), (500, "JPY", "500 JPY"), (50, "XTR", "50 Telegram Stars"),
     (500, "KWD", ""), (None, "EUR", ""), (10**15, "EUR", "")],
)  # fmt: skip
def test_the_price_of_an_invoice_is_told_where_its_unit_is_known(amount: object, currency: str, price: str) -> None:
    raw = {"title": "Абонемент", "currency": currency, "total_amount": amount}
    text = parse_live_post(LIVE | {"invoice": raw})[1].text
    assert text == "\n".join(filter(None, ["Абонемент", price]))


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"hologram": {"depth": 3}}, ("hologram",)),
        ({"media_type": "hologram", "text": ""}, ("media_type hologram",)),
        ({"text": "", "text_entities": []}, ("empty",)),
    ],
)
def test_an_exported_message_of_which_nothing_was_understood_is_told_by_its_kind(
    fields: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    with pytest.raises(UnreadMessage) as caught:
        exported(**fields)
    assert caught.value.fields == kinds


def test_a_live_message_of_which_nothing_was_understood_is_quarantined() -> None:
    raw = LIVE | {"hologram": {"depth": 3}}
    with pytest.raises(UnreadMessage, match="hologram"):
        parse_live_post(raw)
    assert parse_live_post(raw | {"text": "Хлеб"})[1].text == "Хлеб"


@pytest.mark.parametrize("key", ["rich_message", "rich_text", "article"])
def test_a_rich_message_in_whatever_form_gives_its_texts(key: str) -> None:
    paragraph = [{"type": "plain", "text": "Паром уходит в "}, {"type": "spoiler", "text": "21:40"}]
    post = exported(**{key: {"sections": [{"heading": {"text": "Зима"}}, {"children": [{"text": paragraph}]}]}})
    assert post and post.text == "Зима\nПаром уходит в 21:40"
    assert post.entities == (Entity("spoiler", 20, 5),)


def test_the_depth_and_the_size_of_a_rich_message_cost_nothing() -> None:
    deep: object = "дно"
    for _ in range(50_000):
        deep = {"type": "bold", "text": [deep]}
    before = time.process_time()
    assert read_rich_message({"blocks": [deep, {"text": ["а"] * 200_000}]}).text == "дно\n" + "а" * 200_000
    assert time.process_time() - before < 5


def test_buttons_are_lines_with_their_addresses() -> None:
    rows = [
        [{"text": "Записаться 🥖", "url": "https://a.example/x"}, {"text": "👍 5", "callback_data": "like"}],
        [{"text": "Открыть", "web_app": {"url": "https://b.example/"}}],
        [{"text": "Промокод", "copy_text": {"text": "ХЛЕБ"}}],
        [{"text": "💬 12", "url": "https://c.example/"}],
    ]  # fmt: skip
    post = posted(text="Курс 🥖", reply_markup={"inline_keyboard": rows})
    told = ["Курс 🥖", "Записаться 🥖: https://a.example/x", "Открыть: https://b.example/", "Промокод: ХЛЕБ"]
    assert post.text.split("\n") == told
    assert post.links == ("https://a.example/x", "https://b.example/", "https://c.example/")
    units = post.text.encode("utf-16-le")
    shown = [units[2 * e.offset : 2 * (e.offset + e.length)].decode("utf-16-le") for e in post.entities]
    assert shown == ["https://a.example/x", "https://b.example/"]


def test_names_are_cut_at_telegram_s_lengths() -> None:
    long = "н" * 200_000
    channel, post = parse_live_post(
        {
            "message_id": 7, "chat": CHAT | {"title": long}, "date": UNIX, "author_signature": long,
            "document": {"file_name": long, "mime_type": long},
            "forward_origin": {"type": "hidden_user", "sender_user_name": long, "date": UNIX},
        }
    )  # fmt: skip
    kept = exported(file="x", file_name=long, forwarded_from=long, author=long)
    assert kept
    names = [channel.title, *(one and one.file_name for one in (post.media, kept.media))]
    names += [one and one.name for one in (post.origin, kept.origin)]
    assert all(name and len(name) < 256 for name in names)


def test_a_message_of_a_topic_names_it_and_does_not_reply_to_its_opening() -> None:
    opening = {"message_id": 3, "date": UNIX, "forum_topic_created": {"name": "Сад", "icon_color": 1}}
    raw = LIVE | {"text": "Да", "is_topic_message": True, "message_thread_id": 3}
    post = parse_live_post(raw | {"reply_to_message": opening})[1]
    assert (post.topic, post.reply_to) == (3, None)
    assert parse_topic_title(raw | {"reply_to_message": opening}) == (3, "Сад", UNIX)
    assert parse_topic_title(opening) == (3, "Сад", UNIX)
    renamed = {"message_id": 9, "date": UNIX + 5, "message_thread_id": 3, "forum_topic_edited": {"name": "Огород"}}
    assert parse_topic_title(renamed) == (3, "Огород", UNIX + 5)
    assert parse_topic_title(raw) is None


def test_a_live_message_tells_its_channel_and_is_the_same_as_an_exported_one() -> None:
    marks = [
        {"type": "bold", "offset": 3, "length": 4},
        {"type": "text_link", "offset": 8, "length": 3, "url": "https://b.example/"},
        {"type": "url", "offset": 14, "length": 19},
    ]
    parts = [
        {"type": "plain", "text": "🍞 "}, {"type": "bold", "text": "Хлеб"}, {"type": "plain", "text": " "},
        {"type": "text_link", "text": "тут", "href": "https://b.example/"}, {"type": "plain", "text": " и "},
        {"type": "link", "text": "https://a.example/x"},
    ]  # fmt: skip
    channel, post = parse_live_post(LIVE | {"text": "🍞 Хлеб тут и https://a.example/x", "entities": marks})
    assert channel == Channel(CHAT_ID, "Пекарня", "bread")
    assert (post.key, post.date) == (PostKey(CHAT_ID, 7), NOON)
    assert post.links == ("https://b.example/", "https://a.example/x")
    assert exported(text=[], text_entities=parts) == post


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"forwarded_from": "Заслонка"}, Origin("Заслонка")),
        ({"forwarded_from": "Заслонка", "forwarded_from_id": "channel3397140320"}, Origin("Заслонка", -1003397140320)),
        ({"forwarded_from": None, "forwarded_from_id": "user9"}, Origin("", 9)),
        ({"forwarded_from": "?", "forwarded_from_id": "bot²"}, Origin("?")),
    ],
)
def test_an_exported_forward_has_a_name_and_perhaps_an_id(fields: dict[str, Any], found: Origin) -> None:
    post = exported(text="x", **fields)
    assert post and post.origin == found
    chat = {"type": "chat", "sender_chat": {"id": -5, "title": "Чат"}, "date": UNIX}
    assert parse_live_post(LIVE | {"text": "x", "forward_origin": chat})[1].origin == Origin("Чат", -5, None, NOON)


def test_text_entities_are_preferred_and_text_is_the_fallback() -> None:
    parts = ["Хлеб ", {"type": "bold", "text": "по 90"}, {"type": "custom_emoji", "text": "🍞"}, 5]
    old = exported(text=parts)
    assert old and old.text == "Хлеб по 90🍞"
    assert old.entities == (Entity("bold", 5, 5), Entity("custom_emoji", 10, 2))
    new = exported(text="старое", text_entities=[{"type": "plain", "text": "новое"}])
    assert new and new.text == "новое"


def test_the_old_format_has_local_times_and_bare_ids() -> None:
    old = {
        "id": 7,
        "type": "message",
        "date": "2019-05-01T10:00:00",
        "edited": "1970-01-01T03:00:00",
        "from": "Пекарня",
        "from_id": 9824502478,
        "file": "files/прайс.pdf",
        "text": "Хлеб",
    }
    utc, moscow = parse_exported_post(old, -1001), parse_exported_post(old, -1001, zone=ZoneInfo("Europe/Moscow"))
    assert utc and moscow
    assert utc.date == datetime(2019, 5, 1, 10, tzinfo=UTC)
    assert moscow.date == datetime(2019, 5, 1, 7, tzinfo=UTC)
    assert (utc.edited, moscow.edited, utc.author) == (None, None, None)
    assert utc.media == Media("document", "прайс.pdf")


ODD_EXPORTED: list[dict[str, Any]] = [
    {"id": None}, {"id": "7"}, {"id": 0}, {"id": True}, {"id": 2**60}, {"date_unixtime": "99999999999999999999999"},
    {"date_unixtime": "-5"}, {"date_unixtime": "soon"}, {"date_unixtime": None, "date": "0001-01-01T00:00:00"},
    {"date_unixtime": None, "date": "вчера"}, {"date_unixtime": None, "date": None},
]  # fmt: skip
ODD_LIVE: list[dict[str, Any]] = [
    {"chat": None}, {"chat": {"id": "x"}}, {"message_id": 2**70}, {"date": 2**70}, {"date": None},
    {"edit_date": "later"}, {"reply_to_message": {"message_id": "x"}}, {"forward_origin": {"date": UNIX}},
    {"forward_origin": {"type": "from_the_future", "date": UNIX}}, {"forward_origin": "x"},
    {"forward_origin": {"type": "channel", "chat": {"id": "x"}, "date": UNIX}},
]  # fmt: skip


def test_a_message_without_sane_id_date_or_origin_is_malformed() -> None:
    for fields in ODD_EXPORTED:
        with pytest.raises(MalformedMessage):
            exported(text="Хлеб", **fields)
    for fields in ODD_LIVE:
        with pytest.raises(MalformedMessage):
            parse_live_post(LIVE | {"text": "Хлеб"} | fields)


def test_odd_values_in_fields_that_may_be_missing_are_ignored() -> None:
    odd = {"entities": [5, {"type": "bold"}], "author_signature": 5, "media_group_id": [], "document": 3}
    _, post = parse_live_post(LIVE | {"text": "Половина \ud83d пары"} | odd)
    assert (post.text, post.entities, post.author, post.album) == ("Половина \ufffd пары", (), None, None)
    post.text.encode()
    kept = exported(text_entities=[None, {"type": "bold", "text": 5}, {"text": "б"}], photo=5)
    assert kept and (kept.text, kept.media) == ("б", Media("photo"))
