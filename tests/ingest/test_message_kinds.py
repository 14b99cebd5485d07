"""What channels post beside plain text, as the Bot API sends it; each sample is one that Telegram could send."""

import json
import time
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
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
from rag_core.types import Channel, Media, Origin, PostKey

DATA = Path(__file__).parents[1] / "data" / "messages"
UNIX, NOON = 1_710_244_800, datetime(2024, 3, 12, 12, tzinfo=UTC)
CHAT_ID = -1001234567890
CHAT = {"id": CHAT_ID, "type": "channel", "title": "Пекарня", "username": "bread"}
LIVE = {"message_id": 7, "chat": CHAT, "sender_chat": CHAT, "date": UNIX}


def posted(**more):
    """The post of a message that Telegram's own model knows."""
    message = LIVE | more
    Update.model_validate({"update_id": 1, "channel_post": message})
    return parse_live_post(message)[1]


def exported(**more):
    head = {"id": 7, "type": "message", "date_unixtime": str(UNIX), "from": "Пекарня", "from_id": "channel1234567890"}
    return parse_exported_post(head | more, CHAT_ID)


def make_plain(value):
    """A field of a post as the data has it: values at the end that are not set are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        value = tuple(getattr(value, field.name) for field in fields(value))
        while value and value[-1] in (None, ""):
            value = value[:-1]
    if isinstance(value, list | tuple):
        return [make_plain(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


ROWS = [json.loads(line) for line in (DATA / "parsed.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_a_message_is_the_post_that_the_table_says(row):
    """`live` is known to Telegram's own model, `raw` need not be."""
    if "export" in row:
        post = exported(**row["export"])
    else:
        post = posted(**row["live"]) if "live" in row else parse_live_post(LIVE | row["raw"])[1]
    assert post and {name: make_plain(getattr(post, name)) for name in row["is"]} == row["is"]
    post.text.encode()


def test_a_message_tells_its_channel_key_and_date():
    channel, post = parse_live_post(LIVE | {"text": "Хлеб"})
    assert channel == Channel(CHAT_ID, "Пекарня", "bread")
    assert (post.key, post.date) == (PostKey(CHAT_ID, 7), NOON)


def test_who_forwards_into_a_group_did_not_write_it():
    raw = {"id": 7, "type": "message", "date_unixtime": str(UNIX), "from": "Ада", "text": "x", "forwarded_from": "Пётр"}
    grouped = parse_exported_post(raw, -1001, broadcast=False)
    assert grouped and (grouped.author, grouped.origin) == (None, Origin("Пётр"))


def test_the_copy_of_a_post_in_its_discussion_group_is_not_taken_for_a_post():
    origin = {"type": "channel", "chat": CHAT, "message_id": 3, "date": UNIX}
    with pytest.raises(MalformedMessage, match="discussion group"):
        posted(text="Хлеб", is_automatic_forward=True, forward_origin=origin)


def test_every_field_of_a_bot_api_message_has_one_place_in_the_table():
    places = [*(kind.name for kind in MESSAGE_KINDS), *ABOUT_LIVE_MESSAGES, *SERVICE_FIELDS]
    assert len(places) == len(set(places))
    names = {field.alias or name for name, field in Message.model_fields.items()}
    assert names - {*places} == set()
    assert {kind.value for kind in ContentType} - {*places} == {"any", "unknown"}


# kind -> the Bot API's attachment, and the same in an export; each of the words is somewhere else in it


@pytest.mark.parametrize("kind", MESSAGE_KINDS, ids=lambda kind: kind.name)
def test_an_exported_kind_is_known_by_each_of_its_marks(kind):
    for mark in kind.marks:
        fields = {"file": "x", "media_type": mark} if mark.endswith(("_file", "_message")) else {mark: {}}
        assert find_exported_kind(fields) == kind
        assert find_unknown_fields(fields, exported=True) == ()
        assert mark not in ABOUT_EXPORTED_MESSAGES


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({"hologram": {"depth": 3}}, ("hologram",)),
        ({"media_type": "hologram", "text": ""}, ("media_type hologram",)),
        ({"text": "", "text_entities": []}, ("empty",)),
    ],
)
def test_an_exported_message_of_which_nothing_was_understood_is_told_by_its_kind(fields, kinds):
    with pytest.raises(UnreadMessage) as caught:
        exported(**fields)
    assert caught.value.fields == kinds


def test_a_live_message_of_which_nothing_was_understood_is_quarantined():
    raw = LIVE | {"hologram": {"depth": 3}}
    with pytest.raises(UnreadMessage, match="hologram"):
        parse_live_post(raw)
    assert parse_live_post(raw | {"text": "Хлеб"})[1].text == "Хлеб"


def test_the_depth_and_the_size_of_a_rich_message_cost_nothing():
    deep = "дно"
    for _ in range(50_000):
        deep = {"type": "bold", "text": [deep]}
    before = time.process_time()
    assert read_rich_message({"blocks": [deep, {"text": ["а"] * 200_000}]}).text == "дно\n" + "а" * 200_000
    assert time.process_time() - before < 5


def test_names_are_cut_at_telegram_s_lengths():
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


def test_a_message_of_a_topic_names_it_and_does_not_reply_to_its_opening():
    opening = {"message_id": 3, "date": UNIX, "forum_topic_created": {"name": "Сад", "icon_color": 1}}
    raw = LIVE | {"text": "Да", "is_topic_message": True, "message_thread_id": 3}
    post = parse_live_post(raw | {"reply_to_message": opening})[1]
    assert (post.topic, post.reply_to) == (3, None)
    assert parse_topic_title(raw | {"reply_to_message": opening}) == (3, "Сад", UNIX)
    assert parse_topic_title(opening) == (3, "Сад", UNIX)
    renamed = {"message_id": 9, "date": UNIX + 5, "message_thread_id": 3, "forum_topic_edited": {"name": "Огород"}}
    assert parse_topic_title(renamed) == (3, "Огород", UNIX + 5)
    assert parse_topic_title(raw) is None


def test_the_old_format_has_local_times_and_bare_ids():
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


ODD_EXPORTED = [
    {"id": None}, {"id": "7"}, {"id": 0}, {"id": True}, {"id": 2**60}, {"date_unixtime": "99999999999999999999999"},
    {"date_unixtime": "-5"}, {"date_unixtime": "soon"}, {"date_unixtime": None, "date": "0001-01-01T00:00:00"},
    {"date_unixtime": None, "date": "вчера"}, {"date_unixtime": None, "date": None},
]  # fmt: skip
ODD_LIVE = [
    {"chat": None}, {"chat": {"id": "x"}}, {"message_id": 2**70}, {"date": 2**70}, {"date": None},
    {"edit_date": "later"}, {"reply_to_message": {"message_id": "x"}}, {"forward_origin": {"date": UNIX}},
    {"forward_origin": {"type": "from_the_future", "date": UNIX}}, {"forward_origin": "x"},
    {"forward_origin": {"type": "channel", "chat": {"id": "x"}, "date": UNIX}},
]  # fmt: skip


def test_a_message_without_sane_id_date_or_origin_is_malformed():
    for odd in ODD_EXPORTED:
        with pytest.raises(MalformedMessage):
            exported(text="Хлеб", **odd)
    for odd in ODD_LIVE:
        with pytest.raises(MalformedMessage):
            parse_live_post(LIVE | {"text": "Хлеб"} | odd)
