import random
from datetime import timedelta

import pytest
from fake_mtproto_server import CHANNEL, CHAT_ID, START, flood, make_message
from telethon import errors, types

from ingest.history import BackfillRunner, PacedSource, begin_gap_backfills, find_newest_id
from ingest.mtproto import FloodWait, NoAccess
from rag_core.errors import HistoryUnavailable
from rag_core.storage import channel_history, channels, posts
from rag_core.types import Channel


async def run_to_end(archive, source):
    runner = BackfillRunner(archive, source, lambda: None)
    for _ in range(200):
        if not await runner.run_once():
            return
    raise AssertionError("it never ends")


async def test_every_post_comes_once_and_the_newest_first(approved, source, server):
    holes = set(random.Random(7).sample(range(1, 1200), 400)) | set(range(600, 850))
    server.post(*(set(range(1, 1200)) - holes))
    await channel_history.begin_backfill(approved, CHAT_ID)
    runner = BackfillRunner(approved, source, lambda: None)
    await runner.run_once()  # looks for the newest id
    await runner.run_once()
    first = await posts.list_message_ids(approved, CHAT_ID)
    assert first and min(first) > 1000
    await run_to_end(approved, source)
    assert await posts.list_message_ids(approved, CHAT_ID) == set(server.messages)
    job = (await channel_history.list_backfills(approved))[CHAT_ID]
    assert (job.state, job.saved, job.share) == ("done", len(server.messages), 1.0)


@pytest.mark.parametrize("newest", [1, 99, 100, 101, 5000])
@pytest.mark.parametrize("known", [0, 1])
async def test_the_newest_id_is_found_by_doubling(source, server, newest, known):
    server.post(*range(1, newest + 1))
    assert await find_newest_id(source, CHAT_ID, known) == newest
    assert len(server.requests) < 40


async def test_nothing_is_saved_of_a_channel_that_was_removed_meanwhile(approved, source, server):
    server.post(*range(1, 301))
    await channel_history.begin_backfill(approved, CHAT_ID)
    job = (await channel_history.list_backfills(approved))[CHAT_ID]
    await channels.remove_channel(approved, CHAT_ID)
    assert await channel_history.list_backfills(approved) == {}
    assert await channel_history.save_batch(approved, job.chat_id, [], 100) is None
    assert not await channel_history.begin_backfill(approved, CHAT_ID)
    assert await posts.list_message_ids(approved, CHAT_ID) == set()


async def test_only_posts_from_a_date_on_are_fetched(approved, source, server):
    server.post(*range(1, 1001))
    await channel_history.begin_backfill(approved, CHAT_ID, START + timedelta(minutes=750))
    await run_to_end(approved, source)
    assert await posts.list_message_ids(approved, CHAT_ID) == set(range(750, 1001))
    assert min(one for ids in server.requests for one in ids if len(ids) == 100 and ids[0] - ids[-1] == 99) > 600


async def test_a_flood_wait_is_slept_through_and_nothing_is_asked_meanwhile(approved, client, server):
    now = [1000.0]
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds
        if seconds > 5:
            server.problem = None

    client._clock = lambda: now[0]
    server.post(*range(1, 101))
    server.problem = flood(30)
    found = await PacedSource(client, sleep=sleep).get_messages(CHAT_ID, [1, 2, 3])
    assert len(found.messages) == 3
    assert slept[0] == pytest.approx(30)
    server.problem = flood(30)
    with pytest.raises(FloodWait):
        await client.get_messages(CHAT_ID, [1])
    server.problem, asked = None, len(server.requests)
    now[0] += 29
    with pytest.raises(FloodWait, match="1 s"):
        await client.get_messages(CHAT_ID, [1])
    assert len(server.requests) == asked
    now[0] += 1
    await client.get_messages(CHAT_ID, [1])


async def test_lost_access_fails_the_backfill_with_a_sentence_and_another_trouble_does_not(approved, source, server):
    runner = BackfillRunner(approved, source, lambda: None)
    server.problem = errors.ChannelPrivateError(None)
    await channel_history.begin_backfill(approved, CHAT_ID)
    assert await runner.run_once() == 0
    job = (await channel_history.list_backfills(approved))[CHAT_ID]
    assert job.state == "failed"
    assert "administrator" in job.problem
    await channel_history.begin_backfill(approved, CHAT_ID)
    for problem in (ConnectionError("gone"), errors.TypeNotFoundError(0x20B1422, b"")):
        server.problem = problem
        with pytest.raises(HistoryUnavailable, match=type(problem).__name__):
            await runner.run_once()
    server.problem = None
    server.post(1)
    await run_to_end(approved, source)
    assert await posts.list_message_ids(approved, CHAT_ID) == {1}


async def test_a_day_without_the_bot_is_filled_from_its_beginning(approved, source, server):
    server.post(*range(1, 3001))
    await posts.save_posts(approved, await read(source, range(900, 1000)), source="live")
    since, until = START + timedelta(minutes=999), START + timedelta(minutes=2999)
    await approved.execute("UPDATE channels SET joined_at = 1")
    await channel_history.note_outage_gaps(approved, since, until)
    assert await begin_gap_backfills(approved) == 1
    await run_to_end(approved, source)
    assert await posts.list_message_ids(approved, CHAT_ID) == set(range(900, 3001))
    assert await channel_history.list_open_gaps(approved) == {}


async def test_a_channel_that_shows_nothing_closes_no_gap(approved, source, server):
    server.silent = True
    await channel_history.note_gap_before_joining(approved, CHAT_ID)
    await begin_gap_backfills(approved)
    await run_to_end(approved, source)
    assert await channel_history.list_open_gaps(approved)
    assert await begin_gap_backfills(approved) == 0


async def test_groups_and_waiting_channels_are_not_filled_by_themselves(approved):
    for chat_id, kind, state in ((-1001, "supergroup", "active"), (-1002, "channel", "pending")):
        await channels.save_channel(approved, Channel(chat_id, "x", kind=kind, state=state))
        await channels.record_bot_joined(approved, chat_id)
        await channel_history.note_gap_before_joining(approved, chat_id)
    assert await begin_gap_backfills(approved) == 0


async def test_the_session_is_signed_in_once_and_only_its_owner_may_read_it(client, server, tmp_path):
    server.post(1)
    await client.get_messages(CHAT_ID, [1])
    await client.close()
    await client.get_messages(CHAT_ID, [1])
    assert server.sign_ins == 1
    (file,) = tmp_path.glob("history-*.session")
    assert file.stat().st_mode & 0o777 == 0o600
    server.problem = errors.AuthKeyUnregisteredError(None)
    with pytest.raises(HistoryUnavailable, match="HISTORY__API_ID"):
        await client.get_messages(CHAT_ID, [1])
    assert not file.exists()


async def test_a_basic_group_is_refused_with_a_sentence(client):
    with pytest.raises(NoAccess, match="supergroup"):
        await client.get_messages(-42, [1])


async def read(source, ids):
    from ingest.history import convert_messages

    return convert_messages(await source.get_messages(CHAT_ID, ids), CHANNEL)


async def test_service_messages_and_unknown_ones_are_no_posts(approved, source, server):
    server.post(1, 2, 3)
    server.messages[2] = types.MessageService(
        2, types.PeerChannel(1), START, types.MessageActionChannelCreate(title="Пекарня")
    )
    server.messages[3] = make_message(3, media=types.MessageMediaUnsupported())
    assert [post.key.message_id for post in await read(source, range(1, 4))] == [1]
