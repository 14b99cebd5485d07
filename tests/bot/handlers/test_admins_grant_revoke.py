"""/grant and /revoke: who may, what is asked and told, what it opens, and that it is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from driver import ADMIN, GROUP, HARBOUR, OTTO, RITA, execute, open_archive, say

from bot.access import AdminRegistry, MembershipCache
from bot.handlers import membership
from bot.sandbox import Sandbox
from rag_core.storage import readers

TROPHY = "where did the treasurer hide the silver trophy?"


def buttons(message: dict[str, Any]) -> list[str]:
    return [button["callback_data"] for row in message["reply_markup"]["inline_keyboard"] for button in row]


async def sure(sandbox: Sandbox, who: int, text: str, choice: int = 0) -> str:
    """Send the command, press yes (or no), and read what the message says then."""
    message = await say(sandbox, who, text)
    before = message["text"]
    await sandbox.press(who, who, message["message_id"], buttons(message)[choice])
    room = sandbox.world.room(who)
    assert await sandbox.until(lambda: room.messages[message["message_id"]]["text"] != before)
    return str(room.messages[message["message_id"]]["text"])


async def granted(home: Path) -> list[tuple[int, int]]:
    async with open_archive(home) as archive:
        return [(one.user_id, one.by) for one in await readers.list_admin_grants(archive)]


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


async def test_other_admins_hear_of_it_each_in_their_language(sandbox, live):
    async with live(admins=(ADMIN, RITA)):
        sandbox.world.people[ADMIN].started = sandbox.world.people[OTTO].started = True
        assert (await say(sandbox, RITA, "/grant"))["text"].startswith("/grant 123456789 делает человека")
        said = await sure(sandbox, RITA, f"/grant {OTTO}")
        assert said == "Готово: 502 теперь администратор бота, я ему сообщил."
        assert await sure(sandbox, RITA, f"/revoke {OTTO}") == "Готово: 502 больше не администратор бота."
        (heard, _) = await sandbox.replies(ADMIN, 2)
    assert heard["text"] == "Admin 500 made 502 an admin of the bot."


async def test_what_cannot_be_done_is_said(sandbox, live):
    async with live():
        for text in ("/grant", "/grant @otto", "/grant -1001000001", "/grant 0", "/revoke"):
            assert (await say(sandbox, ADMIN, text))["text"].startswith("/grant 123456789 makes someone"), text
        assert (await say(sandbox, ADMIN, "/revoke 502"))["text"] == "502 is not an admin."
        assert "is me" in (await say(sandbox, ADMIN, f"/grant {sandbox.world.bot.id}"))["text"]


async def test_nobody_else_grants_not_even_with_an_admins_button(sandbox, live, home, monkeypatch):
    async with live():
        assert (await say(sandbox, OTTO, f"/grant {OTTO}"))["text"].startswith("Only this bot's admins")
        asked = await say(sandbox, ADMIN, f"/grant {OTTO}")
        mine = sandbox.world.sent[OTTO][-1]
        for data in buttons(asked):
            pressed = await sandbox.press(OTTO, OTTO, mine, data)
            assert pressed["answer"]["text"].startswith("Only this bot's admins")
        await sandbox.say(ADMIN, f"/grant@citegram_bot {OTTO}", chat_id=GROUP)  # not in front of everybody
        made_up = buttons(asked)[0].replace("502", "500")
        late = await sandbox.press(ADMIN, ADMIN, asked["message_id"], made_up)
        assert late["answer"]["text"].startswith("This button")
        monkeypatch.setattr(membership, "_CONFIRMATION_SECONDS", -1)
        late = await sandbox.press(ADMIN, ADMIN, asked["message_id"], buttons(asked)[0])
        assert late["answer"]["text"].startswith("This button")
        assert await sure(sandbox, ADMIN, f"/grant {OTTO}", choice=1) == "Nothing was changed."
    assert await granted(home) == []
    assert not sandbox.world.sent.get(GROUP)


async def test_who_cannot_be_reached_is_an_admin_all_the_same(sandbox, live, home):
    async with live():
        said = await sure(sandbox, ADMIN, f"/grant {RITA}")
    assert "they have to write to me first" in said
    assert await granted(home) == [(RITA, ADMIN)]


async def test_who_writes_as_a_chat_is_no_admin(sandbox, live, home):
    """Also where the settings or the archive name that chat, or Telegram's account of anonymous membership."""
    world, room = sandbox.world, sandbox.world.room(GROUP)
    for number in (GROUP, 1087968824, 0):
        execute(home, "INSERT INTO grants (user_id, granted_by, granted_at) VALUES (?, 501, 1)", number)
    text = "/bind@citegram_bot The safe"
    async with live():
        for sender in (GROUP, HARBOUR, None):
            told = {"from": {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}}
            if sender:
                told["sender_chat"] = world.room(sender).wire()
            entity = {"type": "bot_command", "offset": 0, "length": len("/bind@citegram_bot")}
            world.queue.push("message", world.add(room, told | {"text": text, "entities": [entity]}))
            (said,) = await sandbox.replies(GROUP)
            assert said["text"].startswith("Only this bot's admins"), said["text"]
    assert execute(home, "SELECT * FROM bindings") == []


async def test_rights_are_of_people_only():
    rights = AdminRegistry((501, GROUP, 0, 1087968824), MembershipCache(None), None)  # type: ignore[arg-type]
    assert list(rights) == [501]
    assert GROUP not in rights
    with pytest.raises(ValueError, match="no id of a person"):
        await rights.grant(GROUP, 501)  # type: ignore[arg-type]
