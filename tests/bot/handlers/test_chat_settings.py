"""/settings in a group: by its own admins, checked at every press, and true of every answer after it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driver import ADMIN, CREW, GROUP, HARBOUR, KILN, OTTO, RITA, SAFE, buttons, current, say, wait_until_handled
from sandbox_chat_changes import create_topic

from bot.sandbox import Sandbox
from bot.sandbox.state import set_chat_member
from bot.views.channel_card import make_channel_token
from rag_core.calibration import Calibration
from rag_core.storage import Archive, channels
from rag_core.storage import channels as group_rules
from rag_core.storage.channels import GroupRules
from rag_core.types import Certainty, Visibility

FERRY = "/ask@citegram_bot when does the ferry to Owl Island leave?"
SETTINGS = "/settings@citegram_bot"


said = partial(say, chat=GROUP)


async def press(sandbox: Sandbox, message: dict[str, Any], label: str, who: int = OTTO) -> str:
    """Press a button by its label; what the bot said to it."""
    data = buttons(current(sandbox, message))[label]
    return await send(sandbox, message, data, who)


async def send(sandbox: Sandbox, message: dict[str, Any], data: str, who: int = OTTO) -> str:
    pressed = await sandbox.press(who, GROUP, message["message_id"], data)
    assert pressed["answer"] is not None
    return str(pressed["answer"]["text"])


async def ready(home: Path, *chats: int, **rules: Any) -> Archive:
    archive = await Archive.open(home)
    for chat in chats:
        await channels.bind_channel(archive, GROUP, chat)
    if rules:
        await group_rules.save_group_rules(archive, GROUP, GroupRules(**rules))
    return archive


async def test_the_groups_admin_binds_a_public_channel_with_buttons(sandbox: Sandbox, live: Any) -> None:
    async with live():
        settings = await said(sandbox, OTTO, SETTINGS)
        assert "This group has no channels yet." in settings["text"]
        await press(sandbox, settings, "Channels")
        assert list(buttons(current(sandbox, settings))) == ["＋ Harbour News", "＋ Печь и глина", "‹ Back"]
        assert await press(sandbox, settings, "＋ Harbour News") == "Saved."
        assert "7:30" in (await said(sandbox, RITA, FERRY))["text"]
        await press(sandbox, settings, "‹ Back")
        assert "This group can ask about 1 channel:\n• Harbour News" in current(sandbox, settings)["text"]
        await press(sandbox, settings, "Channels")
        await press(sandbox, settings, "✓ Harbour News")
        assert (await said(sandbox, RITA, FERRY))["text"].startswith("This group has no channels yet")


async def test_in_russian_for_a_russian_admin(sandbox: Sandbox, live: Any) -> None:
    set_chat_member(sandbox.world, GROUP, RITA, "administrator")
    async with live():
        settings = await said(sandbox, RITA, SETTINGS)
        assert settings["text"].startswith("Настройки этой группы\n\nГруппе пока не открыт ни один канал")
        await press(sandbox, settings, "Каналы", RITA)
        assert await press(sandbox, settings, "＋ Печь и глина", RITA) == "Сохранено."


async def test_nobody_else_sees_or_presses_them(sandbox: Sandbox, live: Any, home: Path) -> None:
    archive = await ready(home)
    async with live():
        refused = await said(sandbox, RITA, SETTINGS)
        assert refused["text"].startswith("Это могут только администраторы этой группы")
        settings = await said(sandbox, OTTO, SETTINGS)
        for label in buttons(settings):
            assert "администраторы этой группы" in await press(sandbox, settings, label, RITA)
        await press(sandbox, settings, "Channels")
        assert "администраторы этой группы" in await press(sandbox, settings, "＋ Harbour News", RITA)
        assert await channels.list_bound_channels(archive, GROUP) == frozenset()
        assert await group_rules.load_group_rules(archive, GROUP) == GroupRules()
    await archive.close()


async def test_a_button_counts_for_who_is_an_admin_when_it_is_pressed(sandbox: Sandbox, live: Any, home: Path) -> None:
    archive = await ready(home)
    set_chat_member(sandbox.world, GROUP, sandbox.world.bot.id, "administrator")  # so that it hears of others
    set_chat_member(sandbox.world, GROUP, RITA, "administrator")
    async with live():
        settings = await said(sandbox, RITA, SETTINGS)
        set_chat_member(sandbox.world, GROUP, RITA, "member", by=OTTO)
        await wait_until_handled(sandbox)
        assert "администраторы этой группы" in await press(
            sandbox, settings, "Пусть спрашивают только администраторы", RITA
        )
        assert await group_rules.load_group_rules(archive, GROUP) == GroupRules()
    await archive.close()


@pytest.mark.parametrize("text", [SETTINGS, "/ask@citegram_bot when does the ferry leave?"])
async def test_an_anonymous_admin_is_nobody(sandbox: Sandbox, live: Any, home: Path, text: str) -> None:
    archive = await ready(home, HARBOUR, admins_ask=True)
    await archive.close()
    masked = await sandbox.say(OTTO, "hello", chat_id=GROUP)
    masked |= {"text": text, "sender_chat": masked["chat"]}
    masked["from"] = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    masked["entities"] = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}]
    async with live():
        sandbox.push({"message": masked})
        (reply,) = await sandbox.replies(GROUP)
    assert "under their own name" in reply["text"]


async def test_a_closed_channel_cannot_be_bound_by_a_made_up_button(sandbox: Sandbox, live: Any, home: Path) -> None:
    archive = await ready(home)
    async with live():
        settings = await said(sandbox, OTTO, SETTINGS)
        await press(sandbox, settings, "Channels")
        assert "Crew only" not in str(current(sandbox, settings))
        for chat in (CREW, SAFE):
            answer = await send(sandbox, settings, f"gs:b:{make_channel_token(archive, chat)}:0")
            assert answer.startswith("This channel is not available here any")
        assert (await send(sandbox, settings, "gs:b:AAAAAAAA:0")).startswith("This channel is not available here any")
        assert await channels.list_bound_channels(archive, GROUP) == frozenset()
    await archive.close()


async def test_a_bot_admin_lets_groups_bind_a_closed_channel_and_takes_it_back(
    sandbox: Sandbox, live: Any, home: Path
) -> None:
    async with live():
        listed = await say(sandbox, ADMIN, "/channels")

        async def card(*labels: str) -> None:
            for label in labels:
                data = buttons(sandbox.world.room(ADMIN).messages[listed["message_id"]])[label]
                await sandbox.press(ADMIN, ADMIN, listed["message_id"], data)

        await card("Crew only", "Let groups choose it")
        settings = await said(sandbox, OTTO, SETTINGS)
        await press(sandbox, settings, "Channels")
        await press(sandbox, settings, "＋ Crew only")
        padlock = "/ask@citegram_bot which digits open the boathouse padlock?"
        assert "4417" in (await said(sandbox, RITA, padlock))["text"]
        await card("Do not let groups choose it")
        assert "4417" not in (await said(sandbox, RITA, padlock))["text"]
        assert "Crew only" not in (await said(sandbox, OTTO, SETTINGS))["text"]


async def test_what_a_group_bound_ends_when_the_channel_is_closed(home: Path) -> None:
    archive = await ready(home)
    await channels.bind_channel(archive, GROUP, HARBOUR, own=True)
    assert await channels.list_bound_channels(archive, GROUP) == {HARBOUR}
    await channels.set_channel_visibility(archive, HARBOUR, Visibility.ADMINS)
    assert await channels.list_bound_channels(archive, GROUP) == frozenset()
    await channels.bind_channel(archive, GROUP, HARBOUR)  # an admin of the bot may
    await channels.bind_channel(archive, GROUP, HARBOUR, own=True)  # and it stays theirs
    assert await channels.list_bound_channels(archive, GROUP) == {HARBOUR}
    await channels.set_channel_bindable(archive, HARBOUR, True)
    await channels.set_channel_visibility(archive, HARBOUR, Visibility.MEMBERS)
    assert not (await channels.load_channels(archive))[HARBOUR].bindable
    await archive.close()


async def test_where_only_admins_ask_others_are_told_so(sandbox: Sandbox, live: Any, home: Path) -> None:
    archive = await ready(home, HARBOUR)
    await archive.close()
    topic = create_topic(sandbox.world, GROUP, OTTO, "Ferries")
    async with live():
        settings = await said(sandbox, OTTO, SETTINGS)
        assert await press(sandbox, settings, "Let only admins ask") == "Saved."
        for text in (FERRY, "@citegram_bot when does the ferry leave?", "/search@citegram_bot ferry"):
            assert (await said(sandbox, RITA, text))["text"].startswith("В этой группе меня спрашивают только её адми")
        refused = await said(sandbox, RITA, FERRY, thread=topic)
        assert refused["message_thread_id"] == topic
        assert "7:30" in (await said(sandbox, OTTO, FERRY))["text"]
        assert "7:30" in (await said(sandbox, ADMIN, FERRY))["text"]  # an admin of the bot
        await press(sandbox, settings, "Let everyone ask")
        assert "7:30" in (await said(sandbox, RITA, FERRY))["text"]


async def test_an_unsure_answer_is_a_refusal_where_only_sure_ones_are_wanted(
    sandbox: Sandbox, live: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = await ready(home, HARBOUR, cited_only=True)
    async with live():
        monkeypatch.setattr(Calibration, "grade", lambda *args, **kwargs: Certainty.PROBABLE)
        strict = (await said(sandbox, OTTO, FERRY))["text"]
        await group_rules.save_group_rules(archive, GROUP, GroupRules())
        free = (await said(sandbox, OTTO, FERRY))["text"]
    assert strict.startswith("I did not find a sure answer.")
    assert "Harbour News" in strict  # what came nearest
    assert free.startswith("I am not sure. The closest I found:")
    await archive.close()


async def test_the_group_has_one_language_where_it_wants_one(sandbox: Sandbox, live: Any, home: Path) -> None:
    archive = await ready(home, HARBOUR)
    await archive.close()
    async with live():
        settings = await said(sandbox, OTTO, SETTINGS)
        await press(sandbox, settings, "Language: English")
        assert "Language: English" in current(sandbox, settings)["text"]
        await press(sandbox, settings, "Language: Russian")
        assert "Язык бота: русский" in current(sandbox, settings)["text"]
        answer = (await said(sandbox, OTTO, FERRY))["text"]
        assert "The ferry to Owl Island leaves at 7:30" in answer  # a quote stays as it is
        assert "Источник" in answer
        private = await say(sandbox, OTTO, "/start")
    assert "I read 2 channels for you" in private["text"]


async def test_without_its_name_and_in_private_the_command_says_little(sandbox: Sandbox, live: Any) -> None:
    sandbox.world.reads_groups = True
    async with live():
        await sandbox.say(OTTO, "/settings", chat_id=GROUP)
        assert (await said(sandbox, OTTO, SETTINGS))["text"].startswith("Settings of this group")
        private = await say(sandbox, OTTO, "/settings")
    assert private["text"].startswith("Dates and times here: UTC")
    assert len(sandbox.world.sent[GROUP]) == 1


async def test_what_was_chosen_moves_along_with_the_group(home: Path) -> None:
    archive = await ready(home, HARBOUR, admins_ask=True, lang="ru")
    await channels.bind_channel(archive, GROUP, KILN, own=True)
    await group_rules.move_group(archive, GROUP, -1010)
    assert await channels.list_bound_channels(archive, -1010) == {HARBOUR, KILN}
    assert await group_rules.load_group_rules(archive, -1010) == GroupRules(admins_ask=True, lang="ru")
    assert await channels.list_bound_channels(archive, GROUP) == frozenset()
    assert await group_rules.load_group_rules(archive, GROUP) == GroupRules()
    await channels.set_channel_visibility(archive, KILN, Visibility.MEMBERS)
    assert await channels.list_bound_channels(archive, -1010) == {HARBOUR}  # still the group's own binding
    await archive.close()
