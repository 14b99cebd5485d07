import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_sizes import choose_size

from rag_core.storage import Archive, channels, posts, visible_posts
from rag_core.storage.post_rows import PostTally
from rag_core.types import Channel, Entity, Media, Origin, Post, PostKey, Visibility

NOON = datetime(2024, 3, 12, 12, tzinfo=UTC)
KEY = PostKey(-1001, 7)
FULL = Post(
    key=KEY,
    date=NOON,
    text="Хлеб по 90 рублей 🍞",
    edited=NOON + timedelta(hours=1),
    author="Маша",
    entities=(Entity("bold", 0, 4), Entity("text_link", 8, 2, "https://example.org/")),
    links=("https://example.org/",),
    media=Media("document", "прайс.pdf", "application/pdf"),
    origin=Origin("Заслонка", -1002, 5, NOON - timedelta(days=1)),
    reply_to=3,
    album="album-1",
)


def post(text, minute=0, message_id=7):
    """A post written at noon and edited `minute` minutes later."""
    edited = NOON + timedelta(minutes=minute) if minute else None
    return Post(PostKey(-1001, message_id), NOON, text, edited=edited)


async def current(archive):
    return (await visible_posts.fetch_posts(archive, [KEY]))[KEY]


async def older(archive):
    rows = await archive.rows("SELECT text FROM post_versions ORDER BY stamp, update_id")
    return [row["text"] for row in rows]


def with_file(text, name, minute=0, kind="document"):
    return replace(post(text, minute), media=Media(kind, name))


BREAD, DEARER = post("Хлеб 90"), post("Хлеб 95", 5)
EDITED, UNCHANGED = PostTally(edited=1), PostTally(unchanged=1)


@pytest.mark.parametrize(
    ("saved", "then", "tally", "now", "before", "seq"),
    [
        pytest.param(FULL, ("import", 0, FULL, FULL), PostTally(unchanged=2), FULL, [], 1, id="the same again"),
        pytest.param(
            FULL,
            ("import", 0, replace(FULL, origin=Origin("Заслонка"), album="export-7", author=None)),
            UNCHANGED, FULL, [], 1, id="an export that knows less",
        ),
        pytest.param(BREAD, ("live", 12, DEARER), EDITED, "Хлеб 95", ["Хлеб 90"], 2, id="an edit"),
        pytest.param(
            BREAD, ("import", 0, BREAD, DEARER), PostTally(unchanged=1, edited=1), "Хлеб 95", ["Хлеб 90"], 2,
            id="a post and its edit in one batch",
        ),
        pytest.param(DEARER, ("live", 9, BREAD), UNCHANGED, "Хлеб 95", ["Хлеб 90"], 1, id="an edit before its post"),
        pytest.param(
            post("второй", 5), ("live", 9, post("первый", 5)), UNCHANGED, "второй", ["первый"], 1,
            id="two edits in one second",
        ),
        pytest.param(
            post("как было", 5), ("import", 0, post("иначе", 5)), UNCHANGED, "как было", ["иначе"], 1,
            id="an import of the same second",
        ),
        pytest.param(BREAD, ("import", 0, post("Хлеб 90\n ", 5)), UNCHANGED, "Хлеб 90", [], 1, id="white space"),
        pytest.param(
            with_file("Прайс", "март.pdf"), ("live", 12, with_file("Прайс", "апрель.pdf", 5)), UNCHANGED, "Прайс",
            [], 2, id="a file that was swapped",
        ),
        pytest.param(
            with_file("Хлеб 90", "a", kind="photo"), ("live", 12, with_file("", "a", 5, "photo")), EDITED, "",
            ["Хлеб 90"], 2, id="a caption that its author took away",
        ),
    ],
)  # fmt: skip
async def test_a_post_that_arrives_again(archive, saved, then, tally, now, before, seq):
    assert await posts.save_posts(archive, [saved], source="live", update_id=10) == PostTally(new=1)
    source, update_id, *again = then
    assert await posts.save_posts(archive, again, source=source, update_id=update_id) == tally
    found = await current(archive)
    assert (found if isinstance(now, Post) else found.text) == now
    assert found.version == 1 + len(before)
    assert (await older(archive), await posts.get_last_seq(archive)) == (before, seq)


async def test_two_texts_of_one_id_and_time_do_not_swap_at_every_import(archive):
    twice = [post("один"), post("другой")]
    assert await posts.save_posts(archive, twice, source="import") == PostTally(new=1, edited=1)
    assert await posts.save_posts(archive, twice, source="import") == PostTally(unchanged=2)


async def test_entities_are_learnt_without_a_new_version(archive):
    await posts.save_posts(archive, [post("Хлеб 90")], source="import")
    told = replace(post("Хлеб 90", 5), entities=(Entity("bold", 0, 4),))
    assert await posts.save_posts(archive, [told], source="live", update_id=3) == PostTally(unchanged=1)

    now = await current(archive)
    assert (now.entities, now.version, now.edited) == ((Entity("bold", 0, 4),), 1, None)
    assert await posts.get_last_seq(archive) == 1


async def test_an_erased_post_is_gone_for_readers_but_not_from_the_archive(archive):
    await posts.save_posts(archive, [post("Хлеб 90"), post("Другой", message_id=8)], source="live")
    assert await posts.mark_posts_deleted(archive, [KEY, KEY, PostKey(-1001, 99)], how="admin") == 1
    assert await posts.mark_posts_deleted(archive, [KEY], how="admin") == 0

    assert await visible_posts.fetch_posts(archive, [KEY]) == {}
    assert await posts.list_message_ids(archive, -1001) == {8}
    assert await posts.count_posts(archive) == await posts.count_posts(archive, -1001) == 1
    change = (await posts.list_post_changes(archive, 2))[0]
    assert (change.seq, change.key, change.post) == (3, KEY, None)
    ((text, how),) = await archive.rows("SELECT text, deleted_how FROM posts WHERE message_id = 7")
    assert (text, how) == ("Хлеб 90", "admin")


async def test_a_post_that_reappears_lives_again(archive):
    await posts.save_posts(archive, [post("Хлеб 90")], source="live")
    await posts.mark_posts_deleted(archive, [KEY], how="import")
    assert await posts.save_posts(archive, [post("Хлеб 90")], source="import") == PostTally(new=1)
    assert (await current(archive)).version == 1
    assert (await posts.list_post_changes(archive, 2))[0].post == await current(archive)


async def test_changes_come_in_pages_and_each_post_once(archive):
    await posts.save_posts(archive, [post(str(n), message_id=n) for n in range(1, 1201)], source="import")
    await posts.save_posts(archive, [post("снова", 5, message_id=1)], source="import")

    after, found = 0, []
    while page := await posts.list_post_changes(archive, after, limit=500):
        assert [change.seq for change in page] == sorted(change.seq for change in page)
        after = page[-1].seq
        found += [change.key.message_id for change in page]

    assert after == await posts.get_last_seq(archive) == 1201
    assert found == [*range(2, 1201), 1]


async def test_parents_are_the_living_posts_that_are_replied_to(archive):
    kept = [post("Цена?", message_id=1), *(replace(post("Вот", message_id=n), reply_to=n - 1) for n in (2, 3))]
    await posts.save_posts(archive, [*kept, replace(post("?", message_id=9), reply_to=5)], source="live")
    keys = [PostKey(-1001, n) for n in (1, 2, 3, 9)]

    assert await visible_posts.fetch_replied_texts(archive, keys) == {keys[1]: "Цена?", keys[2]: "Вот"}
    await posts.mark_posts_deleted(archive, [keys[0]], how="admin")
    assert await visible_posts.fetch_replied_texts(archive, keys) == {keys[2]: "Вот"}


async def test_missing_posts_lie_between_the_first_and_last_of_those_present(archive):
    await posts.save_posts(archive, [post(str(n), message_id=n) for n in range(1, 11)], source="live")
    await posts.mark_posts_deleted(archive, [PostKey(-1001, 6)], how="admin")
    assert await posts.find_missing_posts(archive, -1001, [3, 5, 7, 8]) == [PostKey(-1001, 4)]
    assert await posts.find_missing_posts(archive, -1001, []) == []


async def test_a_channel_s_new_title_does_not_change_who_may_read_it(archive):
    await channels.save_channel(archive, Channel(-1001, "Пекарня"))
    await channels.save_channel(
        archive, Channel(-1001, "Булочная", "bread", visibility=Visibility.PUBLIC, state="paused")
    )
    assert await channels.load_channels(archive) == {-1001: Channel(-1001, "Булочная", "bread")}

    await channels.set_channel_visibility(archive, -1001, Visibility.MEMBERS)
    assert (await channels.load_channels(archive))[-1001].visibility is Visibility.MEMBERS


arrivals = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from(["а", "б", "в"])),
    min_size=1,
    max_size=6,
    unique_by=lambda arrival: arrival[:2],
)


@settings(max_examples=choose_size(40, 15), deadline=None)
@given(arrivals, st.randoms(use_true_random=False), st.integers(1, 6))
async def test_in_whatever_order_they_arrive_the_newest_wins_and_no_text_is_lost(
    prepare_archive, written, random, size
):
    random.shuffle(written)
    with tempfile.TemporaryDirectory() as folder:
        prepare_archive(Path(folder))
        archive = await Archive.open(Path(folder))
        for start in range(0, len(written), size):
            batch = [(post(text, minute), update_id) for minute, update_id, text in written[start : start + size]]
            async with archive.writing() as connection:
                await posts.save_arrivals_in_transaction(connection, batch, source="live")
        now, before = await current(archive), await older(archive)
        await archive.close()

    assert now.text == max(written)[2]
    assert {now.text, *before} == {text for _, _, text in written}
    assert now.version == 1 + len(before)


async def test_a_known_text_is_never_replaced_by_none(archive):
    await posts.save_posts(archive, [post("Хлеб 90")], source="live", update_id=1)
    for minute, update_id, media in ((0, 0, "photo"), (5, 0, "photo"), (6, 2, "game"), (7, 3, None)):
        bare = replace(post("", minute), media=Media(media) if media else None)
        tally = await posts.save_posts(archive, [bare], source="import", update_id=update_id)
        assert tally == PostTally(unchanged=1, kept=1)
        assert (await current(archive)).text == "Хлеб 90"
    assert await older(archive) == []


async def test_lines_that_only_one_way_of_reading_has_are_learnt_without_a_version(archive):
    await posts.save_posts(archive, [post("Песня", 5)], source="live", update_id=3)
    more = replace(post("Песня\nХор – Жар", 5), entities=(Entity("bold", 0, 5),))
    for _ in range(2):
        assert await posts.save_posts(archive, [more], source="import") == PostTally(unchanged=1)
        assert await posts.save_posts(archive, [post("Песня", 5)], source="import") == PostTally(unchanged=1)
        now = await current(archive)
        assert (now.text, now.entities, now.version) == ("Песня\nХор – Жар", (Entity("bold", 0, 5),), 1)
    assert await posts.get_last_seq(archive) == 2  # the indexes read it again, once
    shorter = await posts.save_posts(archive, [post("Песня", 5)], source="live", update_id=4)
    assert (shorter, (await current(archive)).text) == (PostTally(edited=1), "Песня")


async def test_the_cost_of_an_edit_does_not_grow_with_the_versions_that_are_kept(archive):
    async def measure(first):
        before = time.process_time()
        for n in range(first, first + 60):
            await posts.save_posts(archive, [post(f"Хлеб {n}", n)], source="import")
        return time.process_time() - before

    few = await measure(1)
    await posts.save_posts(archive, [post(f"Хлеб {n}", n) for n in range(100, 12_000)], source="import")
    assert await measure(20_000) < 3 * few + 0.1


async def test_a_topic_s_new_title_is_read_again_with_its_posts(archive):
    await channels.save_channel(archive, Channel(-1001, "Клуб", kind="supergroup"))
    there = [replace(post(f"Полив {n}", message_id=n), topic=topic) for n, topic in ((11, 3), (12, 3), (13, 4))]
    await posts.save_posts(archive, there, source="import")

    async def name(title, when):
        before = await posts.get_last_seq(archive)
        async with archive.writing() as connection:
            await channels.save_topic_titles(connection, -1001, {3: (title, when)})
        return [change.key.message_id for change in await posts.list_post_changes(archive, before)]

    assert await name("Сад", 5) == [11, 12]
    assert await name("Сад", 6) == []
    assert await name("Огород", 8) == [11, 12]
    assert await name("Грядки", 7) == []  # an earlier title, from an old export
    assert (await channels.load_channels(archive))[-1001].topics == {3: "Огород"}
    stored = await visible_posts.fetch_posts(archive, [one.key for one in there])
    assert [stored[one.key] for one in there] == there
    assert await channels.load_topics_of_messages(archive, -1001) == {3: 3, 11: 3, 12: 3, 13: 4}
