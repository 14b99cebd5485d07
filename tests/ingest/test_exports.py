"""Exports of Telegram Desktop into the archive: first, again, later; broken, hostile, and interrupted by a kill."""

import asyncio
import io
import json
import os
import sqlite3
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.exports import import_export
from ingest.json_export import ImportOptions, RepairedJsonReader
from ingest.messages import parse_live_post
from rag_core.errors import ImportRefused
from rag_core.storage import Archive, channel_history, channels, posts
from rag_core.storage.post_rows import PostTally
from rag_core.text.post_text import build_header
from rag_core.types import Channel, Post, PostKey, Visibility, format_channel_post_link

BAKERY = -1001234567890
FIRST = 1_710_244_800  # of `message`: the n-th is written n minutes after it
PLAIN, NAMED = ImportOptions(), ImportOptions(username="bread")


def message(number, text="Хлеб по 90 рублей", **more):
    head = {"id": number, "type": "message", "date": "2024-03-12T15:00:00", "date_unixtime": str(FIRST + 60 * number)}
    head |= {"from": "Пекарня", "from_id": "channel1234567890"}
    return head | {"text": text, "text_entities": [{"type": "plain", "text": text}] if text else []} | more


def chat(*messages, **more):
    return {"name": "Пекарня", "type": "public_channel", "id": 1234567890} | more | {"messages": list(messages)}


def full(*chats, left=()):
    return {
        "about": "Here is the data you requested.",
        "personal_information": {"user_id": 5, "name": "Ада", "messages": [{"id": 1}], "list": [1]},
        "contacts": {"about": "", "list": [{"name": "Ада", "id": 3}]},
        "chats": {"about": "", "list": list(chats)},
        "left_chats": {"about": "", "list": list(left)},
    }


def write(folder, content):
    """A result.json: bytes as they are, anything else as JSON."""
    file = folder / "result.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode())
    return file


@pytest.fixture
def take(archive, tmp_path):
    """Import what is given, as the content of a result.json."""

    async def take(content, options=PLAIN):
        return await import_export(archive, write(tmp_path, content), options)

    return take


async def stored(archive, chat_id=BAKERY):
    keys = [PostKey(chat_id, n) for n in await posts.list_message_ids(archive, chat_id)]
    return {key.message_id: found.post for key, found in (await posts.fetch_stored_posts(archive, keys)).items()}


def as_live(message, chat):
    """The exported message as the Bot API would have sent it: text as Telegram trims it, entities in UTF-16."""
    text, entities = "", []
    for part in message["text_entities"]:
        if part["type"] != "plain":
            offset, length = (len(t.encode("utf-16-le")) // 2 for t in (text, part["text"]))
            entities.append({"type": part["type"], "offset": offset, "length": length})
        text += part["text"]
    media = {"photo": [{}]} if "photo" in message else {"document": {}} if "file" in message else {}
    if "performer" in message:
        media = {"audio": {"performer": message["performer"], "title": message["title"]}}
    key, spans = ("caption", "caption_entities") if media else ("text", "entities")
    raw = {"message_id": message["id"], "chat": chat, "date": int(message["date_unixtime"])}
    raw |= media | {key: text.rstrip(), spans: entities}
    return raw | ({"edit_date": int(message["edited_unixtime"])} if "edited" in message else {})


@pytest.mark.parametrize("live", [False, True])
async def test_a_real_export_comes_in_once_whether_or_not_its_posts_came_live(archive, shared_data, live):
    folder = shared_data / "tg_export_en" / "json"
    if live:
        room = {"id": -1003204528972, "type": "channel", "title": "The channel"}
        exported = json.loads((folder / "result.json").read_text())["messages"]
        for update_id, raw in enumerate(as_live(m, room) for m in exported if m["type"] == "message"):
            await posts.save_posts(archive, [parse_live_post(raw)[1]], source="live", update_id=update_id)
    else:
        assert (await import_export(archive, folder, PLAIN)).tally == PostTally(new=208, skipped=5)
    again = await import_export(archive, folder / "result.json", PLAIN)
    assert again.tally == PostTally(unchanged=208, skipped=5)
    assert await posts.get_last_seq(archive) == 208


async def test_a_later_export_adds_edits_and_takes_out_what_disappeared(archive, take):
    await posts.save_posts(archive, [Post(PostKey(BAKERY, 99), datetime.now(UTC), "только что")], source="live")
    await take(chat(*(message(n, f"Цена {n}") for n in range(1, 11))))
    edited = message(4, "Цена 95", edited_unixtime="1710300000")
    later = chat(message(3, "Цена 3"), edited, {"id": 5, "type": "unsupported"}, message(8, "Цена 8"))
    later["messages"].append(message(12, "Новый"))

    assert (await take(later)).tally == PostTally(new=1, edited=1, unchanged=2, skipped=1, deleted=4)
    assert set(await stored(archive)) == {1, 2, 3, 4, 5, 8, 12, 99}  # 99 is newer than the export
    assert (await stored(archive))[4].version == 2
    assert (await take(later)).tally == PostTally(unchanged=4, skipped=1)


async def test_what_is_no_post_is_counted_and_one_bad_entry_stops_nothing(archive, take):
    entries = [
        message(-999_999_995), message(1) | {"type": "service", "action": "pin_message"},
        {"id": 2, "type": "unsupported"}, message(3, ""), message(4, "", photo="photos/1.jpg"),
        message(5, date_unixtime="99999999999999999999"), {"type": "message"}, message(7, id="7"), "what?", 8, [[]],
        None, message(9, "Последний", reply_to_message_id=-999_999_995), message(9, "Последний"),
    ]  # fmt: skip
    report = await take(chat(*entries), NAMED)

    assert report.tally == PostTally(new=2, unchanged=1, skipped=11)
    assert {n: post.text for n, post in (await stored(archive)).items()} == {4: "", 9: "Последний"}
    assert report.notes == [
        "Пекарня: left out 1 messages older than the supergroup, no link leads to them.",
        "Пекарня: left out 7 entries that could not be read.",
        "Пекарня: 2 messages were not read, because their kind is not known (unsupported 1, empty 1).",
    ]
    empty = await take(chat(), NAMED)
    assert (empty.tally, empty.notes) == (PostTally(), ["Пекарня: the export holds no messages."])


async def test_the_old_format_is_read_in_the_given_zone(archive, take):
    # 2 << 32 | 1234567890: how channels were numbered before the ids grew to 64 bits.
    old_id = 9_824_502_482
    entry = {"id": 7, "type": "message", "date": "2019-05-01T10:00:00", "from": "Пекарня", "from_id": old_id}
    await take(chat(entry | {"text": "Хлеб"}, id=old_id), ImportOptions(zone=ZoneInfo("Europe/Moscow")))
    assert (await stored(archive))[7].date == datetime(2019, 5, 1, 7, tzinfo=UTC)


async def test_neighbours_sent_together_are_an_album(archive, take):
    def photo(n, text="", at=0, **more):
        return message(n, text, photo="p.jpg", date_unixtime=str(FIRST + at), **more)

    entries = [
        photo(1, "Витрина"), photo(2), photo(3, at=1),
        photo(5),
        photo(6, at=60), photo(7, "Печь", at=60), photo(8, "Мука", at=60),
        message(10, file="a.pdf", date_unixtime="1710250000"), photo(11, at=5200),
        photo(12, forwarded_from="Заслонка", at=5200),
    ]  # fmt: skip
    await take(chat(*entries))
    albums = {n: post.album for n, post in (await stored(archive)).items() if post.album}
    assert albums == {**dict.fromkeys((1, 2, 3), "export-1"), **dict.fromkeys((6, 7), "export-6")}


async def test_an_album_keeps_the_name_it_was_first_seen_with(archive, take):
    raw = {"chat": {"id": BAKERY, "type": "channel", "title": "Пекарня"}, "date": FIRST, "photo": [{}]}
    alive = [parse_live_post(raw | {"message_id": n, "media_group_id": "g"})[1] for n in (1, 2, 5)]
    await posts.save_posts(archive, alive[:2], source="live", update_id=1)
    await take(chat(*(message(n, "", photo="p.jpg", date_unixtime=str(FIRST)) for n in (1, 2, 4, 5))))
    assert (await posts.save_posts(archive, alive, source="live", update_id=2)) == PostTally(unchanged=3)
    albums = {n: post.album for n, post in (await stored(archive)).items()}
    assert albums == {1: "g", 2: "g", 4: "export-4", 5: "export-4"}


@pytest.mark.parametrize(
    ("kind", "chat_id", "named"),
    [
        ("public_channel", -10055, "channel"),
        ("private_channel", -10055, "channel"),
        ("public_supergroup", -10055, "supergroup"),
        ("private_supergroup", -10055, "supergroup"),
        ("private_group", -55, "group"),
    ],
)
async def test_ids_are_those_of_the_bot_api_and_authors_of_a_group_its_members(archive, take, kind, chat_id, named):
    report = await take(chat(message(1), id=55, type=kind))
    assert report.channels == [Channel(chat_id, "Пекарня", None, named)]
    assert (await stored(archive, chat_id))[1].author == (None if named == "channel" else "Пекарня")


@pytest.mark.parametrize("username", ["bread", "@bread", "https://t.me/bread"])
async def test_a_public_channel_is_public_once_its_username_is_given(archive, take, username):
    first = await take(chat(message(1)))
    assert first.channels[0].visibility is Visibility.ADMINS
    assert "--username" in first.notes[0]
    named = await take(chat(message(1)), ImportOptions(username=username))
    expected = Channel(BAKERY, "Пекарня", "bread", visibility=Visibility.PUBLIC)
    assert (named.notes, named.channels) == ([], [expected])
    await take(chat(message(1)))
    assert await channels.load_channels(archive) == {BAKERY: expected}
    private = await take(chat(message(1), id=55, type="private_channel"), ImportOptions(username=username))
    assert private.channels[0].visibility is Visibility.ADMINS


async def test_what_an_admin_decided_outlives_imports_that_do_not_say_otherwise(archive, take):
    await take(chat(message(1)), NAMED)
    await channels.set_channel_visibility(archive, BAKERY, Visibility.ADMINS)
    report = await take(chat(message(1)), NAMED)
    assert report.channels == [*(await channels.load_channels(archive)).values()]
    assert report.channels[0].visibility is Visibility.ADMINS
    await take(chat(message(1)), ImportOptions(visibility=Visibility.MEMBERS))
    assert (await channels.load_channels(archive))[BAKERY].visibility is Visibility.MEMBERS


PRIVATE = ["personal_chat", "bot_chat", "saved_messages", "replies", "verification_codes", "something_new", None]


@pytest.mark.parametrize("kind", PRIVATE)
async def test_a_private_conversation_needs_to_be_allowed(archive, take, kind):
    export = {k: v for k, v in chat(message(1), id=77, type=kind).items() if k != "name"}
    with pytest.raises(ImportRefused, match="--allow-private"):
        await take(export)
    assert await channels.load_channels(archive) == {}
    report = await take(export, ImportOptions(allow_private=True))
    assert (report.tally, report.channels[0].visibility) == (PostTally(new=1), Visibility.ADMINS)
    assert await posts.list_message_ids(archive, 77) == {1}


async def test_a_full_export_brings_its_channels_and_leaves_conversations_out(archive, take):
    export = full(
        chat(message(1, "личное"), type="personal_chat", id=1),
        chat(message(1, "раз"), message(2, "два"), id=55),
        chat(type="private_group", id=66, name="Пусто"),
        chat(message(3, "бот"), type="bot_chat", id=2),
        chat(message(4, "три"), id=None),
        left=(chat(message(5, "ушёл"), type="private_channel", id=77, name="Старый"),),
    )
    report = await take(export)
    assert report.tally == PostTally(new=3)
    assert [channel.chat_id for channel in report.channels] == [-10055, -66, -10077]
    assert report.notes[:2] == [
        "Left out 2 private conversations: --allow-private lets them in.",
        "Left out 1 chats without an id of their own.",
    ]
    assert "Пусто: the export holds no messages." in report.notes
    rows = await archive.rows("SELECT chat_id, message_id, text FROM posts ORDER BY text")
    assert [*map(tuple, rows)] == [(-10055, 2, "два"), (-10055, 1, "раз"), (-10077, 5, "ушёл")]


async def test_a_username_belongs_to_one_chat_only(take):
    with pytest.raises(ImportRefused, match="2 chats"):
        await take(full(chat(message(1), id=55), chat(message(1), id=66)), NAMED)
    one = full(chat(message(1), id=55), chat(message(1), id=1, type="personal_chat"))
    assert (await take(one, NAMED)).channels[0].username == "bread"


async def test_a_full_export_of_ones_own_messages_deletes_nothing(archive, take):
    everything = [message(n) for n in range(1, 21)]
    await take(chat(*everything))
    own = await take(full(chat(everything[0], everything[19])))
    assert own.tally.deleted == 0
    assert "18 known posts are not in this full export" in own.notes[-1]
    most = await take(full(chat(*everything[:5], *everything[6:])))
    assert most.tally.deleted == 1
    assert 6 not in await stored(archive)


async def test_progress_grows_to_the_whole_and_live_posts_get_in_between(archive, tmp_path):
    file = write(tmp_path, chat(*(message(n, "слово " * 100) for n in range(1, 4001))))
    seen = []
    importing = asyncio.create_task(import_export(archive, file, PLAIN, lambda *at: seen.append(at)))
    kept_meanwhile = 0
    while not importing.done():
        kept_meanwhile += 1
        post = Post(PostKey(-1009, kept_meanwhile), datetime.now(UTC), "живой")
        await posts.save_posts(archive, [post], source="live")
    assert (await importing).tally == PostTally(new=4000)
    assert kept_meanwhile >= 5
    assert len(seen) > 2 and seen == sorted(seen)
    assert seen[-1] == (2 * file.stat().st_size, 2 * file.stat().st_size)


async def test_messages_of_a_forum_have_the_topic_that_their_replies_lead_to(archive, take):
    def service(number, action, **more):
        return message(number, "", action=action, **more) | {"type": "service"}

    entries = [
        service(2, "topic_created", title="Теплица"),
        service(3, "topic_created", title="С" * 500),
        message(4, "Поливаем в 18:00", reply_to_message_id=2),
        message(5, "Поливаем в 7:30", reply_to_message_id=3),
        message(6, "А шланг?", reply_to_message_id=4),
        message(7, "Всем привет"),
        service(8, "topic_edit", new_title="Оранжерея", reply_to_message_id=2),
    ]
    await take(chat(*entries, type="public_supergroup"))
    found = await stored(archive)
    assert {n: (post.topic, post.reply_to) for n, post in found.items()} == {
        4: (2, None), 5: (3, None), 6: (2, 4), 7: (None, None)
    }  # fmt: skip
    channel = (await channels.load_channels(archive))[BAKERY]
    assert channel.topics == {2: "Оранжерея", 3: "С" * 128}
    assert build_header(found[6], channel) == "Пекарня › Оранжерея · 2024-03-12"
    assert format_channel_post_link(found[6].key, channel, 2) == "https://t.me/c/1234567890/2/6"
    await take(chat(message(9, "В сарае", reply_to_message_id=6), type="public_supergroup"))
    assert (await stored(archive))[9].topic == 2


def topic_export(topic, title, *messages):
    """What Telegram Desktop writes of one topic: its opening, its messages; it calls every forum public."""
    opening = message(topic, "", action="topic_created", title=title) | {"type": "service"}
    return chat(opening, *messages, type="public_supergroup", name=title)


async def test_an_export_of_one_topic_says_nothing_of_others_nor_of_the_forums_name(archive, take):
    mulch = [message(n, f"Мульча {n}", reply_to_message_id=2) for n in (4, 6, 8)]
    paint = [message(n, f"Краска {n}", reply_to_message_id=3) for n in (5, 7, 9)]
    general = [message(10, "Всем привет"), message(12, "И вам")]
    openings = [message(n, "", action="topic_created", title="Т") | {"type": "service"} for n in (2, 3)]
    await take(chat(*openings, *mulch, *paint, *general, type="private_supergroup"))
    await join(archive, 20)
    await channel_history.note_outage_gaps(archive, *(datetime.fromtimestamp(FIRST + 60 * n, UTC) for n in (0, 40)))
    report = await take(topic_export(2, "Теплица", mulch[0], message(31, "Мульча 31", reply_to_message_id=2)))
    assert (report.tally.new, report.tally.deleted) == (1, 2)
    assert set(await stored(archive)) == {4, 5, 7, 9, 10, 12, 31}
    assert report.channels[0].title == "Пекарня"
    assert not [note for note in report.notes if note.code == "import-note-public"]
    assert await list_gaps(archive) == [(20, 40)]
    # that of the topic General begins with the opening of the group
    first = message(1, "", action="create_channel", title="Пекарня") | {"type": "service"}
    await take(chat(first, general[0], message(13, "Пока"), message(45, "Привет"), type="public_supergroup"))
    assert set(await stored(archive)) == {4, 5, 7, 9, 10, 13, 31, 45}
    assert await list_gaps(archive) == [(20, 40)]


@pytest.mark.parametrize(("kind", "bare"), [("private_group", 1001234567), ("personal_chat", 77)])
async def test_a_chat_whose_messages_have_no_links_gets_none_and_says_so(take, kind, bare):
    export = chat(message(21, "Тачка за грушей"), type=kind, id=bare)
    report = await take(export, ImportOptions(allow_private=True))
    (channel,) = report.channels
    assert format_channel_post_link(PostKey(channel.chat_id, 21), channel) == ""
    assert [note.code for note in report.notes] == ["import-note-no-links"]


async def test_a_text_that_is_known_is_kept_where_the_export_has_none(archive, take):
    await take(chat(message(1, "Сауна до 22:10"), message(2)))
    report = await take(chat(message(1, "", photo="x.jpg", edited_unixtime="1710300000"), message(2)))
    assert (report.tally.edited, report.tally.kept, report.notes[-1].code) == (0, 1, "import-note-text-kept")
    assert (await stored(archive))[1].text == "Сауна до 22:10"


# gaps


@pytest.mark.parametrize(
    ("wrap", "minutes", "left"),
    [
        (lambda *held: chat(*held), (1, 10, 60), []),
        (lambda *held: chat(*held), (1, 10, 20), [(20, 50)]),
        (lambda *held: chat(*held), (3, 60), [(None, 3)]),  # one can export a part: from a day on
        (lambda *held: full(chat(*held)), (3, 60), [(None, 50)]),  # it may hold one's own messages only
    ],
)
async def test_an_export_closes_the_gap_before_joining_as_far_as_it_reaches(archive, take, wrap, minutes, left):
    await join(archive, 50)
    for _ in range(2):
        await take(wrap(*map(message, minutes)))
        assert await list_gaps(archive) == left


async def test_an_import_before_joining_leaves_no_gap(archive, take):
    await take(chat(message(3), message(60)))
    await join(archive, 100)
    assert await list_gaps(archive) == []


async def join(archive, minute):
    await channels.save_channel(archive, Channel(BAKERY, "Пекарня", state="active"))
    await channels.record_bot_joined(archive, BAKERY)
    await archive.execute("UPDATE channels SET joined_at = ?", (FIRST + 60 * minute,))
    await channel_history.note_gap_before_joining(archive, BAKERY)


async def list_gaps(archive):
    start, minute = datetime.fromtimestamp(FIRST, UTC), timedelta(minutes=1)
    gaps = (await channel_history.list_open_gaps(archive)).get(BAKERY, [])
    return [((gap.since - start) // minute if gap.since else None, (gap.until - start) // minute) for gap in gaps]


# files that are no export, or a broken one

HEAD = b'{"name": "x", "type": "public_channel", "id": 5, "messages": [{"id": 1, "type": "message", '
WRONG = {
    "a picture": (b"\x89PNG\r\n\x1a\n" * 100, "not JSON"),
    "words": ("просто текст".encode(), "not JSON"),
    "a page": (b"\xef\xbb\xbf\n <!DOCTYPE html><html></html>", "is HTML. Export the chat again with Telegram Desktop"),
    "a zip": (b"PK\x03\x04", "zip archive"),
    "nothing": (b"", "is empty"),
    "white space": (b" \n ", "ends in the middle"),
    "a list": (b'[{"id": 1}]', "no export"),
    "a number": (b"5", "no export"),
    "an object of something else": (b'{"name": "x", "version": 2, "packages": {"list": []}}', "no export"),
    "messages that are no list": (b'{"name": "x", "type": "public_channel", "id": 5, "messages": 5}', "no export"),
    "a chat without an id": (b'{"name": "x", "type": "public_channel", "messages": []}', "which chat"),
    "a full export without chats": (b'{"chats": {"about": "", "list": []}}', "which chat"),
    "deep nesting": (HEAD + b'"text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}]}", "nested too deeply"),
    "deep nesting from the start": (b"[" * 2_000_000, "nested too deeply"),
    "tdl": (b'{"id": 5, "messages": [{"id": 1, "type": "message", "file": "", "date": 1, "text": "x"}]}', "no export"),
    "Telethon": (b'[{"_": "Message", "id": 1, "message": "x"}]', "no export"),
    "updates": (b'{"ok": true, "result": [{"update_id": 1}]}', "no export"),
    "not a number": (HEAD + b'"date_unixtime": NaN}]}', "not JSON"),
    "a number of 5000 digits": (HEAD + b'"reply_to_message_id": ' + b"9" * 5000 + b"}]}", "not JSON"),
    "bytes that are no UTF-8": (HEAD + b'"text": "\xff\xfe"}]}', "not JSON"),
    "UTF-16": ('{"chats": {"list": []}}'.encode("utf-16"), "not JSON"),
    "two exports in one file": (b'{"name": "x", "type": "public_channel", "id": 5, "messages": []}' * 2, "not JSON"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_file_is_refused_in_one_sentence(archive, tmp_path, what):
    content, said = WRONG[what]
    assert said in await refuse(archive, write(tmp_path, content))


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.99])
async def test_of_a_truncated_export_nothing_is_kept(archive, tmp_path, keep):
    raw = json.dumps(chat(*(message(n) for n in range(1, 2001)))).encode()
    assert "ends in the middle" in await refuse(archive, write(tmp_path, raw[: int(len(raw) * keep)]))


async def test_what_is_no_readable_file_is_refused_and_a_pipe_not_waited_for(archive, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "nowhere.json"):
        assert "There is no file" in await refuse(archive, tmp_path / name)
    (tmp_path / "messages2.html").write_text("<html>")
    assert "format “Machine-readable JSON”" in await refuse(archive, tmp_path)
    if os.geteuid():  # root may read everything
        file = write(tmp_path, {})
        file.chmod(0)
        assert "cannot be read" in await refuse(archive, file)


async def refuse(archive, path):
    with pytest.raises(ImportRefused) as caught:
        await import_export(archive, path, PLAIN)
    assert await posts.get_last_seq(archive) == 0
    assert await channels.load_channels(archive) == {}
    sentence = caught.value.reason
    assert caught.value.code or not path.is_file()  # which has words in a chat
    assert "\n" not in sentence and sentence.endswith(".") and str(path) in sentence
    return sentence


@pytest.mark.parametrize("username", ["", "два слова", "a", "https://example.org/bread"])
async def test_a_username_that_can_be_none_is_refused(archive, take, username):
    with pytest.raises(ImportRefused, match="username"):
        await take(chat(message(1)), ImportOptions(username=username))
    assert await posts.get_last_seq(archive) == 0


async def test_another_chat_than_the_named_one_is_refused(archive, take):
    with pytest.raises(ImportRefused, match="another chat"):
        await take(chat(message(1)), ImportOptions(chat_id=-1001))
    assert (await take(chat(message(1)), ImportOptions(chat_id=BAKERY))).tally.new == 1


TEXT = '"date_unixtime": "1710244800", "text": '


@pytest.mark.parametrize("half", [r"\udc1d", r"\ud83d"])
async def test_half_a_surrogate_pair_is_read(archive, take, half):
    raw = json.dumps(chat(message(1, ": 99999999999999999999, \\"), {"here": 1}, message(3, "🍞\U0001f41d" * 9000)))
    odd = f'{{"type": "message", "id": 2, {TEXT}"{half} 12345678901234567890"}}'
    report = await take(raw.replace('{"here": 1}', odd).encode(), NAMED)
    assert report.tally == PostTally(new=3)
    expected = {1: ": 99999999999999999999, \\", 2: "\ufffd 12345678901234567890", 3: "🍞\U0001f41d" * 9000}
    assert {number: post.text for number, post in (await stored(archive)).items()} == expected


# control characters, as Telegram Desktop's SerializeString writes them

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\", "\u2028": "\\u2028"}


def serialize(text):
    written = (_ESCAPES.get(c) or (f"\\x{ord(c):02X}" if c < " " else c) for c in text)
    return f'"{"".join(written)}"'.encode()


def read(data, sizes):
    source, found, n = RepairedJsonReader(io.BytesIO(data)), b"", 0
    while chunk := source.read(sizes[n % len(sizes)]):
        found += chunk
        n += 1
    assert source.bytes_read == len(data) - (3 if data.startswith(b"\xef\xbb\xbf") else 0)
    return found


awkward = st.text(st.sampled_from('\\\\\\xuX0B"n\x00\x01\x0b\x1f\n\tя🍞 '), max_size=40)
sizes = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@given(st.lists(st.one_of(awkward, st.text(st.characters(exclude_categories=["Cs"])))), sizes)
def test_every_text_comes_back_whatever_it_holds_and_wherever_chunks_end(texts, sizes):
    assert json.loads(read(b"[" + b",".join(map(serialize, texts)) + b"]", sizes)) == texts


@given(st.binary(max_size=200), sizes)
def test_what_needs_no_repair_is_passed_on_as_it_is(data, sizes):
    data = data.replace(b"x", b"").replace(b"\xef", b"")
    assert read(data, sizes) == data


def test_backslashes_before_an_x_are_counted_however_many_they_are():
    assert json.loads(read(rb'"C:\\x0B and \x0B"', [1])) == "C:\\x0B and \x0b"
    assert json.loads(read(b'"' + b"\\" * 400_000 + rb'\x0B"', [65536])) == "\\" * 200_000 + "\x0b"
    assert read(b"\xef\xbb\xbf{}", [64]) == b"{}"


# killed in the middle

POSTS = 3000


def count_posts(folder):
    address = f"file:{folder / 'citegram.db'}?mode=ro"
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(address, uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM posts").fetchone()[0])
    return 0


def kill_import_at(folder, file, least):
    """Run the import in a process of its own and kill it once `least` posts are there; how many then are."""

    async def run():
        archive = await Archive.open(folder)
        await import_export(archive, file, PLAIN)
        await archive.close()

    child = get_context("fork").Process(target=lambda: asyncio.run(run()))
    child.start()
    deadline = time.monotonic() + 30
    while count_posts(folder) < least and child.is_alive() and time.monotonic() < deadline:
        time.sleep(0.002)
    child.kill()
    child.join()
    return count_posts(folder)


@pytest.mark.slow
async def test_an_import_killed_again_and_again_is_ended_by_the_next_one(tmp_path):
    file = write(tmp_path, chat(*(message(n, f"Цена {n} " * 40) for n in range(1, POSTS + 1))))
    folder = tmp_path / "killed"
    left = [kill_import_at(folder, file, least) for least in (1, 800, 1600)]
    assert left == sorted(left)
    assert sum(0 < count < POSTS for count in left) >= 2, "no kill came in the middle"
    archive = await Archive.open(folder)
    try:
        report = await import_export(archive, file, PLAIN)
        assert report.tally == PostTally(new=POSTS - left[-1], unchanged=left[-1])
        assert await posts.list_message_ids(archive, BAKERY) == set(range(1, POSTS + 1))
        assert await archive.rows("SELECT * FROM post_versions") == []
        ((seqs, last),) = await archive.rows("SELECT count(DISTINCT seq), max(seq) FROM posts")
        assert seqs == last == await posts.get_last_seq(archive) == POSTS
        assert await archive.value("PRAGMA integrity_check") == "ok"
    finally:
        await archive.close()
