from __future__ import annotations

import gzip
import json
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import ingest.copies
from ingest.copies import CopyIndexer
from rag_core.doors.archive import Archive, channels, copies, posts
from rag_core.types import Channel, Entity, Origin, Post, PostKey

sys.path.insert(0, str(Path(__file__).parents[1]))  # the bench knows itself as bench.*

from bench import corpus

A, B, C = -1001, -1002, -1003
BRIDGE = "Мост через Оку закрыт на ремонт до 5 мая, объезд по Полевой улице."
LONGER = f"{BRIDGE} Причины уточняются."
HOUR = timedelta(hours=1)

MakePost = Callable[..., Post]


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[Archive]:
    archive = await Archive.open(tmp_path / "data")
    for chat_id in (A, B, C):
        await channels.put(archive, Channel(chat_id, f"Channel {chat_id}"))
    yield archive
    await archive.close()


@pytest.fixture
def copier(archive: Archive) -> CopyIndexer:
    return CopyIndexer(archive)


async def keep(archive: Archive, copier: CopyIndexer, *kept: Post) -> None:
    await posts.keep(archive, kept, source="live")
    await copier.catch_up()


async def families(archive: Archive) -> set[frozenset[PostKey]]:
    """The families of more than one, as the tables have them."""
    found = defaultdict(set)
    for row in await archive.rows("SELECT chat_id, message_id, family FROM copies"):
        found[row["family"]].add(PostKey(row["chat_id"], row["message_id"]))
    return {frozenset(keys) for keys in found.values() if len(keys) > 1}


def keys(*pairs: tuple[int, int]) -> frozenset[PostKey]:
    return frozenset(PostKey(*pair) for pair in pairs)


async def test_exact_and_near_copies_of_a_post_are_one_family_and_a_changed_fact_is_not(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
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


async def test_an_edit_moves_a_post_and_a_tombstone_takes_it_out(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
    one, two, three = (make_post(1, BRIDGE, chat=chat) for chat in (A, B, C))
    await keep(archive, copier, one, two, three)
    later = one.date + HOUR
    await keep(archive, copier, replace(two, text=BRIDGE.replace("5", "6"), edited=later))
    assert await families(archive) == {keys((A, 1), (C, 1))}
    await keep(archive, copier, replace(one, text=BRIDGE.replace("5", "6"), edited=later))
    assert await families(archive) == {keys((A, 1), (B, 1))}
    await posts.erase(archive, [two.key], how="test")
    await posts.suspect(archive, [three.key])
    assert await copier.catch_up() == 2
    assert await families(archive) == set()
    assert [tuple(row) for row in await archive.rows("SELECT chat_id, message_id FROM copies")] == [(A, 1)]
    await keep(archive, copier, replace(two, text=BRIDGE.replace("5", "6"), edited=later + HOUR))
    assert await families(archive) == {keys((A, 1), (B, 1))}


async def test_after_a_crash_it_goes_on_and_nothing_is_twice(
    archive: Archive, copier: CopyIndexer, make_post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest.copies, "_BATCH", 10)
    kept = [make_post(n, BRIDGE.replace("5", str(n % 7)), chat=chat) for chat in (A, B) for n in range(1, 26)]
    await posts.keep(archive, kept, source="live")

    def dies(done: int) -> None:
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


async def test_a_mark_that_somebody_else_moved_is_not_moved_back(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
    await keep(archive, copier, make_post(1, BRIDGE, chat=A))
    before = await copies.begin(archive, ingest.copies.RECIPE)
    await keep(archive, copier, make_post(2, BRIDGE, chat=B))
    stale = replace(before, watermark=before.watermark + 100)
    assert not await copies.put(archive, before, stale, [], [PostKey(A, 1)])
    assert await families(archive) == {keys((A, 1), (B, 2))}


async def test_another_recipe_begins_anew(
    archive: Archive, copier: CopyIndexer, make_post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(archive, copier, make_post(1, BRIDGE, chat=A), make_post(1, BRIDGE, chat=B))
    monkeypatch.setattr(ingest.copies, "RECIPE", "another")
    assert await copier.waiting() == 2
    assert await copier.catch_up() == 2
    assert await families(archive) == {keys((A, 1), (B, 1))}


async def test_words_about_today_are_copies_on_the_same_day_only(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
    closed = "Сегодня мост через Оку закрыт на ремонт, объезд по Полевой улице."
    await keep(
        archive,
        copier,
        *(make_post(day, closed, chat=chat, days=day) for day in (1, 8) for chat in (A, B)),
        # a forward is as old as its post
        make_post(20, closed, chat=C, days=8, origin=Origin("A", A, 1, make_post(1, "", days=1).date)),
    )
    assert await families(archive) == {keys((A, 1), (B, 1), (C, 20)), keys((A, 8), (B, 8))}


async def test_nearly_the_same_weeks_later_is_another_event(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
    fire, more = (
        "Кадры тушения большого пожара на складе в Москве",
        "Новые кадры тушения большого пожара на складе в Москве",
    )
    await keep(archive, copier, make_post(1, fire, chat=A), make_post(2, more, chat=B, days=1))
    assert await families(archive) == {keys((A, 1), (B, 2))}
    await keep(archive, copier, make_post(3, fire, chat=C, days=300), make_post(4, f"{more} сняты", chat=C, days=30))
    assert await families(archive) == {keys((A, 1), (B, 2), (C, 3))}


async def test_albums_count_once_and_hidden_links_tell_signatures(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
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


async def test_a_channel_that_is_removed_for_good_takes_its_rows_along(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
    await keep(archive, copier, make_post(1, BRIDGE, chat=A), make_post(1, BRIDGE, chat=B))
    await posts.remove_channel(archive, A)
    await posts.purge(archive, await posts.last_seq(archive))
    assert [row[0] for row in await archive.rows("SELECT chat_id FROM copies")] == [B]
    await copier.catch_up()
    await keep(archive, copier, make_post(2, BRIDGE, chat=C))
    assert await families(archive) == {keys((B, 1), (C, 2))}


async def known(archive: Archive, key: tuple[int, int], *may_read: int) -> list[PostKey] | None:
    found = (await copies.known(archive, [PostKey(*key)], may_read)).get(PostKey(*key))
    return [one.key for one in found.all] if found else None


async def test_only_what_may_be_read_now_is_told_the_earliest_of_each_channel(
    archive: Archive, copier: CopyIndexer, make_post: MakePost
) -> None:
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
    await posts.erase(archive, [PostKey(B, 1)], how="test")
    await posts.suspect(archive, [PostKey(C, 4)])
    changed = make_post(3, BRIDGE.replace("5", "6"), chat=A, days=3, edited=make_post(1, "", days=4).date)
    await posts.keep(archive, [changed], source="live")
    assert await known(archive, (B, 2), A, B, C) == [(B, 2)]
    assert await known(archive, (A, 3), A, B, C) is None
    assert await known(archive, (A, 99), A, B, C) is None


async def test_the_copies_among_real_channels_are_found(
    archive: Archive, copier: CopyIndexer, shared_data: Path
) -> None:
    folder = shared_data / "tg_ru_news"
    across = [
        [key_of(i) for i in group["ids"]]
        for group in map(json.loads, (folder / "exact_duplicates.jsonl").read_text("utf-8").splitlines())
        if group["channels"] > 1
    ]
    wanted = {key for group in across for key in group}
    with gzip.open(folder / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for n, row in enumerate(map(json.loads, lines)) if n % 4 == 0 or key_of(row["id"]) in wanted]
    await keep(archive, copier, *(Post(key_of(r["id"]), datetime.fromisoformat(r["date"]), r["text"]) for r in rows))
    found = await families(archive)
    whole = [group for group in across if any(family.issuperset(group) for family in found)]
    assert len(across) == 125
    assert len(whole) >= 0.99 * len(across)


def key_of(row_id: str) -> PostKey:
    _, chat, message = row_id.split("-")
    return PostKey(-int(chat), int(message))


async def test_of_invented_posts_every_copy_is_found_and_nothing_else_in_time(
    archive: Archive, copier: CopyIndexer
) -> None:
    size = 6000
    invented = corpus.make(size)
    kept = list(invented.posts(0, size))
    await posts.keep(archive, kept, source="import")
    started = time.process_time()
    assert await copier.catch_up() == size
    per_second = size / (time.process_time() - started)
    assert await families(archive) == set(copied(invented, range(size)))
    # 3000 and more where nothing else runs; processor time, for a machine that others use too
    assert per_second > 1500
    await posts.keep(archive, [replace(kept[0], key=PostKey(A, 1), date=datetime.now(UTC))], source="live")
    started = time.process_time()
    assert await copier.catch_up() == 1
    assert time.process_time() - started < 0.1


def copied(invented: corpus.Corpus, numbers: Iterable[int]) -> list[frozenset[PostKey]]:
    """The posts that have the same words: copies, and what chance made so."""
    same = defaultdict(set)
    for n in numbers:
        same[invented.text(n).lower()].add(invented.frame.key(n))
    return [frozenset(group) for group in same.values() if len(group) > 1]


async def test_a_copy_that_is_taken_in_while_copies_are_asked_for_is_known_as_well(
    archive: Archive, copier: CopyIndexer, make_post: MakePost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(archive, copier, make_post(1, BRIDGE, chat=A))
    await posts.keep(archive, [make_post(1, BRIDGE, chat=B)], source="live")
    rows = archive.rows

    async def meanwhile(sql: str, parameters: Iterable[object] = ()) -> object:
        found = await rows(sql, parameters)
        monkeypatch.undo()
        await copier.catch_up()
        return found

    monkeypatch.setattr(archive, "rows", meanwhile)
    both = {PostKey(A, 1), PostKey(B, 1)}
    known = await copies.known(archive, both, {A, B})
    assert {key: {one.key for one in found.all} for key, found in known.items()} == dict.fromkeys(both, both)
