"""One post by three ways, in any order: live, from an export, from the history. No way makes a version."""

import json
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest
from fake_mtproto_server import BARE_ID, CHANNEL, CHAT_ID, START
from telethon import types

from ingest.message_kinds import MESSAGE_KINDS
from ingest.messages import parse_exported_post, parse_live_post
from ingest.mtproto import convert_message, index_peers
from rag_core.storage import posts

NUMBER = 5
WRITTEN = START + timedelta(minutes=NUMBER)
UNIX = int(WRITTEN.timestamp())
ORIGIN = types.Channel(77, "Мельница", types.ChatPhotoEmpty(), START, broadcast=True)
WRITER = types.User(501, first_name="Анна", last_name="Мельник")
PEERS = index_peers([ORIGIN], [WRITER])
FORWARDED = START - timedelta(days=1)


def document(mime, *attributes):
    return types.MessageMediaDocument(document=types.Document(1, 2, b"", START, mime, 9, 2, [*attributes]))


def text(value):
    return types.TextWithEntities(value, [])


NAMED = types.DocumentAttributeFilename("прайс.pdf")
SONG = types.DocumentAttributeFilename("a.mp3")
VIDEO = types.DocumentAttributeVideo(3.0, 10, 10)
ROUND = types.DocumentAttributeVideo(3.0, 10, 10, round_message=True)
STICKER = types.DocumentAttributeSticker("🥖", types.InputStickerSetEmpty())
POLL = types.MessageMediaPoll(
    types.Poll(1, text("Сколько булочек?"), [types.PollAnswer(text(one), b"0") for one in ("Две", "Три")], 0),
    types.PollResults(),
)
HREF = "https://bread.example/x"
RICH_TEXT = types.TextConcat(
    [
        types.TextPlain("Код: "),
        types.TextSpoiler(types.TextConcat([types.TextPlain("САЙ"), types.TextBold(types.TextPlain("КА"))])),
        types.TextPlain(", цены "),
        types.TextUrl(types.TextPlain("тут"), HREF, 0),
    ]
)
RICH_BLOCKS = [types.PageBlockParagraph(RICH_TEXT), types.PageBlockList([types.PageListItemText(RICH_TEXT)])]
EDIT = WRITTEN + timedelta(minutes=10)
PRIZE = "пять медных форм"


def forward(**header):
    return {"message": "Мука", "fwd_from": types.MessageFwdHeader(FORWARDED, **header)}


def button(label, url):
    return types.KeyboardInlineButtonRow([types.KeyboardInlineButton(label, types.InlineButtonTypeUrl(url))])


def attached(media, message=""):
    return {"message": message, "media": media}


# name: fields of the MTProto message; those of the live and of the exported one are in the data
HISTORY = {
    "text": {"message": "Хлеб 🥖 по 90"},
    "signed": {"message": "Хлеб", "post_author": "Анна"},
    "link": {"message": "🥖 цены тут", "entities": [types.MessageEntityTextUrl(8, 3, HREF)]},
    "quote": {"message": "Так и есть", "entities": [types.MessageEntityBlockquote(0, 10, collapsed=True)]},
    "edited": {"message": "Хлеб 95", "edit_date": EDIT},
    "reacted": {"message": "Хлеб 95", "edit_date": EDIT, "edit_hide": True},
    "photo": attached(types.MessageMediaPhoto(photo=types.PhotoEmpty(1)), "Витрина") | {"grouped_id": 900},
    "document": attached(document("application/pdf", NAMED), "Прайс"),
    "video": attached(document("video/mp4", VIDEO), "Печь"),
    "animation": attached(document("video/mp4", VIDEO, types.DocumentAttributeAnimated()), "Печь"),
    "video note": attached(document("video/mp4", ROUND)),
    "voice": attached(document("audio/ogg", types.DocumentAttributeAudio(3, voice=True)), "Скажу"),
    "audio": attached(document("audio/mpeg", types.DocumentAttributeAudio(3), SONG), "Песня"),
    "sticker": attached(document("image/webp", STICKER)),
    "link preview": attached(types.MessageMediaWebPage(types.WebPageEmpty(1)), HREF)
    | {"entities": [types.MessageEntityUrl(0, len(HREF))]},
    "poll": attached(POLL),
    "described poll": attached(POLL, "К чаю"),
    "checklist": attached(types.MessageMediaToDo(types.TodoList(text("Купить"), [types.TodoItem(1, text("Муку"))]))),
    "venue": attached(types.MessageMediaVenue(types.GeoPoint(1.0, 2.0, 3), "Пекарня", "Лесная 5", "", "", "")),
    "contact": attached(types.MessageMediaContact("79990001122", "Анна", "", "", 1)),
    "music": attached(document("", types.DocumentAttributeAudio(3, title="Жар", performer="Печники"))),
    "game": attached(types.MessageMediaGame(types.Game(1, 2, "baker", "Пекарь", "Семь булочек", types.PhotoEmpty(1)))),
    "invoice": attached(types.MessageMediaInvoice("Абонемент", "На месяц", "EUR", 4550, "x")),
    "giveaway": attached(types.MessageMediaGiveaway([1], 5, EDIT, prize_description=PRIZE, months=3)),
    "giveaway results": attached(types.MessageMediaGiveawayResults(1, 4, 5, 0, [], EDIT, stars=500)),
    "buttons": {
        "message": "Новое меню",
        "reply_markup": types.ReplyInlineMarkup([button("Заказать", HREF), button("👍", HREF + "1")]),
    },
    "rich message": {"message": "", "rich_message": types.RichMessage(RICH_BLOCKS, [], [])},
    "location": attached(types.MessageMediaGeo(types.GeoPoint(1.0, 2.0, 3))),
    "forward of a channel": forward(from_id=types.PeerChannel(77), channel_post=9),
    "forward of a person": forward(from_id=types.PeerUser(501)),
    "forward of a hidden person": forward(from_name="Анна"),
    "reply": {"message": "И ещё", "reply_to": types.MessageReplyHeader(reply_to_msg_id=3)},
    "reply to elsewhere": {
        "message": "И ещё",
        "reply_to": types.MessageReplyHeader(reply_to_msg_id=3, reply_to_peer_id=types.PeerChannel(77)),
    },
}
FILE = Path(__file__).parents[2] / "data" / "messages" / "kinds.jsonl"
KINDS = {row["kind"]: row for row in map(json.loads, FILE.read_text("utf-8").splitlines())}


def three_ways(kind):
    live, exported, fields = KINDS[kind]["live"], KINDS[kind]["export"], HISTORY[kind]
    chat = {"id": CHAT_ID, "title": "Пекарня", "username": "bakery", "type": "channel"}
    head = {"id": NUMBER, "type": "message", "date": "2024-03-12T15:05:00", "date_unixtime": str(UNIX)}
    by_export = parse_exported_post(head | exported, CHAT_ID)
    by_history = convert_message(build(fields), CHANNEL, PEERS)
    assert by_export and by_history
    return {
        "live": parse_live_post({"chat": chat, "message_id": NUMBER, "date": UNIX} | live)[1],
        "export": by_export,
        "history": by_history,
    }


def build(fields):
    return types.Message(NUMBER, types.PeerChannel(BARE_ID), WRITTEN, post=True, **fields)


def test_every_kind_with_words_is_among_the_samples():
    there = {post.media.kind for kind in KINDS if (post := three_ways(kind)["live"]).media}
    assert {kind.name for kind in MESSAGE_KINDS if kind.format_text} <= there


@pytest.mark.parametrize("kind", KINDS)
def test_the_history_gives_what_came_live(kind):
    ways = three_ways(kind)
    assert ways["history"] == ways["live"]
    assert ways["export"].text == ways["history"].text


@pytest.mark.parametrize("kind", KINDS)
async def test_no_way_and_no_order_makes_a_version(archive, kind):
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
def test_protected_and_paid_posts_are_known_as_such(fields, protected, guarded):
    here = types.Channel(BARE_ID, "Пекарня", types.ChatPhotoEmpty(), START, noforwards=protected)
    post = convert_message(build({"message": "Хлеб"} | fields), CHANNEL, index_peers([here], []))
    assert post.guarded == guarded
