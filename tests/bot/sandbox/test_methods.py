"""What the sandbox's Telegram does with updates, chats, members and files, and what it refuses."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramForbiddenError,
    TelegramUnauthorizedError,
)
from aiogram.types import (
    BotCommand,
    BotCommandScopeChat,
    BufferedInputFile,
    MessageOriginChannel,
    MessageOriginHiddenUser,
    ReplyParameters,
)
from driven_sandbox import DrivenSandbox
from driver import ADMIN, make_local_bot
from sandbox_chat_changes import create_topic, set_bot_blocked

from bot.sandbox.state import set_chat_member

READER = 500
CHANNEL, GROUP, FORUM, OUTSIDE = -1001, -1002, -1003, -1004
KINDS = ["message", "edited_message", "channel_post", "edited_channel_post"]
MEMBERS = ["my_chat_member", "chat_member", "message_reaction"]


@pytest.fixture
async def sandbox():
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, "Rita", lang="ru")
    world.add_person(ADMIN, "Ada")
    world.add_channel(CHANNEL, "Harbour News", "harbour", members=[ADMIN])
    world.add_channel(OUTSIDE, "Elsewhere", members=[ADMIN], bot=False)
    world.add_group(GROUP, "Neighbours", members=[ADMIN, READER])
    world.add_group(FORUM, "Forum", members=[ADMIN, READER], forum=True, bot="administrator")
    world.queue.allow(KINDS + MEMBERS)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def heard(bot):
    updates = await bot.get_updates()
    if updates:
        await bot.get_updates(offset=updates[-1].update_id + 1)
    return updates


async def texts(bot):
    return [update.message.text for update in await heard(bot) if update.message]


# Updates.


async def test_an_update_comes_again_until_the_offset_acknowledges_it(sandbox, bot):
    for text in ("one", "two", "three"):
        await sandbox.say(READER, text)
    first = await bot.get_updates(limit=2)
    again = await bot.get_updates()
    assert [u.update_id for u in again][:2] == [u.update_id for u in first]
    assert len(again) == 3
    rest = await bot.get_updates(offset=first[-1].update_id + 1)
    assert [u.message.text for u in rest if u.message] == ["three"]
    assert len(await bot.get_updates(offset=-1)) == 1


async def test_allowed_updates_are_remembered(sandbox, bot):
    await bot.get_updates(allowed_updates=["channel_post"])
    await sandbox.say(READER, "nobody hears this")
    await sandbox.post(CHANNEL, "a post")
    [update] = await heard(bot)
    assert update.channel_post is not None
    assert (await bot.get_webhook_info()).allowed_updates == ["channel_post"]


async def test_updates_go_to_one_poller_and_to_none_beside_a_webhook(sandbox, bot):
    first = asyncio.create_task(bot.get_updates(timeout=30))
    async with asyncio.timeout(30):
        while not sandbox.transcript:  # noqa: ASYNC110 - the bell rings at its end
            await asyncio.sleep(0.01)
    second = asyncio.create_task(bot.get_updates(timeout=20))
    with pytest.raises(TelegramConflictError, match="terminated by other getUpdates request; make sure"):
        await first
    await sandbox.say(READER, "x")
    assert len(await second) == 1
    await bot.set_webhook("https://example.org/hook")
    with pytest.raises(TelegramConflictError, match="while webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert len(await heard(bot)) == 1


async def test_updates_older_than_a_day_are_lost():
    now = 1_800_000_000.0
    sandbox = DrivenSandbox(clock=lambda: now)
    sandbox.world.add_channel(CHANNEL, "News")
    await sandbox.post(CHANNEL, "yesterday")
    now += 24 * 3600 + 1
    await sandbox.post(CHANNEL, "today")
    [update] = await sandbox.world.queue.poll(0, 100, 0)
    assert update["channel_post"]["text"] == "today"


# Calls.


async def test_a_wrong_token_and_an_unknown_method_are_refused(sandbox):
    async with make_local_bot(sandbox.url, "42:WRONG") as stranger:
        with pytest.raises(TelegramUnauthorizedError, match="Unauthorized"):
            await stranger.get_me()
    async with aiohttp.ClientSession() as http:
        answer = await http.post(f"{sandbox.url}/bot{sandbox.token}/sendNothing")
        body = await answer.json()
    assert (answer.status, body["ok"], body["description"]) == (404, False, "Not Found: method not found")


@pytest.mark.parametrize("how", ["json", "data", "params"])
async def test_parameters_come_as_json_form_or_query(sandbox, how):
    await sandbox.say(READER, "hi")
    entities = [{"type": "bold", "offset": 0, "length": 3}]
    body = {"chat_id": READER, "text": '["not", "decoded"]'}
    body["entities"] = entities if how == "json" else json.dumps(entities)
    async with aiohttp.ClientSession() as http:
        answer = await http.post(f"{sandbox.url}/bot{sandbox.token}/sendmessage", **{how: body})
        message = (await answer.json())["result"]
    assert message["text"] == '["not", "decoded"]'
    assert message["entities"] == entities


async def test_commands_are_kept_by_scope_and_language(sandbox, bot):
    english = [BotCommand(command="ask", description="Ask")]
    scope = BotCommandScopeChat(chat_id=ADMIN)
    await bot.set_my_commands(english)
    await bot.set_my_commands([BotCommand(command="ask", description="Спросить")], language_code="ru")
    await bot.set_my_commands([*english, BotCommand(command="stats", description="Stats")], scope=scope)
    own, kept = json.dumps({"chat_id": ADMIN, "type": "chat"}), sandbox.world.commands
    default = json.dumps({"type": "default"})
    assert {key: [c["description"] for c in commands] for key, commands in kept.items()} == {
        (default, ""): ["Ask"], (default, "ru"): ["Спросить"], (own, ""): ["Ask", "Stats"],
    }  # fmt: skip
    await bot.delete_my_commands(scope=scope)
    assert (own, "") not in kept


# Chats and members.


async def test_the_bot_cannot_write_to_strangers_or_to_who_blocked_it(sandbox, bot):
    with pytest.raises(TelegramForbiddenError, match="can't initiate conversation"):
        await bot.send_message(READER, "hello?")
    await sandbox.say(READER, "hi")
    set_bot_blocked(sandbox.world, READER)
    with pytest.raises(TelegramForbiddenError, match="bot was blocked by the user"):
        await bot.send_message(READER, "hello?")
    with pytest.raises(TelegramBadRequest, match="chat not found"):
        await bot.send_message(999, "hello?")
    _, update = await heard(bot)
    assert update.my_chat_member.new_chat_member.status == "kicked"


async def test_a_channel_without_the_bot_is_silent_and_closed_unless_it_is_public(sandbox, bot):
    await sandbox.post(OUTSIDE, "secret")
    assert await heard(bot) == []
    stranger = "bot is not a member of the channel chat"
    for call in (bot.get_chat(OUTSIDE), bot.send_message(OUTSIDE, "x")):
        with pytest.raises(TelegramForbiddenError, match=stranger):
            await call
    set_chat_member(sandbox.world, CHANNEL, 42, "left", by=ADMIN)
    assert (await bot.get_chat(CHANNEL)).title == "Harbour News"
    assert (await bot.get_chat_member(CHANNEL, 42)).status == "left"
    with pytest.raises(TelegramForbiddenError, match=stranger):
        await bot.send_message(CHANNEL, "x")
    set_chat_member(sandbox.world, CHANNEL, 42, "kicked", by=ADMIN)
    with pytest.raises(TelegramForbiddenError, match="bot was kicked from the channel chat"):
        await bot.get_chat(CHANNEL)


async def test_forwards_say_where_they_come_from(sandbox, bot):
    source = await sandbox.post(CHANNEL, "Original")
    copy = await sandbox.post(CHANNEL, "", origin=(CHANNEL, source["message_id"]))
    await sandbox.post(CHANNEL, "Heard", origin="Old Sailor")
    sandbox.world.room(CHANNEL).linked = FORUM
    await sandbox.post(CHANNEL, "News")
    _, known, hidden, _, discussed = await heard(bot)
    assert copy["text"] == "Original"
    assert known.channel_post and isinstance(known.channel_post.forward_origin, MessageOriginChannel)
    assert known.channel_post.forward_origin.message_id == source["message_id"]
    assert hidden.channel_post and isinstance(hidden.channel_post.forward_origin, MessageOriginHiddenUser)
    # the discussion group gets its copy of a post
    assert discussed.message and discussed.message.is_automatic_forward and discussed.message.sender_chat


async def test_privacy_mode_lets_through_what_is_meant_for_the_bot(sandbox, bot):
    async def say(text, reply_to=None):
        await sandbox.say(READER, text, chat_id=GROUP, reply_to=reply_to)

    commands = ("/ask when", "/ask@citegram_bot when", "/ask@other_bot when")
    for text in ("gossip", *commands, "hi @other", "hi @citegram_bot"):
        await say(text)
    assert await texts(bot) == ["/ask@citegram_bot when", "hi @citegram_bot"]
    sent = await bot.send_message(GROUP, "at nine")
    await say("thanks", sent.message_id)
    await say("/ask again")
    assert await texts(bot) == ["thanks", "/ask again"]
    # a bot that reads all, or leads, hears everything
    sandbox.world.reads_groups = True
    await say("gossip")
    sandbox.world.reads_groups = False
    set_chat_member(sandbox.world, GROUP, 42, "administrator", by=ADMIN)
    await say("more gossip")
    assert await texts(bot) == ["gossip", "more gossip"]


async def test_topics_are_kept_apart(sandbox, bot):
    thread = create_topic(sandbox.world, FORUM, ADMIN, "Timetables")
    asked = await sandbox.say(READER, "when?", chat_id=FORUM, thread=thread)
    created, message = [update.message for update in await heard(bot)]
    assert created is not None and created.forum_topic_created is not None
    assert message is not None and message.is_topic_message and message.message_thread_id == thread
    assert (await bot.send_message(FORUM, "at nine", message_thread_id=thread)).message_thread_id == thread
    inherited = await bot.send_message(FORUM, "!", reply_parameters=ReplyParameters(message_id=asked["message_id"]))
    assert inherited.message_thread_id == thread
    for chat, wrong in ((FORUM, 999), (GROUP, thread)):
        with pytest.raises(TelegramBadRequest, match="message thread not found"):
            await bot.send_message(chat, "x", message_thread_id=wrong)


async def test_members_come_and_go(sandbox, bot):
    set_chat_member(sandbox.world, CHANNEL, READER, "member")
    set_chat_member(sandbox.world, CHANNEL, READER, "kicked", by=ADMIN)
    set_chat_member(sandbox.world, OUTSIDE, 42, "administrator", by=ADMIN)
    joined, thrown, added = await heard(bot)
    assert joined.chat_member is not None and joined.chat_member.new_chat_member.status == "member"
    assert thrown.chat_member is not None and thrown.chat_member.from_user.id == ADMIN
    assert added.my_chat_member is not None and added.my_chat_member.old_chat_member.status == "left"
    set_chat_member(sandbox.world, GROUP, READER, "restricted", is_member=False)
    for chat, member, status in ((CHANNEL, READER, "kicked"), (CHANNEL, ADMIN, "creator"),
                                 (CHANNEL, 42, "administrator"), (GROUP, READER, "restricted")):  # fmt: skip
        assert (await bot.get_chat_member(chat, member)).status == status
    with pytest.raises(TelegramBadRequest, match="user not found"):
        await bot.get_chat_member(CHANNEL, 999)


async def test_a_bot_that_leaves_is_told_so_and_cannot_leave_twice(sandbox, bot):
    assert await bot.leave_chat(GROUP)
    left = next(u.my_chat_member for u in await heard(bot) if u.my_chat_member)
    assert (left.from_user.id, left.new_chat_member.status) == (42, "left")
    with pytest.raises(TelegramForbiddenError, match="bot is not a member of the supergroup chat"):
        await bot.leave_chat(GROUP)


@pytest.mark.parametrize(
    ("state", "refusal"), [("deleted", "message to copy not found"), ("protected", "protected content")]
)
async def test_what_is_deleted_or_protected_is_not_copied(sandbox, bot, state, refusal):
    post = (await sandbox.post(CHANNEL, "Ferry at 9:00"))["message_id"]
    await sandbox.say(READER, "hi")
    await heard(bot)
    copy = await bot.copy_message(READER, CHANNEL, post)
    await bot.delete_message(READER, copy.message_id)
    if state == "deleted":
        await sandbox.delete(CHANNEL, post)
        assert await heard(bot) == []  # which nobody tells a bot
    else:
        sandbox.world.room(CHANNEL).protected = True
        await sandbox.post(CHANNEL, "No copies")
        told = (await heard(bot))[0].channel_post
        assert told and told.has_protected_content
    with pytest.raises(TelegramBadRequest, match=refusal):
        await bot.copy_message(READER, CHANNEL, post)


# Files.


async def received(sandbox, bot, name, data, caption=""):
    await sandbox.send_file(READER, name, data, caption, mime="application/json")
    message = (await bot.get_updates())[-1].message
    assert message is not None and message.document is not None
    assert (message.caption or "") == caption and message.text is None
    return message.document


@pytest.mark.parametrize(
    "name", ["result.json", "экспорт канала.zip", "../../etc/passwd", "a#b?c%20", "no-ending", "x.🦉"]
)
async def test_a_document_is_downloaded_as_it_was_sent(sandbox, bot, name):
    document = await received(sandbox, bot, name, b"\x00posts" * 1000, "/import @channel")
    assert (document.file_name, document.file_size, document.mime_type) == (name, 6000, "application/json")
    file = await bot.get_file(document.file_id)
    assert file.file_path is not None and file.file_path.startswith("documents/") and ".." not in file.file_path
    content = await bot.download_file(file.file_path)
    assert content is not None and content.read() == b"\x00posts" * 1000
    sent = await bot.send_document(READER, BufferedInputFile(b"\x00\x01data", name), caption="here")
    assert sent.document is not None and sent.document.file_name == name
    back = await bot.download(sent.document.file_id)
    assert back is not None and back.read() == b"\x00\x01data"


async def test_more_than_20_megabytes_are_given_by_a_local_server_only(sandbox, bot, tmp_path):
    largest = await received(sandbox, bot, "result.json", bytes(20 * 2**20))
    assert (await bot.get_file(largest.file_id)).file_size == 20 * 2**20
    document = await received(sandbox, bot, "result.json", bytes(20 * 2**20 + 1))
    with pytest.raises(TelegramBadRequest, match="file is too big"):
        await bot.get_file(document.file_id)
    with pytest.raises(TelegramBadRequest, match="wrong file_id"):
        await bot.get_file("nonsense")
    sandbox.world.local = tmp_path
    file = await bot.get_file(document.file_id)
    assert file.file_path is not None and Path(file.file_path).stat().st_size == 20 * 2**20 + 1
    with pytest.raises(aiohttp.ClientResponseError, match="404"):
        await bot.download_file(next(iter(sandbox.world.files.values())).path())
