import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

from driver import ADMIN, GROUP, HARBOUR, OTTO, RITA, SAFE, bind, buttons, execute, open_archive, say
from sandbox_chat_changes import create_topic
from stored_updates import save_updates

from bot.sandbox.state import get_message_key
from bot.views.keyboards import Press
from rag_core.storage import channels, questions
from rag_core.storage.readers import forget_old_data
from rag_core.types import Visibility

FERRY = "When does the ferry to Owl Island leave?"
MACKEREL = "When is mackerel sold on the quay?"
TROPHY = "Where did the treasurer hide the silver trophy?"


async def press(sandbox, message, label, who):
    """Press a button; what the message says then, and what the bot says to the press."""
    data = buttons(message).get(label, label)
    pressed = await sandbox.press(who, message["chat"]["id"], get_message_key(message), data)
    room = sandbox.world.room(message["chat"]["id"])
    return room.messages[get_message_key(message)]["text"], pressed["answer"].get("text") or ""


# /privacy


async def test_privacy_is_brief_and_its_details_are_as_the_settings_are(sandbox, live, ask):
    async with live():
        english, russian = await ask(OTTO, "/privacy"), await ask(RITA, "/privacy")
        details, _ = await press(sandbox, english, "Details", OTTO)
        in_russian, _ = await press(sandbox, russian, "Подробнее", RITA)
    assert "for 30 days." in english["text"]
    assert "я храню 30 дней." in russian["text"]
    assert len(english["text"].splitlines()) == len(russian["text"].splitlines()) == 5  # three lines and what to do
    for text in (english["text"], details):
        assert "Nothing leaves the machine I run on, except through Telegram." in text
        assert "/forget erases it" in text
    assert "30 days" in details
    assert "i back all this up" in details.lower()
    assert "The log holds no texts of questions or answers" in details
    assert "once two people have asked the same" in details
    assert "30 дней" in in_russian
    assert "{" not in details + in_russian


async def test_in_a_group_privacy_answers_to_its_name_alone_and_my_data_does_not_come(sandbox, live, ask):
    thread = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    async with live():
        await sandbox.say(OTTO, "/privacy", chat_id=GROUP, thread=thread)
        told = await ask(OTTO, "/privacy@citegram_bot", GROUP, thread=thread)
        mine = await ask(OTTO, "/mydata@citegram_bot", GROUP)
    assert told["text"].startswith("I keep your questions")
    assert told["message_thread_id"] == thread
    assert mine["text"] == "I only send this in private. Write /mydata to me there."
    assert len(sandbox.world.sent[GROUP]) == 2


# /forget


async def test_forget_asks_first_and_then_erases_all_of_mine(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    async with live():
        mine = await ask(OTTO, FERRY)
        await ask(OTTO, "/ask@citegram_bot Is the ferry to Owl Island painted in heliotrope stripes?", GROUP)
        await ask(RITA, FERRY)
        await press(sandbox, mine, "👍", OTTO)
        question = await ask(RITA, "/forget")
        assert (await press(sandbox, question, "Оставить", RITA))[0] == "Ничего не стёрто."
        question = await ask(OTTO, "/forget")
        assert question["text"] == (
            "Erase everything I keep about you, from all chats? This cannot be undone.\n"
            "• 2 questions with their answers\n• 1 vote\n"
            "• 2 questions remembered for follow-ups"
        )
        old = Press(to="forget", number=OTTO, token=str(int(time.time()) - 3600)).pack()
        assert (await press(sandbox, question, old, OTTO))[1].startswith("This is too old, or already done. Send")
        assert len(execute(home, "SELECT * FROM questions")) == 3
        told, _ = await press(sandbox, question, "Erase", OTTO)
        assert told.startswith(
            "Erased:\n• 2 questions with their answers\n• 1 vote\n• 2 questions remembered for follow-ups\n\n"
        )
        assert "The nightly backups (7) still hold it" in told
        assert execute(home, "SELECT user_id FROM questions") == [(RITA,)]
        assert execute(home, "SELECT * FROM votes") == []
        _, said = await press(sandbox, question, buttons(question)["Erase"], OTTO)
        assert said == "This is too old, or already done. Send /forget again."
        gone = await press(sandbox, mine, "👍", OTTO)
        assert gone[1] == "I no longer have this answer. Please ask again."
        assert (await ask(OTTO, "/forget"))["text"] == "I keep nothing about you."
        assert (await ask(OTTO, "/why"))["text"].startswith("You have not asked me anything here yet")
    execute(home, "PRAGMA wal_checkpoint(TRUNCATE)")  # nor is it in the file any more
    assert b"heliotrope" not in (home / "citegram.db").read_bytes()


async def test_in_a_group_only_mine_of_that_group_is_erased_and_only_by_me(sandbox, live, ask, home):
    await bind(home, HARBOUR)
    thread = create_topic(sandbox.world, GROUP, ADMIN, "Ferries")
    async with live():
        await ask(OTTO, FERRY)
        await ask(OTTO, f"/ask@citegram_bot {MACKEREL}", GROUP, thread=thread)
        await ask(RITA, f"/ask@citegram_bot {MACKEREL}", GROUP, thread=thread)
        question = await ask(OTTO, "/forget@citegram_bot", GROUP, thread=thread)
        assert question["text"].startswith("Erase everything I keep about you from this group?")
        assert question["message_thread_id"] == thread
        _, said = await press(sandbox, question, "Erase", RITA)
        assert said == "Это для того, кто отправил команду. Отправьте /forget сами."
        forged = Press(to="forget", number=RITA, token=str(int(time.time()))).pack()
        await press(sandbox, question, "Erase", OTTO)
        assert execute(home, "SELECT user_id, chat_id FROM questions ORDER BY id") == [(OTTO, OTTO), (RITA, GROUP)]
        _, late = await press(sandbox, question, forged, OTTO)
        assert late == "This is for the person who sent the command. Send /forget yourself."


async def test_what_is_being_answered_is_stopped_and_erased(sandbox, live, home, monkeypatch):
    begun = asyncio.Event()

    async def slow(*args, **more):
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("bot.worker.question_worker.answer_question", slow)
    async with live():
        await sandbox.say(OTTO, FERRY)
        await sandbox.say(OTTO, MACKEREL)
        await begun.wait()
        question = await say(sandbox, OTTO, "/forget")
        while "Erase" not in question["text"]:  # the place in the line may be told before
            (question,) = await sandbox.replies(OTTO)
        assert "• 2 of them not answered yet" in question["text"]
        told, _ = await press(sandbox, question, "Erase", OTTO)
        assert told.startswith("Erased:\n• 2 questions with their answers\n")
        assert execute(home, "SELECT * FROM questions") == []
        assert execute(home, "SELECT * FROM deliveries") == []


# /mydata


async def test_my_data_is_mine_alone_and_without_what_was_closed_to_me(sandbox, live, ask, home):
    claim = "The ferry to Owl Island leaves at 7:30."
    async with open_archive(home) as archive:
        await channels.set_channel_visibility(archive, SAFE, Visibility.PUBLIC)
        async with live():
            answer = await ask(OTTO, FERRY)
            await press(sandbox, answer, "👎", OTTO)
            await ask(RITA, MACKEREL)
            await ask(OTTO, TROPHY)
            await ask(OTTO, f"/verify {claim}")
            await channels.set_channel_visibility(archive, SAFE, Visibility.ADMINS)
            sent = await ask(OTTO, "/mydata")
    document = json.loads(sandbox.world.files[sent["document"]["file_id"]].data)
    ferry, trophy, verified = document["questions"]
    assert (ferry["kind"], ferry["text"]) == ("ask", FERRY)
    assert ferry["answer"][0]["cited"][0]["post"] == "https://t.me/harbour_news/10"
    assert trophy["answer"] == [{"closed": True}]
    assert (verified["kind"], verified["text"]) == ("verify", claim)
    assert document["votes"][0]["asked"] == FERRY
    assert MACKEREL not in json.dumps(document)


async def test_the_settings_of_my_chat_are_sent_and_erased(sandbox, live, ask, home):
    async with live():
        for command in ("/settings Europe/Madrid", "/mode quick", "/mode rich", "/new off"):
            await ask(OTTO, command)
        sent = await ask(OTTO, "/mydata")
        question = await ask(OTTO, "/forget")
        await press(sandbox, question, "Erase", OTTO)
        assert (await ask(OTTO, "/forget"))["text"] == "I keep nothing about you."
    document = json.loads(sandbox.world.files[sent["document"]["file_id"]].data)
    assert {"name": "zone", "value": "Europe/Madrid"} in document["settings"]
    assert {"recipe": "direct", "careful": 0} in document["settings"]
    assert execute(home, "SELECT name FROM choices WHERE name LIKE '%502'") == [("memory 502",)]
    assert execute(home, "SELECT * FROM modes") == []


# Retention


async def test_after_its_days_all_of_it_is_forgotten_and_stays_counted(sandbox, live, ask, home):
    async with live():
        answer = await ask(OTTO, FERRY)
        await press(sandbox, answer, "👍", OTTO)
    async with open_archive(home) as archive:
        await questions.save_linked_question(archive, OTTO, FERRY, "handle")
        await save_updates(archive, 42, [{"update_id": 1, "message": {"text": FERRY}}], {1: "odd"})
        later = datetime.now(UTC) + timedelta(seconds=5)
        for _ in range(2):
            await forget_old_data(archive, later, timedelta(0), timedelta(0))
        votes = await questions.count_votes(archive, since=later - timedelta(days=1))
    assert (votes.good, votes.bad) == (1, 0)
    assert execute(home, "SELECT user_id, question_id FROM votes") == [(None, None)]
    assert execute(home, "SELECT text, user_id, handle FROM questions") == [("", 0, None)]
    assert execute(home, "SELECT * FROM linked_questions") == []
    assert execute(home, "SELECT * FROM updates WHERE raw IS NOT NULL") == []
