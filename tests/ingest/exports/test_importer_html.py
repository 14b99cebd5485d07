"""messages.html into the archive, alone and beside what is there from result.json and from Telegram."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.exports import assign_albums, import_export
from ingest.json_export import ImportOptions
from ingest.messages import parse_exported_post
from rag_core.storage import Archive, channels, posts
from rag_core.storage.post_rows import PostTally
from rag_core.storage.posts import fetch_stored_posts
from rag_core.types import Channel, Entity, Media, Origin, Post, PostKey, Visibility

Make = Callable[..., str]
Page = Callable[..., Path]
BAKERY = -1001234567890
OURS = ImportOptions(chat="1234567890")
REAL = ImportOptions(chat="-1003204528972")


async def kept(archive: Archive, chat_id: int = BAKERY) -> dict[int, Post]:
    keys = [PostKey(chat_id, n) for n in await posts.list_message_ids(archive, chat_id)]
    return {key.message_id: found.post for key, found in (await fetch_stored_posts(archive, keys)).items()}


async def rows(archive: Archive) -> list[dict[str, Any]]:
    return [dict(row) for row in await archive.rows("SELECT * FROM posts ORDER BY chat_id, message_id")]


# beside result.json


async def test_html_after_json_makes_no_version_and_overwrites_nothing(archive: Archive, shared_data: Path) -> None:
    folder = shared_data / "tg_export_en"
    await import_export(archive, folder / "json", ImportOptions())
    before = await rows(archive)

    report = await import_export(archive, folder / "html", REAL)

    assert report.tally == PostTally(unchanged=208, skipped=5)
    assert report.notes == ()
    after = await rows(archive)
    # the only thing a page knows better: when a forwarded post was written
    dated = [row["origin"] and json.loads(row["origin"])[3] for row in after]
    assert len([date for date in dated if date]) == 27
    assert [row | {"origin": None} for row in after] == [row | {"origin": None} for row in before]
    assert [row["origin"] and json.loads(row["origin"])[:3] for row in after] == [
        row["origin"] and json.loads(row["origin"])[:3] for row in before
    ]
    assert await archive.rows("SELECT * FROM post_versions") == []


async def test_json_after_html_makes_no_version_either(archive: Archive, shared_data: Path) -> None:
    folder = shared_data / "tg_export_en"
    first = await import_export(archive, folder / "html" / "messages.html", REAL)
    assert first.tally == PostTally(new=208, skipped=5)
    before = await rows(archive)

    report = await import_export(archive, folder / "json", ImportOptions())

    assert report.tally == PostTally(unchanged=208, skipped=5)
    same = ("message_id", "date", "text", "version", "author", "reply_to", "album", "links")
    assert [[row[key] for key in same] for row in await rows(archive)] == [[row[key] for key in same] for row in before]
    exported = json.loads((folder / "json" / "result.json").read_text())["messages"]
    expected = [post for message in exported if (post := parse_exported_post(message, -1003204528972))]
    assert [(row["message_id"], row["date"], row["text"]) for row in before] == [
        (post.key.message_id, int(post.date.timestamp()), post.text) for post in expected
    ]


async def test_what_telegram_told_the_bot_stays(archive: Archive, shared_data: Path) -> None:
    exported = json.loads((shared_data / "tg_export_en" / "json" / "result.json").read_text())["messages"]
    alive = assign_albums(post for message in exported if (post := parse_exported_post(message, -1003204528972)))
    for update_id, post in enumerate(alive, 1):
        await posts.save_posts(archive, [replace(post, author="Anna")], source="live", update_id=update_id)
    before = await rows(archive)

    report = await import_export(archive, shared_data / "tg_export_en" / "html", REAL)

    assert report.tally == PostTally(unchanged=208, skipped=5)
    aside = {"origin": None, "source": None}
    assert [row | aside for row in await rows(archive)] == [row | aside for row in before]


# texts and dates that a page does not know exactly


def known(text: str = "Хлеб по 90", number: int = 1, **more: Any) -> Post:
    return Post(PostKey(BAKERY, number), datetime(2024, 3, 12, 12, number, tzinfo=UTC), text, **more)


async def test_separators_of_lines_that_become_breaks_in_a_page_stay_what_they_are(
    archive: Archive, page: Page, row: Make
) -> None:
    await posts.save_posts(archive, [known("раз\u2028два\u2029три")], source="import")
    report = await import_export(archive, page(row(1, "раз<br>два<br>три")), OURS)
    assert report.tally == PostTally(unchanged=1)
    assert (await kept(archive))[1].text == "раз\u2028два\u2029три"


@pytest.mark.parametrize("hour", [3, 21])
async def test_the_wrong_zone_moves_no_known_date_and_no_known_edit(
    archive: Archive, page: Page, row: Make, hour: int
) -> None:
    edited = known("Хлеб по 95").date + timedelta(minutes=30)
    await posts.save_posts(archive, [known()], source="live", update_id=5)
    await posts.save_posts(archive, [known("Хлеб по 95", edited=edited)], source="live", update_id=6)

    for text in ("Хлеб по 95", "Хлеб по 90"):
        old = row(1, text, title=f"12.03.2024 {hour:02}:01:00")
        assert (await import_export(archive, page(old), OURS)).tally == PostTally(unchanged=1)

    found = (await fetch_stored_posts(archive, [PostKey(BAKERY, 1)]))[PostKey(BAKERY, 1)]
    assert (found.post.text, found.post.date, found.post.edited) == ("Хлеб по 95", known().date, edited)
    assert (found.stamp, found.update_id) == (edited, 6)
    later = known("Хлеб по 99", edited=edited + timedelta(seconds=1))
    assert (await posts.save_posts(archive, [later], source="live", update_id=7)) == PostTally(edited=1)


async def test_another_text_is_newer_where_no_edit_was_known(archive: Archive, page: Page, row: Make) -> None:
    await posts.save_posts(archive, [known()], source="live", update_id=5)
    report = await import_export(archive, page(row(1, "Хлеб по 95")), OURS)

    assert report.tally == PostTally(edited=1)
    assert ((await kept(archive))[1].text, (await kept(archive))[1].version) == ("Хлеб по 95", 2)
    older = await import_export(archive, page(row(1, "Хлеб по 90")), OURS)
    assert older.tally == PostTally(unchanged=1)


async def test_another_text_is_kept_as_an_earlier_one_where_an_edit_is_known(
    archive: Archive, page: Page, row: Make
) -> None:
    await posts.save_posts(archive, [known("Хлеб по 95", edited=known().date + timedelta(days=1))], source="import")
    report = await import_export(archive, page(row(1, "Хлеб по 99")), OURS)

    assert report.tally == PostTally(unchanged=1)
    assert "1 posts read otherwise" in report.notes[-1] and "result.json" in report.notes[-1]
    assert (await kept(archive))[1].text == "Хлеб по 95"
    assert [version.text for version in await posts.list_post_versions(archive, PostKey(BAKERY, 1))] == ["Хлеб по 99"]


async def test_names_of_files_ids_of_origins_and_formatting_stay(
    archive: Archive, page: Page, row: Make, block: Make
) -> None:
    quote = (Entity("expandable_blockquote", 0, 4),)
    origin = Origin("Заслонка", -1007, 12)
    post = known("Тяга", media=Media("audio", "тяга.mp3", "audio/mpeg"), origin=origin, entities=quote, reply_to=9)
    await posts.save_posts(archive, [post], source="live", update_id=5)
    audio = block("media_wrap", block("media media_audio_file", block("title bold", "Хор – Песня")))
    named = block("from_name", 'Заслонка <span class="date details" title="11.03.2024 09:00:00 UTC+03:00"> 9</span>')
    forward = block("forwarded body", named + audio + block("text", "<blockquote>Тяга</blockquote>"))

    assert (await import_export(archive, page(row(1, forward)), OURS)).tally == PostTally(unchanged=1)

    dated = replace(origin, date=datetime(2024, 3, 11, 6, tzinfo=UTC))
    expected = replace(post, origin=dated, date=post.date)
    assert (await kept(archive))[1] == expected


async def test_a_flattened_text_takes_no_other_one_s_place(
    archive: Archive, page: Page, row: Make, block: Make
) -> None:
    quiz = "Почём?\n— 90\nС марта"
    alive = [known("1. Мука\n☑ Соль"), known(quiz, 2, media=Media("poll"))]
    await posts.save_posts(archive, alive, source="live", update_id=5)
    rich = '\n<div class="text rich_message">\n <p class="rich_block">\nМука\n </p>\n <p>\nСоль\n </p>\n</div>\n'
    asked = block("media_wrap", block("media_poll", block("question bold", "Почём?") + block("answer", "- 90")))

    report = await import_export(archive, page(row(1, rich), row(2, asked), row(3, rich)), OURS)

    assert report.tally == PostTally(new=1, unchanged=2)
    assert [post.text for post in (await kept(archive)).values()] == ["1. Мука\n☑ Соль", quiz, "Мука\nСоль"]


# what is not there any more


async def test_what_disappeared_is_erased_and_comes_back_with_a_page(
    archive: Archive, page: Page, row: Make, day: Make
) -> None:
    await posts.save_posts(archive, [known(f"Цена {n}", n) for n in range(1, 7)], source="live", update_id=5)
    await posts.mark_posts_deleted(archive, [PostKey(BAKERY, 5)], how="admin")

    report = await import_export(archive, page(row(1, "Цена 1"), day(2), row(4, "Цена 4"), row(5, "Цена 5")), OURS)

    assert report.tally == PostTally(unchanged=3, skipped=1, deleted=1)
    assert set(await kept(archive)) == {1, 2, 4, 6}
    again = await import_export(archive, page(row(3, "Цена 3"), row(4, "Цена 4")), OURS)
    assert again.tally == PostTally(new=1, unchanged=1)


@pytest.mark.parametrize("broken", ["<script>", "<!--", '<a href="'])
async def test_nothing_is_erased_by_a_page_that_is_damaged(
    archive: Archive, page: Page, row: Make, broken: str
) -> None:
    await posts.save_posts(archive, [known(f"Цена {n}", n) for n in range(1, 7)], source="live", update_id=5)
    end = {"<script>": "</script>", "<!--": "-->", '<a href="': '">'}[broken]
    rows = [row(n, f"Цена {n}") for n in range(1, 7)]
    rows[2:4] = [rows[2].replace("Цена", broken), rows[3].replace("Цена", end)]

    report = await import_export(archive, page(*rows), OURS)

    assert report.tally.deleted == 0
    assert [post.text for post in (await kept(archive)).values()] == [f"Цена {n}" for n in range(1, 7)]
    assert any("damaged" in note or "could not be read" in note for note in report.notes)


async def test_a_page_of_a_full_export_may_hold_one_s_own_messages_only(
    archive: Archive, page: Page, row: Make
) -> None:
    await posts.save_posts(archive, [known(f"Цена {n}", n) for n in range(1, 21)], source="live", update_id=5)
    file = page(row(1, "Цена 1"), row(20, "Цена 20"))
    above = '<a class="content block_link" href="../../lists/chats.html" onclick="return GoBack(this)">'
    file.write_text(file.read_text().replace('<div class="content">', above, 1))

    report = await import_export(archive, file, OURS)
    assert (report.tally.deleted, len(await kept(archive))) == (0, 20)
    assert "your own messages only" in report.notes[0]


# pages


def linked(page: Page, name: str, following: str | None, *rows: str) -> Path:
    link = f'\n<a class="pagination block_link" href="{following}">\nNext messages\n</a>\n' if following else ""
    return page(*rows, link, name=name)


async def test_pages_are_read_in_the_order_of_their_numbers(archive: Archive, page: Page, row: Make) -> None:
    for n in range(12, 0, -1):
        name, following = ("messages.html" if n == 1 else f"messages{n}.html"), f"messages{n + 1}.html"
        text = row(20, f"текст {n}") if n in (2, 10) else ""
        linked(page, name, None if n == 12 else following, row(n, f"Цена {n}"), text)
    page(row(99, "чужое"), name="messages14.html")
    seen: list[tuple[int, int]] = []

    report = await import_export(
        archive,
        page.__closure__[0].cell_contents,
        OURS,
        lambda done, total: seen.append((done, total)),  # type: ignore[attr-defined]
    )

    assert report.tally == PostTally(new=13, edited=1)
    assert set(await kept(archive)) == {*range(1, 13), 20}
    assert (await kept(archive))[20].text == "текст 10"
    assert not any("goes on" in note for note in report.notes)
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1]


async def test_a_page_that_is_missing_is_said(archive: Archive, page: Page, row: Make) -> None:
    linked(page, "messages3.html", None, row(3, "три"))
    file = linked(page, "messages.html", "messages2.html", row(1, "раз"))
    report = await import_export(archive, file, OURS)
    assert report.tally == PostTally(new=1)
    assert "goes on in messages2.html" in report.notes[-1]
    later = await import_export(archive, file.with_name("messages3.html"), OURS)
    assert (later.tally, later.notes) == (PostTally(new=1), ())


async def test_albums_are_the_same_in_both_formats(
    archive: Archive, page: Page, row: Make, block: Make, written: Page, chat: Callable[..., Any], message: Any
) -> None:
    photo = block("media_wrap", block("media media_photo", block("title bold", "Photo")))
    name = block("from_name", 'Заслонка <span class="date details" title="11.03.2024 09:00:00 UTC+03:00"> 9</span>')
    together, unix = "12.03.2024 15:00:00 UTC+03:00", "1710244800"
    texts = [block("forwarded body", name + photo), block("forwarded body", photo + block("text", "Витрина"))]
    file = page(*(row(n, text, title=together) for n, text in enumerate(texts, 1)), row(3, photo))
    await import_export(archive, file, OURS)
    albums = {n: post.album for n, post in (await kept(archive)).items()}

    assert albums == {1: "export-1", 2: "export-1", 3: None}
    forward = {"photo": "p.jpg", "forwarded_from": "Заслонка", "date_unixtime": unix}
    entries = [message(1, "", **forward), message(2, "Витрина", **forward), message(3, "", photo="p.jpg")]
    await import_export(archive, written(chat(*entries)), ImportOptions())
    assert {n: post.album for n, post in (await kept(archive)).items()} == albums


# which channel


@pytest.mark.parametrize(
    "named",
    [
        "1234567890", "-1001234567890", " -1001234567890 ", "@bread", "Bread", "https://t.me/bread", "t.me/bread/12",
        "https://t.me/c/1234567890/12", "https://t.me/s/bread",
    ],
)  # fmt: skip
async def test_a_channel_is_named_by_id_link_or_known_username(
    archive: Archive, page: Page, row: Make, named: str
) -> None:
    ours = Channel(BAKERY, "Пекарня", "bread", visibility=Visibility.PUBLIC, state="pending")
    await channels.save_channel(archive, ours)
    report = await import_export(archive, page(row(1, "Хлеб")), ImportOptions(chat=named))
    assert report.channels == (replace(ours, state="active"),)
    assert await channels.load_channels(archive) == {BAKERY: replace(ours, state="active")}
    assert set(await kept(archive)) == {1}


async def test_a_new_channel_is_called_as_the_page_or_the_person_calls_it(
    archive: Archive, page: Page, row: Make
) -> None:
    report = await import_export(archive, page(row(1, "Хлеб")), OURS)
    assert report.channels == (Channel(BAKERY, "Пекарня & Ко"),)
    assert report.notes == (
        "Пекарня & Ко was not known before: see that https://t.me/c/1234567890/1 opens a post of it, "
        "else --chat is wrong.",
    )
    named = await import_export(archive, page(row(1, "Хлеб")), replace(OURS, title="Булочная", username="bread"))
    assert named.channels == (Channel(BAKERY, "Булочная", "bread", visibility=Visibility.PUBLIC),)
