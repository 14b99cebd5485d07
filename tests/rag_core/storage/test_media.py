from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from rag_core.storage import Archive, channels, media, posts, visible_posts
from rag_core.types import DOCUMENT, PAGE, PICTURE, VOICE, Channel, Media, MediaFile, MediaText, Post, PostKey

NOON = datetime(2024, 3, 12, 12, tzinfo=UTC)
CHAT, ALL_KINDS = -1001, (PICTURE, VOICE, DOCUMENT)
POSTER = MediaFile(PICTURE, "bot:AQADposter", "file-id-1", 40_000)
WORDS = [MediaText(PICTURE, "Пятница 18:00"), MediaText(PICTURE, "Вход 450(?) ₽")]


def with_file(file, message_id=7, text="Афиша", minute=0):
    edited = NOON + timedelta(minutes=minute) if minute else None
    day = NOON + timedelta(days=message_id)
    return Post(PostKey(CHAT, message_id), day, text, edited and day + timedelta(minutes=minute),
                media=Media("photo", file=file))  # fmt: skip


@pytest_asyncio.fixture
async def archive(tmp_path):
    opened = await Archive.open(tmp_path)
    await channels.save_channel(opened, Channel(CHAT, "Афиша"))
    yield opened
    await opened.close()


async def take(archive):
    found = await media.take_next_file(archive, ALL_KINDS)
    assert found
    return found


async def text_of(archive, message_id=7):
    key = PostKey(CHAT, message_id)
    return (await visible_posts.fetch_posts(archive, [key]))[key].text


async def test_what_was_read_is_text_of_the_post_and_the_index_reads_it_again(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    before = await posts.get_last_seq(archive)
    waiting = await take(archive)
    assert (waiting.file, waiting.key) == (POSTER, PostKey(CHAT, 7))
    assert await media.save_media_text(archive, waiting, b"digest", WORDS) == 1
    assert await text_of(archive) == "Афиша\n\nПятница 18:00\nВход 450(?) ₽"
    (change,) = await posts.list_post_changes(archive, before)
    assert change.post and change.post.own_text == "Афиша"
    spans = change.post.list_media_spans()
    assert [change.post.text[span.start : span.end] for span in spans] == [one.text for one in WORDS]
    assert [span.is_doubtful(one.text) for span, one in zip(spans, WORDS, strict=True)] == [False, True]
    assert await media.take_next_file(archive, ALL_KINDS) is None


async def test_saving_the_post_again_changes_nothing_and_reads_nothing_again(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await media.save_media_text(archive, await take(archive), b"digest", WORDS)
    seq = await posts.get_last_seq(archive)
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await posts.save_posts(archive, [replace(with_file(POSTER), media=Media("photo"))], source="import")
    assert await posts.get_last_seq(archive) == seq
    assert "Пятница" in await text_of(archive)
    assert await media.take_next_file(archive, ALL_KINDS) is None


async def test_a_file_that_waits_in_a_moved_folder_is_read_where_it_is_now(archive):
    old, new = (MediaFile(PICTURE, "path:9:photos/1.jpg", f"/{where}/photos/1.jpg", 9) for where in ("old", "new"))
    await posts.save_posts(archive, [with_file(old)], source="import")
    await posts.save_posts(archive, [with_file(new)], source="import")
    assert (await take(archive)).file.locator == "/new/photos/1.jpg"


async def test_a_new_caption_keeps_the_text_of_the_picture(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await media.save_media_text(archive, await take(archive), b"digest", WORDS)
    await posts.save_posts(archive, [with_file(POSTER, text="Афиша на март", minute=5)], source="live")
    assert (await text_of(archive)).startswith("Афиша на март\n\nПятница 18:00")


async def test_a_replaced_file_takes_its_text_along_as_an_earlier_version(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await media.save_media_text(archive, await take(archive), b"digest", WORDS)
    fresh = replace(POSTER, id="bot:AQADnew")
    await posts.save_posts(archive, [with_file(fresh, minute=5)], source="live")
    assert await text_of(archive) == "Афиша"
    assert "Пятница 18:00" in (await posts.list_post_versions(archive, PostKey(CHAT, 7)))[0].text
    assert (await take(archive)).file.id == "bot:AQADnew"
    # an old copy of the post, say an export, does not bring the old file back
    await posts.save_posts(archive, [with_file(POSTER)], source="import")
    assert (await take(archive)).file.id == "bot:AQADnew"


@pytest.mark.parametrize("source", ["live", "history"])
async def test_a_file_that_a_post_has_no_more_takes_its_text_along(archive, source):
    """As one that is hidden as a spoiler; another post keeps its own text, an older copy brings nothing back."""
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await media.save_media_text(archive, await take(archive), b"digest", WORDS)
    hidden = replace(with_file(POSTER, minute=5), media=Media("photo"))
    await posts.save_posts(archive, [hidden, replace(hidden, key=PostKey(CHAT, 8))], source=source)
    await posts.save_posts(archive, [with_file(POSTER)], source="import")
    assert await text_of(archive) == "Афиша"
    assert await posts.list_post_versions(archive, PostKey(CHAT, 7)) == []
    assert await media.take_next_file(archive, ALL_KINDS) is None


async def test_a_file_that_was_replaced_while_it_was_read_is_not_saved(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    waiting = await take(archive)
    await posts.save_posts(archive, [with_file(replace(POSTER, id="bot:AQADnew"), minute=5)], source="live")
    assert await media.save_media_text(archive, waiting, b"digest", WORDS) == 0
    assert await text_of(archive) == "Афиша"


async def test_a_deleted_post_takes_its_text_along_and_is_read_again_when_it_returns(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await media.save_media_text(archive, await take(archive), b"digest", WORDS)
    await posts.mark_posts_deleted(archive, [PostKey(CHAT, 7)], how="admin")
    assert not await archive.value("SELECT count(*) FROM posts WHERE media_text IS NOT NULL")
    assert await media.take_next_file(archive, ALL_KINDS) is None
    assert await media.find_known_text(archive, digest=b"digest") is None
    await posts.restore_posts(archive, [PostKey(CHAT, 7)])
    assert (await take(archive)).file == POSTER


async def test_a_file_of_two_posts_is_read_once(archive):
    await posts.save_posts(archive, [with_file(POSTER), with_file(POSTER, 8)], source="live")
    assert await media.save_media_text(archive, await take(archive), b"digest", WORDS) == 2
    assert await text_of(archive, 8) == await text_of(archive, 7)
    assert await media.find_known_text(archive, digest=b"digest") == (b"digest", WORDS)
    assert await media.find_known_text(archive, file_id=POSTER.id) == (b"digest", WORDS)


async def test_two_exports_with_files_of_one_name_are_two_files(archive):
    exported = MediaFile(PICTURE, "path:40000:photos/photo_1.jpg", "/exports/one/photos/photo_1.jpg", 40_000)
    await posts.save_posts(archive, [with_file(exported), with_file(exported, 8)], source="import")
    assert await media.save_media_text(archive, await take(archive), b"digest", WORDS) == 1
    assert (await take(archive)).key == PostKey(CHAT, 7)


async def test_live_posts_come_first_and_then_the_newest(archive):
    files = {n: replace(POSTER, id=f"bot:{n}", kind=VOICE if n == 12 else PICTURE) for n in (9, 10, 11, 12)}
    await posts.save_posts(archive, [with_file(files[n], n) for n in (10, 11, 12)], source="import")
    await posts.save_posts(archive, [with_file(files[9], 9)], source="live")
    order = []
    while found := await media.take_next_file(archive, ALL_KINDS):
        order.append(found.key.message_id)
        await media.save_media_text(archive, found, b"", [])
    assert order == [9, 12, 11, 10]


async def test_only_kinds_that_can_be_read_are_taken(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    assert await media.take_next_file(archive, [VOICE, DOCUMENT]) is None


async def test_files_of_a_channel_that_waits_for_approval_are_not_read(archive):
    await channels.save_channel(archive, Channel(-1002, "Чужой", state="pending"))
    await posts.save_posts(archive, [replace(with_file(POSTER), key=PostKey(-1002, 7))], source="live")
    assert await media.take_next_file(archive, ALL_KINDS) is None
    assert await media.count_media(archive) == []


async def test_a_failed_file_waits_or_is_left_and_can_be_tried_again(archive):
    await posts.save_posts(archive, [with_file(POSTER)], source="live")
    await media.save_media_failure(archive, await take(archive), "unavailable", retry_after=3600)
    assert await media.take_next_file(archive, ALL_KINDS) is None
    assert [one.state for one in await media.count_media(archive)] == ["waiting"]
    await media.retry_failed_files(archive)
    await archive.execute("UPDATE media SET next_try = 0")
    await media.save_media_failure(archive, await take(archive), "broken")
    assert [(one.state, one.problem) for one in await media.count_media(archive)] == [("failed", "broken")]
    await media.retry_failed_files(archive)
    assert (await take(archive)).tries == 0


async def test_the_pictures_of_an_album_are_all_text_of_its_post(archive):
    members = [
        replace(with_file(replace(POSTER, id=f"bot:{n}"), n, "Меню" if n == 7 else ""), album="a") for n in (7, 8)
    ]
    await posts.save_posts(archive, members, source="live")
    for dish in ("Борщ 250 ₽", "Уха 300 ₽"):
        await media.save_media_text(archive, await take(archive), dish.encode(), [MediaText(PICTURE, dish)])
    found = await visible_posts.fetch_posts(archive, [PostKey(CHAT, 7), PostKey(CHAT, 8)])
    assert [post.text for post in found.values()] == ["Меню\n\nУха 300 ₽\nБорщ 250 ₽"]


async def test_the_preview_of_a_page_is_text_of_its_post_and_stays_without_it(archive):
    page = MediaText(PAGE, "Городской сайт: Мост закрыт\nДо мая движения не будет.")
    linked = Post(PostKey(CHAT, 7), NOON, "https://example.org/most", media_text=(page,))
    await posts.save_posts(archive, [linked], source="history")
    await posts.save_posts(archive, [replace(linked, media_text=())], source="live")
    found = (await visible_posts.fetch_posts(archive, [linked.key]))[linked.key]
    assert found.text == f"https://example.org/most\n\n{page.text}"
    assert found.find_media_span(0, len(found.text)) == found.list_media_spans()[0]
