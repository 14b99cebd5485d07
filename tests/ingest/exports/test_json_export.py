"""Exports into the archive: first, again, later; one chat or all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ingest.exports import import_export
from ingest.json_export import ImportOptions
from ingest.messages import parse_live_post
from rag_core.errors import ImportRefused
from rag_core.storage import Archive, channels, posts
from rag_core.storage.post_rows import PostTally
from rag_core.text.post_text import build_header
from rag_core.types import Channel, Post, PostKey, Visibility, format_channel_post_link

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]
BAKERY = -1001234567890
PLAIN = ImportOptions()


async def stored(archive: Archive, chat_id: int = BAKERY) -> dict[int, Post]:
    keys = [PostKey(chat_id, n) for n in await posts.list_message_ids(archive, chat_id)]
    return {key.message_id: found.post for key, found in (await posts.fetch_stored_posts(archive, keys)).items()}


async def test_a_real_export_comes_in_once(archive: Archive, shared_data: Path) -> None:
    folder = shared_data / "tg_export_en" / "json"
    first = await import_export(archive, folder, PLAIN)
    again = await import_export(archive, folder / "result.json", PLAIN)

    assert first.tally == PostTally(new=208, skipped=5)
    assert again.tally == PostTally(unchanged=208, skipped=5)
    assert await posts.get_last_seq(archive) == 208


async def test_posts_sent_live_first_are_not_imported_again(archive: Archive, shared_data: Path) -> None:
    file = shared_data / "tg_export_en" / "json" / "result.json"
    chat = {"id": -1003204528972, "type": "channel", "title": "The channel"}
    alive = [as_live(m, chat) for m in json.loads(file.read_text())["messages"] if m["type"] == "message"]
    for update_id, raw in enumerate(alive):
        await posts.save_posts(archive, [parse_live_post(raw)[1]], source="live", update_id=update_id)

    report = await import_export(archive, file, PLAIN)

    assert report.tally == PostTally(unchanged=208, skipped=5)
    assert await posts.get_last_seq(archive) == 208


def as_live(message: dict[str, Any], chat: dict[str, Any]) -> dict[str, Any]:
    """The exported message as the Bot API would have sent it: text as Telegram trims it, entities in UTF-16."""
    text, entities = "", []
    for part in message["text_entities"]:
        if part["type"] != "plain":
            offset, length = (len(t.encode("utf-16-le")) // 2 for t in (text, part["text"]))
            entities.append({"type": part["type"], "offset": offset, "length": length})
        text += part["text"]
    media: dict[str, Any] = {"photo": [{}]} if "photo" in message else {"document": {}} if "file" in message else {}
    if "performer" in message:
        media = {"audio": {"performer": message["performer"], "title": message["title"]}}
    key = "caption" if media else "text"
    spans = "caption_entities" if media else "entities"
    raw = {"message_id": message["id"], "chat": chat, "date": int(message["date_unixtime"])}
    raw |= media | {key: text.rstrip(), spans: entities}
    return raw | ({"edit_date": int(message["edited_unixtime"])} if "edited" in message else {})


async def test_a_later_export_adds_edits_and_takes_out_what_disappeared(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    await import_export(archive, written(chat(*(message(n, f"Цена {n}") for n in range(1, 11)))), PLAIN)
    edited = message(4, "Цена 95", edited_unixtime="1710300000")
    later = chat(message(3, "Цена 3"), edited, {"id": 5, "type": "unsupported"}, message(8, "Цена 8"))
    later["messages"].append(message(12, "Новый"))

    report = await import_export(archive, written(later), PLAIN)

    assert report.tally == PostTally(new=1, edited=1, unchanged=2, skipped=1, deleted=4)
    assert set(await stored(archive)) == {1, 2, 3, 4, 5, 8, 12}
    assert (await stored(archive))[4].version == 2
    again = await import_export(archive, written(later), PLAIN)
    assert again.tally == PostTally(unchanged=4, skipped=1)


async def test_posts_newer_than_the_export_did_not_disappear(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    await posts.save_posts(archive, [Post(PostKey(BAKERY, 99), datetime.now(UTC), "только что")], source="live")
    await import_export(archive, written(chat(message(1), message(2))), PLAIN)
    assert set(await stored(archive)) == {1, 2, 99}


async def test_what_is_no_post_is_counted_and_one_bad_entry_stops_nothing(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    entries = [
        message(-999_999_995),
        message(1) | {"type": "service", "action": "pin_message"},
        {"id": 2, "type": "unsupported"},
        message(3, ""),
        message(4, "", photo="photos/1.jpg"),
        message(5, date_unixtime="99999999999999999999"),
        {"type": "message"},
        message(7, id="7"),
        "what?",
        8,
        [[]],
        None,
        message(9, "Последний", reply_to_message_id=-999_999_995),
        message(9, "Последний"),
    ]
    report = await import_export(archive, written(chat(*entries)), ImportOptions(username="bread"))

    assert report.tally == PostTally(new=2, unchanged=1, skipped=11)
    assert {n: post.text for n, post in (await stored(archive)).items()} == {4: "", 9: "Последний"}
    assert report.notes == (
        "Пекарня: left out 1 messages older than the supergroup, no link leads to them.",
        "Пекарня: left out 7 entries that could not be read.",
        "Пекарня: 2 messages were not read, because their kind is not known (unsupported 1, empty 1).",
    )


async def test_the_old_format_is_read_in_the_given_zone(archive: Archive, written: Write) -> None:
    # 2 << 32 | 1234567890: how channels were numbered before the ids grew to 64 bits.
    old_id = 9_824_502_482
    entry = {"id": 7, "type": "message", "date": "2019-05-01T10:00:00", "from": "Пекарня", "from_id": old_id}
    export = {"name": "Пекарня", "type": "public_channel", "id": old_id, "messages": [entry | {"text": "Хлеб"}]}

    await import_export(archive, written(export), ImportOptions(zone=ZoneInfo("Europe/Moscow")))

    assert (await stored(archive))[7].date == datetime(2019, 5, 1, 7, tzinfo=UTC)


async def test_neighbours_sent_together_are_an_album(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    def photo(n: int, text: str = "", at: int = 0, **more: object) -> dict[str, Any]:
        return message(n, text, photo="p.jpg", date_unixtime=str(1_710_244_800 + at), **more)

    entries = [
        photo(1, "Витрина"), photo(2), photo(3, at=1),
        photo(5),
        photo(6, at=60), photo(7, "Печь", at=60), photo(8, "Мука", at=60),
        message(10, file="a.pdf", date_unixtime="1710250000"), photo(11, at=5200),
        photo(12, forwarded_from="Заслонка", at=5200),
    ]  # fmt: skip
    await import_export(archive, written(chat(*entries)), PLAIN)

    albums = {n: post.album for n, post in (await stored(archive)).items()}
    assert {n: album for n, album in albums.items() if album} == {
        **dict.fromkeys((1, 2, 3), "export-1"),
        **dict.fromkeys((6, 7), "export-6"),
    }


async def test_an_album_keeps_the_name_it_was_first_seen_with(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    raw = {"chat": {"id": BAKERY, "type": "channel", "title": "Пекарня"}, "date": 1_710_244_800, "photo": [{}]}
    alive = [parse_live_post(raw | {"message_id": n, "media_group_id": "g"})[1] for n in (1, 2, 5)]
    entries = [message(n, "", photo="p.jpg", date_unixtime="1710244800") for n in (1, 2, 4, 5)]

    await posts.save_posts(archive, alive[:2], source="live", update_id=1)
    await import_export(archive, written(chat(*entries)), PLAIN)
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
async def test_ids_are_those_of_the_bot_api(
    archive: Archive, written: Write, chat: Make, message: Make, kind: str, chat_id: int, named: str
) -> None:
    report = await import_export(archive, written(chat(message(1), id=55, type=kind)), PLAIN)
    assert report.channels == (Channel(chat_id, "Пекарня", None, named),)
    assert await posts.list_message_ids(archive, chat_id) == {1}


async def test_a_group_s_authors_are_its_members_and_a_channel_s_are_not_the_channel(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    await import_export(archive, written(chat(message(1))), PLAIN)
    await import_export(archive, written(chat(message(1), id=55, type="private_group")), PLAIN)
    assert (await stored(archive))[1].author is None
    assert (await stored(archive, -55))[1].author == "Пекарня"


@pytest.mark.parametrize("username", ["bread", "@bread", "https://t.me/bread"])
async def test_a_public_channel_is_public_once_its_username_is_given(
    archive: Archive, written: Write, chat: Make, message: Make, username: str
) -> None:
    file = written(chat(message(1)))
    first = await import_export(archive, file, PLAIN)
    assert first.channels[0].visibility is Visibility.ADMINS
    assert "--username" in first.notes[0]

    named = await import_export(archive, file, ImportOptions(username=username))
    assert named.notes == ()
    expected = Channel(BAKERY, "Пекарня", "bread", visibility=Visibility.PUBLIC)
    assert named.channels == (expected,)
    await import_export(archive, file, PLAIN)
    assert await channels.load_channels(archive) == {BAKERY: expected}


async def test_what_an_admin_decided_outlives_imports_that_do_not_say_otherwise(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    file, named = written(chat(message(1))), ImportOptions(username="bread")
    await import_export(archive, file, named)
    await channels.set_channel_visibility(archive, BAKERY, Visibility.ADMINS)

    report = await import_export(archive, file, named)
    assert report.channels == tuple((await channels.load_channels(archive)).values())
    assert report.channels[0].visibility is Visibility.ADMINS

    await import_export(archive, file, ImportOptions(visibility=Visibility.MEMBERS))
    assert (await channels.load_channels(archive))[BAKERY].visibility is Visibility.MEMBERS


async def test_a_private_channel_is_for_admins_even_with_a_username(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    file = written(chat(message(1), type="private_channel"))
    report = await import_export(archive, file, ImportOptions(username="bread"))
    assert report.channels[0].visibility is Visibility.ADMINS


PRIVATE = ["personal_chat", "bot_chat", "saved_messages", "replies", "verification_codes", "something_new", None]


@pytest.mark.parametrize("kind", PRIVATE)
async def test_a_private_conversation_needs_to_be_allowed(
    archive: Archive, written: Write, chat: Make, message: Make, kind: str | None
) -> None:
    file = written({k: v for k, v in chat(message(1), id=77, type=kind).items() if k != "name"})
    with pytest.raises(ImportRefused, match="--allow-private"):
        await import_export(archive, file, PLAIN)
    assert await channels.load_channels(archive) == {}

    report = await import_export(archive, file, ImportOptions(allow_private=True))
    assert (report.tally, report.channels[0].visibility) == (PostTally(new=1), Visibility.ADMINS)
    assert await posts.list_message_ids(archive, 77) == {1}


def full(*chats: dict[str, Any], left: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "about": "Here is the data you requested.",
        "personal_information": {"user_id": 5, "name": "Ада", "messages": [{"id": 1}], "list": [1]},
        "contacts": {"about": "", "list": [{"name": "Ада", "id": 3}]},
        "chats": {"about": "", "list": list(chats)},
        "left_chats": {"about": "", "list": list(left)},
    }


async def test_a_full_export_brings_its_channels_and_leaves_conversations_out(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    export = full(
        chat(message(1, "личное"), type="personal_chat", id=1),
        chat(message(1, "раз"), message(2, "два"), id=55),
        chat(type="private_group", id=66, name="Пусто"),
        chat(message(3, "бот"), type="bot_chat", id=2),
        chat(message(4, "три"), id=None),
        left=(chat(message(5, "ушёл"), type="private_channel", id=77, name="Старый"),),
    )
    report = await import_export(archive, written(export), PLAIN)

    assert report.tally == PostTally(new=3)
    assert [channel.chat_id for channel in report.channels] == [-10055, -66, -10077]
    assert (await stored(archive, -10055))[2].text == "два"
    assert (await stored(archive, -10077))[5].text == "ушёл"
    assert report.notes[:2] == (
        "Left out 2 private conversations: --allow-private lets them in.",
        "Left out 1 chats without an id of their own.",
    )
    assert "Пусто: the export holds no messages." in report.notes
    texts = {row["text"] for row in await archive.rows("SELECT text FROM posts")}
    assert texts == {"раз", "два", "ушёл"}


async def test_a_username_belongs_to_one_chat_only(archive: Archive, written: Write, chat: Make, message: Make) -> None:
    both = written(full(chat(message(1), id=55), chat(message(1), id=66)))
    with pytest.raises(ImportRefused, match="2 chats"):
        await import_export(archive, both, ImportOptions(username="bread"))
    one = written(full(chat(message(1), id=55), chat(message(1), id=1, type="personal_chat")))
    assert (await import_export(archive, one, ImportOptions(username="bread"))).channels[0].username == "bread"


async def test_a_full_export_of_one_s_own_messages_deletes_nothing_but_a_whole_one_does(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    everything = [message(n) for n in range(1, 21)]
    await import_export(archive, written(chat(*everything)), PLAIN)

    own = await import_export(archive, written(full(chat(everything[0], everything[19]))), PLAIN)
    assert own.tally.deleted == 0
    assert "18 known posts are not in this full export" in own.notes[-1]

    most = await import_export(archive, written(full(chat(*everything[:5], *everything[6:]))), PLAIN)
    assert most.tally.deleted == 1
    assert 6 not in await stored(archive)


async def test_an_empty_export_says_so(archive: Archive, written: Write, chat: Make) -> None:
    report = await import_export(archive, written(chat()), ImportOptions(username="bread"))
    assert (report.tally, report.notes) == (PostTally(), ("Пекарня: the export holds no messages.",))


async def test_progress_grows_to_the_whole(archive: Archive, written: Write, chat: Make, message: Make) -> None:
    seen: list[tuple[int, int]] = []
    file = written(chat(*(message(n) for n in range(1, 800))))
    await import_export(archive, file, PLAIN, lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (2 * file.stat().st_size, 2 * file.stat().st_size)


async def test_live_posts_get_in_between(archive: Archive, written: Write, chat: Make, message: Make) -> None:
    file = written(chat(*(message(n, "слово " * 100) for n in range(1, 4001))))
    importing = asyncio.create_task(import_export(archive, file, PLAIN))
    kept_meanwhile = 0
    while not importing.done():
        kept_meanwhile += 1
        post = Post(PostKey(-1009, kept_meanwhile), datetime.now(UTC), "живой")
        await posts.save_posts(archive, [post], source="live")

    assert (await importing).tally == PostTally(new=4000)
    assert kept_meanwhile >= 5


async def test_messages_of_a_forum_have_the_topic_that_their_replies_lead_to(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    def service(number: int, action: str, **more: Any) -> dict[str, Any]:
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
    forum = chat(*entries, type="public_supergroup")
    await import_export(archive, written(forum), PLAIN)
    found = await stored(archive)
    assert {n: (post.topic, post.reply_to) for n, post in found.items()} == {
        4: (2, None), 5: (3, None), 6: (2, 4), 7: (None, None)
    }  # fmt: skip
    channel = (await channels.load_channels(archive))[-1001234567890]
    assert channel.topics == {2: "Оранжерея", 3: "С" * 128}
    assert build_header(found[6], channel) == "Пекарня › Оранжерея · 2024-03-12"
    assert format_channel_post_link(found[6].key, channel, 2) == "https://t.me/c/1234567890/2/6"

    later = chat(message(9, "В сарае", reply_to_message_id=6), type="public_supergroup")
    await import_export(archive, written(later), PLAIN)
    assert (await stored(archive))[9].topic == 2


@pytest.mark.parametrize(("kind", "bare"), [("private_group", 1001234567), ("personal_chat", 77)])
async def test_a_chat_whose_messages_have_no_links_gets_none_and_says_so(
    archive: Archive, written: Write, chat: Make, message: Make, kind: str, bare: int
) -> None:
    export = chat(message(21, "Тачка за грушей"), type=kind, id=bare)
    report = await import_export(archive, written(export), ImportOptions(allow_private=True))
    (channel,) = report.channels
    assert format_channel_post_link(PostKey(channel.chat_id, 21), channel) == ""
    assert [note.code for note in report.notes] == ["import-note-no-links"]


async def test_a_text_that_is_known_is_kept_where_the_export_has_none(
    archive: Archive, written: Write, chat: Make, message: Make
) -> None:
    await import_export(archive, written(chat(message(1, "Сауна до 22:10"), message(2))), PLAIN)
    again = chat(message(1, "", photo="x.jpg", edited_unixtime="1710300000"), message(2))
    report = await import_export(archive, written(again), PLAIN)
    assert (report.tally.edited, report.tally.kept, report.notes[-1].code) == (0, 1, "import-note-text-kept")
    assert (await stored(archive))[1].text == "Сауна до 22:10"
