"""In a group what concerns one member goes to this member alone, and nothing of it by any other way."""

import json
import time
from datetime import UTC, datetime

import pytest
from driver import (
    ADMIN,
    CREW,
    GROUP,
    HARBOUR,
    OTTO,
    RITA,
    bind,
    buttons,
    current,
    execute,
    open_archive,
    press,
    query_archive,
    save,
    wait_until,
    wait_until_idle,
    write_as_chat,
)
from slow_model import SlowLlm, use_writer

from bot.sandbox.page_api import build_snapshot
from bot.sandbox.state import Membership, get_message_key, is_message_visible, set_chat_member
from bot.telegram.session import RetryMiddleware, publish_menu
from bot.views.format import BOT_COMMANDS
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import channels, posts, readers
from rag_core.types import Post, PostKey

PADLOCK = "which digits open the boathouse padlock?"
DIGITS = "digits 4417"  # with the word: the ids of buttons are random hexadecimal digits
FERRY = "when does the ferry to Owl Island leave?"
ASK = "/ask@citegram_bot"
NOW = datetime(2024, 4, 1, 9, tzinfo=UTC)
ELSEWHERE = "I can only tell you this in private: open a chat with @citegram_bot and ask me there."


@pytest.fixture(autouse=True)
async def members(sandbox, home):
    """Rita is a member of a closed channel, Otto is not; the group asks an open one."""
    await query_archive(home, lambda archive: channels.record_bot_joined(archive, CREW))
    await bind(home, HARBOUR)
    set_chat_member(sandbox.world, CREW, RITA, "member")


@pytest.fixture
def with_menu(live, monkeypatch):
    monkeypatch.setattr("bot.app.publish_menu", publish_menu)
    return live


def hide_all_commands(sandbox):
    """Every command of the bot is ephemeral for the members of groups."""
    menu = [{"command": name, "description": name, "is_ephemeral": True} for name in sorted(BOT_COMMANDS)]
    for scope in ("all_group_chats", "all_chat_administrators"):
        sandbox.world.commands[json.dumps({"type": scope}), ""] = menu
        sandbox.world.commands[json.dumps({"type": scope}), "ru"] = menu


def visible(sandbox, who):
    found = sandbox.world.room(GROUP).messages.items()
    return [one for key, one in found if is_message_visible(key, who) and one["from"]["is_bot"]]


def alone(sandbox, who):
    return [one for one in visible(sandbox, who) if one.get("receiver_user", {}).get("id") == who]


def open_calls(sandbox, since=0):
    """Calls by which something may be shown to all in the group."""
    calls = [line for line in sandbox.transcript[since:] if str(line["params"].get("chat_id")) == str(GROUP)]
    own = ("ephemeral_message_parameters", "receiver_user_id")
    return [one for one in calls if not (one["method"].startswith("get") or any(key in one["params"] for key in own))]


@pytest.fixture
def say(sandbox, home):
    """Says something in the group and waits until the bot is done."""

    async def said(who, text, **more):
        message = await sandbox.say(who, text, chat_id=GROUP, **more)
        await wait_until_idle(sandbox, home)
        return message

    return said


async def menu_is_set(sandbox):
    assert await sandbox.until(lambda: any("all_chat_admin" in scope for scope, _ in sandbox.world.commands))


async def test_who_may_read_more_gets_it_alone_and_the_group_what_all_may_read(sandbox, live, say):
    async with live():
        question = await say(RITA, f"{ASK} {PADLOCK}")
        (fuller,) = alone(sandbox, RITA)
        assert DIGITS in fuller["text"] and "Crew only" in fuller["text"]
        assert fuller["text"].endswith("\n\nOnly you see this answer: not everyone here may read its posts.")
        assert fuller["reply_to_message"]["message_id"] == question["message_id"]
        (public,) = visible(sandbox, OTTO)
        assert DIGITS not in str(public) and "Crew" not in str(public)
        await say(RITA, f"{ASK} {FERRY}")  # nothing is added to an answer that all may read
        assert len(alone(sandbox, RITA)) == 1
        await say(OTTO, f"{ASK} {PADLOCK}")
        assert alone(sandbox, OTTO) == []
    page = json.dumps(build_snapshot(sandbox.world, 1, OTTO))
    assert DIGITS not in page and DIGITS in json.dumps(build_snapshot(sandbox.world, 1, RITA))
    assert not any(DIGITS in str(call) for call in open_calls(sandbox))


async def test_shown_to_all_is_only_what_all_may_read_when_it_is_pressed(sandbox, say, home, live_bot):
    await say(RITA, f"{ASK} {PADLOCK}")
    (fuller,) = alone(sandbox, RITA)
    before = len(visible(sandbox, OTTO))
    said = await press(sandbox, fuller, "Show to all", RITA)
    assert said == "Посты этого ответа открыты здесь не всем, поэтому группе я ничего не показал."
    data = buttons(fuller)["Show to all"]
    stolen = await sandbox.press(OTTO, GROUP, get_message_key(fuller), data)
    assert stolen["answer"]["text"] == "This is for the person who asked. Ask me yourself!"
    await wait_until_idle(sandbox, home)
    assert len(visible(sandbox, OTTO)) == before
    await bind(home, CREW)
    assert await press(sandbox, fuller, "Show to all", RITA) == "Спрашиваю ещё раз, для всей группы."
    await wait_until_idle(sandbox, home)
    assert DIGITS in visible(sandbox, OTTO)[-1]["text"]
    assert "Show to all" not in buttons(current(sandbox, fuller))


async def test_a_group_may_keep_every_answer_to_who_asked(sandbox, with_menu, say, home):
    async with with_menu():
        await menu_is_set(sandbox)
        await say(OTTO, "/settings")
        settings = alone(sandbox, OTTO)[-1]
        assert await press(sandbox, settings, "Show answers only to who asked", OTTO) == "Saved."
        assert "Who sees an answer: only the person who asked" in current(sandbox, settings)["text"]
        hidden = await say(RITA, f"/ask {FERRY}")
        assert (hidden["message_id"], get_message_key(hidden) < 0) == (0, True)
        (answer,) = alone(sandbox, RITA)
        assert "7:30" in answer["text"]
        assert visible(sandbox, ADMIN) == []
        assert await press(sandbox, answer, "Show to all", RITA) == "Спрашиваю ещё раз, для всей группы."
        await wait_until_idle(sandbox, home)
        (shared,) = visible(sandbox, ADMIN)  # others have not seen the question
        assert shared["text"].startswith(FERRY) and "7:30" in shared["text"]
        await press(sandbox, settings, "Show answers to everyone", OTTO)
        await say(RITA, f"/ask@citegram_bot {FERRY}")
        assert "7:30" in visible(sandbox, ADMIN)[-1]["text"]


async def test_a_member_checks_a_message_and_turns_pages_without_others(sandbox, with_menu, say, home):
    await save(home, *(Post(PostKey(HARBOUR, 200 + n), NOW, f"Tugboat number {n} is for sale.") for n in range(12)))
    async with with_menu():
        await menu_is_set(sandbox)
        claim = await sandbox.say(OTTO, "The boathouse padlock opens with the digits 4417.", chat_id=GROUP)
        await say(RITA, "/verify", reply_to=claim["message_id"])
        assert "Crew only" in alone(sandbox, RITA)[-1]["text"]
        await say(RITA, "/search tugboat")
        page = alone(sandbox, RITA)[-1]
        assert "1 из 3" in page["text"]
        await press(sandbox, page, "▶", RITA)
        assert "2 из 3" in current(sandbox, page)["text"]
        await say(RITA, "/search padlock")
        assert DIGITS in alone(sandbox, RITA)[-1]["text"]
    assert visible(sandbox, OTTO) == []


async def test_who_writes_as_the_group_is_answered_before_all(sandbox, live, say, home):
    """Telegram does not say who it is, so nobody can be told alone."""
    await query_archive(home, lambda archive: readers.change_group_rules(archive, GROUP, asker_only=True))
    hello = await sandbox.say(OTTO, "hello", chat_id=GROUP)
    async with live():
        for text in (f"{ASK} {PADLOCK}", f"{ASK} {FERRY}"):
            sandbox.push({"message": write_as_chat(hello, text)})
            await wait_until_idle(sandbox, home)
    assert ["7:30" in one["text"] for one in visible(sandbox, RITA)] == [False, True]
    assert DIGITS not in str(visible(sandbox, RITA))


@pytest.mark.parametrize("text", [f"/ask {FERRY}", "/why", "/settings", "/help"])
async def test_an_ephemeral_command_of_nobody_is_not_answered_before_all(sandbox, live, home, text):
    message = {"message_id": 0, "ephemeral_message_id": 7, "date": int(sandbox.world.clock())}
    message["chat"] = sandbox.world.room(GROUP).wire()
    async with live():
        sandbox.push({"message": write_as_chat(message, text)})
        await wait_until_idle(sandbox, home)
    assert [one["text"] for one in visible(sandbox, OTTO)] == [ELSEWHERE]


@pytest.mark.parametrize(("bot_is", "who"), [("administrator", RITA), ("member", ADMIN)])
async def test_every_call_for_an_ephemeral_message_and_a_press_on_one_has_its_receiver(
    sandbox, with_menu, say, home, bot_is, who
):
    sandbox.world.room(GROUP).members[sandbox.world.bot.id] = Membership(bot_is)
    async with with_menu(reader_limit=10_000, chat_limit=10_000):
        await menu_is_set(sandbox)
        hide_all_commands(sandbox)
        since = len(sandbox.transcript)
        for name in sorted(BOT_COMMANDS):
            for text in (f"/{name}", f"/{name} {PADLOCK}"):
                await say(who, text)
        for text in ("/ask " + "?" * 2000, "/mode thorough", "/settings Europe/Berlin", f"/verify {FERRY}"):
            await say(who, text)
        reply = alone(sandbox, who)[-1]
        for text in ("source?", "почему?", FERRY, "спасибо", "x" * 2000):
            await say(who, text, reply_to=get_message_key(reply))
        pressed = set()
        for _ in range(3):  # also the buttons of messages that came by a press
            for message in alone(sandbox, who):
                key = get_message_key(message)
                for label, data in [*buttons(message).items()]:
                    if (key, label) not in pressed and len(pressed) < 250:
                        pressed.add((key, label))
                        await sandbox.press(who, GROUP, key, data)
            await wait_until_idle(sandbox, home)
    assert len(pressed) > 25
    assert [(one["method"], one["params"]) for one in open_calls(sandbox, since)] == []
    edits = {int(one["params"]["receiver_user_id"]) for one in edits_of(sandbox.transcript[since:])}
    sends = [json.loads(one["params"].get("ephemeral_message_parameters", "{}")) for one in sandbox.transcript[since:]]
    assert edits | {one["receiver_user_id"] for one in sends if one} == {who}
    assert len(alone(sandbox, who)) > 40
    assert visible(sandbox, OTTO) == []


def edits_of(calls):
    return [one for one in calls if "receiver_user_id" in one["params"]]


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("why", ["old server", "no administrator"])
async def test_what_cannot_be_delivered_to_one_is_not_said_to_all(sandbox, live, say, why, started):
    sandbox.world.ephemeral = why != "old server"
    sandbox.world.room(GROUP).members[sandbox.world.bot.id] = Membership("member")
    sandbox.world.people[RITA].started = started
    async with live():
        await say(RITA, f"{ASK} {PADLOCK}")
        (public,) = visible(sandbox, RITA)
        assert DIGITS not in str(public)
        for text in ("/why@citegram_bot", "/sources@citegram_bot", "/settings@citegram_bot"):
            await say(RITA, text)
        shown = [one["text"] for one in visible(sandbox, OTTO)[1:]]
    told = str([one["text"] for one in sandbox.world.room(RITA).messages.values()])
    assert not any(DIGITS in str(call) for call in open_calls(sandbox))
    assert (DIGITS in told, "Это могут только администраторы этой группы" in told) == (started, started)
    assert len(shown) == (0 if started else 1)  # that is said once
    assert all(text == ELSEWHERE for text in shown)


async def test_what_a_press_asks_for_is_an_answer_to_the_press(sandbox, with_menu, say, home):
    sandbox.world.room(GROUP).members[sandbox.world.bot.id] = Membership("member")
    await query_archive(home, lambda archive: readers.change_group_rules(archive, GROUP, asker_only=True))
    async with with_menu():
        await menu_is_set(sandbox)
        hide_all_commands(sandbox)
        await say(RITA, f"/ask {FERRY}")
        later = time.time() + 20
        sandbox.world.clock = lambda: later  # too late to answer the command
        await press(sandbox, alone(sandbox, RITA)[0], "Deeper", RITA)
        await wait_until_idle(sandbox, home)
        first, deeper = alone(sandbox, RITA)
    assert "7:30" in deeper["text"] and first["text"] != deeper["text"]
    assert visible(sandbox, OTTO) == []


@pytest.mark.parametrize("started", [True, False])
async def test_an_answer_that_only_the_asker_may_see_is_never_public(sandbox, live, say, home, started):
    sandbox.world.ephemeral, sandbox.world.people[RITA].started = False, started
    await query_archive(home, lambda archive: readers.change_group_rules(archive, GROUP, asker_only=True))
    async with live():
        await say(RITA, f"{ASK} {FERRY}")
        await say(RITA, f"@citegram_bot {PADLOCK}")
    assert [one["text"] for one in visible(sandbox, OTTO)] == ([] if started else [ELSEWHERE])
    told = [one["text"] for one in sandbox.world.room(RITA).messages.values()]
    assert ["7:30" in text for text in told] == ([True, False] if started else [])
    assert [DIGITS in text for text in told] == ([False, True] if started else [])


async def test_limits_and_failures_are_told_to_who_meets_them(sandbox, live, say, monkeypatch):
    async def broken(*_):
        raise ArchiveUnavailable("The file is gone.")

    async with live(reader_limit=2):
        for _ in range(3):
            await say(RITA, f"{ASK} {FERRY}")
        assert alone(sandbox, RITA)[-1]["text"].startswith("Вопросов было очень много!")
        public = len(visible(sandbox, OTTO))
        monkeypatch.setattr("bot.access.build_viewer", broken)
        await say(OTTO, f"{ASK} {FERRY}")
        assert alone(sandbox, OTTO)[-1]["text"].startswith("I cannot reach the posts right now.")
        monkeypatch.setattr("bot.handlers.groups.readers.load_group_rules", broken)
        await say(OTTO, "/settings@citegram_bot")
        assert alone(sandbox, OTTO)[-1]["text"].startswith("I cannot reach the posts right now.")
    assert len(visible(sandbox, ADMIN)) == public == 2


async def test_a_server_that_shows_it_to_all_is_noticed_and_taken_back(sandbox, live, say, monkeypatch):
    """One that knows the methods and drops the parameters of sending: nobody knows of such a server."""
    async with live():
        await say(OTTO, f"{ASK} {FERRY}")
        monkeypatch.setattr("bot.sandbox.methods._add_ephemeral_message", None)
        monkeypatch.setattr("bot.sandbox.methods.getattr", lambda *_: None, raising=False)
        await say(RITA, "/settings@citegram_bot")
        assert "deleteMessage" in [one["method"] for one in open_calls(sandbox)]
    assert not any("администраторы" in one["text"] for one in visible(sandbox, OTTO) if "text" in one)


@pytest.fixture
def model(monkeypatch):
    """A model that writes slowly; what others are shown meanwhile is tested elsewhere."""
    slow = SlowLlm("The padlock of the boathouse opens with the digits 4417. [1]\n" * 3, 1.5, share=0.5)
    use_writer(monkeypatch, slow)
    return slow


@pytest.mark.parametrize("edits", ["accepted", "refused", "refused, and no right to send", "the same, rich"])
async def test_the_answer_without_a_model_comes_at_once_and_a_later_one_replaces_it(
    sandbox, with_menu, home, model, edits
):
    await query_archive(home, lambda archive: readers.change_group_rules(archive, GROUP, asker_only=True))
    hide_all_commands(sandbox)
    if edits != "accepted":
        sandbox.world.edit_seconds = -1
    if unsent := edits in ("refused, and no right to send", "the same, rich"):
        sandbox.world.people[RITA].started = False
    rich = edits == "the same, rich"
    await query_archive(home, lambda archive: readers.save_rich_chat(archive, GROUP, rich=rich))
    sandbox.world.room(GROUP).members[sandbox.world.bot.id] = Membership("member")
    async with with_menu():
        hide_all_commands(sandbox)
        await sandbox.say(RITA, f"/ask {PADLOCK}", chat_id=GROUP)
        assert await sandbox.until(lambda: bool(alone(sandbox, RITA)[0:]), 8)
        first = alone(sandbox, RITA)[0]
        assert DIGITS in str(first) and "Crew only" in str(first) and model.begun <= 1
        if unsent:
            sandbox.world.clock = lambda now=sandbox.world.clock: now() + 16
        await wait_until_idle(sandbox, home)
        shown = alone(sandbox, RITA)
    assert "The padlock of the boathouse opens" in str(shown) or unsent
    assert len(shown) == (2 if edits == "refused" else 1)
    assert (current(sandbox, first) == first) == (edits != "accepted")
    assert visible(sandbox, OTTO) == []
    ((state, message),) = execute(home, "SELECT state, answer_message_id FROM questions")
    assert (state, message) == ("answered", shown[-1]["ephemeral_message_id"])
    # what one member cannot be sent in rich form changes nothing for the group
    assert await query_archive(home, lambda archive: readers.is_rich_chat(archive, GROUP)) is rich


async def test_votes_and_their_reasons_make_no_noise(sandbox, live, say, home):
    async with live():
        await say(OTTO, f"{ASK} {FERRY}")
        (public,) = visible(sandbox, OTTO)
        since = len(sandbox.transcript)
        assert await press(sandbox, public, "👎", RITA) == "Учтено. Что не так?"
        (asked,) = alone(sandbox, RITA)
        assert "Устарело" in buttons(asked)
        assert await press(sandbox, asked, "Устарело", RITA) == "Спасибо, записал."
        await wait_until_idle(sandbox, home)
    assert [one["method"] for one in open_calls(sandbox, since)] == ["editMessageReplyMarkup"]  # the count
    assert list(buttons(current(sandbox, public))) == ["👍", "👎 1", "More"]
    assert execute(home, "SELECT user_id, good, reason FROM votes") == [(RITA, 0, "outdated")]
    assert buttons(current(sandbox, asked)) == {}


async def test_equal_ids_of_two_members_are_two_messages(sandbox, with_menu, say, home):
    async with with_menu():
        await menu_is_set(sandbox)
        await say(RITA, f"/verify {PADLOCK.replace('which', 'the').replace('?', '')} 4417")
        await say(OTTO, f"/verify {FERRY.replace('when does the', 'The').replace(' leave?', ' leaves at 7:30.')}")
        (to_rita,), (to_otto,) = alone(sandbox, RITA), alone(sandbox, OTTO)
        assert to_rita["ephemeral_message_id"] == to_otto["ephemeral_message_id"] == 2
        for message, who, word in ((to_rita, RITA, DIGITS), (to_otto, OTTO, "7:30")):
            (data,) = [data for label, data in buttons(message).items() if "1" in label]
            await sandbox.press(who, GROUP, get_message_key(message), data)
            await wait_until_idle(sandbox, home)
            assert word in alone(sandbox, who)[-1]["text"]
            other = OTTO if who == RITA else RITA
            foreign = await sandbox.press(other, GROUP, get_message_key(message), data)
            assert foreign["answer"]["text"]
            assert len(alone(sandbox, who)) == 2


async def test_an_answer_to_one_is_corrected_for_this_one(sandbox, live, say, home, monkeypatch):
    for name, value in (("_DEBOUNCE_SECONDS", 0.05), ("_ANSWER_INTERVAL_SECONDS", 0.05)):
        monkeypatch.setattr(f"bot.notifications.{name}", value)
    async with live():
        await say(RITA, f"{ASK} {PADLOCK}")
        (fuller,) = alone(sandbox, RITA)
        since = len(sandbox.transcript)
        await sandbox.edit(CREW, await post_padlock(sandbox), "The padlock is gone.")
        await query_archive(home, lambda archive: posts.mark_posts_deleted(archive, [PostKey(CREW, 10)], how="admin"))
        assert await sandbox.until(lambda: DIGITS not in current(sandbox, fuller)["text"])
    assert [one for one in open_calls(sandbox, since) if "Crew" in str(one) or DIGITS in str(one)] == []


async def test_my_data_and_forget_cover_what_only_i_was_shown(sandbox, live, say, home):
    async with live():
        await say(RITA, f"{ASK} {PADLOCK}")
        await sandbox.say(RITA, "/mydata")
        (sent,) = await sandbox.replies(RITA)
        kept = json.loads(sandbox.world.files[sent["document"]["file_id"]].data)["questions"]
        assert [one["mode"] for one in kept] == [None, "fuller"]
        (said,) = kept[1]["answer"]
        assert said["cited"][0]["post"].endswith("/10")
        set_chat_member(sandbox.world, CREW, RITA, "left")
        await wait_until_idle(sandbox, home)
        await sandbox.say(RITA, "/mydata")
        (sent,) = await sandbox.replies(RITA)
        kept = json.loads(sandbox.world.files[sent["document"]["file_id"]].data)["questions"]
        assert kept[1]["answer"] == [{"closed": True}]
        await say(RITA, "/forget@citegram_bot")
        await press(sandbox, alone(sandbox, RITA)[-1], "Стереть", RITA)
        assert current(sandbox, alone(sandbox, RITA)[-1])["text"].startswith("Стёрто:\n• 2 вопроса с ответами")
    assert execute(home, "SELECT count(*) FROM questions") == [(0,)]


async def post_padlock(sandbox):
    return int((await sandbox.post(CREW, "Nothing of interest."))["message_id"])


async def test_a_public_answer_is_not_read_by_what_only_its_asker_was_shown(sandbox, live, say, home):
    day = (await sandbox.post(HARBOUR, "Zelda Quux mended the ferry's pump on Monday."))["date"]
    moment = datetime.fromtimestamp(day, UTC)
    await save(home, Post(PostKey(CREW, 90), moment, "The boathouse key is kept by Zelda Quux."))
    async with live():
        await wait_until_idle(sandbox, home)
        await say(RITA, f"{ASK} Who keeps the boathouse key?")
        assert "Zelda" in alone(sandbox, RITA)[-1]["text"]
        await say(RITA, f"{ASK} When did she come?")
        assert "Zelda" not in visible(sandbox, OTTO)[-1]["text"]
    sql = "SELECT thread, entities FROM talks WHERE user_id = ? ORDER BY id"
    kept = [(thread < 0, "Zelda" in names) for thread, names in execute(home, sql, RITA)]
    assert (True, True) in kept
    assert (False, True) not in kept


async def test_a_notice_to_one_member_is_not_taken_for_a_message_that_all_see(sandbox, say, home, live_bot):
    """Ids of ephemeral messages count for themselves, and may equal those of messages."""
    await say(OTTO, f"{ASK} {FERRY}")
    (public,) = visible(sandbox, OTTO)
    await query_archive(home, lambda archive: readers.unbind_channel(archive, GROUP, HARBOUR))
    set_chat_member(sandbox.world, CREW, RITA, "left")
    while not alone(sandbox, RITA) or alone(sandbox, RITA)[-1]["ephemeral_message_id"] < public["message_id"]:
        await say(RITA, f"{ASK} {PADLOCK}")
    await bind(home, HARBOUR)
    await say(OTTO, "/sources@citegram_bot", reply_to=public["message_id"])
    assert "7:30" in alone(sandbox, OTTO)[-1]["text"]


@pytest.mark.parametrize("kind", ["drop", "lost"])
async def test_an_answer_in_private_whose_arrival_is_unknown_comes_again(sandbox, live, say, home, kind):
    await query_archive(home, lambda archive: readers.change_group_rules(archive, GROUP, asker_only=True))
    sandbox.world.room(GROUP).members[sandbox.world.bot.id] = Membership("member")
    sandbox.world.people[RITA].started = True
    sandbox.faults.fail_next("sendMessage", kind)
    async with live():
        await say(RITA, f"{ASK} {PADLOCK}")
    assert DIGITS in str(sandbox.world.room(RITA).messages)
    assert visible(sandbox, OTTO) == []


async def test_the_pages_of_a_search_for_one_member_can_be_turned(sandbox, live, say, home):
    await save(home, *(Post(PostKey(HARBOUR, 100 + n), NOW, f"Tugboat number {n} has arrived.") for n in range(12)))
    async with live():
        await say(OTTO, f"{ASK} Who was the captain of the first tugboat in 1850?")
        await press(sandbox, visible(sandbox, OTTO)[-1], "Search these words", OTTO)
        assert await sandbox.until(lambda: "page 1 of" in str(alone(sandbox, OTTO)))
        found = alone(sandbox, OTTO)[-1]
        assert await press(sandbox, found, "▶", OTTO) == ""
        assert "page 2 of" in current(sandbox, found)["text"]


@pytest.mark.parametrize("way", ["button", "/stop"])
async def test_who_stops_a_question_gets_no_fuller_answer_either(sandbox, live, say, home, model, monkeypatch, way):
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 0.1)
    model.before = 30.0
    async with live():
        await sandbox.say(RITA, f"{ASK} {FERRY}", chat_id=GROUP)
        assert await sandbox.until(lambda: "7:30" in str(visible(sandbox, OTTO)))
        assert await wait_until(lambda: len(execute(home, "SELECT id FROM questions")) == 2)
        (public,) = visible(sandbox, OTTO)
        if way == "button":
            await press(sandbox, public, "Stop", RITA)
        else:
            await sandbox.say(RITA, "/stop@citegram_bot", chat_id=GROUP)
        await wait_until_idle(sandbox, home)
        assert "Stopped" in str(visible(sandbox, OTTO))
        assert len(visible(sandbox, RITA)) == 1
    assert model.begun == 1


async def test_a_rich_answer_to_one_is_verified_by_a_reply(sandbox, live, say, home):
    await query_archive(home, lambda archive: readers.save_rich_chat(archive, GROUP, rich=True))
    async with live():
        hide_all_commands(sandbox)
        await say(RITA, f"/ask {PADLOCK}")
        answer = alone(sandbox, RITA)[-1]
        assert DIGITS in str(answer["rich_message"])
        command = await say(RITA, "/verify", reply_to=get_message_key(answer))
        sandbox.push({"message": command | {"reply_to_message": answer}})  # which Telegram may leave out
        await wait_until_idle(sandbox, home)
        verdict = str(alone(sandbox, RITA)[-1]["rich_message"])
        assert "Crew only" in verdict and "'«', 'The boathouse padlock opens with the digits 4417.', '»'" in verdict


async def test_what_is_withdrawn_leaves_the_group_also_after_a_restart(sandbox, live, home, model, monkeypatch):
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 0.1)
    monkeypatch.setattr("bot.worker.delivery._RETRY_SECONDS", 0.05)
    monkeypatch.setattr("bot.worker.delivery._LONGEST_SENDING_SECONDS", 0.5)
    monkeypatch.setattr("bot.telegram.session._CHAT_PAUSE", (0.05, 0.1))
    monkeypatch.setattr(RetryMiddleware.__init__, "__defaults__", (1, 0.01))
    model.before = 3.0
    async with live():
        await sandbox.say(OTTO, f"{ASK} {FERRY}", chat_id=GROUP)
        assert await sandbox.until(lambda: "7:30" in str(visible(sandbox, OTTO)))
        sandbox.faults.fail_next("editMessageText", "500", times=10_000)
        assert await wait_until(lambda: bool(execute(home, "SELECT * FROM deliveries")))
        async with open_archive(home) as archive:
            await posts.mark_posts_deleted(archive, [PostKey(HARBOUR, 10)], how="admin")
        withdrawn = "SELECT * FROM deliveries WHERE text LIKE 'I did not send%'"
        assert await wait_until(lambda: bool(execute(home, withdrawn)))
    sandbox.faults.clear()
    async with live():
        await wait_until_idle(sandbox, home)
    (public,) = visible(sandbox, RITA)
    assert public["text"].startswith("I did not send this answer")
    assert alone(sandbox, OTTO) == []


async def test_what_was_shared_of_two_hidden_questions_is_deepened_by_itself(sandbox, with_menu, say, home):
    async with with_menu():
        hide_all_commands(sandbox)
        for text in (f"/ask {FERRY}", "/ask Where is fresh mackerel sold?"):
            await say(RITA, text)
            await press(sandbox, alone(sandbox, RITA)[-1], "Show to all", RITA)
            await wait_until_idle(sandbox, home)
        ferry = visible(sandbox, OTTO)[0]
        await press(sandbox, alone(sandbox, RITA)[0], "Deeper", RITA)
        await wait_until_idle(sandbox, home)
        await say(RITA, "more", reply_to=ferry["message_id"])  # which the group has not seen yet
        deeper = visible(sandbox, OTTO)[-1]["text"]
    assert deeper.startswith(FERRY) and deeper.endswith("The posts say no more about this.")
