import asyncio
import json

import pytest
from driver import (
    ADMIN,
    ANONYMOUS,
    GROUP,
    HARBOUR,
    OTTO,
    RITA,
    SAFE,
    buttons,
    execute,
    open_archive,
    query_archive,
    say,
    say_text,
    sent,
)
from sandbox_chat_changes import rename_chat

from bot.access import AdminRegistry, MembershipCache
from bot.handlers import membership
from bot.sandbox.state import set_chat_member
from rag_core.storage import channel_history, channels, readers
from rag_core.types import Channel, Visibility

NEW = -1001000009
FERRY = "When does the ferry to Owl Island leave?"


def started(sandbox, *people):
    for person in people:
        sandbox.world.people[person].started = True


async def channel_when(home, chat_id, true):
    """The channel, once this is true of it."""
    async with asyncio.timeout(30), open_archive(home) as archive:
        while True:
            channel = (await channels.load_channels(archive)).get(chat_id)
            if channel and true(channel):
                return channel
            await asyncio.sleep(0.01)


async def test_a_new_channel_waits_until_an_admin_says_who_may_read_it(sandbox, live, home):
    world = sandbox.world
    world.add_channel(NEW, "Bakery <b>", "bakery", members=[OTTO], bot=False)
    started(sandbox, ADMIN, OTTO)
    async with live():
        set_chat_member(world, NEW, world.bot.id, "administrator", by=OTTO)
        (notice,), (thanks,) = await sandbox.replies(ADMIN), await sandbox.replies(OTTO)
        assert notice["text"].startswith("I was added to Bakery <b>. Nobody can ask about it")
        assert notice["text"].endswith("Added by Otto (id 502).")
        assert list(buttons(notice)) == ["Everyone", "Members", "Admins only", "Remove…"]
        assert thanks["text"].startswith("Thank you for adding me to Bakery <b>! My admin has to")
        assert "reply_markup" not in thanks
        before = await channel_when(home, NEW, lambda c: c.inside)
        assert (before.state, before.visibility, before.username) == ("pending", Visibility.ADMINS, "bakery")
        assert [gap.since for gap in (await query_archive(home, channel_history.list_open_gaps))[NEW]] == [None]
        assert "waiting for your approval" in await say_text(sandbox, ADMIN, "/channels")
        for chat, message in ((OTTO, thanks), (ADMIN, notice)):  # who added it does not approve it
            pressed = await sandbox.press(OTTO, chat, message["message_id"], buttons(notice)["Everyone"])
            assert pressed["answer"]["alert"] is True
        assert (await channel_when(home, NEW, lambda c: True)).state == "pending"
        await sandbox.press(ADMIN, ADMIN, notice["message_id"], buttons(notice)["Everyone"])
        after = await channel_when(home, NEW, lambda c: c.state == "active")
        assert after.visibility is Visibility.PUBLIC


async def test_admins_are_told_when_the_bot_is_thrown_out_and_added_again(sandbox, live, home):
    world = sandbox.world
    started(sandbox, ADMIN)
    async with live():
        for status in ("kicked", "left"):  # the second is no news
            set_chat_member(world, HARBOUR, world.bot.id, status, by=OTTO)
        (notice,) = await sandbox.replies(ADMIN)
        assert notice["text"].startswith("I am no longer an admin of Harbour News")
        assert notice["text"].endswith("Removed by Otto (id 502).")
        await channel_when(home, HARBOUR, lambda c: not c.inside)
        assert "for everyone · last post 15 March 2024 · I am no longer in it" in await say_text(
            sandbox, ADMIN, "/channels"
        )
        assert "7:30" in await say_text(sandbox, OTTO, FERRY)
        assert len(world.sent[ADMIN]) == 2
        set_chat_member(world, HARBOUR, world.bot.id, "administrator", by=ADMIN)  # which does not close it
        (notice,) = await sandbox.replies(ADMIN)
        assert "I read its new posts" in notice["text"]
        assert (await channel_when(home, HARBOUR, lambda c: c.inside)).visibility is Visibility.PUBLIC
        assert "7:30" in await say_text(sandbox, OTTO, FERRY)


async def test_somebody_who_adds_the_bot_everywhere_does_not_flood_the_admins(sandbox, live, home):
    world = sandbox.world
    started(sandbox, ADMIN, OTTO)
    async with live():
        for number in range(8):
            world.add_channel(NEW - number, f"Spam {number}", members=[OTTO], bot=False)
            set_chat_member(world, NEW - number, world.bot.id, "administrator", by=OTTO)
        for number in range(8):
            await channel_when(home, NEW - number, lambda c: c.inside)
        assert (await say_text(sandbox, RITA, "/start")).startswith("Спрашивайте")
        assert len(world.sent[ADMIN]) == len(world.sent[OTTO]) == 5
        world.add_channel(SAFE - 100, "Honest", members=[RITA], bot=False)
        set_chat_member(world, SAFE - 100, world.bot.id, "administrator", by=RITA)
        notices = await sandbox.replies(ADMIN, 6)
        assert "Honest" in notices[-1]["text"]
        assert (await say_text(sandbox, ADMIN, "/channels")).startswith("13 channels")


async def test_changes_that_come_together_are_taken_in_their_order(sandbox, live, home):
    world = sandbox.world
    for _ in range(5):
        set_chat_member(world, HARBOUR, world.bot.id, "left", by=ADMIN)
        set_chat_member(world, HARBOUR, world.bot.id, "administrator", by=ADMIN)
    for _ in range(5):
        set_chat_member(world, SAFE, world.bot.id, "administrator", by=ADMIN)
        set_chat_member(world, SAFE, world.bot.id, "left", by=ADMIN)
    async with live():
        await say_text(sandbox, OTTO, "/help")
        await channel_when(home, HARBOUR, lambda c: c.inside)
        await channel_when(home, SAFE, lambda c: not c.inside)


async def test_names_of_channels_and_of_imported_groups_are_followed(sandbox, live, home):
    world = sandbox.world
    imported = Channel(GROUP, "Neighbours", kind="supergroup", visibility=Visibility.MEMBERS)
    await query_archive(home, lambda archive: channels.save_channel(archive, imported))
    async with live():
        rename_chat(world, HARBOUR, "Port Herald", username="harbour_news")
        await channel_when(home, HARBOUR, lambda c: c.title == "Port Herald")
        rename_chat(world, HARBOUR, "Port Herald", username="port_herald")
        await sandbox.post(HARBOUR, "We have moved.")
        await channel_when(home, HARBOUR, lambda c: c.username == "port_herald")
        assert "Port Herald" in await say_text(sandbox, ADMIN, "/channels")
        assert "Port Herald" in await say_text(sandbox, OTTO, "/start")
        rename_chat(world, GROUP, "Good neighbours", by=ADMIN)
        after = await channel_when(home, GROUP, lambda c: c.title == "Good neighbours")
    assert (after.visibility, after.kind) == (Visibility.MEMBERS, "supergroup")


async def test_taking_the_bot_out_and_in_is_told_a_few_times_in_an_hour(sandbox, live, caplog):
    world = sandbox.world
    started(sandbox, ADMIN, OTTO)
    async with live():
        for _ in range(15):
            set_chat_member(world, HARBOUR, world.bot.id, "left", by=OTTO)
            set_chat_member(world, HARBOUR, world.bot.id, "administrator", by=OTTO)
        told = await sandbox.replies(ADMIN, 5)
        assert await sandbox.until(lambda: caplog.text.count("nobody is told of channel") == 2 * 15 - 5)
        assert all("Otto (id 502)" in one["text"] for one in told)
    assert len(world.sent[ADMIN]) == 5


async def test_only_so_many_channels_of_strangers_wait(sandbox, live, home, monkeypatch):
    world = sandbox.world
    monkeypatch.setattr(membership, "MAX_WAITING_CHANNELS", 3)
    started(sandbox, ADMIN, OTTO)
    async with live():
        for number in range(5):
            world.add_channel(NEW - number, f"Spam {number}", members=[OTTO], bot=False)
            set_chat_member(world, NEW - number, world.bot.id, "administrator", by=OTTO)
            await say_text(sandbox, RITA, "/start")
        await sandbox.until(
            lambda: not any(world.room(NEW - n).member(world.bot.id).inside for n in (3, 4)), 30
        )  # updates are handled side by side
        known = await query_archive(home, channels.load_channels)
        assert [NEW - n in known for n in range(5)] == [True, True, True, False, False]
        assert not any(world.room(NEW - n).member(world.bot.id).inside for n in (3, 4))
        refused = "Too many channels are waiting for approval, so I left Spam"
        assert await sandbox.until(lambda: any(one["text"].startswith(refused) for one in sent(sandbox, OTTO)), 30)
        world.add_channel(NEW - 9, "Mine", members=[ADMIN], bot=False)
        set_chat_member(world, NEW - 9, world.bot.id, "administrator", by=ADMIN)
        await channel_when(home, NEW - 9, lambda c: c.inside)


TROPHY = "where did the treasurer hide the silver trophy?"


def list_data(message):
    return [button["callback_data"] for row in message["reply_markup"]["inline_keyboard"] for button in row]


async def sure(sandbox, who, text, choice=0):
    """Send the command, press yes (or no), and read what the message says then."""
    message = await say(sandbox, who, text)
    before = message["text"]
    await sandbox.press(who, who, message["message_id"], list_data(message)[choice])
    room = sandbox.world.room(who)
    assert await sandbox.until(lambda: room.messages[message["message_id"]]["text"] != before)
    return str(room.messages[message["message_id"]]["text"])


async def granted(home):
    async with open_archive(home) as archive:
        return [(one.user_id, one.granted_by) for one in await readers.list_admin_grants(archive)]


async def test_an_admin_makes_another_until_it_is_taken_back(sandbox, live, home):
    async with live():
        assert "staircase" not in (await say(sandbox, OTTO, TROPHY))["text"]
        assert (await say(sandbox, OTTO, "/channels"))["text"].startswith("Only this bot's admins")
        asked = await say(sandbox, ADMIN, f"/grant {OTTO}")
        assert asked["text"].startswith("Make Otto (502) an admin of the bot?")
        assert "is now an admin of the bot, and I have told them" in await sure(sandbox, ADMIN, f"/grant {OTTO}")
        (news,) = await sandbox.replies(OTTO)
        assert news["text"].startswith("You are now an admin of this bot")
        assert "staircase" in (await say(sandbox, OTTO, TROPHY))["text"]
        assert (await say(sandbox, OTTO, "/channels"))["text"].startswith("4 channels")
        menu = (json.dumps({"chat_id": OTTO, "type": "chat"}), "ru")
        assert await sandbox.until(lambda: menu in sandbox.world.commands)
    assert await granted(home) == [(OTTO, ADMIN)]
    async with live():  # kept
        assert "staircase" in (await say(sandbox, OTTO, TROPHY))["text"]
        listed = (await say(sandbox, ADMIN, "/grant"))["text"]
        assert "• 501 — from the settings" in listed
        assert "• 502 — by 501, " in listed
        for text in (f"/revoke {ADMIN}", f"/grant {ADMIN}"):
            assert (await say(sandbox, OTTO, text))["text"].startswith("501 is an admin in the settings")
        assert "is no longer an admin of the bot" in await sure(sandbox, ADMIN, f"/revoke {OTTO}")
        (news,) = await sandbox.replies(OTTO)
        assert news["text"].startswith("You are no longer an admin of this bot")
        assert "staircase" not in (await say(sandbox, OTTO, TROPHY))["text"]
        assert await sandbox.until(lambda: menu not in sandbox.world.commands)
    assert await granted(home) == []


async def test_what_cannot_be_done_is_said(sandbox, live_bot):
    for text in ("/grant", "/grant @otto", "/grant -1001000001", "/grant 0", "/revoke"):
        assert (await say(sandbox, ADMIN, text))["text"].startswith("/grant 123456789 makes someone"), text
    assert (await say(sandbox, ADMIN, "/revoke 502"))["text"] == "502 is not an admin."
    assert "is me" in (await say(sandbox, ADMIN, f"/grant {sandbox.world.bot.id}"))["text"]


async def test_nobody_else_grants_not_even_with_an_admins_button(sandbox, live, home, monkeypatch):
    async with live():
        assert (await say(sandbox, OTTO, f"/grant {OTTO}"))["text"].startswith("Only this bot's admins")
        asked = await say(sandbox, ADMIN, f"/grant {OTTO}")
        mine = sandbox.world.sent[OTTO][-1]
        for data in list_data(asked):
            pressed = await sandbox.press(OTTO, OTTO, mine, data)
            assert pressed["answer"]["text"].startswith("Only this bot's admins")
        await sandbox.say(ADMIN, f"/grant@citegram_bot {OTTO}", chat_id=GROUP)  # not in front of everybody
        made_up = list_data(asked)[0].replace("502", "500")
        late = await sandbox.press(ADMIN, ADMIN, asked["message_id"], made_up)
        assert late["answer"]["text"].startswith("This button")
        monkeypatch.setattr(membership, "_CONFIRMATION_SECONDS", -1)
        late = await sandbox.press(ADMIN, ADMIN, asked["message_id"], list_data(asked)[0])
        assert late["answer"]["text"].startswith("This button")
        assert await sure(sandbox, ADMIN, f"/grant {OTTO}", choice=1) == "Nothing was changed."
    assert await granted(home) == []
    assert not sandbox.world.sent.get(GROUP)


async def test_who_writes_as_a_chat_is_no_admin(sandbox, live, home):
    """Also where the settings or the archive name that chat, or Telegram's account of anonymous membership."""
    world, room = sandbox.world, sandbox.world.room(GROUP)
    for number in (GROUP, 1087968824, 0):
        execute(home, "INSERT INTO grants (user_id, granted_by, granted_at) VALUES (?, 501, 1)", number)
    text = "/bind@citegram_bot The safe"
    async with live():
        for sender in (GROUP, HARBOUR, None):
            told = {"from": ANONYMOUS}
            if sender:
                told["sender_chat"] = world.room(sender).wire()
            entity = {"type": "bot_command", "offset": 0, "length": len("/bind@citegram_bot")}
            world.queue.push("message", world.add(room, told | {"text": text, "entities": [entity]}))
            (said,) = await sandbox.replies(GROUP)
            assert said["text"].startswith("Only this bot's admins"), said["text"]
    assert execute(home, "SELECT * FROM bindings") == []


async def test_rights_are_of_people_only():
    rights = AdminRegistry((501, GROUP, 0, 1087968824), MembershipCache(None), None)
    assert list(rights) == [501]
    assert GROUP not in rights
    with pytest.raises(ValueError, match="no id of a person"):
        await rights.grant(GROUP, 501)
