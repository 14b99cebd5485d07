import asyncio
import itertools
import json
import re
import sys
from contextlib import suppress

import pytest
from aiogram import methods
from aiogram.methods import TelegramMethod
from driver import ADMIN, CREW, GROUP, OTTO, buttons, execute, open_archive, open_more, press, query_archive, wait_until
from slow_model import SlowLlm, use_writer

from bot.access import AdminRegistry, MembershipCache, Reader
from bot.sandbox.state import Membership, set_chat_member
from bot.telegram.recheck import (
    METHODS_WITHOUT_TEXT,
    ContentWithdrawn,
    RecheckUnavailable,
    ShownContent,
    parse_shown_content,
    recheck_before_sending,
    recheck_call,
    recheck_shown_content,
)
from bot.telegram.session import RetryMiddleware
from bot.views import format
from rag_core.storage import channels, posts, readers, visible_posts
from rag_core.types import Post, PostKey, Visibility

PADLOCK = "Which digits open the boathouse padlock?"
SECRET = "4417"
WITHDRAWN = "I did not send this answer: a post behind it was changed, deleted or closed just now. Please ask again."
EDITED = "The boathouse padlock was taken away."
LONGER = "By the way: The boathouse padlock opens with the digits 4417."


@pytest.fixture(autouse=True)
async def crew(sandbox, home):
    """Otto reads the channel as its member, and the group because it is bound there."""
    async with open_archive(home) as archive:
        await channels.record_bot_joined(archive, CREW)
        await readers.bind_channel(archive, GROUP, CREW)
    set_chat_member(sandbox.world, CREW, OTTO, "member")


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Pauses of seconds last hundredths."""
    monkeypatch.setattr(RetryMiddleware.__init__, "__defaults__", (40, 0.02))
    monkeypatch.setattr("bot.telegram.session.compute_retry_delay", lambda exc, pause: 0.05)
    monkeypatch.setattr("bot.worker.delivery._RETRY_SECONDS", 0.05)
    monkeypatch.setattr("bot.telegram.session._CHAT_PAUSE", (0.05, 0.1))


# What ends the right to an answer


async def kicked(sandbox, archive):
    set_chat_member(sandbox.world, CREW, OTTO, "kicked", by=ADMIN)
    await wait_until(lambda: not sandbox.world.queue.kept)


async def left_unseen(sandbox, archive):
    """No update tells of it, as where the bot is no administrator."""
    sandbox.world.room(CREW).members[OTTO] = Membership("left")


async def closed(sandbox, archive):
    await channels.set_channel_visibility(archive, CREW, Visibility.ADMINS)


async def paused(sandbox, archive):
    await channels.set_channel_state(archive, CREW, "paused")


async def unbound(sandbox, archive):
    await readers.unbind_channel(archive, GROUP, CREW)


async def deleted(sandbox, archive):
    await posts.mark_posts_deleted(archive, [PostKey(CREW, 10)], how="admin")


async def edited(sandbox, archive):
    await reworded(archive, EDITED)


async def reworded(archive, text):
    post = (await visible_posts.fetch_posts(archive, [PostKey(CREW, 10)]))[PostKey(CREW, 10)]
    moment = post.date.replace(year=post.date.year + 1)
    await posts.save_posts(archive, [Post(post.key, post.date, text, edited=moment)], source="test")


HOW = [kicked, left_unseen, closed, paused, deleted, edited]


def tries(sandbox, *, since=0):
    """The methods of the calls that carried the secret word (no part of a longer number), the refused ones included."""
    secret = re.compile(rf"(?<!\d){SECRET}(?!\d)")
    lines = sandbox.transcript[since:]
    return [line["method"] for line in lines if secret.search(json.dumps(line["params"], ensure_ascii=False))]


def failures(sandbox, method="sendMessage"):
    return sum(line["method"] == method and not line["ok"] for line in sandbox.transcript)


async def ask_while_sending_fails(sandbox, asking=PADLOCK, chat_id=None):
    """No message arrives any more; ask, and wait until the answer was tried a few times."""
    sandbox.faults.fail_next("sendMessage", "500", times=10_000)
    await sandbox.say(OTTO, asking, chat_id=chat_id)
    assert await wait_until(lambda: failures(sandbox) > 2)


async def tried_again(sandbox, method="sendMessage"):
    """Wait until what was on its way has failed, and another attempt."""
    before = failures(sandbox, method)
    assert await wait_until(lambda: failures(sandbox, method) > before + 1)


async def settled(home):
    async with asyncio.timeout(20), open_archive(home) as archive:
        while await archive.rows("SELECT 1 FROM questions WHERE state IN ('queued', 'running')"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def texts(sandbox, chat_id):
    room = sandbox.world.room(chat_id)
    return [room.messages[n]["text"] for n in sandbox.world.sent.get(chat_id, ()) if n in room.messages]


# Answers that come late


@pytest.mark.parametrize(
    ("asking", "change"),
    [(PADLOCK, change) for change in HOW]
    + [("/verify The boathouse padlock opens with the digits 4417.", change) for change in (edited,)],
)
async def test_a_late_answer_is_not_sent_when_it_does_not_hold_any_more(sandbox, live, home, change, asking):
    async with live(), open_archive(home) as archive:
        await ask_while_sending_fails(sandbox, asking)
        await change(sandbox, archive)
        await tried_again(sandbox)
        since = len(sandbox.transcript)
        await tried_again(sandbox)
        sandbox.faults.clear()
        (reply,) = await sandbox.replies(OTTO)
        await settled(home)
        assert reply["text"] == WITHDRAWN
        shown = [n for n in tries(sandbox, since=since) if n.startswith("sendMessage")]
        assert shown == []
        assert "reply_markup" not in reply
        assert [dict(row) for row in await archive.rows("SELECT * FROM deliveries")] == []
        # a follow-up would repeat the names of an answer that its reader has never seen
        assert await archive.rows("SELECT * FROM talks") == []


@pytest.mark.parametrize("change", [unbound, closed, edited])
async def test_a_late_answer_in_a_group_is_not_sent_either(sandbox, live, home, change):
    async with live(), open_archive(home) as archive:
        if change is closed:  # what an admin of the bot bound stays: it counts as the group's own here
            await archive_own(archive)
        await ask_while_sending_fails(sandbox, f"/ask@citegram_bot {PADLOCK}", GROUP)
        await change(sandbox, archive)
        await tried_again(sandbox)
        since = len(sandbox.transcript)
        sandbox.faults.clear()
        (reply,) = await sandbox.replies(GROUP)
    assert reply["text"] == WITHDRAWN
    assert tries(sandbox, since=since) == []


async def archive_own(archive):
    async with archive.writing() as connection:
        await connection.execute("UPDATE bindings SET own = 1")
        await connection.execute("UPDATE channels SET bindable = 1")


async def test_a_late_answer_arrives_when_only_words_beside_its_quote_were_edited(sandbox, live, home):
    async with live(), open_archive(home) as archive:
        await ask_while_sending_fails(sandbox)
        await reworded(archive, LONGER)
        sandbox.faults.clear()
        (reply,) = await sandbox.replies(OTTO)
    assert SECRET in reply["text"]


async def test_the_rest_of_a_long_answer_is_not_sent_and_its_beginning_is_taken_back(sandbox, live, home, monkeypatch):
    """Its first message has arrived; Telegram is away for the second, and meanwhile the channel is closed."""
    monkeypatch.setattr("bot.worker.question_worker.split_pages", lambda said: format.split_pages(said, 30))
    async with live(), open_archive(home) as archive:
        before = len(sandbox.transcript)
        await sandbox.say(OTTO, PADLOCK)
        assert await sandbox.until(lambda: bool(sandbox.world.sent.get(OTTO)))  # before the second is sent
        sandbox.faults.fail_next("sendMessage", "500", times=10_000)
        assert await wait_until(lambda: failures(sandbox) > 2)
        await closed(sandbox, archive)
        await tried_again(sandbox)
        sandbox.faults.clear()
        await settled(home)
        assert await wait_until(lambda: WITHDRAWN in texts(sandbox, OTTO))
    assert len(sandbox.transcript) > before
    assert texts(sandbox, OTTO) == [WITHDRAWN]


async def test_a_message_that_was_to_become_the_answer_becomes_the_sentence(sandbox, live, home):
    """A reply was lost: a short message goes out, and the edit that puts the answer into it fails for long."""
    sandbox.faults.fail_next("sendMessage", "lost")
    sandbox.faults.fail_next("editMessageText", "500", times=10_000)
    async with live(), open_archive(home) as archive:
        await sandbox.say(OTTO, PADLOCK)
        assert await wait_until(lambda: failures(sandbox, "editMessageText") > 2)
        await kicked(sandbox, archive)
        await tried_again(sandbox, "editMessageText")
        since = len(sandbox.transcript)
        sandbox.faults.clear()
        await settled(home)
        assert texts(sandbox, OTTO)[-1] == WITHDRAWN
    assert tries(sandbox, since=since) == []


async def test_what_cannot_be_checked_waits_until_it_can(sandbox, live, home, monkeypatch):
    """Telegram does not say who is a member: the answer is neither sent nor called "not found"."""
    monkeypatch.setattr(RetryMiddleware.__init__, "__defaults__", (2, 0.02))
    async with live():
        await ask_while_sending_fails(sandbox)
        sandbox.faults.clear()
        sandbox.faults.fail_next("getChatMember", "500", times=10_000)
        assert await wait_until(lambda: failures(sandbox, "getChatMember") > 5)
        assert texts(sandbox, OTTO) == []
        sandbox.faults.clear()
        (reply,) = await sandbox.replies(OTTO)
    assert SECRET in reply["text"]


async def test_after_a_restart_nothing_is_sent_that_is_closed_now(sandbox, live, home, monkeypatch):
    monkeypatch.setattr("bot.worker.delivery._LONGEST_SENDING_SECONDS", 0.1)
    async with live():
        await ask_while_sending_fails(sandbox)
    await query_archive(home, lambda archive: closed(sandbox, archive))
    since = len(sandbox.transcript)
    sandbox.faults.clear()
    async with live():
        (reply,) = await sandbox.replies(OTTO)
    assert SECRET not in reply["text"]
    assert tries(sandbox, since=since) == []


# While the answer is written


@pytest.fixture
def model(monkeypatch):
    slow = SlowLlm("The padlock opens with the digits 4417. [1]\n" * 3, 0.8, share=0.1)
    use_writer(monkeypatch, slow)
    monkeypatch.setattr("bot.worker.streaming.DraftScreen.every", 0.05)
    monkeypatch.setattr("bot.worker.streaming.MessageScreen.every", 0.05)
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 0.1)
    return slow


@pytest.mark.parametrize("change", [kicked, paused, edited])
async def test_access_that_ends_while_the_answer_is_written_ends_drafts_and_answer(sandbox, live, home, model, change):
    async with live(), open_archive(home) as archive:
        await sandbox.say(OTTO, PADLOCK)
        assert await wait_until(lambda: "sendMessageDraft" in tries(sandbox))
        model.pause = 0.2  # much is left to be written
        await change(sandbox, archive)
        await asyncio.sleep(0.1)
        since = len(sandbox.transcript)
        await asyncio.sleep(0.2)
        model.pause = 0.0
        (reply,) = await sandbox.replies(OTTO)
        await settled(home)
    assert SECRET not in reply["text"]
    assert tries(sandbox, since=since) == []


@pytest.mark.parametrize("change", [unbound, deleted])
async def test_a_group_s_message_is_taken_back_when_access_ends(sandbox, live, home, model, change):
    async with live(), open_archive(home) as archive:
        await sandbox.say(OTTO, f"/ask@citegram_bot {PADLOCK}", chat_id=GROUP)
        assert await wait_until(lambda: any(SECRET in text for text in texts(sandbox, GROUP)))
        model.pause = 0.2  # much is left to be written
        await change(sandbox, archive)
        await asyncio.sleep(0.1)
        since = len(sandbox.transcript)
        await asyncio.sleep(0.2)
        model.pause = 0.0
        await settled(home)
        everybody = [number for number in sandbox.world.sent[GROUP] if number > 0]
        shown = [str(sandbox.world.room(GROUP).messages.get(number)) for number in everybody]
        assert not any(SECRET in text for text in shown)
    to_otto = [line for line in sandbox.transcript[since:] if "ephemeral_message_parameters" in line["params"]]
    assert len(tries(sandbox, since=since)) == sum(SECRET in str(line) for line in to_otto)  # he is of the crew


# What is shown of an answer afterwards, and without one


def pressing(label):
    async def press(sandbox, answer):
        shown = await open_more(sandbox, answer, OTTO)
        rows = shown["reply_markup"]["inline_keyboard"]
        data = next(b["callback_data"] for row in rows for b in row if b["text"].startswith(label))
        return asyncio.create_task(sandbox.press(OTTO, OTTO, answer["message_id"], data))

    return press


async def press_more(sandbox, answer):
    await press(sandbox, answer, "‹ Back", OTTO)
    assert "‹ Back" in buttons(await open_more(sandbox, answer, OTTO))
    return asyncio.create_task(sandbox.say(OTTO, "/stop"))


def saying(text):
    async def say(sandbox, _):
        return asyncio.create_task(sandbox.say(OTTO, text))

    return say


VIEWS = {
    "why": saying("/why"),
    "sources": saying("/sources"),
    "search": saying("/search padlock"),
    "start": saying("/start"),
    "receipt": pressing("❝"),
    "more sources": pressing("Sources"),
    "why pressed": pressing("Why?"),
}


@pytest.mark.parametrize(
    ("name", "change"),
    [*zip(VIEWS, itertools.cycle([kicked, left_unseen, paused])), ("why", left_unseen), ("why", paused)],
)
async def test_a_view_that_is_late_is_checked_before_each_attempt(sandbox, live, home, change, name):
    async with live(), open_archive(home) as archive:
        await sandbox.say(OTTO, PADLOCK)
        (answer,) = await sandbox.replies(OTTO)
        assert SECRET in answer["text"]
        await settled(home)
        sandbox.faults.fail_next("sendMessage", "500", times=10_000)
        task = await VIEWS[name](sandbox, answer)
        assert await wait_until(lambda: failures(sandbox) > 1)
        await change(sandbox, archive)
        await tried_again(sandbox)
        since = len(sandbox.transcript)
        sandbox.faults.clear()
        (reply,) = await sandbox.replies(OTTO)
        await asyncio.wait({task}, timeout=10)
    assert reply["text"] == (WITHDRAWN if name != "start" or change is not left_unseen else reply["text"])
    later = json.dumps([line["params"] for line in sandbox.transcript[since:]])
    assert tries(sandbox, since=since) == []
    if not (name == "start" and change is left_unseen):  # titles are as old as the cached membership
        assert "Crew only" not in later


SNAPSHOTS = VIEWS | {"watches": saying("/watches"), "whole post": saying("the whole post"), "more": press_more}
SHOWN = re.compile(rf"(?<!\d){SECRET}(?!\d)|t\.me/c/1000003/10\b")


@pytest.mark.parametrize("name", [name for name in SNAPSHOTS if name not in ("start", "why pressed")])
async def test_a_post_deleted_between_any_two_reads_of_a_view_is_not_shown(sandbox, live, home, monkeypatch, name):
    """A view may read the posts as often as it likes: what it shows of them is what is checked."""
    fetch, reads, due = visible_posts.fetch_posts, 0, 1
    delete = f"UPDATE posts SET deleted_at = 1 WHERE chat_id = {CREW} AND message_id = 10"

    async def delete_after_read(archive, keys):
        nonlocal reads
        found = await fetch(archive, keys)
        if sys._getframe(1).f_globals["__name__"] != recheck_shown_content.__module__:
            reads += 1
            if reads == due:
                await asyncio.to_thread(execute, home, delete)
        return found

    async with live():
        await sandbox.say(OTTO, "/watch padlock")
        await sandbox.replies(OTTO)
        (number,) = execute(home, "SELECT id FROM watches")[0]
        hit = f"INSERT INTO watch_hits VALUES ({number}, {CREW}, 10, 1, 'told', 1)"
        await asyncio.to_thread(execute, home, hit)
        await sandbox.say(OTTO, PADLOCK)
        (answer,) = await sandbox.replies(OTTO)
        await settled(home)
        await open_more(sandbox, answer, OTTO)
        monkeypatch.setattr(visible_posts, "fetch_posts", delete_after_read)
        for due in range(1, 10):  # the wrapper reads it
            reads, since = 0, len(sandbox.transcript)
            task = await SNAPSHOTS[name](sandbox, answer)
            await sandbox.replies(OTTO)
            await asyncio.wait({task}, timeout=10)
            if reads < due:
                break
            lines = sandbox.transcript[since:]
            sent = [one for one in lines if SHOWN.search(json.dumps(one["params"], ensure_ascii=False))]
            assert sent == [], f"the post was deleted after read {due}"
            await asyncio.to_thread(execute, home, delete.replace("= 1", "= NULL", 1))
    assert reads == due - 1 > 0


# The check itself


def list_methods():
    found = [one for one in vars(methods).values() if isinstance(one, type) and issubclass(one, TelegramMethod)]
    return [one for one in found if one is not TelegramMethod]


# What names a chat, a user or a message, and what says how: no field with the words of anybody.
PLAIN_FIELDS = {
    *("chat_id", "user_id", "message_id", "message_thread_id", "business_connection_id", "file_id"),
    *("receiver_user_id", "ephemeral_message_id"),
    *("action", "reaction", "is_big", "offset", "limit", "timeout", "allowed_updates"),
}


async def test_every_method_is_checked_but_those_that_carry_nothing(bot, monkeypatch):
    async def refuse(*_, **__):
        raise ContentWithdrawn

    async def make_request(_, method):
        unchecked.append(type(method))

    unchecked = []
    monkeypatch.setattr("bot.telegram.recheck.recheck_shown_content", refuse)
    nobody = None
    with recheck_before_sending(ShownContent(counted=frozenset({CREW})), Reader(OTTO, OTTO, private=True), nobody):
        for method in list_methods():
            with suppress(ContentWithdrawn):
                await recheck_call(make_request, bot, method.model_construct())
    assert len(list_methods()) > 150
    assert {method.__api_method__ for method in unchecked} == METHODS_WITHOUT_TEXT
    assert {name for method in unchecked for name in method.model_fields} <= PLAIN_FIELDS


async def test_an_archive_that_cannot_be_read_is_no_withdrawal(home, bot):
    content = parse_shown_content({"posts": [{"key": [CREW, 10], "mark": ""}], "channels": [], "counted": []})
    here = Reader(OTTO, OTTO, private=True)
    with pytest.raises(ContentWithdrawn):  # as an earlier version kept it
        parse_shown_content({"posts": [[CREW, 10, "", []]], "channels": [], "counted": []})
    async with open_archive(home) as archive:
        with pytest.raises(ContentWithdrawn):
            await recheck_shown_content(content, here, AdminRegistry((), MembershipCache(bot), archive))
    async with open_archive(home) as archive:
        rights = AdminRegistry((), MembershipCache(bot), archive)
        file = home / "citegram.db"
        file.write_bytes(b"?" * file.stat().st_size)
        with pytest.raises(RecheckUnavailable):
            await recheck_shown_content(content, here, rights)
