"""/watch and /watches through the whole bot: one notice for each event, only of what the reader may read."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from driver import (
    ADMIN,
    CREW,
    GROUP,
    HARBOUR,
    KILN,
    OTTO,
    RITA,
    bind,
    execute,
    open_archive,
    press,
    say,
    say_text,
    sent,
    wait_until,
)

from bot import notifications
from bot.notifications import is_quiet
from bot.sandbox import Sandbox
from rag_core.storage.near_duplicates import fetch_copies
from rag_core.storage.posts import save_posts
from rag_core.types import Post, PostKey

NEWS = "The old walrus came back to the harbour this morning and sleeps on the pier beside the fish market again."


async def settle(home: Path) -> None:
    """Wait until every post is matched, and every hit is sent or put aside."""
    sql = (
        "SELECT (SELECT count(*) FROM updates WHERE state = 'pending') + "
        "(SELECT count(*) FROM watch_hits WHERE state = 'waiting') + "
        "((SELECT watermark FROM watching) < (SELECT value FROM sequence))"
    )
    await wait_until(lambda: not query(home, sql))


async def post(sandbox: Sandbox, home: Path, chat_id: int, text: str) -> int:
    """Post, and wait until the watches have seen it."""
    before = query(home, "SELECT value FROM sequence")
    message = await sandbox.post(chat_id, text)
    await wait_until(lambda: query(home, "SELECT value FROM sequence") != before)
    await settle(home)
    return int(message["message_id"])


def query(home: Path, sql: str) -> Any:
    return execute(home, sql)[0][0]


def notices(sandbox: Sandbox, chat: int) -> list[dict[str, Any]]:
    return [message for message in sent(sandbox, chat) if message["text"].startswith("🔔")]


async def test_an_event_is_told_once_until_its_watch_is_stopped_or_erased(sandbox, live, home):
    async with live():
        assert (await say_text(sandbox, OTTO, "/watch walruses")).startswith("I will write when")
        number = await post(sandbox, home, HARBOUR, NEWS)
        (notice,) = notices(sandbox, OTTO)
        assert await sandbox.replies(OTTO) == [notice]
        assert NEWS in notice["text"]
        assert any(one.get("url") == f"https://t.me/harbour_news/{number}" for one in notice["entities"])
        await post(sandbox, home, KILN, NEWS + " 🦭")  # a copy
        await post(sandbox, home, KILN, f"UPD! {NEWS.replace('this morning', 'today')} Bring fish.")  # reworded
        await sandbox.edit(HARBOUR, number, NEWS.replace("old", "grey old"))
        await settle(home)
        await post(sandbox, home, HARBOUR, "Nothing to see here today, the fog is thick.")
        assert len(notices(sandbox, OTTO)) == 1
        assert "walruses" in await say_text(sandbox, OTTO, "/watches")
        assert await press(sandbox, notice, "Stop", OTTO) == "Stopped."
        await post(sandbox, home, HARBOUR, "Three walruses arrived by night and broke the fence of the sailing club.")
        assert len(notices(sandbox, OTTO)) == 1
        await say_text(sandbox, OTTO, "/watch walrus")
        assert "/watch" in await say_text(sandbox, OTTO, "/watch")
        assert "22-8" in await say_text(sandbox, OTTO, "/watch quiet 22-8")
        asked = await say(sandbox, OTTO, "/forget")
        await press(sandbox, asked, "Erase", OTTO)
        assert query(home, "SELECT count(*) FROM watches") == 0


async def test_what_was_stored_just_before_an_end_is_told_after_the_next_start(sandbox, live, home):
    async with live():
        await say_text(sandbox, OTTO, "/watch walruses")
        await settle(home)
    async with open_archive(home) as archive:
        await save_posts(archive, [Post(PostKey(HARBOUR, 900), datetime.now(UTC), NEWS)], source="live")
    async with live():
        assert await sandbox.until(lambda: bool(notices(sandbox, OTTO)))
        await settle(home)
    async with live():
        await settle(home)
    (notice,) = notices(sandbox, OTTO)
    assert NEWS in notice["text"]


async def test_only_readers_of_a_channel_are_told(sandbox, live, home):
    async with live():
        await say_text(sandbox, OTTO, "/watch walruses")
        await say_text(sandbox, ADMIN, "/watch walruses")
        await post(sandbox, home, CREW, NEWS)
        assert not notices(sandbox, OTTO)
        assert len(notices(sandbox, ADMIN)) == 1
        # the copy that the outsider may not read neither joins this one nor is counted in it
        await post(sandbox, home, HARBOUR, NEWS)
        (notice,) = notices(sandbox, OTTO)
        assert "Also in" not in notice["text"]
        assert len(notices(sandbox, ADMIN)) == 1


@pytest.mark.parametrize(
    "change",
    ["deleted_at = 1", "text = 'A seal came.'", "text = 'UPD. ' || text"],
    ids=["deleted", "edited", "added to"],
)
async def test_a_notice_is_of_the_post_as_it_was_read(sandbox, live, home, monkeypatch, change):
    """The post changes after it was read for the notice; words that still stand are told."""
    changed = []

    async def change_first(*given: Any) -> Any:
        if not changed:
            changed.append(await asyncio.to_thread(execute, home, f"UPDATE posts SET {change} WHERE text = '{NEWS}'"))
        return await fetch_copies(*given)

    monkeypatch.setattr("bot.notifications.fetch_copies", change_first)
    async with live():
        await say_text(sandbox, OTTO, "/watch walruses")
        await post(sandbox, home, HARBOUR, NEWS)
        told = [NEWS in one["text"] for one in notices(sandbox, OTTO)]
    assert changed
    assert told == ([True] if "UPD" in change else [])


async def test_what_was_too_much_for_a_day_is_counted_as_it_stands(sandbox, live, home):
    async with live():
        await say_text(sandbox, OTTO, "/watch walruses")
        numbers = [await post(sandbox, home, HARBOUR, f"{NEWS} {word}.") for word in ("Again", "Ever", "Still")]
        sent_before = len(notices(sandbox, OTTO))
        rows = ", ".join(f"(1, {HARBOUR}, {number}, 1, 'over', NULL)" for number in numbers)
        await asyncio.to_thread(execute, home, f"UPDATE posts SET deleted_at = 1 WHERE message_id = {numbers[0]}")
        await asyncio.to_thread(execute, home, f"INSERT OR REPLACE INTO watch_hits VALUES {rows}")
        assert await sandbox.until(lambda: len(sent(sandbox, OTTO)) > sent_before + 1)
        assert "2" in sent(sandbox, OTTO)[-1]["text"]


async def test_a_limit_of_price_and_a_channel_are_filters(sandbox, live, home):
    async with live():
        await say_text(sandbox, OTTO, "/watch ticket under 500")
        await say_text(sandbox, RITA, "/watch билет до 500 рублей @pech_i_glina")
        await post(sandbox, home, HARBOUR, "A ticket to the island costs 700 roubles in summer.")
        await post(sandbox, home, KILN, "Входной билет на ярмарку стоит 900 рублей.")
        assert not notices(sandbox, OTTO) + notices(sandbox, RITA)
        await post(sandbox, home, HARBOUR, "A ticket to the aquarium costs 450 roubles until May.")
        await post(sandbox, home, KILN, "Детский билет на мастер-класс по лепке стоит 400 рублей.")
        assert "450" in notices(sandbox, OTTO)[0]["text"]
        assert [message["text"].count("400") for message in notices(sandbox, RITA)] == [1]


async def test_admins_of_a_group_watch_for_it(sandbox, live, home):
    await bind(home, HARBOUR)
    name = f"@{sandbox.world.bot.username}"
    async with live():
        await sandbox.say(RITA, f"/watch{name} walrus", chat_id=GROUP)
        assert await sandbox.until(lambda: bool(sent(sandbox, GROUP)))
        assert query(home, "SELECT count(*) FROM watches") == 0
        await sandbox.say(OTTO, f"/watch{name} walrus", chat_id=GROUP)  # who made the group
        assert await sandbox.until(lambda: len(sent(sandbox, GROUP)) == 2)
        await post(sandbox, home, HARBOUR, NEWS)
        assert len(notices(sandbox, GROUP)) == 1


async def test_the_rest_of_a_day_is_counted_and_a_chat_that_blocks_is_left_alone(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.notifications.MAX_NOTICES_A_DAY", 1)
    async with live():
        await say_text(sandbox, OTTO, "/watch walrus")
        await post(sandbox, home, HARBOUR, NEWS)
        await post(
            sandbox, home, KILN, "Walrus figures of white clay are on sale in the workshop until Sunday evening."
        )
        assert len(notices(sandbox, OTTO)) == 1
        execute(home, "UPDATE watch_hits SET found_at = found_at - 86400 WHERE state = 'over'")
        assert await sandbox.until(lambda: "1 more post yesterday" in sent(sandbox, OTTO)[-1]["text"])
        sandbox.world.people[OTTO].blocked = True
        execute(home, "UPDATE watch_hits SET done_at = 0")
        await sandbox.post(HARBOUR, "The walrus has left the pier, and nobody knows where it swims at present.")
        assert await sandbox.until(lambda: query(home, "SELECT count(*) FROM watches WHERE blocked_at") == 1)


async def test_the_index_of_watches_is_built_when_watches_change(sandbox, live, home, monkeypatch):
    built: list[int] = []
    build = notifications._build_index
    monkeypatch.setattr(notifications, "_build_index", lambda rows: built.append(len(rows)) or build(rows))
    async with live():
        for text in ("walrus", "lantern"):
            await say_text(sandbox, OTTO, f"/watch {text}")
            for number in range(2):
                await post(sandbox, home, HARBOUR, f"The {text} is at pier number {number} since this morning.")
    assert built == [1, 2]
    assert {"walrus", "lantern"} <= {word for one in notices(sandbox, OTTO) for word in one["text"].split()}


def test_quiet_hours_may_pass_midnight():
    assert [hour for hour in range(24) if is_quiet("22-8", hour)] == [0, 1, 2, 3, 4, 5, 6, 7, 22, 23]
    assert [hour for hour in range(24) if is_quiet("1-3", hour)] == [1, 2]
    assert not any(is_quiet("", hour) for hour in range(24))
