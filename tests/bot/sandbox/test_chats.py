from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError
from aiogram.types import MessageOriginChannel, MessageOriginHiddenUser, ReplyParameters, Update
from driven_sandbox import DrivenSandbox
from driver import ADMIN
from sandbox_chat_changes import create_topic

from bot.sandbox import Sandbox
from bot.sandbox.state import set_chat_member

READER = 500
CHANNEL, GROUP, FORUM, OUTSIDE = -1001, -1002, -1003, -1004
KINDS = ["message", "edited_message", "channel_post", "edited_channel_post"]
MEMBERS = ["my_chat_member", "chat_member", "message_reaction"]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, "Rita")
    world.add_person(ADMIN, "Ada")
    world.add_channel(CHANNEL, "Harbour News", "harbour", members=[ADMIN])
    world.add_channel(OUTSIDE, "Elsewhere", members=[ADMIN], bot=False)
    world.add_group(GROUP, "Neighbours", members=[ADMIN, READER])
    world.add_group(FORUM, "Forum", members=[ADMIN, READER], forum=True, bot="administrator")
    world.queue.allow(KINDS + MEMBERS)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def heard(bot: Bot) -> list[Update]:
    updates = await bot.get_updates()
    if updates:
        await bot.get_updates(offset=updates[-1].update_id + 1)
    return updates


async def texts(bot: Bot) -> list[str | None]:
    return [update.message.text for update in await heard(bot) if update.message]


async def test_a_channel_without_the_bot_is_silent_and_closed(sandbox: Sandbox, bot: Bot) -> None:
    await sandbox.post(OUTSIDE, "secret")
    assert await heard(bot) == []
    with pytest.raises(TelegramForbiddenError, match="bot is not a member of the channel chat"):
        await bot.get_chat(OUTSIDE)
    with pytest.raises(TelegramForbiddenError, match="bot is not a member of the channel chat"):
        await bot.send_message(OUTSIDE, "x")


async def test_forwards_say_where_they_come_from(sandbox: Sandbox, bot: Bot) -> None:
    source = await sandbox.post(CHANNEL, "Original")
    copy = await sandbox.post(CHANNEL, "", origin=(CHANNEL, source["message_id"]))
    await sandbox.post(CHANNEL, "Heard", origin="Old Sailor")
    _, known, hidden = [update.channel_post for update in await heard(bot)]
    assert copy["text"] == "Original"
    assert known is not None and isinstance(known.forward_origin, MessageOriginChannel)
    assert known.forward_origin.message_id == source["message_id"]
    assert hidden is not None and isinstance(hidden.forward_origin, MessageOriginHiddenUser)


async def test_the_discussion_group_gets_its_copy_of_a_post(sandbox: Sandbox, bot: Bot) -> None:
    sandbox.world.room(CHANNEL).linked = FORUM
    await sandbox.post(CHANNEL, "News")
    post, copy = await heard(bot)
    assert post.channel_post is not None and copy.message is not None
    assert copy.message.is_automatic_forward and copy.message.sender_chat is not None


async def test_privacy_mode_lets_through_what_is_meant_for_the_bot(sandbox: Sandbox, bot: Bot) -> None:
    async def say(text: str, reply_to: int | None = None) -> None:
        await sandbox.say(READER, text, chat_id=GROUP, reply_to=reply_to)

    commands = ("/ask when", "/ask@citegram_bot when", "/ask@other_bot when")
    for text in ("gossip", *commands, "hi @other", "hi @citegram_bot"):
        await say(text)
    assert await texts(bot) == ["/ask@citegram_bot when", "hi @citegram_bot"]
    sent = await bot.send_message(GROUP, "at nine")
    await say("thanks", sent.message_id)
    await say("/ask again")
    assert await texts(bot) == ["thanks", "/ask again"]


async def test_a_bot_that_leads_or_reads_all_hears_everything(sandbox: Sandbox, bot: Bot) -> None:
    assert (await bot.get_me()).can_read_all_group_messages is False
    sandbox.world.reads_groups = True
    await sandbox.say(READER, "gossip", chat_id=GROUP)
    sandbox.world.reads_groups = False
    set_chat_member(sandbox.world, GROUP, 42, "administrator", by=ADMIN)
    await sandbox.say(READER, "more gossip", chat_id=GROUP)
    assert await texts(bot) == ["gossip", "more gossip"]


async def test_topics_are_kept_apart(sandbox: Sandbox, bot: Bot) -> None:
    thread = create_topic(sandbox.world, FORUM, ADMIN, "Timetables")
    asked = await sandbox.say(READER, "when?", chat_id=FORUM, thread=thread)
    created, message = [update.message for update in await heard(bot)]
    assert created is not None and created.forum_topic_created is not None
    assert message is not None and message.is_topic_message and message.message_thread_id == thread
    answer = await bot.send_message(FORUM, "at nine", message_thread_id=thread)
    assert answer.message_thread_id == thread
    inherited = await bot.send_message(FORUM, "!", reply_parameters=ReplyParameters(message_id=asked["message_id"]))
    assert inherited.message_thread_id == thread
    for chat, wrong in ((FORUM, 999), (GROUP, thread)):
        with pytest.raises(TelegramBadRequest, match="message thread not found"):
            await bot.send_message(chat, "x", message_thread_id=wrong)


async def test_members_come_and_go(sandbox: Sandbox, bot: Bot) -> None:
    set_chat_member(sandbox.world, CHANNEL, READER, "member")
    set_chat_member(sandbox.world, CHANNEL, READER, "kicked", by=ADMIN)
    set_chat_member(sandbox.world, OUTSIDE, 42, "administrator", by=ADMIN)
    joined, thrown, added = await heard(bot)
    assert joined.chat_member is not None and joined.chat_member.new_chat_member.status == "member"
    assert thrown.chat_member is not None and thrown.chat_member.from_user.id == ADMIN
    assert added.my_chat_member is not None and added.my_chat_member.old_chat_member.status == "left"
    assert (await bot.get_chat_member(CHANNEL, READER)).status == "kicked"
    for leader, status in ((ADMIN, "creator"), (42, "administrator")):
        assert (await bot.get_chat_member(CHANNEL, leader)).status == status
    with pytest.raises(TelegramBadRequest, match="user not found"):
        await bot.get_chat_member(CHANNEL, 999)
    set_chat_member(sandbox.world, GROUP, READER, "restricted", is_member=False)
    assert (await bot.get_chat_member(GROUP, READER)).status == "restricted"


async def test_a_bot_that_leaves_is_told_so_and_cannot_leave_twice(sandbox: Sandbox, bot: Bot) -> None:
    assert await bot.leave_chat(GROUP)
    left = next(u.my_chat_member for u in await heard(bot) if u.my_chat_member)
    assert (left.from_user.id, left.new_chat_member.status) == (42, "left")
    with pytest.raises(TelegramForbiddenError, match="bot is not a member of the supergroup chat"):
        await bot.leave_chat(GROUP)
    with pytest.raises(TelegramBadRequest, match="can't be changed in private chats"):
        await bot.leave_chat(READER)


async def test_a_public_channel_is_read_from_outside_and_written_from_inside(sandbox: Sandbox, bot: Bot) -> None:
    set_chat_member(sandbox.world, CHANNEL, 42, "left", by=ADMIN)
    assert (await bot.get_chat(CHANNEL)).title == "Harbour News"
    assert (await bot.get_chat_member(CHANNEL, 42)).status == "left"
    with pytest.raises(TelegramForbiddenError, match="bot is not a member of the channel chat"):
        await bot.send_message(CHANNEL, "x")
    set_chat_member(sandbox.world, CHANNEL, 42, "kicked", by=ADMIN)
    with pytest.raises(TelegramForbiddenError, match="bot was kicked from the channel chat"):
        await bot.get_chat(CHANNEL)


async def test_what_a_channel_deletes_is_not_told_and_cannot_be_copied_any_more(sandbox: Sandbox, bot: Bot) -> None:
    post = (await sandbox.post(CHANNEL, "Ferry at 9:00"))["message_id"]
    await sandbox.say(READER, "hi")
    await heard(bot)
    copy = await bot.copy_message(READER, CHANNEL, post)
    await bot.delete_message(READER, copy.message_id)
    await sandbox.delete(CHANNEL, post)
    assert await heard(bot) == []
    with pytest.raises(TelegramBadRequest, match="message to copy not found"):
        await bot.copy_message(READER, CHANNEL, post)


async def test_the_posts_of_a_protected_channel_say_so_and_are_not_copied(sandbox: Sandbox, bot: Bot) -> None:
    sandbox.world.room(CHANNEL).protected = True
    post = await sandbox.post(CHANNEL, "Ferry at 9:00")
    await sandbox.say(READER, "hi")
    told = (await heard(bot))[0].channel_post
    assert told and told.has_protected_content
    with pytest.raises(TelegramBadRequest, match="protected content"):
        await bot.copy_message(READER, CHANNEL, post["message_id"])
