"""/about: what a channel writes about; a closed channel is no channel."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from driver import ADMIN, HARBOUR, OTTO, RITA, execute, save, say, say_text

from rag_core.types import Post, PostKey

LINES = (
    "Yesterday the pilot Marta Kovacs guided a tanker through the narrows.",
    "The dredger Otter deepens the narrows until spring, says Marta Kovacs.",
    "Rain keeps the fishing boats in. The tanker waits outside.",
    "A second tanker is expected; the boat is called Wanderer.",
)


@pytest.fixture
async def filled_harbour(home):
    start = datetime(2024, 5, 1, 9, tzinfo=UTC)
    posts = [Post(PostKey(HARBOUR, 100 + n), start + timedelta(days=n), LINES[n % len(LINES)]) for n in range(12)]
    await save(home, *posts)


async def test_a_channel_is_described_by_names_subjects_and_dates(sandbox, live, filled_harbour):
    async with live():
        reply = await say(sandbox, OTTO, "/about @harbour_news")
        text = reply["text"]
        assert text.startswith("Harbour News\n\n16 posts since 12 March 2024, the last on 12 May 2024\nAbout 3 a week")
        assert "Marta Kovacs (6)" in text
        assert "tanker (9)" in text
        assert "boat — Wanderer" in text
        assert any(one.get("url") == "https://t.me/harbour_news" for one in reply["entities"])
        assert await say_text(sandbox, OTTO, "/about t.me/harbour_news") == text
        assert "12 мая" in await say_text(sandbox, RITA, "/about @harbour_news")


@pytest.mark.parametrize("change", ["deleted_at = 1", "text = 'Nothing.'"])
async def test_names_of_posts_that_are_gone_before_it_arrives_are_not_told(sandbox, live, home, filled_harbour, change):
    async with live():
        sandbox.faults.fail_next("sendMessage", "500", times=2)
        await sandbox.say(OTTO, "/about @harbour_news")
        assert await sandbox.until(lambda: any(line["method"] == "sendMessage" for line in sandbox.transcript))
        await asyncio.to_thread(execute, home, f"UPDATE posts SET {change} WHERE text LIKE '%Kovacs%'")
        (reply,) = await sandbox.replies(OTTO)
    assert reply["text"].startswith("I did not send this answer: a post behind it was changed, deleted or closed")


async def test_a_closed_channel_answers_as_one_that_does_not_exist(sandbox, live):
    async with live():
        nobody = await say_text(sandbox, OTTO, "/about Nowhere")
        assert [await say_text(sandbox, OTTO, f"/about {said}") for said in ("Crew only", "The safe")] == [nobody] * 2
        assert (await say_text(sandbox, ADMIN, "/about Crew only")).startswith("Crew only")
        assert "/about @channel" in await say_text(sandbox, OTTO, "/about")
