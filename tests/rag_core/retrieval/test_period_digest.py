"""Digests of a period: one line for a subject, and over real channels no two lines of one event."""

import gzip
import json
from datetime import UTC, datetime, timedelta

import pytest
from sample_sizes import choose_size

from ingest.copies import CopyIndexer
from rag_core.retrieval.digests import MAX_DIGEST_LINES, build_period_digest
from rag_core.storage import Archive, channels, posts
from rag_core.types import Channel, Post, PostKey

MONDAY = datetime(2024, 11, 18, tzinfo=UTC)


async def save(archive, written):
    for chat in {post.key.chat_id for post in written}:
        await channels.save_channel(archive, Channel(chat, f"Channel {chat}", f"channel{-chat}"))
    await posts.save_posts(archive, written, source="test")
    await CopyIndexer(archive).catch_up()


@pytest.fixture
async def archive(tmp_path):
    archive = await Archive.open(tmp_path)
    yield archive
    await archive.close()


async def digest(archive, *chats):
    return await build_period_digest(archive, chats, MONDAY, MONDAY + timedelta(days=7))


async def test_further_posts_about_a_subject_are_counted_and_not_quoted(archive):
    texts = [
        "The bridge over the Drava at Mlinska is closed after a barge hit its pillar. Divers look at it today.",
        "The harbour library opens a reading room for children on the second floor next to the atlas hall.",
        "Divers found cracks: the bridge over the Drava at Mlinska stays closed for a week after the barge.",
        "Potters sell their bowls and jugs on the square before the town hall until the evening.",
    ]
    days = (0, 0, 0, 0, 3)
    texts.append("The bridge over the Drava at Mlinska is open for cyclists; cars wait until the divers are done.")
    written = [
        Post(PostKey(-1001, n), MONDAY + timedelta(days=day, hours=n), text)
        for n, (day, text) in enumerate(zip(days, texts, strict=True))
    ]
    await save(archive, written)
    lines = await digest(archive, -1001)
    # three days later is another event
    assert {line.post.key.message_id: len(line.related) for line in lines} in (
        {0: 1, 1: 0, 3: 0, 4: 0},
        {2: 1, 1: 0, 3: 0, 4: 0},
    )


async def test_no_news_has_no_line_and_a_subject_counts_all_its_channels(archive):
    texts = {
        (-1001, 0): "Rates of the harbour exchange today: a crown costs 97 pence, a florin 12 pence.",
        (-1001, 1): "Rates of the harbour exchange today: a crown costs 98 pence, a florin 14 pence.",
        (-1001, 2): "Who took the green rowing boat from the landing stage behind the smithy last night?",
        (-1001, 3): "The new bakery on Reed Lane has honey cakes for half the price, erid=2VtzqwmAG49",
        (
            -1001,
            4,
        ): "The goats of Upper Mill went shopping in the village store this morning \N{FACE WITH TEARS OF JOY}",
        (-1001, 5): "And here is another view of the flooded orchard from the tower of the chapel.",
        (-1001, 6): "The orchestra of bellringers has moved into the barn of the former sawmill.",
        (-1001, 7): "The regatta on Lake Sorin was cancelled because of the algae that cover the northern shore.",
        (-1002, 8): "No boats on Lake Sorin this year: its regatta falls victim to algae along the shore.",
    }
    written = [
        Post(PostKey(chat, number), MONDAY + timedelta(hours=number), text) for (chat, number), text in texts.items()
    ]
    await save(archive, written)
    lines = await digest(archive, -1001, -1002)
    alone = await digest(archive, -1001)
    assert [(line.channels, len(line.related)) for line in lines] == [(2, 1), (1, 0)]
    assert [line.post.key.message_id for line in lines][1:] == [6]
    # who may not read the other channel sees nothing of it
    assert {(line.post.key.message_id, line.channels, line.changed) for line in alone} == {(7, 1, True), (6, 1, False)}


async def test_a_heading_of_every_post_is_no_column_and_columns_alone_are_shown(archive):
    events = ("The ferry pier closes for repairs until Monday.", "A walrus sleeps beside the fish market of the port.")
    written = [
        *(
            Post(PostKey(-1001, n), MONDAY + timedelta(hours=n), f"Harbour News\n\n{text}")
            for n, text in enumerate(events)
        ),
        *(
            Post(PostKey(-1002, n), MONDAY + timedelta(hours=n), f"Depth of the river today: {n} metres.")
            for n in (2, 3)
        ),
    ]
    await save(archive, written)
    headed, columns, both = [await digest(archive, *chats) for chats in ((-1001,), (-1002,), (-1001, -1002))]
    assert {line.quote for line in headed} == {line.quote for line in both} == set(events)
    assert columns


@pytest.mark.slow
async def test_lines_of_real_weeks_are_of_that_week_and_differ(shared_data, archive):
    folder = shared_data / "tg_ru_news"
    weeks = [MONDAY + timedelta(days=7 * n) for n in range(2)]
    with gzip.open(folder / "posts.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    dates = {row["id"]: datetime.fromisoformat(row["date"]) for row in rows}
    rows = [row for row in rows if weeks[0] <= dates[row["id"]] < weeks[-1] + timedelta(days=7)][:: choose_size(1, 3)]
    key_of = {
        row["id"]: PostKey(*(-int(part) if n == 0 else int(part) for n, part in enumerate(row["id"].split("-")[1:])))
        for row in rows
    }
    families = [
        {key_of[one] for one in json.loads(line)["ids"] if one in key_of}
        for line in (folder / "exact_duplicates.jsonl").read_text("utf-8").splitlines()
    ]
    await save(archive, [Post(key_of[row["id"]], dates[row["id"]], row["text"]) for row in rows])
    known = await channels.load_channels(archive)
    for since in weeks:
        until = since + timedelta(days=7)
        lines = await build_period_digest(archive, known, since, until)
        assert len(lines) == MAX_DIGEST_LINES
        assert all(since <= line.post.date < until for line in lines)
        assert all(line.quote in line.post.text for line in lines)
        assert [line.channels for line in lines] == sorted((line.channels for line in lines), reverse=True)
        shown = {line.post.key for line in lines}
        assert all(len(shown & family) <= 1 for family in families)
        assert any(line.related for line in lines)
