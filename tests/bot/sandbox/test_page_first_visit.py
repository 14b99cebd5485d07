"""First visit to the demo in a real browser: right answers from suggested questions, by mouse, touch and keyboard."""

import asyncio
import json
import shutil
from contextlib import suppress
from importlib import resources

import aiohttp
import pytest
import pytest_asyncio
from driven_sandbox import DrivenSandbox, running_bot
from page_faults import note_faults, playwright_api

from bot.cli.demo import open_demo_sandbox
from bot.sandbox.state import SAMPLE_CHANNELS_FOLDER
from bot.settings import HistorySettings, Settings
from rag_core.errors import SettingsWrong
from rag_core.types import PostKey

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = [json.loads(line) for line in (SAMPLE_CHANNELS_FOLDER / "suggested.jsonl").read_text().splitlines()]
EXPORTED = json.loads((SAMPLE_CHANNELS_FOLDER / "owl-hill" / "result.json").read_text())["messages"]
BY_TEXT = {row["text"]: row for row in ROWS}
DESKTOP, PHONE = (1280, 800), (390, 760)
ADMIN = 1004  # Nora
COLOUR_RULES = ["color-contrast", "link-in-text-block"]
AXE_RUN = "(rules) => axe.run({...rules, resultTypes: ['violations']}).then((done) => done.violations)"
# else a background keeps the colour of the theme before for some frames
NO_TRANSITIONS = """document.adoptedStyleSheets = [new CSSStyleSheet()];
document.adoptedStyleSheets[0].replaceSync("*, ::before, ::after { transition: none !important }")"""
BUBBLES_UNDER_DAYS = """() => [...document.querySelectorAll(".day span")].flatMap((day) => {
  const one = day.getBoundingClientRect();
  return [...document.querySelectorAll(".bubble")].map((bubble) => bubble.getBoundingClientRect())
    .filter((other) => one.top < other.bottom && other.top < one.bottom);
}).length"""


def build_settings(folder):
    return Settings.model_validate({"data": {"dir": folder}, "models": {"embedder": "none"}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    async with open_demo_sandbox(build_settings(folder), 0):
        return folder


@pytest_asyncio.fixture(loop_scope="module")
async def demo(prepared, tmp_path, monkeypatch):
    """The demo as `citegram demo` runs it, with search by words."""
    monkeypatch.setattr("bot.cli.demo.Sandbox", DrivenSandbox)
    settings = build_settings(shutil.copytree(prepared, tmp_path / "data"))
    async with open_demo_sandbox(settings, 0) as (sandbox, given), running_bot(given, sandbox.observed):
        yield sandbox


async def test_a_demo_asks_telegram_for_no_history(prepared):
    """Its token is no real one; HISTORY__API_ID of the owner's bot may stand in the same .env."""
    settings = build_settings(prepared).model_copy(update={"history": HistorySettings(api_id=1, api_hash="x")})
    async with open_demo_sandbox(settings, 0) as (_, given):
        assert given.history == HistorySettings()


async def test_a_number_that_is_no_port_is_one_sentence(prepared):
    with pytest.raises(SettingsWrong, match="Port 99999 cannot be used"):
        async with open_demo_sandbox(build_settings(prepared), 99999):
            pass


def find_posts(row):
    chats = {
        one["folder"]: one["chat_id"] for one in json.loads((SAMPLE_CHANNELS_FOLDER / "channels.json").read_text())
    }
    parts = [source.split("/msg-") for source in row["relevant"]]
    return [PostKey(chats[folder], int(number)) for folder, number in parts]


def says(text, row):
    return any(answer in text.replace("\u202f", " ").replace("\xa0", " ") for answer in row["answers"])


async def open_page(demo, browser, locale="en-GB", size=DESKTOP, path="", **more):
    viewport = {"width": size[0], "height": size[1]}
    page = await browser.new_page(
        locale=locale, viewport=viewport, has_touch=size is PHONE, is_mobile=size is PHONE, **more
    )
    await page.goto(demo.url + path)
    return page


@pytest.mark.parametrize(("locale", "size"), [("en-GB", DESKTOP), ("ru-RU", PHONE)])
async def test_a_first_visit_comes_to_a_right_cited_answer_by_two_clicks(demo, shared_browser, locale, size):
    expect = playwright_api.expect
    page = await open_page(demo, shared_browser, locale, size)
    wrong = note_faults(page)
    await expect(page.locator("#main .empty .suggestion")).to_have_count(4)
    offered = await page.locator(".suggestion").all_inner_texts()
    assert {BY_TEXT[text]["lang"] for text in offered} == {locale[:2]}
    await page.click(".suggestion >> nth=0")
    answer = page.locator("#main .message.theirs", has=page.locator(".citation")).last
    await expect(answer).to_be_visible()
    row = BY_TEXT[offered[0]]
    assert says((await answer.locator(".text").inner_text()), row)
    # refreshed: what was asked is not offered again
    await expect(page.locator(".suggestion").first).to_have_text(offered[1])
    await expect(page.locator(".suggestion")).to_have_count(4)
    assert await page.evaluate(BUBBLES_UNDER_DAYS) == 0

    await answer.locator(".citation.number").first.click()
    (post,) = find_posts(row)
    source = page.locator(f'#source [data-message="{post.chat_id}/{post.message_id}"].highlight')
    await expect(source).to_be_in_viewport()
    for _ in range(50):  # the page's policy forbids wait_for_function
        if await page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError("the page scrolls sideways")
    if size is PHONE:
        await page.click("#source .back")
        await page.click("#main .back")
        await expect(page.locator("#chats")).to_be_visible()
    assert wrong == []


async def test_every_suggested_question_gets_a_right_answer(demo, monkeypatch):
    answers = []
    monkeypatch.setattr(demo.observed, "show_answer", lambda chat, message, answer: answers.append(answer))
    failed = []
    for user in list(demo.world.people.values()):
        async with aiohttp.ClientSession(demo.url) as http:
            offered = (await (await http.get(f"/sandbox/state?since=0&user={user.id}")).json())["questions"]
        sources = {source.split("/")[0] for text in offered for source in BY_TEXT[text]["relevant"]}
        assert ("owl-hill-members" in sources) == (user.first_name == "Nora")
        assert len(offered) >= 8
        for text in offered:
            row = BY_TEXT[text]
            await demo.say(user.id, text)
            (shown,) = await demo.replies(user.id)
            answer = answers[-1]
            right = says(answer.sentences[0].text, row) if answer.sentences else False
            cited = bool(answer.sentences) and answer.sentences[0].citations[0].post in find_posts(row)
            if not (right and cited and says(shown["text"], row)):
                failed.append((text, shown["text"]))
    assert failed == []


async def test_the_page_shows_how_an_answer_was_found_and_a_new_post_become_findable(demo, shared_browser):
    expect = playwright_api.expect
    page = await open_page(demo, shared_browser, path=f"/?user={ADMIN}")
    wrong = note_faults(page)
    row = BY_TEXT["How much is membership in 2027?"]
    ((channel, number),) = find_posts(row)
    await page.fill("#composer", row["text"])
    await page.press("#composer", "Enter")
    await page.click(".how")
    source = page.locator(f'.source[data-post="{channel}/{number}"]')
    await expect(source.locator("mark").first).to_contain_text(row["answers"][0])
    await expect(source.locator(".leg")).to_have_text("has words of your question")

    await page.click(f'[data-chat="{channel}"]')
    await expect(page.locator("#main .far")).to_have_text("Indexed · searchable")
    await expect(page.locator(".findable")).to_have_count(0)
    new = max(demo.world.room(channel).messages) + 1
    await page.fill("#composer", "Kayak lessons <b>begin</b> on Sundays at the slipway.")
    await page.press("#composer", "Enter")
    post = page.locator(f'#main [data-message="{channel}/{new}"]')
    await expect(post.locator(".findable.done")).to_contain_text("findable")
    await page.press("#composer", "ArrowUp")
    await page.fill("#composer", "Kayak lessons <b>begin</b> on Mondays at the slipway.")
    await page.click("#send")
    await expect(post).to_contain_text("Mondays")
    await expect(post.locator(".findable.done")).to_be_visible()

    await page.click(f'[data-chat="{ADMIN}"]')
    answered = page.locator(".how").nth(1)
    for _ in range(3):  # while the edit is being indexed an answer is held back, and says to ask again
        await page.fill("#composer", "When do kayak lessons begin?")
        await page.press("#composer", "Enter")
        with suppress(playwright_api.TimeoutError):
            await answered.wait_for(timeout=10_000)
            break
    await answered.click()
    fresh = page.locator(f'.source[data-post="{channel}/{new}"] mark').first
    await expect(fresh).to_contain_text("<b>begin</b> on Mondays")
    await page.reload()
    await page.click(".how >> nth=1")
    await expect(fresh).to_be_visible()
    assert wrong == []


async def test_a_refusal_does_not_say_how_it_was_found(demo, shared_browser):
    page = await open_page(demo, shared_browser)
    for question in ("zorb plindle vusk", "How much is membership in 2027?"):
        await page.fill("#composer", question)
        await page.press("#composer", "Enter")
    await playwright_api.expect(page.locator(".citation").first).to_be_visible()
    await playwright_api.expect(page.locator(".how")).to_have_count(1)


async def test_posts_show_the_time_of_their_channel_whatever_the_browser_has(demo, shared_browser):
    page = await open_page(demo, shared_browser, path=f"/?user={ADMIN}", timezone_id="America/New_York")
    ((channel, number),) = find_posts(BY_TEXT["How much is membership in 2027?"])
    exported = next(row for row in EXPORTED if row["id"] == number)
    await page.goto(f"{demo.url}/?user={ADMIN}#{channel}/{channel}/{number}")
    shown = page.locator(f'#main [data-message="{channel}/{number}"] time')
    await playwright_api.expect(shown).to_have_text(exported["date"][11:16])


@pytest.mark.parametrize("user", [1001, 1002, 1003, 1004])
async def test_who_one_is_and_may_become_is_told_whole(demo, shared_browser, user):
    path = f"/?user={user}&lang={'en' if user % 2 == 0 else 'ru'}"
    page = await open_page(demo, shared_browser, size=(920, 860), path=path)  # the list of chats is narrow
    for part in ("b", "small"):
        told = page.locator(f"#who {part}")
        assert await told.evaluate("one => one.scrollWidth <= one.clientWidth"), await told.inner_text()


async def test_person_and_language_go_together_and_the_list_is_searched(demo, shared_browser):
    expect = playwright_api.expect
    page = await open_page(demo, shared_browser)
    await expect(page.locator("#who")).to_contain_text("Alex")
    await expect(page.locator("#who")).to_have_text("AYou are Alex, a readerSwitch to Nora, an admin")
    await expect(page.locator("#main .empty button")).to_have_count(4)  # questions, and nothing else
    await page.click("#who")
    await page.click("text=Русский")
    await expect(page.locator("#who")).to_contain_text("Вы Митя, читатель")
    await page.click("text=Соседи")
    await expect(page.locator("#main .empty")).to_contain_text("Спросите через /ask@citegram_bot")
    await page.click("#who")
    await page.click("text=Nora")
    await expect(page.locator("#who")).to_contain_text("You are Nora, an admin")
    await expect(page.locator(".chat")).to_have_count(6)
    await page.fill("#search", "members")
    await expect(page.locator(".chat")).to_have_count(1)
    await page.fill("#search", "nothing like this")
    await expect(page.locator("#chats")).to_have_text("No such chat")


async def test_the_page_works_by_keyboard_alone(demo, shared_browser):
    expect = playwright_api.expect
    page = await open_page(demo, shared_browser)
    focused = "document.activeElement.className + ' ' + document.activeElement.id"

    async def tab_to(what, key="Tab"):
        for _ in range(40):
            if what in (await page.evaluate(focused)).split():
                return
            await page.keyboard.press(key)
        raise AssertionError(f"{what} is not reached with {key}")

    await expect(page.locator("#composer")).to_be_focused()
    await tab_to("suggestion", "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".how")).to_be_visible()
    await tab_to("how", "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".sources")).to_be_visible()
    await page.keyboard.press("Enter")
    await tab_to("citation", "Shift+Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator("#source .scroll")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.locator("#source")).to_be_hidden()
    assert "citation" in await page.evaluate(focused)
    await tab_to("who", "Shift+Tab")
    await page.keyboard.press("Enter")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Escape")
    await expect(page.locator("#who")).to_be_focused()
    await tab_to("chat")
    await tab_to("composer")
    await page.keyboard.type("/he")
    await expect(page.locator("#command0")).to_be_visible()
    assert await page.get_attribute("#composer", "aria-activedescendant") == "command0"
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.own").last).to_contain_text("/help")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_the_page_is_accessible(demo, shared_browser, size):
    pytest.importorskip("axe_playwright_python", reason="axe checks accessibility")
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page = await open_page(demo, shared_browser, size=size, reduced_motion="reduce")
    await page.wait_for_selector(".suggestion")
    await page.evaluate(axe)
    await page.evaluate(NO_TRANSITIONS)

    async def check(where):
        await page.wait_for_timeout(100)
        themes = {"light": {}}
        if size is DESKTOP:
            themes["dark"] = {"runOnly": COLOUR_RULES}  # colours alone differ, and they are the same on a phone
        for theme, rules in themes.items():
            await page.emulate_media(color_scheme=theme)
            found = await page.evaluate(AXE_RUN, rules)
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            shown = [
                (one["id"], [(node["html"][:150], node["failureSummary"][:230]) for node in one["nodes"]])
                for one in serious
            ]
            assert not shown, f"{where}, {theme}: {json.dumps(shown, ensure_ascii=False, indent=1)}"

    await check("first screen")
    await page.click(".suggestion >> nth=0")
    await page.click(".how")
    await check("answer and how it was found")
    await page.click(".citation.number >> nth=0")
    await page.wait_for_selector("#source .highlight")
    await check("a post beside it")
    await page.click("#source .back" if size is PHONE else "#source .shut")
    await page.fill("#composer", "/")
    await check("commands")
    if size is PHONE:
        await page.click("#main .back")
    await page.click("#who")
    await check("menu")
    assert await page.evaluate("getComputedStyle(document.querySelector('#menu')).animationDuration") == "1e-05s"
