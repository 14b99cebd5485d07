"""Inline queries: quotes of public posts in any chat; nothing of what is typed is kept."""

import asyncio
import logging
from datetime import UTC, datetime

import pytest
from driver import (
    ADMIN,
    GROUP,
    HARBOUR,
    OTTO,
    RITA,
    bind,
    buttons,
    execute,
    open_more,
    press,
    query_archive,
    say,
    say_text,
    wait_until_handled,
    wait_until_idle,
)

from bot.sandbox.messages import BotApiError, prepare_text
from bot.sandbox.page_api import UserMessage, send_as_person, send_inline_result, type_inline_query
from bot.sandbox.state import PressedButton
from rag_core.storage import posts
from rag_core.types import Post, PostKey

FERRY = "When does the ferry to Owl Island leave?"


async def offer(sandbox, who, text):
    query = sandbox.world.queries[type_inline_query(sandbox.world, who, text)]
    assert await sandbox.until(lambda: query.answer is not None)
    answer = query.answer or {}
    assert answer["personal"]
    assert answer["cache_time"] <= 30
    return answer


async def test_articles_quote_public_posts_with_their_links(sandbox, live_bot):
    answer = await offer(sandbox, OTTO, FERRY)
    first = answer["results"][0]
    assert first["type"] == "article"
    content = first["input_message_content"]
    assert content["text"].startswith("The ferry to Owl Island leaves at 7:30")
    assert any(one.get("url") == "https://t.me/harbour_news/10" for one in content["entities"])
    assert answer["button"]["text"] == "Ask me in our chat for a whole answer"
    # the button opens the chat, where the question is asked at once
    assert FERRY in await say_text(sandbox, OTTO, f"/start {answer['button']['start_parameter']}")
    assert "Напишите вопрос" in (await offer(sandbox, RITA, " "))["button"]["text"]


async def test_closed_channels_answer_as_if_they_did_not_exist(sandbox, live_bot):
    """Not even for those who may read them: others read the chat into which the article goes."""
    for asked, nobody, secret in (
        ("What opens the boathouse padlock?", "What opens the kelp zorblax?", "4417"),
        (
            "Where did the treasurer hide the silver trophy?",
            "Where did the treasurer hide the silver zorblax?",
            "staircase",
        ),
    ):
        assert secret in await say_text(sandbox, ADMIN, asked)
        answers = [await offer(sandbox, who, text) for who in (ADMIN, OTTO) for text in (asked, nobody)]
        assert secret not in repr(answers)
        assert all(answer["results"] == answers[0]["results"] for answer in answers)


async def test_what_is_typed_is_neither_stored_nor_logged(sandbox, live, home, caplog):
    caplog.set_level(logging.DEBUG)
    async with live():
        for text in ("quixotic ferry tickets", "quixotic", "ferry quixotic"):
            await offer(sandbox, OTTO, text)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files
    assert not [path.name for path in files if b"quixotic" in path.read_bytes()]
    assert not [line for line in caplog.messages if "quixotic" in line and "sandbox" not in line]


async def test_who_types_too_much_waits_and_only_the_last_text_is_answered(sandbox, live):
    async with live(reader_limit=1):
        first = type_inline_query(sandbox.world, OTTO, "ferry")
        last = type_inline_query(sandbox.world, OTTO, FERRY)
        assert await sandbox.until(lambda: sandbox.world.queries[last].answer is not None)
        await wait_until_handled(sandbox)
        assert sandbox.world.queries[first].answer is None
        said = [(await offer(sandbox, OTTO, FERRY))["button"]["text"] for _ in range(4)]
        assert said[-1].startswith("Too many at once")
        assert (await offer(sandbox, RITA, FERRY))["results"]


async def test_an_article_that_was_sent_is_no_question(sandbox, live, home):
    """Not in the bot's own chat, and not in a group as a reply to the bot."""
    await bind(home, HARBOUR)
    async with live():
        query = type_inline_query(sandbox.world, OTTO, FERRY)
        assert await sandbox.until(lambda: sandbox.world.queries[query].answer is not None)
        article = (sandbox.world.queries[query].answer or {})["results"][0]
        helped = await say(sandbox, OTTO, f"/help@{sandbox.world.bot.username}", GROUP)
        spoken = len(sandbox.world.sent[GROUP])
        sent = send_inline_result(sandbox.world, OTTO, OTTO, query, article["id"])
        assert sent["text"] == article["input_message_content"]["text"]
        via = {name: sent[name] for name in ("text", "entities", "via_bot")}
        send_as_person(sandbox.world, OTTO, GROUP, UserMessage(reply_to=helped["message_id"], extra=via))
        await wait_until_idle(sandbox, home)
        assert len(sandbox.world.sent[GROUP]) == spoken
        assert not sandbox.world.sent.get(OTTO)
        # what nobody offered cannot be sent, nor by another person
        for who, result in ((OTTO, "none"), (RITA, article["id"])):
            with pytest.raises(BotApiError, match="RESULT_ID_INVALID"):
                send_inline_result(sandbox.world, who, who, query, result)


def find_button(message, label):
    rows = message["reply_markup"]["inline_keyboard"]
    return next((button for row in rows for button in row if button["text"] == label), None)


async def test_an_answer_is_copied_and_shared_as_its_public_posts_are_now(sandbox, live, home):
    async with live():
        answer = await say(sandbox, OTTO, FERRY)
        more = await open_more(sandbox, answer, OTTO)
        sentence = "The ferry to Owl Island leaves at 7:30 every morning from pier four."
        assert find_button(more, "Copy")["copy_text"] == {"text": f"{sentence} https://t.me/harbour_news/10"}
        query = find_button(more, "Share")["switch_inline_query_chosen_chat"]["query"]
        for who in (OTTO, RITA):  # whoever has the button, in a group as well
            (article,) = (await offer(sandbox, who, query))["results"]
            assert article["input_message_content"]["text"].startswith(sentence)
        assert (await offer(sandbox, OTTO, f"{query[:-1]}x"))["results"] == []
        # a channel for members: to be copied by who may read it, never shared, not with a made-up query either
        closed = await open_more(sandbox, await say(sandbox, ADMIN, "What opens the boathouse padlock?"), ADMIN)
        assert "4417" in find_button(closed, "Copy")["copy_text"]["text"]
        assert find_button(closed, "Share") is None
        handle = next(iter(buttons(closed).values())).split(":")[2]
        assert (await offer(sandbox, ADMIN, f"={handle}"))["results"] == []
        for day, text, shared in ((1, f"{sentence} Bring a coat.", True), (2, "The ferry does not run now.", False)):
            edited = datetime(2024, 7, day, tzinfo=UTC)
            post = Post(PostKey(HARBOUR, 10), datetime(2024, 3, 12, 9, tzinfo=UTC), text, edited=edited)
            await query_archive(home, lambda archive, post=post: posts.save_posts(archive, [post], source="test"))
            articles = (await offer(sandbox, OTTO, query))["results"]
            assert ["edited 1 July 2024" in one["input_message_content"]["text"] for one in articles] == [True] * shared
        again = await press(sandbox, answer, "‹ Back", OTTO) or await open_more(sandbox, answer, OTTO)
        assert find_button(again, "Copy") is None
    sandbox.world.inline = False  # Telegram refuses a keyboard with Share then
    async with live():
        more = await open_more(sandbox, await say(sandbox, OTTO, "When is fresh mackerel sold?"), OTTO)
    assert find_button(more, "Copy")
    assert find_button(more, "Share") is None


def call_as_guest(sandbox, user_id, text):
    """Call the bot into a group that it is not in; the query."""
    world, query_id = sandbox.world, f"guest{len(sandbox.world.queries)}"
    world.queries[query_id] = PressedButton(user_id, user_id, world.clock())
    clean, entities = prepare_text(text)
    chat = {"id": -1_009_000_000_000 - user_id, "type": "supergroup", "title": "Elsewhere"}
    head = {"message_id": 1, "date": int(world.clock()), "chat": chat, "from": world.people[user_id].wire()}
    world.queue.push("guest_message", head | {"text": clean, "entities": entities, "guest_query_id": query_id})
    return world.queries[query_id]


async def test_a_guest_quotes_public_channels_where_that_is_switched_on(sandbox, live, home):
    name = sandbox.world.bot.username

    async def call(text):
        query = call_as_guest(sandbox, OTTO, text)
        assert await sandbox.until(lambda: query.answer is not None)
        return query.answer or {}

    async with live(guest=True):
        told = await call(f"@{name} quixotic? {FERRY}")
        assert told["text"].startswith("The ferry to Owl Island leaves at 7:30")
        assert any(one.get("url") == "https://t.me/harbour_news/10" for one in told["entities"])
        refused = [await call(f"@{name} What opens the boathouse {word}?") for word in ("padlock", "zorblax")]
        assert "4417" not in repr(refused)
        assert refused[0] == refused[1]
    files = [path for path in home.rglob("*") if path.is_file()]
    assert not [path.name for path in files if b"quixotic" in path.read_bytes()]
    async with live():
        off = call_as_guest(sandbox, OTTO, f"@{name} {FERRY}")
        assert await say_text(sandbox, OTTO, "/help")
        await wait_until_handled(sandbox)
        assert off.answer is None


WITHDRAWALS = {
    "closed": f"UPDATE channels SET visibility = 'admins' WHERE chat_id = {HARBOUR}",
    "for members": f"UPDATE channels SET visibility = 'members' WHERE chat_id = {HARBOUR}",
    "paused": f"UPDATE channels SET state = 'paused' WHERE chat_id = {HARBOUR}",
    "deleted": f"UPDATE posts SET deleted_at = 1 WHERE chat_id = {HARBOUR}",
    "edited": f"UPDATE posts SET text = 'No ferry.' WHERE chat_id = {HARBOUR}",
}


@pytest.mark.parametrize("change", WITHDRAWALS)
@pytest.mark.parametrize("guest", [True, False])
async def test_a_retry_offers_nothing_that_was_withdrawn_meanwhile(sandbox, live, home, change, guest):
    """Not even to an admin of the bot: others in that chat read it, too."""
    method = "answerGuestQuery" if guest else "answerInlineQuery"
    async with live(guest=True):
        sandbox.faults.fail_next(method, "500", times=2)
        if guest:
            query = call_as_guest(sandbox, ADMIN, f"@{sandbox.world.bot.username} {FERRY}")
        else:
            query = sandbox.world.queries[type_inline_query(sandbox.world, ADMIN, FERRY)]
        assert await sandbox.until(lambda: any(line["method"] == method for line in sandbox.transcript))
        await asyncio.to_thread(execute, home, WITHDRAWALS[change])
        assert await sandbox.until(lambda: query.answer is not None)
    assert "7:30" not in repr(query.answer)
    assert "I cannot search right now" in repr(query.answer)
