"""Looks at posts: what is gone goes, what is edited is new, and what is doubtful stays."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from fake_mtproto_server import CHAT_ID, START, flood, make_message
from telethon import errors

from ingest.history import BackfillRunner, look_before_citing, sweep_channels
from ingest.outages import AdminNotice
from rag_core.storage import channel_history, channels, posts, visible_posts
from rag_core.types import PostKey

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1, minutes=20)


@pytest.fixture(autouse=True)
def count_hours_from_now():
    """Posts are looked at by the real clock: hours count from the test's beginning, not from this file's import."""
    global NOW
    NOW = datetime.now(UTC)


class Admins(list[AdminNotice]):
    async def __call__(self, notice):
        self.append(notice)
        return True


@pytest.fixture
def admins():
    return Admins()


@pytest.fixture
async def filled(approved, source, server):
    """The channel's 400 posts, all fetched from the history."""
    server.post(*range(1, 401))
    await channel_history.begin_backfill(approved, CHAT_ID)
    while await BackfillRunner(approved, source, lambda: None).run_once():
        pass
    assert await posts.count_posts(approved, CHAT_ID) == 400
    return approved


async def sweep_hours(archive, source, admins, hours):
    for hour in hours:
        await sweep_channels(archive, source, admins, NOW + hour * HOUR)


async def list_first_due(archive):
    """The hundred posts of the first sweep: those that were fetched first, which depends on the second's end."""
    return await channel_history.list_due_ids(archive, CHAT_ID, NOW + HOUR)


async def test_a_deleted_post_goes_and_an_edited_one_is_new(filled, source, server, admins):
    del server.messages[390]
    server.messages[391] = make_message(391, "Хлеб подорожал", edit_date=START + timedelta(days=1))
    server.requests.clear()
    await sweep_hours(filled, source, admins, range(1, 5))  # 400 posts, a hundred in each sweep
    assert await posts.list_message_ids(filled, CHAT_ID) == set(range(1, 401)) - {390}
    shown = await visible_posts.fetch_posts(filled, [PostKey(CHAT_ID, 391), PostKey(CHAT_ID, 390)])
    assert {key.message_id: post.text for key, post in shown.items()} == {391: "Хлеб подорожал"}
    assert [v.text for v in await posts.list_post_versions(filled, PostKey(CHAT_ID, 391))] == ["Хлеб 391 рублей"]
    assert {one for ids in server.requests for one in ids} == set(range(1, 401))  # and so every one within a week
    assert not admins


async def test_recent_posts_are_looked_at_in_every_sweep(approved, source, server, admins):
    server.post(*range(1, 1001))
    server.post(1001, date=NOW - timedelta(hours=5))
    await channel_history.begin_backfill(approved, CHAT_ID)
    while await BackfillRunner(approved, source, lambda: None).run_once():
        pass
    for hour in range(1, 4):
        server.requests.clear()
        await sweep_hours(approved, source, admins, range(hour, hour + 1))
        asked = [one for ids in server.requests for one in ids]
        assert 1001 in asked
        assert len(asked) <= 110


async def test_many_deletions_wait_for_a_second_look_and_the_admins_are_told(filled, source, server, admins):
    for number in (await list_first_due(filled))[:60]:
        del server.messages[number]
    await sweep_hours(filled, source, admins, range(1, 2))
    assert await posts.count_posts(filled, CHAT_ID) == 400
    (notice,) = admins
    assert (notice.channel.chat_id, notice.count) == (CHAT_ID, 60)
    assert (await channel_history.count_history(filled, NOW))[CHAT_ID].missing == 60
    await sweep_hours(filled, source, admins, range(2, 3))
    assert await posts.list_message_ids(filled, CHAT_ID) == set(server.messages)
    assert len(admins) == 1


@pytest.mark.parametrize(("deleted", "left"), [(20, 380), (21, 400)])
async def test_a_twentieth_of_a_channel_may_go_at_the_first_look(filled, source, server, admins, deleted, left):
    for number in (await list_first_due(filled))[:deleted]:
        del server.messages[number]
    await sweep_hours(filled, source, admins, range(1, 2))
    assert await posts.count_posts(filled, CHAT_ID) == left


async def test_a_twentieth_may_go_in_a_day_not_in_each_look(filled, source, server, admins):
    for number in (await list_first_due(filled))[:15]:
        del server.messages[number]
    await sweep_hours(filled, source, admins, range(1, 2))
    second = await channel_history.list_due_ids(filled, CHAT_ID, NOW + 2 * HOUR)
    for number in second[:15]:
        del server.messages[number]
    await sweep_hours(filled, source, admins, range(2, 3))
    assert await posts.count_posts(filled, CHAT_ID) == 385


async def test_what_comes_back_before_the_second_look_stays(filled, source, server, admins):
    gone = {number: server.messages.pop(number) for number in (await list_first_due(filled))[:70]}
    await sweep_hours(filled, source, admins, range(1, 2))
    server.messages |= gone
    await sweep_hours(filled, source, admins, range(2, 8))
    assert await posts.count_posts(filled, CHAT_ID) == 400
    assert await channel_history.count_history(filled, NOW) == {}


@pytest.mark.parametrize(
    "problem", [errors.ChannelPrivateError(None), ConnectionError(), errors.RPCError(None, "ODD", 500), None]
)
async def test_lost_access_an_error_and_a_silent_server_take_out_nothing(filled, source, server, admins, problem):
    server.problem, server.silent = problem, problem is None
    await sweep_hours(filled, source, admins, range(1, 17))
    assert await posts.count_posts(filled, CHAT_ID) == 400
    assert not await look_before_citing(filled, source.source, [PostKey(CHAT_ID, 5)])
    assert await posts.count_posts(filled, CHAT_ID) == 400


async def test_an_id_that_a_reply_leaves_out_takes_out_nothing(filled, source, server, admins):
    server.terse = True
    del server.messages[100]
    await sweep_hours(filled, source, admins, range(1, 9))
    assert await posts.count_posts(filled, CHAT_ID) == 400
    server.terse = False
    await sweep_hours(filled, source, admins, range(9, 21))
    assert await posts.list_message_ids(filled, CHAT_ID) == set(server.messages)


async def test_deletions_are_undone_for_a_week_and_stay_undone(filled, source, server, admins):
    kept = server.messages.pop(100)
    await sweep_hours(filled, source, admins, range(1, 5))
    assert (await channel_history.count_history(filled, NOW))[CHAT_ID].deleted == 1
    assert await channel_history.undo_deletions(filled, CHAT_ID, NOW + timedelta(days=8)) == 0
    assert await channel_history.undo_deletions(filled, CHAT_ID, NOW) == 1
    await sweep_hours(filled, source, admins, range(5, 15))
    assert await posts.count_posts(filled, CHAT_ID) == 400
    server.messages[100] = kept


async def test_a_group_and_a_channel_without_the_bot_are_not_swept(filled, source, server, admins):
    await channels.record_bot_left(filled, CHAT_ID)
    server.requests.clear()
    await sweep_hours(filled, source, admins, range(1, 5))
    assert server.requests == []


async def forget_looks(archive):
    await archive.execute("UPDATE post_looks SET looked_at = 0")


async def test_a_post_is_looked_at_before_it_is_cited_unless_it_was_within_the_hour(filled, client, server):
    server.requests.clear()
    del server.messages[7]
    key = PostKey(CHAT_ID, 7)
    assert not await look_before_citing(filled, client, [key])
    assert server.requests == []
    await forget_looks(filled)
    assert await look_before_citing(filled, client, [key, PostKey(CHAT_ID, 8)])
    assert await visible_posts.fetch_posts(filled, [key]) == {}
    assert not await look_before_citing(filled, client, [PostKey(CHAT_ID, 8)])


async def test_the_look_before_citing_waits_neither_for_a_flood_nor_for_a_slow_reply(
    filled, client, server, monkeypatch
):
    await forget_looks(filled)
    server.problem = flood(30)
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert not await look_before_citing(filled, client, [PostKey(CHAT_ID, 7)])
    server.requests.clear()
    assert not await look_before_citing(filled, client, [PostKey(CHAT_ID, 7)])
    assert server.requests == []
    client._quiet_until, server.problem = 0.0, None

    async def never(_):
        await asyncio.sleep(60)

    monkeypatch.setattr(server, "answer", never)
    assert not await look_before_citing(filled, client, [PostKey(CHAT_ID, 7)])
    assert loop.time() - started < 5
