import asyncio
from functools import partial

import pytest
from driver import ADMIN, OTTO, ask_until, buttons, current, open_archive, press, query_archive, say
from fake_mtproto_server import CHAT_ID, GROUP_ID, make_message, save_bakery, serve

from bot import jobs
from bot.handlers import channels as handlers
from ingest.history import PacedSource
from rag_core.storage import channel_history, posts

ON = {"history": {"api_id": 1, "api_hash": "hash"}}


@pytest.fixture
def server(monkeypatch):
    """Telegram below the client library, asked without pauses."""
    quick = partial(PacedSource, sleep=lambda seconds: asyncio.sleep(min(seconds, 0.05)))
    monkeypatch.setattr(jobs, "PacedSource", quick)
    monkeypatch.setattr(handlers, "_UPDATE_SECONDS", 0.05)
    return serve(monkeypatch)


@pytest.fixture
async def bakery(home, sandbox):
    await query_archive(home, save_bakery)
    sandbox.world.add_channel(CHAT_ID, "Bakery", "bakery", members=[ADMIN])
    return home


async def open_history(sandbox, title="Bakery"):
    asked = await say(sandbox, ADMIN, "/channels")
    await press(sandbox, asked, title, ADMIN)
    await press(sandbox, asked, "Older posts…", ADMIN)
    return asked


async def says(sandbox, message, words):
    return await sandbox.until(lambda: words in current(sandbox, message)["text"], 30)


async def test_an_admin_sees_the_size_begins_and_watches_and_readers_find_the_posts(sandbox, live, bakery, server):
    server.post(*range(1, 251))
    server.messages[40] = make_message(40, "The sourdough starter lives in the blue jar.")
    async with live(sections=ON):
        asked = await open_history(sandbox)
        assert await says(sandbox, asked, "Bakery has at most 250 posts.")
        assert list(buttons(current(sandbox, asked)))[:3] == [
            "Fetch all of them",
            "Only the last year",
            "Only the last 30 days",
        ]
        await press(sandbox, asked, "Fetch all of them", ADMIN)
        assert await says(sandbox, asked, "Bakery: done, 250 posts fetched.")
        question = "Where does the sourdough starter live?"
        await ask_until(sandbox, OTTO, question, "blue jar")
        stats = await say(sandbox, ADMIN, "/stats")
        assert "earlier posts" not in stats["text"]


async def test_what_was_deleted_is_not_cited_and_what_was_edited_is_cited_as_it_is_now(sandbox, live, bakery, server):
    server.post(*range(1, 51))
    server.messages[40] = make_message(40, "The sourdough starter lives in the blue jar.")
    server.messages[41] = make_message(41, "The rye oven is lit by Tamara at dawn.")
    async with live(sections=ON):
        asked = await open_history(sandbox)
        assert await says(sandbox, asked, "Bakery has at most")
        await press(sandbox, asked, "Fetch all of them", ADMIN)
        assert await says(sandbox, asked, "done, 50 posts")
        await ask_until(sandbox, OTTO, "Who lights the rye oven?", "Tamara")
        await query_archive(bakery, lambda archive: archive.execute("UPDATE post_looks SET looked_at = 0"))
        del server.messages[40]
        server.messages[41] = make_message(41, "The rye oven is lit by Gleb at dawn.", edit_date=make_message(99).date)
        assert "blue jar" not in (await say(sandbox, OTTO, "Where does the sourdough starter live?"))["text"]
        assert "Tamara" not in (await say(sandbox, OTTO, "Who lights the rye oven?"))["text"]
        await ask_until(sandbox, OTTO, "Who lights the rye oven?", "Gleb")
        shown = await open_history(sandbox)
        await says(sandbox, shown, "Bakery has at most")
        await press(sandbox, shown, "Put 1 deleted post back", ADMIN)
    assert await query_archive(bakery, lambda archive: posts.count_posts(archive, CHAT_ID)) == 50


async def test_a_backfill_is_paused_resumed_and_cancelled_with_its_buttons(sandbox, live, bakery, server, monkeypatch):
    server.post(*range(1, 3001))
    async with live(sections=ON):
        asked = await open_history(sandbox)
        assert await says(sandbox, asked, "at most 3,000 posts")
        held = asyncio.Event()
        answer = server.answer

        async def wait(request):
            await held.wait()
            return await answer(request)

        monkeypatch.setattr(server, "answer", wait)
        await press(sandbox, asked, "Only the last year", ADMIN)
        await press(sandbox, asked, "Pause", ADMIN)
        assert await says(sandbox, asked, "Bakery: paused at 0%")
        await press(sandbox, asked, "Resume", ADMIN)
        assert await says(sandbox, asked, "Bakery: 0% fetched, 0 posts so far.")
        await press(sandbox, asked, "Cancel", ADMIN)
        assert await says(sandbox, asked, "Bakery: stopped at 0%.")
        held.set()
        await asyncio.sleep(0.2)
    assert await query_archive(bakery, lambda archive: posts.count_posts(archive, CHAT_ID)) == 0


async def test_after_a_restart_the_same_message_shows_the_rest(sandbox, live, bakery, server, monkeypatch):
    server.post(*range(1, 251))
    async with live(sections=ON):
        asked = await open_history(sandbox)
        assert await says(sandbox, asked, "at most 250 posts")
        with monkeypatch.context() as silent:
            silent.setattr(server, "answer", lambda request: asyncio.Event().wait())
            await press(sandbox, asked, "Fetch all of them", ADMIN)
            assert await says(sandbox, asked, "Bakery: 0% fetched")
            await asyncio.sleep(0.1)
    async with live(sections=ON):
        assert await says(sandbox, asked, "Bakery: done, 250 posts fetched.")


async def test_the_gap_of_a_new_channel_closes_by_itself(sandbox, live, bakery, server):
    server.post(*range(1, 121))
    await query_archive(bakery, lambda archive: channel_history.note_gap_before_joining(archive, CHAT_ID))
    async with live(sections=ON), asyncio.timeout(40), open_archive(bakery) as archive:
        while (await channel_history.list_open_gaps(archive)).get(CHAT_ID):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await query_archive(bakery, lambda archive: posts.count_posts(archive, CHAT_ID)) == 120


async def test_a_group_is_told_before_its_history_is_read(sandbox, live, bakery, server):
    server.post(*range(1, 11))
    async with live(sections=ON):
        asked = await open_history(sandbox, "Bakers")
        assert await says(sandbox, asked, "Bakers has at most 10 posts")
        unreached = await press(sandbox, asked, "Fetch all of them", ADMIN)
        assert "cannot write to this group" in unreached
        assert GROUP_ID not in await query_archive(bakery, channel_history.list_backfills)
        sandbox.world.add_group(GROUP_ID, "Bakers", members=[ADMIN])
        await press(sandbox, asked, "Fetch all of them", ADMIN)
        assert await says(sandbox, asked, "done, 10 posts")
        told = [one["text"] for one in sandbox.world.room(GROUP_ID).messages.values()]
        assert any("earlier messages of this group" in text for text in told)


async def test_without_the_setting_nothing_is_offered_and_nothing_asked(sandbox, live, bakery, server):
    async with live():
        asked = await say(sandbox, ADMIN, "/channels")
        await press(sandbox, asked, "Bakery", ADMIN)
        assert "Older posts…" not in buttons(current(sandbox, asked))
    assert server.requests == []
    assert server.sign_ins == 0
