from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
import pytest_asyncio
from aiogram.types import BotCommand, InlineQueryResultArticle, InputTextMessageContent, Message
from aiogram.utils.formatting import ExpandableBlockQuote, Text, TextLink
from driven_sandbox import DrivenSandbox
from driver import ADMIN, make_local_bot
from page_faults import note_faults, playwright_api

from bot.sandbox import Sandbox
from rag_core.types import Answer, Passage, Post, PostKey, Source

pytestmark = pytest.mark.asyncio(loop_scope="module")

READER, CHANNEL, SECRET = 500, -1001111, -1002222


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(ADMIN, "Ada")
    world.add_person(READER, "Rita", lang="ru")
    world.add_channel(CHANNEL, "Harbour News", "harbour", members=[ADMIN])
    world.add_channel(SECRET, "Bridge", members=[ADMIN])
    start = datetime.fromtimestamp(1_700_000_000, UTC)
    for chat, count in ((CHANNEL, 400), (SECRET, 3)):
        keys = [PostKey(chat, n) for n in range(1, count + 1)]
        dates = (start + timedelta(seconds=9000 * key.message_id) for key in keys)
        history = [Post(key, date, f"Post number {key.message_id}") for key, date in zip(keys, dates, strict=True)]
        world.add_history(chat, history)
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def answered(sandbox: Sandbox) -> Message:
    """A question of the reader, answered with two citations and something nasty."""
    await sandbox.say(READER, "when?")
    open_, closed = "https://t.me/harbour/7", "https://t.me/c/2222/1"
    marks = Text("At <img src=x onerror=alert(1)> nine ", TextLink("[1]", url=open_), TextLink("[2]", url=closed))
    content = Text(marks, "\n", ExpandableBlockQuote("line\n" * 9))
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        await bot.set_my_commands([BotCommand(command="ask", description="Ask a question")])
        return await bot.send_message(READER, **content.as_kwargs())


async def test_a_citation_opens_its_post_beside_the_answer(
    sandbox: Sandbox, shared_browser: playwright_api.Browser
) -> None:
    answer = await answered(sandbox)
    page = await shared_browser.new_page(locale="en-GB", viewport={"width": 1300, "height": 800})
    wrong = note_faults(page)
    await page.goto(f"{sandbox.url}/?user={READER}")
    bubble = page.locator(f'[data-message="{READER}/{answer.message_id}"]')
    assert "<img src=x onerror=alert(1)>" in await bubble.inner_text()
    assert await bubble.locator("img").count() == 0

    await bubble.locator("a.citation").first.click()
    target = page.locator(f'#source [data-message="{CHANNEL}/7"]')
    await playwright_api.expect(target).to_have_class("message theirs first last highlight")
    await playwright_api.expect(target).to_be_in_viewport()
    assert page.url.endswith(f"#{READER}/{CHANNEL}/7")
    await playwright_api.expect(bubble).to_be_in_viewport()

    await bubble.locator("a.citation").nth(1).click()
    await playwright_api.expect(page.locator(".toast")).to_contain_text("private")
    assert await page.locator(f'[data-chat="{SECRET}"]').count() == 0

    await page.locator("#composer").fill("/")
    await playwright_api.expect(page.locator(".option")).to_have_text("/askAsk a question")
    await page.locator("#composer").fill("and <b>then</b>?")
    await page.click("#send")
    await playwright_api.expect(page.locator(".message.own").last).to_contain_text("and <b>then</b>?")
    assert sandbox.world.room(READER).messages[3]["text"] == "and <b>then</b>?"
    assert wrong == []


async def test_an_admin_posts_and_edits_in_a_channel(sandbox: Sandbox, shared_browser: playwright_api.Browser) -> None:
    page = await shared_browser.new_page(locale="ru-RU", viewport={"width": 1300, "height": 800})
    await page.goto(f"{sandbox.url}/?user={ADMIN}")
    await page.click(f'[data-chat="{CHANNEL}"]')
    await page.fill("#composer", "Паром в девять")
    await page.press("#composer", "Enter")
    post = page.locator(f'#main [data-message="{CHANNEL}/401"]')
    await playwright_api.expect(post).to_contain_text("Паром в девять")
    await page.press("#composer", "ArrowUp")
    await page.fill("#composer", "Паром в десять")
    await page.click("#send")
    await playwright_api.expect(post).to_contain_text("изменено")
    kinds = [next(k for k in update if k != "update_id") for _, update in sandbox.world.queue.kept.values()]
    assert kinds == ["channel_post", "edited_channel_post"]

    await page.click("#who")
    await page.click("text=Rita")
    await page.click(f'[data-chat="{CHANNEL}"]')
    await playwright_api.expect(page.locator(".readonly")).to_be_visible()


async def test_an_inline_query_offers_quotes_and_the_chosen_one_is_sent(
    sandbox: Sandbox, shared_browser: playwright_api.Browser
) -> None:
    """Typed and chosen with keys alone; the bot is a script here that answers what the page sends it."""
    quote = InputTextMessageContent(message_text="The ferry leaves at nine.")
    articles = [
        InlineQueryResultArticle(
            id=str(n), title=f"Quote <b>{n}</b>", description="Harbour", input_message_content=quote
        )
        for n in range(2)
    ]
    page = await shared_browser.new_page(locale="en-GB", viewport={"width": 390, "height": 760})
    await page.goto(f"{sandbox.url}/?user={ADMIN}#{CHANNEL}")
    await page.fill("#composer", f"@{sandbox.world.bot.username} fer")
    await page.locator("#composer").press_sequentially("ry")
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        typed = await bot.get_updates(timeout=20, allowed_updates=["inline_query"])
        query = typed[-1].inline_query
        assert query
        assert (query.query, query.from_user.id) == ("ferry", ADMIN)
        await bot.answer_inline_query(query.id, [*articles], cache_time=0)
    options = page.locator(".option.article")
    await playwright_api.expect(options).to_have_text(["Quote <b>0</b>Harbour", "Quote <b>1</b>Harbour"])
    await page.press("#composer", "ArrowDown")
    await playwright_api.expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    await page.press("#composer", "Enter")
    post = page.locator("#main .message").last
    await playwright_api.expect(post).to_contain_text("The ferry leaves at nine.")
    await playwright_api.expect(post).to_contain_text(f"via @{sandbox.world.bot.username}")
    await playwright_api.expect(page.locator("#composer")).to_have_value("")


async def test_a_phone_shows_one_thing_at_a_time(sandbox: Sandbox, shared_browser: playwright_api.Browser) -> None:
    answer = await answered(sandbox)
    page = await shared_browser.new_page(locale="en-GB", viewport={"width": 390, "height": 760})
    await page.goto(f"{sandbox.url}/?user={READER}")
    await page.click(f'[data-message="{READER}/{answer.message_id}"] a.citation >> nth=0')
    await playwright_api.expect(page.locator(f'[data-message="{CHANNEL}/7"].highlight')).to_be_in_viewport()
    await playwright_api.expect(page.locator("#main")).to_be_hidden()
    await page.click("#source .back")
    await playwright_api.expect(page.locator("#main")).to_be_visible()
    await page.click("#main .back")
    await playwright_api.expect(page.locator("#chats")).to_be_visible()


async def test_on_a_phone_a_pressed_source_opens_its_post(
    sandbox: Sandbox, shared_browser: playwright_api.Browser
) -> None:
    text = "Паром на Совиный остров уходит в 7:30 от четвёртого причала. " * 4
    date = datetime.fromtimestamp(1_700_000_000, UTC)
    found = Source(1, Passage(PostKey(CHANNEL, 10), 0, "", text, 0, len(text), date), 1.0, 0.4, "dense")
    question = await sandbox.say(READER, "Когда паром?")
    sandbox.observed.show_answer(READER, question["message_id"], Answer((), 0.0, "direct", found=(found,)))
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        await bot.send_message(READER, "Этого нет. " * 40)
    page = await shared_browser.new_page(
        locale="ru-RU", viewport={"width": 390, "height": 760}, has_touch=True, is_mobile=True
    )
    await page.goto(f"{sandbox.url}/?user={READER}")
    await playwright_api.expect(page.locator(".how")).to_have_text("Как это найдено")
    await page.tap(".how")
    await playwright_api.expect(page.locator(".source .leg")).to_have_text("смысл")
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    await page.click(".source .from")
    await playwright_api.expect(page.locator(f'#source [data-message="{CHANNEL}/10"].highlight')).to_be_in_viewport()


async def test_the_control_answers_this_machine_only_and_by_the_readers_rights(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession(sandbox.url) as http:
        assert (await http.get("/", headers={"Host": "evil.example"})).status == 403
        assert (await http.get(f"/sandbox/messages?chat={SECRET}&user={READER}")).status == 403
        post = {"user": READER, "chat": CHANNEL, "text": "spam"}
        assert (await http.post("/sandbox/post", json=post)).status == 403
        assert (await http.post("/sandbox/delete", json=post | {"message": 1})).status == 403
        assert (await http.post("/sandbox/post", data=post)).status == 404
        assert (await http.get("/page/..%2fserver.py")).status == 404
        state = await (await http.get(f"/sandbox/state?since=0&user={READER}")).json()
    assert [chat["id"] for chat in state["chats"]] == [READER, CHANNEL]
    assert [message["message_id"] for message in state["messages"]] == [400]
