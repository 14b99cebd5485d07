"""/watch and /watches through the whole bot: one notice for each event, only of what the reader may read."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

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
    buttons,
    execute,
    open_archive,
    press,
    say,
    say_text,
    sent,
    wait_until,
    wait_until_idle,
)

from bot.i18n import get_translator
from bot.notifications import compute_next_due, is_quiet
from bot.sandbox.state import set_chat_member
from bot.views.results import render_digest
from bot.views.text import RenderContext
from rag_core.retrieval.digests import DigestLine
from rag_core.storage.near_duplicates import fetch_copies
from rag_core.storage.posts import save_posts
from rag_core.storage.subscriptions import MAX_WATCHES, NewWatch, add_watch
from rag_core.types import Channel, Post, PostKey

NEWS = "The old walrus came back to the harbour this morning and sleeps on the pier beside the fish market again."
CLAY = "Walrus figures of white clay are on sale in the workshop until Sunday evening."


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    monkeypatch.setattr("bot.notifications._WATCH_INTERVAL_SECONDS", 0.05)


async def settle(home):
    """Wait until every post is matched, and every hit is sent or put aside."""
    sql = (
        "SELECT (SELECT count(*) FROM updates WHERE state = 'pending') + "
        "(SELECT count(*) FROM watch_hits WHERE state = 'waiting') + "
        "((SELECT watermark FROM watching) < (SELECT value FROM sequence))"
    )
    await wait_until(lambda: not query(home, sql))


async def post(sandbox, home, chat_id, text):
    """Post, and wait until the watches have seen it."""
    before = query(home, "SELECT value FROM sequence")
    message = await sandbox.post(chat_id, text)
    await wait_until(lambda: query(home, "SELECT value FROM sequence") != before)
    await settle(home)
    return int(message["message_id"])


def query(home, sql):
    return execute(home, sql)[0][0]


def notices(sandbox, chat):
    return [message for message in sent(sandbox, chat) if message["text"].startswith("🔔")]


async def test_an_event_is_told_once_until_its_watch_is_stopped_or_erased(sandbox, home, live_bot):
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
    assert (await say_text(sandbox, RITA, "/watch тихо 22-8")).startswith("Сначала напишите, за чем следить")
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


async def test_only_readers_of_a_channel_are_told(sandbox, home, live_bot):
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

    async def change_first(*given):
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


async def test_the_rest_of_a_day_is_counted_and_a_chat_that_blocks_is_left_alone(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.notifications.MAX_NOTICES_A_DAY", 1)
    async with live():
        await say_text(sandbox, OTTO, "/watch walrus")
        await post(sandbox, home, HARBOUR, NEWS)
        await post(sandbox, home, KILN, CLAY)
        assert len(notices(sandbox, OTTO)) == 1
        execute(home, "UPDATE watch_hits SET found_at = found_at - 86400 WHERE state = 'over'")
        assert await sandbox.until(lambda: "1 more post yesterday" in sent(sandbox, OTTO)[-1]["text"])
        sandbox.world.people[OTTO].blocked = True
        execute(home, "UPDATE watch_hits SET done_at = 0")
        await sandbox.post(HARBOUR, "The walrus has left the pier, and nobody knows where it swims at present.")
        assert await sandbox.until(lambda: query(home, "SELECT count(*) FROM watches WHERE blocked_at") == 1)


@pytest.mark.parametrize("label", ["Stop", "Mute for a day"])
async def test_what_waits_to_be_told_is_not_told_after_its_watch_is_stopped_or_muted(sandbox, live, home, label):
    """As at the end of quiet hours: notices come one after the other, and the first is enough."""
    async with live():
        await say_text(sandbox, OTTO, "/watch walrus")
        await settle(home)
    async with open_archive(home) as archive:
        kept = [Post(PostKey(chat, 900), datetime.now(UTC), text) for chat, text in ((HARBOUR, NEWS), (KILN, CLAY))]
        await save_posts(archive, kept, source="live")
    sandbox.faults.fail_next("sendMessage", "late", seconds=2)
    async with live():
        assert await sandbox.until(lambda: bool(notices(sandbox, OTTO)))
        (notice,) = notices(sandbox, OTTO)
        await press(sandbox, notice, label, OTTO)
        await asyncio.sleep(2.5)  # longer than Telegram's answer takes
        assert len(notices(sandbox, OTTO)) == 1


async def test_the_watches_of_a_group_go_on_when_the_bot_comes_back(sandbox, live, home):
    await bind(home, HARBOUR)
    bot = sandbox.world.bot
    async with live():
        await say_text(sandbox, OTTO, f"/watch@{bot.username} walruses", GROUP)
        blocked = "SELECT count(*) FROM watches WHERE blocked_at"
        for status, number in (("left", 1), ("administrator", 0)):
            set_chat_member(sandbox.world, GROUP, bot.id, status)
            assert await sandbox.until(lambda number=number: query(home, blocked) == number)
        await post(sandbox, home, HARBOUR, NEWS)
    assert len(notices(sandbox, GROUP)) == 1


async def test_watches_that_fill_more_than_one_message_can_all_be_stopped(sandbox, live, home):
    async with open_archive(home) as archive:
        for n in range(MAX_WATCHES):
            text = f"walrus {n} {'and its friends ' * 12}".strip()
            await add_watch(archive, NewWatch(OTTO, OTTO, True, text, text))
    async with live():
        await sandbox.say(OTTO, "/watches")
        first, last = await sandbox.replies(OTTO, 2)
    assert first["text"].startswith("I look out for 20 things:")
    assert len(buttons(last)) == 2 * MAX_WATCHES


def test_quiet_hours_may_pass_midnight():
    assert [hour for hour in range(24) if is_quiet("22-8", hour)] == [0, 1, 2, 3, 4, 5, 6, 7, 22, 23]
    assert [hour for hour in range(24) if is_quiet("1-3", hour)] == [1, 2]
    assert not any(is_quiet("", hour) for hour in range(24))


WALRUS = "The old walrus came back to the harbour this morning and sleeps on the pier beside the fish market."
FAIR = "The autumn fair of potters is cancelled because of the storm; tickets are paid back at the gate."
SECRET = "The crew met at noon, and the new boathouse key hangs behind the stove until further notice."


async def fill(sandbox, home):
    written = ((HARBOUR, WALRUS), (KILN, FAIR), (KILN, f"{WALRUS} \N{SEAL}"), (CREW, SECRET), (CREW, FAIR))
    for n, (chat, text) in enumerate(written):
        await sandbox.post(chat, text, extra={"date": int(time.time()) - 30 + n})
    await wait_until_idle(sandbox, home)
    sql = "SELECT (SELECT watermark FROM copying) >= (SELECT value FROM sequence)"
    assert await sandbox.until(lambda: execute(home, sql) == [(1,)])


async def test_a_digest_has_each_event_once_and_only_what_its_reader_may_read(sandbox, home, live_bot):
    assert await say_text(sandbox, OTTO, "/digest now") == "Nothing new since 15 March 2024."
    await fill(sandbox, home)
    reply = await say(sandbox, OTTO, "/digest now")
    first, second = reply["text"].split("\n\n")[1:]
    day = get_translator("en").date(datetime.now(UTC), UTC)
    assert first == f"• {WALRUS}\nHarbour News · {day} · 2 channels"
    assert second == f"⚠️ {FAIR}\nПечь и глина · {day}"  # not "2 channels": nobody learns of the other
    assert "https://t.me/harbour_news/" in repr(reply["entities"])
    whole = await say_text(sandbox, ADMIN, "/digest now")
    assert "boathouse key" in whole
    for named in ("/digest now @harbour_news", "/digest @harbour_news", "/digest @harbour_news now"):
        alone = await say_text(sandbox, ADMIN, named)
        assert WALRUS in alone and "boathouse key" not in alone
    assert "2 channels" in whole.partition(FAIR)[2]


SQUIDS = (
    "The Kraken squid festival opens at the Zanzibar pavilion with trumpet fanfare, lanterns, fireworks over Quillon.",
    "Because of the storm trumpet fanfare, lanterns, fireworks of the Kraken squid festival at the Zanzibar pavilion "
    "in Quillon begin later.",
)
CHANGES = {
    "deleted": "UPDATE posts SET deleted_at = 1 WHERE text LIKE '%squid%'",
    "edited": "UPDATE posts SET text = 'Nothing happens.' WHERE text LIKE '%squid%'",
    "closed": f"UPDATE channels SET visibility = 'admins' WHERE chat_id = {HARBOUR}",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("late", ["heading", "sending"])
async def test_what_changes_before_a_digest_arrives_is_left_out(sandbox, live, home, monkeypatch, change, late):
    """A model writes headings for seconds; or Telegram refuses the first tries."""
    asked = 0

    async def write_heading(*_):
        nonlocal asked
        asked += 1
        if late == "heading":
            await asyncio.to_thread(execute, home, CHANGES[change])
        return "The squid festival"

    monkeypatch.setattr("bot.notifications.write_heading", write_heading)
    async with live():
        for chat, text in ((HARBOUR, SQUIDS[0]), (HARBOUR, SQUIDS[1]), (KILN, FAIR)):
            await sandbox.post(chat, text, extra={"date": int(time.time()) - 10})
        await wait_until_idle(sandbox, home)
        if late == "sending":
            sandbox.faults.fail_next("sendMessage", "500", times=2)
        await sandbox.say(OTTO, "/digest now")
        if late == "sending":
            assert await sandbox.until(lambda: any(line["method"] == "sendMessage" for line in sandbox.transcript))
            await asyncio.to_thread(execute, home, CHANGES[change])
        (reply,) = await sandbox.replies(OTTO)
    assert asked == 1
    assert "squid" not in reply["text"]
    assert FAIR in reply["text"]


async def test_a_digest_comes_at_its_hour_once_and_not_without_news(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.notifications._DIGEST_INTERVAL_SECONDS", 0.1)
    async with live():
        assert (await say_text(sandbox, OTTO, "/digest")).startswith("No digest is planned.")
        hour = (datetime.now(UTC).hour + 12) % 24
        said = await say_text(sandbox, OTTO, f"/digest daily {hour} @harbour_news")
        assert said.startswith("A digest comes every day, next on")
        assert f", {hour:02}:00" in said
        await fill(sandbox, home)
        execute(home, "UPDATE digests SET due = 0")
        assert await sandbox.until(lambda: WALRUS in sent(sandbox, OTTO)[-1]["text"])
        assert FAIR not in sent(sandbox, OTTO)[-1]["text"]
        before = len(await sandbox.replies(OTTO)) and len(sent(sandbox, OTTO))
        execute(home, "UPDATE digests SET due = 0")
        assert await sandbox.until(lambda: not execute(home, "SELECT * FROM digests WHERE due = 0"))
        assert len(sent(sandbox, OTTO)) == before
        assert await say_text(sandbox, OTTO, "/digest off") == "No more digests."
        assert execute(home, "SELECT * FROM digests") == []


async def test_a_clock_that_was_ahead_loses_no_post_of_a_digest_nor_of_a_watch(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.notifications._DIGEST_INTERVAL_SECONDS", 0.1)
    sandbox.world.clock = lambda: time.time() - 43_200  # this machine is ahead by half a day
    async with live():
        await say_text(sandbox, OTTO, "/digest daily 9")
        await say_text(sandbox, OTTO, "/watch potters")
        await sandbox.post(HARBOUR, WALRUS)
        await wait_until_idle(sandbox, home)
        await asyncio.to_thread(execute, home, "UPDATE digests SET due = 0, since = 0")
        assert await sandbox.until(lambda: WALRUS in sent(sandbox, OTTO)[-1]["text"])
        await sandbox.post(KILN, FAIR, extra={"date": int(sandbox.world.clock()) + 1})
        assert await sandbox.until(lambda: sent(sandbox, OTTO)[-1]["text"].startswith("🔔"))
        await asyncio.to_thread(
            execute, home, "UPDATE digests SET due = due + 86400 * 365"
        )  # as if it had been ahead by a year
        assert await sandbox.until(lambda: sent(sandbox, OTTO)[-1]["text"].count(FAIR))
        assert await sandbox.until(lambda: not sent(sandbox, OTTO)[-1]["text"].startswith("🔔"))


async def test_a_digest_loses_no_post_that_reaches_the_bot_after_it(sandbox, live, home, monkeypatch):
    """As after an outage: the digest is overdue, and Telegram still has posts."""
    monkeypatch.setattr("bot.notifications._DIGEST_INTERVAL_SECONDS", 0.1)
    async with live():
        await say_text(sandbox, OTTO, "/digest daily 9")
        await asyncio.to_thread(execute, home, "UPDATE digests SET since = 0")
        for chat, text, age in ((HARBOUR, WALRUS, 60), (KILN, FAIR, 30)):
            await sandbox.post(chat, text, extra={"date": int(time.time()) - age})
            await wait_until_idle(sandbox, home)
            await asyncio.to_thread(execute, home, "UPDATE digests SET due = 0")
            assert await sandbox.until(lambda text=text: text in sent(sandbox, OTTO)[-1]["text"])
    assert WALRUS not in sent(sandbox, OTTO)[-1]["text"]


async def test_of_two_posts_of_one_second_a_digest_loses_neither_nor_tells_one_twice(sandbox, live, home, monkeypatch):
    """Both are planned for the hour of the digest, and one reaches the bot after it."""
    monkeypatch.setattr("bot.notifications._DIGEST_INTERVAL_SECONDS", 0.1)
    monkeypatch.setattr("bot.notifications._LATE_ARRIVAL", timedelta(seconds=2))

    async def run_due():
        await asyncio.to_thread(execute, home, "UPDATE digests SET due = 0")
        assert await sandbox.until(lambda: not execute(home, "SELECT * FROM digests WHERE due = 0"))

    async with live():
        await say_text(sandbox, OTTO, "/digest daily 9")
        await asyncio.to_thread(execute, home, "UPDATE digests SET since = 0")
        hour = int(time.time())
        await asyncio.sleep(1)  # it is over
        for chat, text in ((HARBOUR, WALRUS), (KILN, FAIR)):
            await sandbox.post(chat, text, extra={"date": hour})
            await wait_until_idle(sandbox, home)
            await run_due()
        await asyncio.sleep(2)
        await run_due()
        await run_due()
        told = [text for message in sent(sandbox, OTTO) for text in (WALRUS, FAIR) if text in message["text"]]
    assert sorted(told) == sorted([WALRUS, FAIR])


@pytest.mark.parametrize("said", ["/digest off", "/digest daily 18"])
async def test_a_digest_that_is_being_made_is_not_sent_after_its_plan_was_changed(
    sandbox, live, home, monkeypatch, said
):
    """A model writes headings for minutes."""
    monkeypatch.setattr("bot.notifications._DIGEST_INTERVAL_SECONDS", 0.1)
    begun, going_on = asyncio.Event(), asyncio.Event()

    async def write_heading(*_):
        begun.set()
        await going_on.wait()
        return "The squid festival"

    monkeypatch.setattr("bot.notifications.write_heading", write_heading)
    async with live():
        await say_text(sandbox, OTTO, "/digest daily 9")
        for text in SQUIDS:
            await sandbox.post(HARBOUR, text, extra={"date": int(time.time()) - 30})
        await wait_until_idle(sandbox, home)
        await asyncio.to_thread(execute, home, "UPDATE digests SET due = 0, since = 0")
        await begun.wait()
        told = await say_text(sandbox, OTTO, said)
        plans = execute(home, "SELECT hour, due FROM digests")
        going_on.set()
        await asyncio.sleep(1)
        assert sent(sandbox, OTTO)[-1]["text"] == told
        assert execute(home, "SELECT hour, due FROM digests") == plans


async def test_admins_of_a_group_plan_its_digest_and_forget_erases_it(sandbox, live, home):
    await bind(home, HARBOUR)
    name = f"@{sandbox.world.bot.username}"
    async with live():
        await sandbox.say(RITA, f"/digest{name} weekly", chat_id=GROUP)
        assert await sandbox.until(lambda: len(sent(sandbox, GROUP)) == 1)
        assert execute(home, "SELECT * FROM digests") == []
        await sandbox.say(OTTO, f"/digest{name} weekly 18", chat_id=GROUP)  # who made the group
        assert await sandbox.until(lambda: len(sent(sandbox, GROUP)) == 2)
        assert "every week" in sent(sandbox, GROUP)[-1]["text"]
        asked = await say(sandbox, OTTO, "/forget")
        assert "1 digest" in asked["text"]
        yes = asked["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
        await sandbox.press(OTTO, OTTO, asked["message_id"], yes)
        assert execute(home, "SELECT * FROM digests") == []


async def test_the_terminal_prints_a_digest_also_while_the_bot_runs(sandbox, live, home, run_command, monkeypatch):
    async with live():
        await fill(sandbox, home)
    monkeypatch.setenv("DATA__DIR", str(home))
    found = (await asyncio.to_thread(run_command, "digest", "--days", "1", "--json")).json()
    assert [line["channels"] for line in found["lines"]] == [2, 2, 1]
    assert {line["changed"] for line in found["lines"] if line["quote"] == FAIR} == {True}
    assert all(line["url"].startswith("https://t.me/") for line in found["lines"])
    assert WALRUS in (await asyncio.to_thread(run_command, "digest")).out


def test_the_next_digest_keeps_its_hour_over_a_change_of_clocks():
    zone = ZoneInfo("Europe/Berlin")
    saturday = datetime(2026, 3, 28, 9, 0, 5, tzinfo=zone)  # the clocks change in the night
    assert compute_next_due(saturday, 9, 1) == datetime(2026, 3, 29, 9, tzinfo=zone)
    assert compute_next_due(saturday, 9, 7) == datetime(2026, 4, 4, 9, tzinfo=zone)
    assert compute_next_due(saturday - timedelta(hours=1), 9, 1) == datetime(2026, 3, 28, 9, tzinfo=zone)


def test_a_weekly_digest_that_comes_late_moves_no_later_one():
    monday = datetime(2026, 3, 23, 23, tzinfo=ZoneInfo("Europe/Berlin"))
    following, soon = monday + timedelta(days=7), timedelta(minutes=10)
    assert compute_next_due(monday + timedelta(days=2), 23, 7, monday) == following  # the machine was off
    past_midnight = monday + timedelta(hours=2)  # it was put off while Telegram was away
    assert compute_next_due(past_midnight, 23, 7, past_midnight - soon) == following
    assert compute_next_due(monday + soon, 23, 7, monday + timedelta(days=400)) == following  # a clock was wrong


def test_a_heading_stands_above_its_line_and_names_no_address():
    post = Post(PostKey(-1001, 5), datetime(2026, 3, 28, tzinfo=UTC), WALRUS)
    line = DigestLine(post, 0, len(WALRUS), 1, False, related=(post, post), heading="Walrus at evil.com")
    shown = RenderContext(get_translator("en"), UTC)
    text, entities = render_digest(
        [line], {-1001: Channel(-1001, "Harbour")}, shown, post.date, post.date
    ).text.render()
    assert text.split("\n\n")[1] == f"• Walrus at evil.com\n{WALRUS}\nHarbour · and 2 more posts about it"
    assert [entity.extract_from(text) for entity in entities if entity.type == "code"] == ["evil.com"]
