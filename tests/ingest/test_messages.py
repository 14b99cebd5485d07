"""One post, two ways in: as a live update and as an entry of an export."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ingest.message_kinds import MalformedMessage
from ingest.messages import parse_exported_post, parse_live_post
from rag_core.types import Channel, Entity, Media, Origin, PostKey

CHAT = {"id": -1001234567890, "type": "channel", "title": "Пекарня", "username": "bread"}
UNIX = 1_710_244_800
NOON = datetime(2024, 3, 12, 12, tzinfo=UTC)


def live(**more: Any) -> dict[str, Any]:
    return {"message_id": 7, "chat": CHAT, "sender_chat": CHAT, "date": UNIX} | more


def exported(**more: Any) -> dict[str, Any]:
    return {
        "id": 7,
        "type": "message",
        "date": "2024-03-12T15:00:00",
        "date_unixtime": str(UNIX),
        "from": "Пекарня",
        "from_id": "channel1234567890",
        "text": "",
        "text_entities": [],
    } | more


BOTH_WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "formatted, after an emoji of two units": (
        {
            "text": "🍞 Хлеб тут и https://a.example/x",
            "entities": [
                {"type": "bold", "offset": 3, "length": 4},
                {"type": "text_link", "offset": 8, "length": 3, "url": "https://b.example/"},
                {"type": "url", "offset": 14, "length": 19},
            ],
        },
        {
            "text": [],
            "text_entities": [
                {"type": "plain", "text": "🍞 "},
                {"type": "bold", "text": "Хлеб"},
                {"type": "plain", "text": " "},
                {"type": "text_link", "text": "тут", "href": "https://b.example/"},
                {"type": "plain", "text": " и "},
                {"type": "link", "text": "https://a.example/x"},
            ],
        },
    ),
    "caption of a photo, signed, edited": (
        {
            "caption": "Витрина",
            "photo": [{"file_id": "x"}],
            "author_signature": "Маша",
            "edit_date": UNIX + 60,
        },
        {
            "text": "Витрина",
            "photo": "photos/photo_1.jpg",
            "author": "Маша",
            "edited": "2024-03-12T15:01:00",
            "edited_unixtime": str(UNIX + 60),
        },
    ),
    "sticker": (
        {"sticker": {"file_id": "x", "emoji": "🍞"}},
        {"media_type": "sticker", "sticker_emoji": "🍞", "file": "s.webp", "file_name": "s.webp"},
    ),
    "reply": (
        {"text": "Да", "reply_to_message": {"message_id": 3, "date": UNIX}},
        {"text": "Да", "reply_to_message_id": 3},
    ),
}


@pytest.mark.parametrize("way", BOTH_WAYS)
def test_live_and_exported_are_the_same_post(way: str) -> None:
    alive, kept = BOTH_WAYS[way]
    _, post = parse_live_post(live(**alive))
    assert parse_exported_post(exported(**kept), -1001234567890) == post


def test_a_live_message_tells_its_channel() -> None:
    channel, post = parse_live_post(live(text="Хлеб", media_group_id="g1", views=5))
    assert channel == Channel(-1001234567890, "Пекарня", "bread")
    assert (post.key, post.date, post.album) == (PostKey(-1001234567890, 7), NOON, "g1")


def test_links_are_those_shown_and_those_hidden() -> None:
    _, post = parse_live_post(live(**BOTH_WAYS["formatted, after an emoji of two units"][0]))
    assert post.links == ("https://b.example/", "https://a.example/x")


@pytest.mark.parametrize(
    ("origin", "found"),
    [
        (
            {"type": "channel", "chat": {"id": -1002, "title": "Заслонка"}, "message_id": 5, "date": UNIX},
            Origin("Заслонка", -1002, 5, NOON),
        ),
        ({"type": "chat", "sender_chat": {"id": -5, "title": "Чат"}, "date": UNIX}, Origin("Чат", -5, None, NOON)),
        (
            {"type": "user", "sender_user": {"id": 9, "first_name": "Ада", "last_name": "Л"}, "date": UNIX},
            Origin("Ада Л", 9, None, NOON),
        ),
        ({"type": "hidden_user", "sender_user_name": "Ада", "date": UNIX}, Origin("Ада", None, None, NOON)),
    ],
)
def test_a_live_forward_keeps_its_origin(origin: dict[str, Any], found: Origin) -> None:
    assert parse_live_post(live(text="x", forward_origin=origin))[1].origin == found


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"forwarded_from": "Заслонка"}, Origin("Заслонка")),
        ({"forwarded_from": "Заслонка", "forwarded_from_id": "channel3397140320"}, Origin("Заслонка", -1003397140320)),
        ({"forwarded_from": "Ада", "forwarded_from_id": "user9"}, Origin("Ада", 9)),
        ({"forwarded_from": None, "forwarded_from_id": "user9"}, Origin("", 9)),
        ({"forwarded_from": "?", "forwarded_from_id": "bot²"}, Origin("?")),
        ({}, None),
    ],
)
def test_an_exported_forward_has_a_name_and_perhaps_an_id(fields: dict[str, Any], found: Origin | None) -> None:
    post = parse_exported_post(exported(text="x", **fields), -1001)
    assert post and post.origin == found


def test_text_entities_are_preferred_and_text_is_the_fallback() -> None:
    parts = ["Хлеб ", {"type": "bold", "text": "по 90"}, {"type": "custom_emoji", "text": "🍞"}, 5]
    old = parse_exported_post({k: v for k, v in exported(text=parts).items() if k != "text_entities"}, -1001)
    assert old and old.text == "Хлеб по 90🍞"
    assert old.entities == (Entity("bold", 5, 5), Entity("custom_emoji", 10, 2))

    new = parse_exported_post(exported(text="старое", text_entities=[{"type": "plain", "text": "новое"}]), -1001)
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


@pytest.mark.parametrize(
    "fields",
    [
        {"id": None},
        {"id": "7"},
        {"id": 0},
        {"id": True},
        {"id": 2**60},
        {"date_unixtime": "99999999999999999999999"},
        {"date_unixtime": "-5"},
        {"date_unixtime": "soon"},
        {"date_unixtime": None, "date": "0001-01-01T00:00:00"},
        {"date_unixtime": None, "date": "вчера"},
        {"date_unixtime": None, "date": None},
    ],
)
def test_an_exported_message_without_sane_id_and_date_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        parse_exported_post(exported(**fields), -1001)


@pytest.mark.parametrize(
    "fields",
    [
        {"chat": None},
        {"chat": {"id": "x"}},
        {"message_id": 2**70},
        {"date": 2**70},
        {"date": None},
        {"edit_date": "later"},
        {"reply_to_message": {"message_id": "x"}},
        {"forward_origin": {"type": "from_the_future", "date": UNIX}},
        {"forward_origin": {"date": UNIX}},
        {"forward_origin": {"type": "channel", "chat": {"id": "x"}, "date": UNIX}},
        {"forward_origin": "x"},
    ],
)
def test_a_live_message_that_makes_no_sense_is_malformed(fields: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        parse_live_post(live(text="Хлеб") | fields)


def test_odd_values_in_fields_that_may_be_missing_are_ignored() -> None:
    odd = {"entities": [5, {"type": "bold"}], "author_signature": 5, "media_group_id": [], "document": 3}
    _, post = parse_live_post(live(text="Половина \ud83d пары", **odd))
    assert (post.text, post.entities, post.author, post.album) == ("Половина \ufffd пары", (), None, None)
    post.text.encode()

    kept = parse_exported_post(
        exported(text_entities=[None, {"type": "bold", "text": 5}, {"text": "б"}], photo=5), -1001
    )
    assert kept and (kept.text, kept.media) == ("б", Media("photo"))
