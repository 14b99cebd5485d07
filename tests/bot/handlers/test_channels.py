import asyncio
import time
from datetime import UTC, datetime
from types import SimpleNamespace

from driver import (
    ADMIN,
    CREW,
    GROUP,
    HARBOUR,
    KILN,
    OTTO,
    RITA,
    SAFE,
    ask_until,
    bind,
    execute,
    load_channel,
    open_archive,
    open_channels,
    query_archive,
    say,
    say_text,
    wait_until,
)
from sandbox_chat_changes import create_topic

from bot.i18n import get_translator
from bot.views.channel_card import make_channel_token
from bot.views.keyboards import Press
from rag_core.storage import Archive, channel_history, channels, readers
from rag_core.storage.channels import set_channel_visibility
from rag_core.storage.readers import change_channel_sets
from rag_core.types import Channel, Visibility

TROPHY = "Where did the treasurer hide the silver trophy?"
FERRY = "When does the ferry to Owl Island leave?"


def mark(home, chat_id=SAFE):
    ((identity,),) = execute(home, "SELECT value FROM identity")
    return make_channel_token(SimpleNamespace(identity=identity), chat_id)


# the list and the card


async def test_an_admin_sees_the_channels_and_opens_one_to_everybody(sandbox, live):
    async with live():
        card = await open_channels(sandbox)
        assert card.text.startswith("4 channels\n\n")
        assert "Harbour News\n4 posts · active · for everyone · last post 15 March 2024" in card.text
        assert "The safe\n2 posts · active · for admins" in card.text
        await card.press("The safe")
        assert card.text.startswith("The safe\n2 posts · active · for admins · last post 13 March 2024")
        assert "\n\nWho can ask me about this channel?\n" in card.text
        assert (await card.press("Everyone"))["text"] == "Done: The safe is for everyone."
        assert card.text.startswith("The safe\n2 posts · active · for everyone")
        await card.press("Everyone")  # again: nothing to change, no error
        await card.press("‹ Back")
        assert card.text.startswith("4 channels")
        answer = await say(sandbox, OTTO, TROPHY)
    assert "under the staircase" in answer["text"]


async def test_foreign_and_old_buttons_change_nothing(sandbox, live, home, tmp_path):
    before = await query_archive(home, channels.load_channels)
    await query_archive(tmp_path / "other", channels.load_channels)
    other = mark(tmp_path / "other")
    async with live():
        card = await open_channels(sandbox)
        said = await card.send(Press(to="channel-public", token=other).pack())
        assert said["text"].startswith("I no longer have this channel.")
        for when in (time.time() - 601, time.time() + 3600, 0, -5):
            yes = Press(to="channel-remove-yes", token=mark(home), number=int(when))
            assert (await card.send(yes.pack()))["text"] == "This is too old. Open the channel again: /channels"
    assert await query_archive(home, channels.load_channels) == before


HOSTILE = [
    "x" * 20_000, "я" * 300, "👨‍👩‍👧" * 100, "\n\n\n\n", "\u200b\u200b", "\u3164", "\u202eevil\u202d",
    "<b>&amp;</b> [x](http://example.org)", "\ue0000\ue001", "{ $title }", "a\n" * 500, "é" + "\u0301" * 200,
]  # fmt: skip


async def test_a_long_list_with_hostile_titles_is_turned_like_pages_and_fits(sandbox, live, home):
    async def more(archive):
        for number in range(60):
            title = f"{HOSTILE[number % len(HOSTILE)]}" if number % 2 else f"Number {number:02}"
            await channels.save_channel(archive, Channel(-(10**15) - number, title, visibility=Visibility.PUBLIC))

    await query_archive(home, more)
    async with live():
        card, seen = await open_channels(sandbox), set()
        assert card.text.startswith("64 channels")
        while True:
            for label, data in card.buttons.items():
                assert 0 < len(label) <= 60 and "\n" not in label
                assert len(data.encode()) <= 64
            seen |= {label for label in card.buttons if label.startswith("Number ")}
            if "Later ›" not in card.buttons:
                break
            await card.press("Later ›")
        assert len(seen) == 30
        for number in range(1, 2 * len(HOSTILE), 2):
            await card.send(Press(to="channel", token=mark(home, -(10**15) - number)).pack())
            assert "Who can ask me about this channel?" in card.text
        assert "I read" in (await say(sandbox, ADMIN, "/start"))["text"]


# pause


async def test_a_paused_channel_is_not_searched_and_loses_nothing(sandbox, home, live_bot):
    card = await open_channels(sandbox)
    assert (await card.press("Harbour News", "Pause"))["text"].startswith("Paused: I no longer search Harbour News")
    assert "4 posts · paused · for everyone" in card.text
    assert "7:30" not in (await say(sandbox, OTTO, FERRY))["text"]
    await sandbox.post(HARBOUR, "The regatta of wooden sailboats begins on Saturday at noon.")
    assert (await card.press("Members"))["text"] == "Done: Harbour News is for members."
    assert "paused · for members" in card.text
    await card.press("Everyone", "Resume")
    assert await ask_until(sandbox, ADMIN, "When does the regatta of wooden sailboats begin?", "Saturday at noon")
    assert "7:30" in (await say(sandbox, OTTO, FERRY))["text"]


async def test_an_old_button_does_not_approve_a_channel_that_waits(sandbox, live, home):
    await query_archive(home, lambda archive: channels.set_channel_state(archive, SAFE, "pending"))
    async with live():
        card = await open_channels(sandbox)
        for act in ("channel-pause", "channel-resume"):
            assert "not approved yet" in (await card.send(Press(to=act, token=mark(home)).pack()))["text"]
        assert "2 posts · waiting for your approval" in card.text
    channel = await load_channel(home, SAFE)
    assert channel.state == "pending"


# protected and paid posts


async def test_guarded_posts_are_found_only_after_an_admin_says_so(sandbox, live_bot):
    protected = {"has_protected_content": True}
    question, words = "What colour is the harbour master's velvet umbrella?", "crimson"
    card = await open_channels(sandbox)
    await card.press("Harbour News")
    assert not any("protected" in label for label in card.buttons)
    await sandbox.post(HARBOUR, "The harbour master's velvet umbrella is crimson.", extra=protected)
    await sandbox.post(HARBOUR, "The regatta of wooden sailboats begins on Saturday at noon.")
    assert await ask_until(sandbox, ADMIN, "When does the regatta of wooden sailboats begin?", "Saturday at noon")
    assert words not in (await say(sandbox, ADMIN, question))["text"]
    await card.press("‹ Back", "Harbour News")
    assert "without 1 protected or paid post" in card.text
    assert "I now search the protected" in (await card.press("Search protected and paid posts too"))["text"]
    assert await ask_until(sandbox, ADMIN, question, words)
    await card.press("Leave out protected and paid posts")
    async with asyncio.timeout(10):
        while words in (await say(sandbox, ADMIN, question))["text"]:
            pass


# removal


def gone_for_good(home):
    tables = ("channels", "posts", "post_versions", "bindings", "gaps", "to_embed")
    return not any(execute(home, f"SELECT 1 FROM {table} WHERE chat_id = ?", SAFE) for table in tables)


async def test_a_channel_is_removed_with_all_its_data_by_two_presses(sandbox, live, home):
    await query_archive(home, lambda archive: readers.bind_channel(archive, -1009, SAFE))
    async with live():
        card = await open_channels(sandbox)
        await card.press("The safe", "Remove…")
        assert card.text.startswith("Remove The safe? Its 2 posts are deleted for good, with every version.")
        await card.press("‹ Back")
        assert card.text.startswith("The safe\n2 posts")
        await card.press("Remove…")
        yes = card.buttons["Yes, delete all of it"]
        assert (await card.send(yes))["text"] == "Removing The safe …"
        assert await card.says("Removed: The safe. Its 2 posts are out of the search")
        assert "I am still in the channel. After its" in card.text
        assert "staircase" not in (await say(sandbox, ADMIN, TROPHY))["text"]
        await wait_until(lambda: gone_for_good(home))
        assert "no longer have this channel" in (await card.send(yes))["text"]
        await card.press("‹ Back")
        assert card.text.startswith("3 channels") and "The safe" not in card.text


async def test_a_removed_channel_that_posts_on_waits_for_approval(sandbox, live_bot):
    card = await open_channels(sandbox)
    await card.press("The safe", "Remove…", "Yes, delete all of it")
    assert await card.says("Removed: The safe.")
    await sandbox.post(SAFE, "The new combination is nine four four one.")
    async with asyncio.timeout(10):
        while "The safe\n1 post · waiting for your approval" not in card.text:
            await card.send(Press(to="channels").pack())
    assert "nine four" not in (await say(sandbox, ADMIN, "What is the new combination?"))["text"]
    await card.press("The safe", "Admins only")
    assert await ask_until(sandbox, ADMIN, "What is the new combination?", "nine four")


async def test_the_bot_leaves_a_removed_channel_when_told_to(sandbox, home, live_bot):
    world = sandbox.world
    card = await open_channels(sandbox)
    await card.press("The safe")  # the bot sees that it is in
    await card.press("Remove…", "Yes, delete all of it")
    assert await card.says("Removed: The safe.")
    leave = card.buttons["Leave the channel"]
    forged = leave.rsplit(":", 1)[0] + f":{HARBOUR}"
    assert "no longer have" in (await card.send(forged))["text"]
    assert world.room(HARBOUR).member(world.bot.id).inside
    await sandbox.post(SAFE, "One last word.")
    await card.send(leave)
    assert not world.room(SAFE).member(world.bot.id).inside
    assert card.text.endswith("I have left the channel.")
    await card.send(leave)  # pressed twice
    assert card.text.count("I have left the channel.") == 1
    await wait_until(lambda: gone_for_good(home))


# gaps, and what the indexes have not taken in


async def test_gaps_are_shown_with_the_way_to_fill_them(sandbox, live, home):
    async def noted(archive):
        await channels.record_bot_joined(archive, HARBOUR)
        await channel_history.note_gap_before_joining(archive, HARBOUR)
        async with archive.writing() as connection:
            sql = "INSERT INTO gaps (chat_id, since, until, noted_at) VALUES (?, ?, ?, 0)"
            day = 86400
            rows = [
                (SAFE, None, 1700000000),
                *((SAFE, 1700000000 + n * day, 1700000000 + (n + 2) * day) for n in range(6)),
            ]
            await connection.executemany(sql, rows)

    await query_archive(home, noted)
    async with live():
        card = await open_channels(sandbox)
        assert "for admins · last post 13 March 2024 · history imported, I do not see new posts · 7 gaps" in card.text
        await card.press("Harbour News")
        today = get_translator("en").date(datetime.now(UTC), UTC)
        assert f"Posts may be missing: 15 March 2024 – {today}." in card.text
        ways = card.text.index("Two ways to add the older posts.")
        assert ways < card.text.index("HISTORY__API_ID") < card.text.index("To add them: in Telegram Desktop open")
        await card.press("‹ Back", "The safe")
        assert "Posts may be missing: before 14 November 2023; 14 November 2023 – 16 November 2023; " in card.text
        assert "; … and 3 more." in card.text  # with the one until today, when it came in


# what Telegram knows


async def test_a_topic_of_an_imported_forum_gets_its_title(sandbox, live, home):
    archive = await Archive.open(home)
    await channels.save_channel(archive, Channel(GROUP, "Neighbours", kind="supergroup"))
    await archive.close()

    def title():
        return execute(home, "SELECT topic, title FROM topics")

    async with live():
        topic = create_topic(sandbox.world, GROUP, ADMIN, "Boats")
        await wait_until(lambda: title() == [(topic, "Boats")])
        renamed = {"forum_topic_edited": {"name": "Ships"}, "from": sandbox.world.people[ADMIN].wire()}
        place = {"message_thread_id": topic, "is_topic_message": True}
        room = sandbox.world.room(GROUP)
        sandbox.world.queue.push("message", sandbox.world.add(room, renamed | place))
        await wait_until(lambda: title() == [(topic, "Ships")])


async def test_a_set_is_made_asked_and_removed(sandbox, live_bot):
    assert "No sets of channels yet" in await say_text(sandbox, OTTO, "/sets")
    made = await say_text(sandbox, OTTO, "/sets Town = @harbour_news")
    assert made == "Saved: Town is Harbour News. Ask like this: in Town: what is new?"
    assert "Saved: clay is" in await say_text(sandbox, OTTO, "/sets clay = Печь и глина")
    assert "Saved: port is Harbour News." in await say_text(sandbox, OTTO, "/sets port = harbour")
    assert await say_text(sandbox, OTTO, "/sets -port") == "Removed: port"
    assert "• town: Harbour News" in await say_text(sandbox, OTTO, "/sets")
    assert "7:30" in await say_text(sandbox, OTTO, f"In town: {FERRY}")
    assert "7:30" in await say_text(sandbox, OTTO, f"town: {FERRY}")
    assert "7:30" not in await say_text(sandbox, OTTO, f"in clay: {FERRY}")
    assert "7:30" in await say_text(sandbox, OTTO, FERRY)
    assert "7:30" not in await say_text(sandbox, OTTO, "/search in clay: ferry")
    assert "7:30" in await say_text(sandbox, OTTO, "/search in town: ferry")
    assert await say_text(sandbox, OTTO, "/sets - Clay") == "Removed: Clay"
    assert (await say_text(sandbox, OTTO, "/sets - clay")).startswith("I have no set with this name: clay")
    assert "7:30" in await say_text(sandbox, OTTO, f"in clay: {FERRY}")  # no set any more: words like others
    assert "Town" not in await say_text(sandbox, RITA, "/sets")  # each chat has its own


async def test_a_russian_set_is_named_in_its_case(sandbox, live_bot):
    await say(sandbox, RITA, "/sets работа = @pech_i_glina, Harbour News")
    assert "четвергам" in await say_text(sandbox, RITA, "в работе: когда обжиг?")


async def test_what_cannot_be_a_set_is_said_in_a_sentence(sandbox, home, live_bot):
    for wrong in ("work", "work =", "= @harbour_news", f"{'x' * 40} = @harbour_news", "a: b = @harbour_news"):
        assert (await say_text(sandbox, OTTO, f"/sets {wrong}")).startswith("To make one: /sets work")
    for unknown in ("@nobody", "Crew only", "The safe"):  # closed to Otto: as if there were none
        told = await say_text(sandbox, OTTO, f"/sets work = {unknown}")
        assert told.startswith(f"I read no channel with this name for you: {unknown}")
    async with open_archive(home) as archive:
        await change_channel_sets(archive, OTTO, lambda sets: sets.update({f"set {n}": [HARBOUR] for n in range(20)}))
    assert (await say_text(sandbox, OTTO, "/sets one more = @harbour_news")).startswith("There are 20 sets already")


async def test_a_set_opens_no_channel(sandbox, live, home):
    async with open_archive(home) as archive:
        await change_channel_sets(archive, OTTO, lambda sets: sets.update({"boats": [HARBOUR, CREW], "crew": [CREW]}))
    async with live():
        assert "4417" not in await say_text(sandbox, OTTO, "in boats: which digits open the boathouse padlock?")
        closed = await say_text(sandbox, OTTO, "in crew: which digits open the boathouse padlock?")
        assert closed == "You can ask none of the channels of this set now. See /sets"
        listed = await say_text(sandbox, OTTO, "/sets")
        assert "• boats: Harbour News" in listed
        assert "• crew: no channel that you can ask now" in listed
        await query_archive(home, lambda archive: set_channel_visibility(archive, HARBOUR, Visibility.ADMINS))
        assert "7:30" not in await say_text(sandbox, OTTO, f"in boats: {FERRY}")


async def test_a_groups_sets_are_its_admins(sandbox, live, home):
    await bind(home, HARBOUR, KILN)
    async with live():
        refused = await say_text(sandbox, RITA, "/sets@citegram_bot town = @harbour_news", chat=GROUP)
        assert "администраторы этой группы" in refused
        made = await say_text(sandbox, OTTO, "/sets@citegram_bot town = @harbour_news", chat=GROUP)
        assert made.startswith("Saved: town is Harbour News")
        assert "7:30" in await say_text(sandbox, RITA, f"/ask@citegram_bot in town: {FERRY}", chat=GROUP)


async def test_two_sets_that_are_made_at_once_are_both_kept(sandbox, home, live_bot):
    for name in ("one", "two", "three", "four"):
        await sandbox.say(OTTO, f"/sets {name} = @harbour_news")
    await sandbox.replies(OTTO, 4)
    assert (await say_text(sandbox, OTTO, "/sets")).count("•") == 4
