from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.channels import Open, Turn
from bot.sandbox import Sandbox
from bot.sandbox.membership import set_member
from bot.sandbox.people import press
from rag_core.doors.archive import Archive, channels
from rag_core.types import Channel, Visibility

RITA, OTTO, ADMIN = 500, 502, 501
HARBOUR, SAFE, NEW = -1001000001, -1001000004, -1001000009


def buttons(message: dict[str, Any]) -> dict[str, str]:
    rows = message["reply_markup"]["inline_keyboard"]
    return {button["text"]: button["callback_data"] for row in rows for button in row}


async def told(sandbox: Sandbox, who: int, text: str) -> dict[str, Any]:
    await sandbox.say(who, text)
    (reply,) = await sandbox.replies(who)
    return reply


def shown(sandbox: Sandbox, message: dict[str, Any]) -> dict[str, Any]:
    return sandbox.world.room(message["chat"]["id"]).messages[message["message_id"]]


async def test_an_admin_sees_the_channels_and_opens_one_to_everybody(sandbox: Sandbox, live: Any) -> None:
    async with live():
        listed = await told(sandbox, ADMIN, "/channels")
        assert listed["text"].startswith("4 channels\n\n")
        assert "Harbour News\n4 posts · read · for everyone" in listed["text"]
        assert "The safe\n2 posts · read · for admins" in listed["text"]
        place = (ADMIN, ADMIN, listed["message_id"])
        await sandbox.press(*place, buttons(listed)["The safe"])
        card = shown(sandbox, listed)
        assert card["text"].startswith("The safe\n2 posts · read · for admins\n\nWho may read it through me?")
        pressed = await sandbox.press(*place, buttons(card)["Everyone"])
        assert pressed["answer"]["text"] == "Done: The safe is for everyone."
        assert shown(sandbox, listed)["text"].startswith("The safe\n2 posts · read · for everyone")
        await sandbox.press(*place, buttons(card)["Everyone"])  # again: nothing to change, no error
        await sandbox.press(*place, buttons(card)["‹ Back"])
        assert shown(sandbox, listed)["text"].startswith("4 channels")
        answer = await told(sandbox, OTTO, "Where did the treasurer hide the silver trophy?")
    assert "under the staircase" in answer["text"]


async def test_in_russian_as_well(sandbox: Sandbox, live: Any) -> None:
    async with live(admins=(RITA,)):
        listed = await told(sandbox, RITA, "/channels")
        await sandbox.press(RITA, RITA, listed["message_id"], buttons(listed)["Печь и глина"])
    assert listed["text"].startswith("4 канала")
    card = shown(sandbox, listed)
    assert "4 поста · читается · открыт всем\n\nКому его открыть?" in card["text"]
    assert list(buttons(card)) == ["Всем", "Участникам", "Администраторам", "‹ Назад"]


async def test_readers_have_no_list_and_no_buttons(sandbox: Sandbox, live: Any, home: Path) -> None:
    async with live():
        refused = await told(sandbox, RITA, "/channels")
        assert refused["text"].startswith("Это могут только администраторы бота.")
        for data in (Open(chat_id=SAFE, visibility="public").pack(), Open(chat_id=SAFE).pack(), Turn(leaf=0).pack()):
            pressed = await sandbox.press(RITA, RITA, refused["message_id"], data)
            assert pressed["answer"]["alert"] is True
        assert shown(sandbox, refused)["text"] == refused["text"]
    archive = await Archive.open(home)
    assert (await channels.known(archive))[SAFE].visibility is Visibility.ADMINS
    await archive.close()


@pytest.mark.parametrize("data", ["channel:-1:public", "channel:-1001000004:everyone", "channel:x:", "elsewhere"])
async def test_made_up_buttons_change_nothing(sandbox: Sandbox, live: Any, home: Path, data: str) -> None:
    async with live():
        listed = await told(sandbox, ADMIN, "/channels")
        press(sandbox.world, ADMIN, ADMIN, listed["message_id"], data)
        await told(sandbox, ADMIN, "/help")
    archive = await Archive.open(home)
    assert (await channels.known(archive))[SAFE].visibility is Visibility.ADMINS
    await archive.close()


async def test_a_long_list_is_turned_like_pages(sandbox: Sandbox, live: Any, home: Path) -> None:
    archive = await Archive.open(home)
    for number in range(15):
        await channels.put(archive, Channel(-1002000 - number, f"Number {number:02}"))
    await archive.close()
    async with live():
        listed = await told(sandbox, ADMIN, "/channels")
        seen = list(buttons(listed))
        for _ in range(2):
            await sandbox.press(ADMIN, ADMIN, listed["message_id"], buttons(shown(sandbox, listed))["Later ›"])
            seen += buttons(shown(sandbox, listed))
        assert "Later ›" not in buttons(shown(sandbox, listed))
    assert len({text for text in seen if not text.startswith("‹") and not text.endswith("›")}) == 19


async def test_a_new_channel_waits_until_an_admin_says_who_may_read_it(sandbox: Sandbox, live: Any, home: Path) -> None:
    world = sandbox.world
    world.add_channel(NEW, "Bakery <b>", "bakery", members=[OTTO], bot=False)
    world.people[ADMIN].started = True
    async with live():
        set_member(world, NEW, world.bot.id, "administrator", by=OTTO)
        (notice,) = await sandbox.replies(ADMIN)
        assert notice["text"].startswith("I was added to the channel Bakery <b>. Nothing from it is shown to anybody")
        assert notice["text"].endswith("Added by Otto (id 502).")
        archive = await Archive.open(home)
        before = (await channels.known(archive))[NEW]
        assert (before.state, before.visibility, before.username) == ("pending", Visibility.ADMINS, "bakery")
        assert "waits for your approval" in (await told(sandbox, ADMIN, "/channels"))["text"]
        await sandbox.press(ADMIN, ADMIN, notice["message_id"], buttons(notice)["Everyone"])
        after = (await channels.known(archive))[NEW]
        assert (after.state, after.visibility) == ("active", Visibility.PUBLIC)
        await archive.close()


async def test_a_channel_that_is_read_already_is_not_closed_by_adding_the_bot_again(
    sandbox: Sandbox, live: Any, home: Path
) -> None:
    world = sandbox.world
    world.people[ADMIN].started = True
    async with live():
        set_member(world, HARBOUR, world.bot.id, "left", by=ADMIN)
        set_member(world, HARBOUR, world.bot.id, "administrator", by=ADMIN)
        (notice,) = await sandbox.replies(ADMIN)
        assert "I know it already" in notice["text"]
        assert "7:30" in (await told(sandbox, OTTO, "When does the ferry to Owl Island leave?"))["text"]


async def test_an_admin_who_never_wrote_to_the_bot_is_no_obstacle(sandbox: Sandbox, live: Any, home: Path) -> None:
    world = sandbox.world
    world.add_channel(NEW, "Bakery", members=[OTTO], bot=False)
    async with live():
        set_member(world, NEW, world.bot.id, "administrator", by=OTTO)
        archive = await Archive.open(home)
        while NEW not in await channels.known(archive):
            await told(sandbox, OTTO, "/help")
        await archive.close()
        assert "7:30" in (await told(sandbox, OTTO, "When does the ferry to Owl Island leave?"))["text"]
