from __future__ import annotations

import json

from driven_sandbox import send_file_as_person
from driver import GROUP, OTTO, RITA, execute, press, say, say_text

from bot.middlewares import MAX_QUESTION_LENGTH
from bot.sandbox.state import Membership, UploadedFile

FERRY = "When does the ferry to Owl Island leave?"
COURSE = "Когда открывается запись на курс керамики?"
WHY = "why so early?"


async def test_an_answer_is_typed_first_and_is_no_reply(sandbox, live):
    async with live():
        reply = await say(sandbox, OTTO, FERRY)
        calls = [call["method"] for call in sandbox.transcript]
        assert calls.index("sendChatAction") < calls.index("sendMessage")
        russian = await say(sandbox, OTTO, f"/ask {COURSE}")  # Otto's Telegram speaks English
    assert "reply_to_message" not in reply  # the question stands right above
    assert reply["link_preview_options"] == {"is_disabled": True}
    assert "Источник\n1. Печь и глина · 12 марта 2024" in russian["text"]


async def test_what_cannot_be_asked_or_is_not_in_the_posts_gets_one_sentence(sandbox, live):
    async with live():
        for reader, text, said in (
            (OTTO, "/ask", "Write the question after the command, for example: /ask how much is membership?"),
            (RITA, "/ask   ", "Напишите вопрос после команды, например: /ask сколько стоит проезд на автобусе?"),
            (OTTO, "why " * 300, f"That is too long: {len('why ' * 300) - 1:,} characters, and I can take 1,000."),
            (RITA, "почему " * 200, "В вопросе может быть 1\u00a0000 знаков, а здесь их 1\u00a0399."),
            (OTTO, "/frobnicate now", "I do not know this command. See what I can do: /help"),
            (RITA, "/frobnicate", "Такой команды нет. Что я умею: /help"),
            (OTTO, "Who won the chess tournament in Buenos Aires?", "I found nothing about this in the channels"),
            (RITA, "Кто выиграл шахматный турнир в Аргентине?", "В каналах, которые вам открыты, об этом"),
        ):
            assert (await say(sandbox, reader, text))["text"].startswith(said), text
        assert "7:30" in await say_text(sandbox, OTTO, FERRY.ljust(MAX_QUESTION_LENGTH, "?"))  # the longest


async def test_a_caption_is_a_question_and_a_bare_file_is_not(sandbox, live):
    async with live():
        send_file_as_person(sandbox.world, OTTO, UploadedFile("f1", "pier.pdf", "application/pdf", b"x"))
        send_file_as_person(sandbox.world, OTTO, UploadedFile("f2", "pier.pdf", "application/pdf", b"x"), FERRY)
        bare, asked = await sandbox.replies(OTTO, 2)
    assert {"I can only read text. Please write your question."} < {bare["text"], asked["text"]}
    assert "7:30" in bare["text"] + asked["text"]


async def test_a_follow_up_is_answered_until_a_new_talk_begins(sandbox, live, ask):
    async with live():
        assert "7:30" in (await ask(OTTO, FERRY))["text"]
        follow_up = (await ask(OTTO, WHY))["text"]
        assert "7:30" in follow_up
        assert follow_up.startswith("Answering:")
        assert "ferry" in follow_up.split("”")[0]
        assert await say_text(sandbox, OTTO, "/new") == "New conversation. I have forgotten the earlier questions."
        assert "7:30" not in (await ask(OTTO, WHY))["text"]


async def test_a_talk_can_be_off_and_on_in_a_group_as_its_admins_say(sandbox, live, ask):
    sandbox.world.room(GROUP).members |= {OTTO: Membership("member"), RITA: Membership("administrator")}
    async with live():
        assert (await say_text(sandbox, OTTO, "/new off")).startswith("I do not remember earlier questions here.")
        await ask(OTTO, FERRY)
        assert "7:30" not in (await ask(OTTO, WHY))["text"]
        assert (await say_text(sandbox, OTTO, "/new on")).startswith("New conversation")
        assert "off and /new on" in await say_text(sandbox, OTTO, "/new perhaps")
        refused = await say_text(sandbox, OTTO, "/new@citegram_bot off", GROUP)
        assert refused == "Only admins can change whether I remember earlier questions here."
        assert "не помню" in await say_text(sandbox, RITA, "/new@citegram_bot off", GROUP)


async def test_a_follow_up_is_not_answered_with_what_another_talk_meant_by_it(sandbox, live, ask):
    async with live():
        await ask(OTTO, FERRY)
        assert "7:30" in (await ask(OTTO, WHY))["text"]
        await ask(RITA, "When is fresh mackerel sold on the quay?")
        assert "7:30" not in (await ask(RITA, WHY))["text"]
        # and an answer out of memory is followed up as well
        assert "7:30" in (await ask(RITA, FERRY))["text"]
        assert "7:30" in (await ask(RITA, WHY))["text"]


async def test_what_talks_remember_is_sent_and_erased_with_the_rest(sandbox, live, ask, home):
    async with live():
        await ask(OTTO, FERRY)
        await ask(RITA, FERRY)
        sent = await ask(OTTO, "/mydata")
        document = json.loads(sandbox.world.files[sent["document"]["file_id"]].data)
        assert [one["question"] for one in document["remembered"]] == [FERRY]
        question = await ask(OTTO, "/forget")
        assert "1 question remembered for follow-ups" in question["text"]
        await press(sandbox, question, "Erase", OTTO)
        assert execute(home, "SELECT user_id FROM talks") == [(RITA,)]
