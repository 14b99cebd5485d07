from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driver import ADMIN, GROUP, HARBOUR, OTTO, RITA, SAFE, bind, query_archive, say, say_text
from sandbox_chat_changes import create_topic

from bot.sandbox import Sandbox
from rag_core.storage import Archive, channels, user_data

FERRY = "when does the ferry to Owl Island leave?"
ASK = f"/ask@citegram_bot {FERRY}"
told = partial(say_text, chat=GROUP)


async def test_an_admin_binds_and_unbinds_a_channel(sandbox: Sandbox, live: Any) -> None:
    async with live():
        assert (await told(sandbox, OTTO, ASK)).startswith("This group has no channels yet. Its")
        bound = await told(sandbox, ADMIN, "/bind@citegram_bot @Harbour_News")
        assert bound == "Done: everyone in this group can now ask about Harbour News."
        assert "7:30" in await told(sandbox, OTTO, ASK)
        assert "This group can ask about 1 channel:\n• Harbour News\n" in await told(
            sandbox, ADMIN, "/bind@citegram_bot"
        )
        assert (await told(sandbox, ADMIN, "/unbind@citegram_bot Harbour News")).startswith(
            "Done: this group can no longer"
        )
        assert (await told(sandbox, OTTO, ASK)).startswith("This group has no channels yet. Its")


async def test_a_bound_channel_is_the_only_one_a_group_hears_of(sandbox: Sandbox, live: Any, home: Path) -> None:
    await bind(home, SAFE)
    async with live():
        assert "7:30" not in await told(sandbox, ADMIN, ASK)
        assert "staircase" in await told(sandbox, OTTO, "/ask@citegram_bot where is the silver trophy hidden?")


@pytest.mark.parametrize("command", ["/bind@citegram_bot @harbour_news", "/unbind@citegram_bot @harbour_news"])
async def test_nobody_else_binds(sandbox: Sandbox, live: Any, command: str) -> None:
    async with live():
        assert (await told(sandbox, OTTO, command)).startswith("Only this bot's admins can do this.")
        assert (await told(sandbox, OTTO, ASK)).startswith("This group has no channels yet. Its")


async def test_an_admin_behind_a_mask_does_not_bind(sandbox: Sandbox, live: Any, home: Path) -> None:
    masked = await sandbox.say(ADMIN, "hello", chat_id=GROUP)
    masked |= {"text": "/bind@citegram_bot @harbour_news", "sender_chat": masked["chat"]}
    masked["entities"] = [{"type": "bot_command", "offset": 0, "length": 18}]
    async with live():
        sandbox.push({"message": masked})
        (reply,) = await sandbox.replies(GROUP)
    assert reply["text"].startswith("Only this bot's admins can do this")


async def test_what_cannot_be_bound_is_said(sandbox: Sandbox, live: Any, home: Path) -> None:
    await query_archive(home, lambda archive: channels.set_channel_state(archive, SAFE, "pending"))
    async with live():
        unknown = await told(sandbox, ADMIN, "/bind@citegram_bot @nowhere")
        pending = await told(sandbox, ADMIN, "/bind@citegram_bot The safe")
        none = await told(sandbox, ADMIN, "/bind@citegram_bot")
        private = await say(sandbox, ADMIN, "/bind")
    assert unknown.startswith("I do not know the channel @nowhere.")
    assert pending.startswith("The safe is not approved yet")
    assert none == "This group has no channels yet.\nWrite the channel after the command: /bind @channel"
    assert private["text"].startswith("This only works in groups")


async def test_a_group_hears_the_bot_when_it_is_meant_and_else_silence(sandbox: Sandbox, live: Any, home: Path) -> None:
    await bind(home, HARBOUR)
    sandbox.world.reads_groups = True  # privacy mode off: the bot gets every message
    async with live():
        by_command = await told(sandbox, OTTO, ASK)
        by_mention = await told(sandbox, OTTO, f"@Citegram_Bot, {FERRY}")
        bare = await told(sandbox, OTTO, f"/ask {FERRY}")
        last = sandbox.world.sent[GROUP][-1]
        by_reply = await told(sandbox, RITA, "и когда уходит паром? the ferry to Owl Island", reply_to=last)
        for text in (FERRY, "see citegram_bot", "mail citegram_bot@example.org", "@citegram_bots hello", "/weather"):
            await sandbox.say(OTTO, text, chat_id=GROUP)
        assert "7:30" in await told(sandbox, OTTO, ASK)
    assert "7:30" in by_command
    assert by_command == by_mention == bare
    assert "7:30" in by_reply
    assert len(sandbox.world.sent[GROUP]) == 5


async def test_a_mention_alone_is_asked_for_its_question(sandbox: Sandbox, live: Any, home: Path) -> None:
    await bind(home, HARBOUR)
    async with live():
        assert (await told(sandbox, OTTO, "@citegram_bot")).startswith("Write the question after the command")


async def test_an_answer_stays_in_its_topic(sandbox: Sandbox, live: Any, home: Path) -> None:
    await bind(home, HARBOUR)
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    async with live():
        reply = await say(sandbox, OTTO, ASK, GROUP, thread=topic)
    assert reply["message_thread_id"] == topic
    actions = [call for call in sandbox.transcript if call["method"] == "sendChatAction"]
    assert {call["params"]["message_thread_id"] for call in actions} == {str(topic)}


async def test_messages_of_a_topic_that_the_bot_opened_are_not_replies_to_it(sandbox: Sandbox, live: Any) -> None:
    topic = create_topic(sandbox.world, GROUP, ADMIN, "Ours")
    opening = sandbox.world.room(GROUP).messages[topic]
    opening["from"] = sandbox.world.bot.wire()
    sandbox.world.reads_groups = True
    async with live():
        await sandbox.say(OTTO, "chatting", chat_id=GROUP, thread=topic, reply_to=topic)
        await told(sandbox, OTTO, ASK)
    assert len(sandbox.world.sent[GROUP]) == 1


async def test_bindings_move_with_a_group_that_becomes_a_supergroup(sandbox: Sandbox, live: Any, home: Path) -> None:
    old, said = -77, {"message_id": 5, "date": 1, "from": sandbox.world.people[ADMIN].wire()}
    archive = await Archive.open(home)
    await channels.bind_channel(archive, old, HARBOUR)
    await user_data.save_choice(archive, f"memory {old}", "off")
    async with live():
        sandbox.push({"message": said | {"chat": {"id": old, "type": "group"}, "migrate_to_chat_id": GROUP}})
        while await channels.list_bound_channels(archive, old):
            await told(sandbox, OTTO, ASK)
        assert "7:30" in await told(sandbox, OTTO, ASK)
        assert (await told(sandbox, OTTO, "/new@citegram_bot")).startswith("I do not remember earlier questions")
    await archive.close()
