import gzip
import json
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

import ingest.copies
from ingest.copies import CopyIndexer
from rag_core.storage import channels, near_duplicates, posts
from rag_core.types import Channel, Entity, Origin, Post, PostKey

pytestmark = pytest.mark.slow

A, B, C = -1001, -1002, -1003
BRIDGE = "Мост через Оку закрыт на ремонт до 5 мая, объезд по Полевой улице."
LONGER = f"{BRIDGE} Причины уточняются."
HOUR = timedelta(hours=1)


@pytest.fixture
async def archive(archive):
    for chat_id in (A, B, C):
        await channels.save_channel(archive, Channel(chat_id, f"Channel {chat_id}"))
    return archive


@pytest.fixture
def copier(archive):
    return CopyIndexer(archive)


async def keep(archive, copier, *kept):
    await posts.save_posts(archive, kept, source="live")
    await copier.catch_up()


async def families(archive):
    """The families of more than one that somebody finds who may read everything."""
    rows = await archive.rows("SELECT chat_id, message_id FROM copies")
    every = {PostKey(*row) for row in rows}
    found = defaultdict(set)
    for key, one in (await near_duplicates.fetch_copies(archive, every, {key.chat_id for key in every})).items():
        found[one.family].add(key)
    return {frozenset(keys) for keys in found.values() if len(keys) > 1}


def keys(*pairs):
    return frozenset(PostKey(*pair) for pair in pairs)


async def test_exact_and_near_copies_of_a_post_are_one_family_and_a_changed_fact_is_not(archive, copier, make_post):
    await keep(
        archive,
        copier,
        make_post(1, BRIDGE, chat=A),
        make_post(1, f"❗️{BRIDGE}\n\nПодписаться | Прислать новость", chat=B),
        make_post(2, LONGER, chat=C),
        make_post(3, BRIDGE.replace("5", "6"), chat=C),
        make_post(4, BRIDGE.replace("закрыт", "не закрыт"), chat=C),
    )
    assert await families(archive) == {keys((A, 1), (B, 1), (C, 2))}
    await keep(archive, copier, make_post(5, LONGER, chat=B), make_post(6, BRIDGE.replace("5", "6"), chat=B))
    assert await families(archive) == {keys((A, 1), (B, 1), (C, 2), (B, 5)), keys((C, 3), (B, 6))}


async def test_an_edit_moves_a_post_and_a_tombstone_takes_it_out(archive, copier, make_post):
    one, two, three = (make_post(1, BRIDGE, chat=chat) for chat in (A, B, C))
    await keep(archive, copier, one, two, three)
    later = one.date + HOUR
    await keep(archive, copier, replace(two, text=BRIDGE.replace("5", "6"), edited=later))
    assert await families(archive) == {keys((A, 1), (C, 1))}
    await keep(archive, copier, replace(one, text=BRIDGE.replace("5", "6"), edited=later))
    assert await families(archive) == {keys((A, 1), (B, 1))}
    await posts.mark_posts_deleted(archive, [two.key], how="test")
    await posts.mark_posts_suspected(archive, [three.key])
    assert await copier.catch_up() == 2
    assert await families(archive) == set()
    assert [tuple(row) for row in await archive.rows("SELECT chat_id, message_id FROM copies")] == [(A, 1)]
    await keep(archive, copier, replace(two, text=BRIDGE.replace("5", "6"), edited=later + HOUR))
    assert await families(archive) == {keys((A, 1), (B, 1))}


async def test_after_a_crash_it_goes_on_and_nothing_is_twice(archive, copier, make_post, monkeypatch):
    monkeypatch.setattr(ingest.copies, "_BATCH_CHANGES", 10)
    kept = [make_post(n, BRIDGE.replace("5", str(n % 7)), chat=chat) for chat in (A, B) for n in range(1, 26)]
    await posts.save_posts(archive, kept, source="live")

    def dies(done):
        if done == 30:
            raise MemoryError

    with pytest.raises(MemoryError):
        await copier.catch_up(dies)
    assert await copier.waiting() == 20
    again = CopyIndexer(archive)
    assert await again.catch_up() == 20
    # as if the mark had not been written: taken in again, and still once each
    async with archive.writing() as connection:
        await connection.execute("UPDATE copying SET watermark = 15")
    assert await again.catch_up() == 35
    assert await again.waiting() == await again.catch_up() == 0
    assert sorted(map(len, await families(archive))) == [6, 6, 6, 8, 8, 8, 8]


async def test_words_about_today_are_copies_on_the_same_day_only(archive, copier, make_post):
    closed = "Сегодня мост через Оку закрыт на ремонт, объезд по Полевой улице."
    await keep(
        archive,
        copier,
        *(make_post(day, closed, chat=chat, days=day) for day in (1, 8) for chat in (A, B)),
        # a forward is as old as its post
        make_post(20, closed, chat=C, days=8, origin=Origin("A", A, 1, make_post(1, "", days=1).date)),
    )
    assert await families(archive) == {keys((A, 1), (B, 1), (C, 20)), keys((A, 8), (B, 8))}


async def test_nearly_the_same_weeks_later_is_another_event(archive, copier, make_post):
    fire, more = (
        "Кадры тушения большого пожара на складе в Москве",
        "Новые кадры тушения большого пожара на складе в Москве",
    )
    await keep(archive, copier, make_post(1, fire, chat=A), make_post(2, more, chat=B, days=1))
    assert await families(archive) == {keys((A, 1), (B, 2))}
    await keep(archive, copier, make_post(3, fire, chat=C, days=300), make_post(4, f"{more} сняты", chat=C, days=30))
    assert await families(archive) == {keys((A, 1), (B, 2), (C, 3))}


async def test_albums_count_once_and_hidden_links_tell_signatures(archive, copier, make_post):
    signed = f"{BRIDGE}\n\nОка сегодня"
    link = Entity("text_link", len(signed) - 11, 11, "https://t.me/oka")
    await keep(
        archive,
        copier,
        make_post(1, "", chat=A, album="x"),
        make_post(2, BRIDGE, chat=A, album="x"),
        make_post(3, signed, chat=B, entities=(link,)),
        make_post(4, "", chat=C),
    )
    assert await families(archive) == {keys((A, 2), (B, 3))}


async def known(archive, key, *may_read):
    found = (await near_duplicates.fetch_copies(archive, [PostKey(*key)], may_read)).get(PostKey(*key))
    return [one.key for one in found.all] if found else None


async def test_only_what_may_be_read_now_is_told_the_earliest_of_each_channel(archive, copier, make_post):
    await keep(
        archive,
        copier,
        make_post(1, BRIDGE, chat=B, days=1),
        make_post(2, BRIDGE, chat=B, days=2),
        make_post(3, BRIDGE, chat=A, days=3),
        make_post(4, BRIDGE, chat=C, days=0),
    )
    assert await known(archive, (A, 3), A, B, C) == [(C, 4), (B, 1), (A, 3)]
    assert await known(archive, (A, 3), A, B) == [(B, 1), (A, 3)]
    # what has changed and was not looked at yet is left out, and known of nothing
    await posts.mark_posts_deleted(archive, [PostKey(B, 1)], how="test")
    await posts.mark_posts_suspected(archive, [PostKey(C, 4)])
    changed = make_post(3, BRIDGE.replace("5", "6"), chat=A, days=3, edited=make_post(1, "", days=4).date)
    await posts.save_posts(archive, [changed], source="live")
    assert await known(archive, (B, 2), A, B, C) == [(B, 2)]
    assert await known(archive, (A, 3), A, B, C) is None
    assert await known(archive, (A, 99), A, B, C) is None


async def test_the_copies_among_real_channels_are_found(archive, copier, shared_data):
    folder = shared_data / "tg_ru_news"
    across = [
        [key_of(i) for i in group["ids"]]
        for group in map(json.loads, (folder / "exact_duplicates.jsonl").read_text("utf-8").splitlines())
        if group["channels"] > 1
    ]
    wanted = {key for group in across for key in group}
    with gzip.open(folder / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for n, row in enumerate(map(json.loads, lines)) if n % 12 == 0 or key_of(row["id"]) in wanted]
    await keep(archive, copier, *(Post(key_of(r["id"]), datetime.fromisoformat(r["date"]), r["text"]) for r in rows))
    found = await families(archive)
    whole = [group for group in across if any(family.issuperset(group) for family in found)]
    assert len(across) == 125
    assert len(whole) >= 0.99 * len(across)


def key_of(row_id):
    _, chat, message = row_id.split("-")
    return PostKey(-int(chat), int(message))


async def test_copies_are_told_of_one_state_though_others_are_taken_in_meanwhile(
    archive, copier, make_post, monkeypatch
):
    await keep(archive, copier, make_post(1, BRIDGE, chat=A), make_post(2, LONGER, chat=A))
    await posts.save_posts(archive, [make_post(1, BRIDGE, chat=B)], source="live")
    rows = archive.rows

    async def meanwhile(sql, parameters=()):
        found = await rows(sql, parameters)
        monkeypatch.undo()
        await copier.catch_up()
        return found

    monkeypatch.setattr(archive, "rows", meanwhile)
    asked = {PostKey(A, 1), PostKey(A, 2), PostKey(B, 1)}
    known = await near_duplicates.fetch_copies(archive, asked, {A, B})
    # the new one is not known yet, to nobody: its words decide
    assert {key: [one.key for one in found.all] for key, found in known.items()} == {
        PostKey(A, 1): [PostKey(A, 1)],
        PostKey(A, 2): [PostKey(A, 1)],
    }
    assert len({one.family for one in known.values()}) == 1


TODAY = f"Сегодня {BRIDGE}"
CLOSED = {
    # two texts that are near a third, and not near each other: does somebody hold the third?
    "a text between two": (
        [(A, 1, f"{BRIDGE} Проверено нами.", 0), (B, 1, f"{BRIDGE} Подробности позже.", 0)], [(C, 1, BRIDGE, 0)]),
    # a day apart each, so that the first and the last are of one day only by what stands between
    "a day": ([(A, 1, TODAY, 0), (B, 1, TODAY, 2)], [(C, 1, TODAY, 1)]),
    "split": ([(A, 1, TODAY, 1), (B, 1, TODAY, 2)], [(C, 1, TODAY, 0)]),
    # the newest of the texts with a band was the one that was compared with
    "newer ones": (
        [(A, 1, BRIDGE, 0), (B, 1, f"{BRIDGE} Ждём.", 1)],
        [(C, 1, f"{BRIDGE} Подробности позже.", 0.5), (C, 2, f"{BRIDGE} Проверено нами.", 0.6)]),
    "a bridge in time": ([(A, 1, BRIDGE, 0), (B, 1, LONGER, 3)], [(C, 1, BRIDGE, 1.5), (C, 2, LONGER, 1.5)]),
}  # fmt: skip


@pytest.mark.parametrize(("ours", "closed"), CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("order", ["ours first", "closed first", "between"])
async def test_which_posts_are_copies_does_not_depend_on_a_closed_channel(
    archive, copier, make_post, ours, closed, order
):
    async def seen():
        known = await near_duplicates.fetch_copies(archive, [PostKey(chat, n) for chat, n, _, _ in ours], {A, B})
        apart = len({one.family for one in known.values()}) > 1
        return {key: [copy.key for copy in one.all] for key, one in known.items()}, apart

    def made(some):
        return [
            replace(make_post(n, text, chat=chat), date=make_post(1, "").date + timedelta(days=days))
            for chat, n, text, days in some
        ]

    await keep(archive, copier, *made(ours))
    alone = await seen()
    await channels.remove_channel(archive, A)
    await channels.remove_channel(archive, B)
    await channels.purge_removed_posts(archive, await posts.get_last_seq(archive))
    for chat_id in (A, B):
        await channels.save_channel(archive, Channel(chat_id, f"Channel {chat_id}"))
    mine, theirs = made(ours), made(closed)
    rows = {"ours first": mine + theirs, "closed first": theirs + mine, "between": [mine[0], *theirs, *mine[1:]]}
    for post in rows[order]:
        await keep(archive, copier, post)
    assert await seen() == alone


async def test_a_text_that_goes_takes_what_was_known_of_it_along(archive, copier, make_post):
    await keep(
        archive, copier, make_post(1, BRIDGE, chat=A), make_post(1, LONGER, chat=B), make_post(2, LONGER, chat=C)
    )
    assert len(await archive.rows("SELECT * FROM near_texts")) == 2
    await posts.mark_posts_deleted(archive, [PostKey(B, 1)], how="test")
    await copier.catch_up()
    assert await families(archive) == {keys((A, 1), (C, 2))}
    await posts.mark_posts_deleted(archive, [PostKey(C, 2)], how="test")
    await copier.catch_up()
    assert not await archive.rows("SELECT * FROM near_texts")
