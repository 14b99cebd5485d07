"""One post by three ways, in any order: live, from an export, from the history. No way makes a version."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from fake_mtproto_server import BARE_ID, CHANNEL, CHAT_ID, START, make_message
from telethon import types

from ingest.message_kinds import MESSAGE_KINDS
from ingest.messages import parse_exported_post, parse_live_post
from ingest.mtproto import convert_message, index_peers
from rag_core.storage import Archive, posts
from rag_core.types import Post

NUMBER = 5
WRITTEN = START + timedelta(minutes=NUMBER)
UNIX = int(WRITTEN.timestamp())
EDITED = UNIX + 600
ORIGIN = types.Channel(77, "Мельница", types.ChatPhotoEmpty(), START, broadcast=True)
WRITER = types.User(501, first_name="Анна", last_name="Мельник")
PEERS = index_peers([ORIGIN], [WRITER])
FORWARDED = START - timedelta(days=1)


def document(mime: str, *attributes: Any) -> types.MessageMediaDocument:
    return types.MessageMediaDocument(document=types.Document(1, 2, b"", START, mime, 9, 2, [*attributes]))


def text(value: str) -> types.TextWithEntities:
    return types.TextWithEntities(value, [])


NAMED = types.DocumentAttributeFilename("прайс.pdf")
SONG = types.DocumentAttributeFilename("a.mp3")
VIDEO = types.DocumentAttributeVideo(3.0, 10, 10)
ROUND = types.DocumentAttributeVideo(3.0, 10, 10, round_message=True)
STICKER = types.DocumentAttributeSticker("🥖", types.InputStickerSetEmpty())
FILE = {"file_name": "прайс.pdf", "mime_type": "application/pdf"}
OPTIONS = [{"text": "Две"}, {"text": "Три"}]
POLL = types.MessageMediaPoll(
    types.Poll(1, text("Сколько булочек?"), [types.PollAnswer(text(one["text"]), b"0") for one in OPTIONS], 0),
    types.PollResults(),
)
HREF = "https://bread.example/x"
SPOILER = {"type": "spoiler", "text": ["САЙ", {"type": "bold", "text": "КА"}]}
LINK = {"type": "url", "text": "тут", "url": HREF}
RICH_PARAGRAPH = {"type": "paragraph", "text": ["Код: ", SPOILER, ", цены ", LINK]}
RICH = {"rich_message": {"blocks": [RICH_PARAGRAPH, {"type": "list", "items": [{"blocks": [RICH_PARAGRAPH]}]}]}}
RICH_TEXT = types.TextConcat(
    [
        types.TextPlain("Код: "),
        types.TextSpoiler(types.TextConcat([types.TextPlain("САЙ"), types.TextBold(types.TextPlain("КА"))])),
        types.TextPlain(", цены "),
        types.TextUrl(types.TextPlain("тут"), HREF, 0),
    ]
)
RICH_BLOCKS = [types.PageBlockParagraph(RICH_TEXT), types.PageBlockList([types.PageListItemText(RICH_TEXT)])]
EDIT = datetime.fromtimestamp(EDITED, UTC)
PRIZE = "пять медных форм"


def forward(**header: Any) -> dict[str, Any]:
    return {"message": "Мука", "fwd_from": types.MessageFwdHeader(FORWARDED, **header)}


def origin(kind: str, **more: Any) -> dict[str, Any]:
    return {"text": "Мука", "forward_origin": {"type": kind, "date": int(FORWARDED.timestamp())} | more}


def button(label: str, url: str) -> types.KeyboardInlineButtonRow:
    return types.KeyboardInlineButtonRow([types.KeyboardInlineButton(label, types.InlineButtonTypeUrl(url))])


def attached(media: Any, message: str = "") -> dict[str, Any]:
    return {"message": message, "media": media}


# name: fields of the live message, of the exported one, of the MTProto one
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "text": ({"text": "Хлеб 🥖 по 90"}, {"text": "Хлеб 🥖 по 90"}, {"message": "Хлеб 🥖 по 90"}),
    "signed": (
        {"text": "Хлеб", "author_signature": "Анна"},
        {"text": "Хлеб", "author": "Анна"},
        {"message": "Хлеб", "post_author": "Анна"},
    ),
    "link": (
        {"text": "🥖 цены тут", "entities": [{"type": "text_link", "offset": 8, "length": 3, "url": HREF}]},
        {"text_entities": [{"type": "plain", "text": "🥖 цены "}, {"type": "text_link", "text": "тут", "href": HREF}]},
        {"message": "🥖 цены тут", "entities": [types.MessageEntityTextUrl(8, 3, HREF)]},
    ),
    "quote": (
        {"text": "Так и есть", "entities": [{"type": "expandable_blockquote", "offset": 0, "length": 10}]},
        {"text_entities": [{"type": "blockquote", "text": "Так и есть", "collapsed": True}]},
        {"message": "Так и есть", "entities": [types.MessageEntityBlockquote(0, 10, collapsed=True)]},
    ),
    "edited": (
        {"text": "Хлеб 95", "edit_date": EDITED},
        {"text": "Хлеб 95", "edited": "2024-03-12T15:15:00", "edited_unixtime": str(EDITED)},
        {"message": "Хлеб 95", "edit_date": EDIT},
    ),
    "reacted": (
        {"text": "Хлеб 95"},
        {"text": "Хлеб 95", "edited": "2024-03-12T15:15:00", "edited_unixtime": str(EDITED)},
        {"message": "Хлеб 95", "edit_date": EDIT, "edit_hide": True},
    ),
    "photo": (
        {"caption": "Витрина", "photo": [{}], "media_group_id": "900"},
        {"text": "Витрина", "photo": "photos/photo_1.jpg"},
        attached(types.MessageMediaPhoto(photo=types.PhotoEmpty(1)), "Витрина") | {"grouped_id": 900},
    ),
    "document": (
        {"caption": "Прайс", "document": FILE},
        {"text": "Прайс", "file": "files/прайс.pdf", **FILE},
        attached(document("application/pdf", NAMED), "Прайс"),
    ),
    "video": (
        {"caption": "Печь", "video": {"mime_type": "video/mp4"}},
        {"text": "Печь", "media_type": "video_file", "mime_type": "video/mp4", "file": "x.mp4"},
        attached(document("video/mp4", VIDEO), "Печь"),
    ),
    "animation": (
        {"caption": "Печь", "animation": {"mime_type": "video/mp4"}, "document": {"mime_type": "video/mp4"}},
        {"text": "Печь", "media_type": "animation", "mime_type": "video/mp4", "file": "x.mp4"},
        attached(document("video/mp4", VIDEO, types.DocumentAttributeAnimated()), "Печь"),
    ),
    "video note": (
        {"video_note": {}},
        {"text": "", "media_type": "video_message", "file": "x.mp4"},
        attached(document("video/mp4", ROUND)),
    ),
    "voice": (
        {"caption": "Скажу", "voice": {}},
        {"text": "Скажу", "media_type": "voice_message", "file": "x.ogg"},
        attached(document("audio/ogg", types.DocumentAttributeAudio(3, voice=True)), "Скажу"),
    ),
    "audio": (
        {"caption": "Песня", "audio": {"file_name": "a.mp3", "mime_type": "audio/mpeg"}},
        {"text": "Песня", "media_type": "audio_file", "file_name": "a.mp3", "mime_type": "audio/mpeg", "file": "a.mp3"},
        attached(document("audio/mpeg", types.DocumentAttributeAudio(3), SONG), "Песня"),
    ),
    "sticker": (
        {"sticker": {}},
        {"text": "", "media_type": "sticker", "file": "x.webp"},
        attached(document("image/webp", STICKER)),
    ),
    "link preview": (
        {"text": HREF, "entities": [{"type": "url", "offset": 0, "length": len(HREF)}]},
        {"text_entities": [{"type": "link", "text": HREF}]},
        attached(types.MessageMediaWebPage(types.WebPageEmpty(1)), HREF)
        | {"entities": [types.MessageEntityUrl(0, len(HREF))]},
    ),
    "poll": (
        {"poll": {"question": "Сколько булочек?", "options": OPTIONS}},
        {"text": "", "poll": {"question": "Сколько булочек?", "answers": OPTIONS}},
        attached(POLL),
    ),
    "described poll": (
        {"poll": {"question": "Сколько булочек?", "options": OPTIONS, "description": "К чаю"}},
        {"text": "К чаю", "poll": {"question": "Сколько булочек?", "answers": OPTIONS}},
        attached(POLL, "К чаю"),
    ),
    "checklist": (
        {"checklist": {"title": "Купить", "tasks": [{"id": 1, "text": "Муку"}]}},
        {"text": "", "todo_list": {"title": "Купить", "answers": [{"id": 1, "text": "Муку"}]}},
        attached(types.MessageMediaToDo(types.TodoList(text("Купить"), [types.TodoItem(1, text("Муку"))]))),
    ),
    "venue": (
        {"venue": {"title": "Пекарня", "address": "Лесная 5"}, "location": {}},
        {"text": "", "place_name": "Пекарня", "address": "Лесная 5", "location_information": {}},
        attached(types.MessageMediaVenue(types.GeoPoint(1.0, 2.0, 3), "Пекарня", "Лесная 5", "", "", "")),
    ),
    "contact": (
        {"contact": {"first_name": "Анна", "phone_number": "79990001122"}},
        {"text": "", "contact_information": {"first_name": "Анна", "phone_number": "+7 999 000 11 22"}},
        attached(types.MessageMediaContact("79990001122", "Анна", "", "", 1)),
    ),
    "music": (
        {"audio": {"performer": "Печники", "title": "Жар"}},
        {"text": "", "media_type": "audio_file", "file": "(Not included.)", "performer": "Печники", "title": "Жар"},
        attached(document("", types.DocumentAttributeAudio(3, title="Жар", performer="Печники"))),
    ),
    "game": (
        {"game": {"title": "Пекарь", "description": "Семь булочек", "photo": []}},
        {"text": "", "game_title": "Пекарь", "game_description": "Семь булочек"},
        attached(types.MessageMediaGame(types.Game(1, 2, "baker", "Пекарь", "Семь булочек", types.PhotoEmpty(1)))),
    ),
    "invoice": (
        {"invoice": {"title": "Абонемент", "description": "На месяц", "currency": "EUR", "total_amount": 4550}},
        {"text": "", "invoice_information": json.dumps(
            {"title": "Абонемент", "description": "На месяц", "amount": 4550, "currency": "EUR"}
        )},
        attached(types.MessageMediaInvoice("Абонемент", "На месяц", "EUR", 4550, "x")),
    ),
    "giveaway": (
        {"giveaway": {"chats": [], "winners_selection_date": EDITED, "winner_count": 5,
                      "prize_description": PRIZE, "premium_subscription_month_count": 3}},
        {"text": "", "giveaway_information": {"quantity": 5, "months": 3, "until_date": EDIT.isoformat(),
                                              "additional_prize": PRIZE}},
        attached(types.MessageMediaGiveaway([1], 5, EDIT, prize_description=PRIZE, months=3)),
    ),
    "giveaway results": (
        {"giveaway_winners": {"giveaway_message_id": 4, "winners_selection_date": EDITED, "winner_count": 5,
                              "prize_star_count": 500, "winners": []}},
        {"text": "", "giveaway_results": {"launch_message_id": 4, "until_date": EDIT.isoformat(), "winners_count": 5,
                                          "stars": 500, "months": 0}},
        attached(types.MessageMediaGiveawayResults(1, 4, 5, 0, [], EDIT, stars=500)),
    ),
    "buttons": (
        {"text": "Новое меню", "reply_markup": {
            "inline_keyboard": [[{"text": "Заказать", "url": HREF}], [{"text": "👍", "url": HREF + "1"}]]
        }},
        {"text": "Новое меню", "inline_bot_buttons": [
            [{"type": "url", "text": "Заказать", "data": HREF}], [{"type": "url", "text": "👍", "data": HREF + "1"}]
        ]},
        {"message": "Новое меню",
         "reply_markup": types.ReplyInlineMarkup([button("Заказать", HREF), button("👍", HREF + "1")])},
    ),
    "rich message": (RICH, RICH, {"message": "", "rich_message": types.RichMessage(RICH_BLOCKS, [], [])}),
    "location": (
        {"location": {}},
        {"text": "", "location_information": {}},
        attached(types.MessageMediaGeo(types.GeoPoint(1.0, 2.0, 3))),
    ),
    "forward of a channel": (
        origin("channel", chat={"id": -1_000_000_000_077, "title": "Мельница"}, message_id=9),
        {"text": "Мука", "forwarded_from": "Мельница", "forwarded_from_id": "channel77"},
        forward(from_id=types.PeerChannel(77), channel_post=9),
    ),
    "forward of a person": (
        origin("user", sender_user={"id": 501, "first_name": "Анна", "last_name": "Мельник"}),
        {"text": "Мука", "forwarded_from": "Анна Мельник", "forwarded_from_id": "user501"},
        forward(from_id=types.PeerUser(501)),
    ),
    "forward of a hidden person": (
        origin("hidden_user", sender_user_name="Анна"),
        {"text": "Мука", "forwarded_from": "Анна"},
        forward(from_name="Анна"),
    ),
    "reply": (
        {"text": "И ещё", "reply_to_message": {"message_id": 3, "chat": {"id": CHAT_ID}}},
        {"text": "И ещё", "reply_to_message_id": 3},
        {"message": "И ещё", "reply_to": types.MessageReplyHeader(reply_to_msg_id=3)},
    ),
    "reply to elsewhere": (
        {"text": "И ещё", "external_reply": {}},
        {"text": "И ещё", "reply_to_message_id": 3, "reply_to_peer_id": "channel77"},
        {"message": "И ещё",
         "reply_to": types.MessageReplyHeader(reply_to_msg_id=3, reply_to_peer_id=types.PeerChannel(77))},
    ),
}  # fmt: skip


def three_ways(kind: str) -> dict[str, Post]:
    live, exported, fields = KINDS[kind]
    chat = {"id": CHAT_ID, "title": "Пекарня", "username": "bakery", "type": "channel"}
    head = {"id": NUMBER, "type": "message", "date": "2024-03-12T15:05:00", "date_unixtime": str(UNIX)}
    by_export = parse_exported_post(head | exported, CHAT_ID)
    by_history = convert_message(make_message(NUMBER) if not fields else build(fields), CHANNEL, PEERS)
    assert by_export and by_history
    return {
        "live": parse_live_post({"chat": chat, "message_id": NUMBER, "date": UNIX} | live)[1],
        "export": by_export,
        "history": by_history,
    }


def build(fields: dict[str, Any]) -> types.Message:
    return types.Message(NUMBER, types.PeerChannel(BARE_ID), WRITTEN, post=True, **fields)


def test_every_kind_with_words_is_among_the_samples() -> None:
    there = {post.media.kind for kind in KINDS if (post := three_ways(kind)["live"]).media}
    assert {kind.name for kind in MESSAGE_KINDS if kind.format_text} <= there


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_gives_what_came_live(kind: str) -> None:
    ways = three_ways(kind)
    assert ways["history"] == ways["live"]
    assert ways["export"].text == ways["history"].text


@pytest.mark.parametrize("kind", KINDS)
async def test_no_way_and_no_order_makes_a_version(archive: Archive, kind: str) -> None:
    ways = three_ways(kind)
    for order in permutations(ways, 3):
        await archive.execute("DELETE FROM posts")
        for repeat in range(2):
            for number, way in enumerate(order):
                tally = await posts.save_posts(archive, [ways[way]], source=way, update_id=7 * (way == "live"))
                assert (tally.new, tally.edited) == (int(not repeat and not number), 0), (order, way)
        stored = (await archive.rows("SELECT count(*) FROM post_versions"))[0][0]
        assert stored == 0, order


@pytest.mark.parametrize(
    ("fields", "protected", "guarded"),
    [
        ({"noforwards": True}, False, "protected"),
        ({}, True, "protected"),
        ({"paid_suggested_post_stars": True}, False, "paid"),
        ({"media": types.MessageMediaPaidMedia(50, [])}, False, "paid"),
        ({}, False, None),
    ],
)
def test_protected_and_paid_posts_are_known_as_such(
    fields: dict[str, Any], protected: bool, guarded: str | None
) -> None:
    here = types.Channel(BARE_ID, "Пекарня", types.ChatPhotoEmpty(), START, noforwards=protected)
    post = convert_message(build({"message": "Хлеб"} | fields), CHANNEL, index_peers([here], []))
    assert post is not None
    assert post.guarded == guarded
