"""What strangers may write, in every place where the page shows it, in a real browser: it is text and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from aiogram.types import ReplyParameters
from driven_sandbox import DrivenSandbox
from driver import make_local_bot
from page_faults import note_faults, playwright_api

from bot.sandbox import Sandbox
from rag_core.types import Answer, Citation, Passage, PostKey, Sentence, Source

pytestmark = pytest.mark.asyncio(loop_scope="module")

MALLORY, READER, CHANNEL, CLOSED, GROUP = 500, 501, -1001111, -1002222, -1003333
DATE = datetime(2024, 3, 12, 9, tzinfo=UTC)
ELSEWHERE = "http://203.0.113.7/x"

MARKUP = [
    "<img src=x onerror=window.ran=1>",
    "<script>window.ran=1</script>",
    "<svg onload=window.ran=1><a xlink:href='javascript:window.ran=1'><rect/></a></svg>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "\"><img src=x onerror='window.ran=1'>",
    "'onmouseover='window.ran=1' x='",
    f"<link rel=stylesheet href={ELSEWHERE}><style>@import '{ELSEWHERE}'</style>",
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}'><base href='{ELSEWHERE}'>",
    "<form action=javascript:window.ran=1><button id=send>x</button></form>",
    "{{constructor.constructor('window.ran=1')()}} ${window.ran=1} `${window.ran=1}`",
    "</title></div><plaintext>",
    "\u202e\u2066gnp.exe\u2069 \u200b\u200d\ufeff\u2028\u2029 \ud83d",
    "__proto__",
    "constructor",
    "W" * 4000,
    "\U000e0041\U000e0042 \u0301" * 200,
]
ADDRESSES = [
    "javascript:window.ran=1",
    "JaVaScRiPt:window.ran=1",
    " java\tscript:window.ran=1",
    "\u0001javascript:window.ran=1",
    "data:text/html,<script>window.ran=1</script>",
    "vbscript:window.ran=1",
    "file:///etc/passwd",
    "blob:null/x",
    "https://[",
    "https://t.me/c/__proto__/1",
    "//203.0.113.7/x",
    "tg://resolve?domain=x",
]
KINDS = (
    "bold spoiler text_link blockquote expandable_blockquote code pre custom_emoji mention url bot_command "
    "text_mention hashtag email constructor __proto__ <img>"
).split()

WATCH = """
window.violated = [];
addEventListener("securitypolicyviolation", (event) => window.violated.push(event.violatedDirective));
"""
STRANGE = """() => {
  const all = [...document.querySelectorAll("*")], own = `${location.origin}/page/`;
  const loading = "script, iframe, object, embed, img, base, meta[http-equiv], link, style";
  const alien = all.filter((one) => one.matches(loading) && one.rel !== "icon");
  const loaded = alien.filter((one) => !(one.src || one.href || "").startsWith(own)).map((one) => one.outerHTML);
  const handlers = all.flatMap((one) => one.getAttributeNames().filter((name) => name.startsWith("on")));
  const led = all.filter((one) => one.matches("a, area")).map((one) => one.protocol);
  return [...loaded, ...handlers, ...led.filter((one) => !["http:", "https:", "tg:"].includes(one))];
}"""


def entities(text: str) -> list[dict[str, Any]]:
    """Entities of all kinds over a text: overlapping, nested, empty, outside of it, and of no use at all."""
    size = len(text.encode("utf-16-le", "surrogatepass")) // 2
    marks: list[dict[str, Any]] = []
    for n, kind in enumerate(KINDS):
        spans = [(0, size), (n % max(1, size), size), (n, 3), (-2, 5), (-5, 2**31), (size, 4), (0, 0), (3, -1)]
        for m, (offset, length) in enumerate(spans):
            about = {"url": ADDRESSES[(n + m) % len(ADDRESSES)], "language": '" onload=x', "custom_emoji_id": "<img>"}
            marks.append({"type": kind, "offset": offset, "length": length, **about})
    return marks


def links(text: str) -> list[dict[str, Any]]:
    return [
        {"type": "text_link", "offset": n, "length": 1, "url": url} for n, url in enumerate(ADDRESSES) if n < len(text)
    ]


@pytest_asyncio.fixture(loop_scope="module")
async def hostile() -> Any:
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, MARKUP[0], lang="en")
    for n, name in enumerate(MARKUP):
        world.add_person(MALLORY + 10 + n, name, lang="en")
    for n, title in enumerate(MARKUP):
        world.add_channel(CHANNEL - 10 * n, title, f"channel{n}", members=[READER])
    world.add_group(GROUP, MARKUP[1], members=[READER, *(MALLORY + 10 + n for n in range(len(MARKUP)))])
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


def written(sandbox: Sandbox) -> None:
    """All of it in every field of a message that the page shows, also what no server of Telegram lets through."""
    world = sandbox.world
    for n, text in enumerate(MARKUP):
        room = world.room(CHANNEL - 10 * n)
        origin = {
            "type": "channel",
            "chat": {"id": CLOSED, "type": "channel", "title": text},
            "message_id": 1,
            "date": 1,
        }
        keys = [[{"text": text[:60], "url": url} for url in ADDRESSES]]
        keys += [[{"text": text[:60], "callback_data": text[:64], "style": '" onclick="window.ran=1'}]]
        marks = entities(text)
        sender = {"sender_chat": room.wire(), "author_signature": text, "forward_origin": origin}
        first = {**sender, "text": text, "entities": [*marks, *links(text)], "reply_markup": {"inline_keyboard": keys}}
        message = world.add(room, first)
        world.reactions[room.id, message["message_id"]] = {MALLORY: [text[:20]], READER: ["<b>"]}
        document = {"file_name": f"{text}.svg", "file_id": "x", "file_unique_id": "x"}
        world.add(room, {**sender, "document": document, "caption": text, "caption_entities": marks})
        quote = {"text": text, "position": -1, "entities": marks}
        world.add(room, {**sender, "text": f"{text} again", "reply_to_message": message, "quote": quote})
        person = world.people[MALLORY + 10 + n].wire()
        world.add(world.room(GROUP), {"from": person, "text": text, "entities": links(text)})


async def found(sandbox: Sandbox) -> None:
    """An answer, and how it was found."""
    question = await sandbox.say(READER, "What is it?")
    sources = []
    for n, text in enumerate(MARKUP, 1):
        key = PostKey(CHANNEL - 10 * (n - 1), 1)
        sources.append(Source(n, Passage(key, 0, text, text, 0, len(text), DATE), 1.0, 0.4, "dense"))
    cited = tuple(
        Sentence(one.passage.text, (Citation(one.passage.key, one.passage.text, 0, 9, DATE),)) for one in sources
    )
    given = Answer(cited, 1.0, "direct", found=tuple(sources))
    sandbox.observed.show_answer(READER, question["message_id"], given)
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        parent = ReplyParameters(message_id=question["message_id"])
        await bot.send_message(READER, MARKUP[0], reply_parameters=parent)


async def test_nothing_that_strangers_write_runs_leads_away_or_breaks_the_page(
    hostile: Sandbox, shared_browser: playwright_api.Browser
) -> None:
    written(hostile)
    await found(hostile)
    page = await shared_browser.new_page(locale="en-GB", viewport={"width": 1300, "height": 800})
    wrong = note_faults(page)
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("popup", lambda popup: wrong.append(popup.url))
    page.on("request", lambda one: wrong.append(one.url) if not one.url.startswith((hostile.url, "data:")) else None)
    page.on("framenavigated", lambda frame: wrong.append(frame.url) if not frame.url.startswith(hostile.url) else None)
    await page.add_init_script(WATCH)
    await page.goto(f"{hostile.url}/?user={READER}")
    await playwright_api.expect(page.locator("#chats .chat")).to_have_count(len(MARKUP) + 2)
    for n in range(len(MARKUP)):
        await page.click(f'[data-chat="{CHANNEL - 10 * n}"]')
        shown = page.locator(f'#main [data-message="{CHANNEL - 10 * n}/1"]')
        await playwright_api.expect(shown).to_be_visible()
        if MARKUP[n].isprintable():
            await playwright_api.expect(shown.locator(".text")).to_contain_text(MARKUP[n].strip()[:40])
        await playwright_api.expect(page.locator(f'#main [data-message="{CHANNEL - 10 * n}/3"]')).to_be_visible()
        assert await page.evaluate(STRANGE) == []
    await page.click(f'[data-chat="{GROUP}"]')
    await playwright_api.expect(page.locator("#main .message")).to_have_count(len(MARKUP))
    await page.click(f'[data-chat="{READER}"]')
    await page.fill("#composer", MARKUP[0])
    await page.click(".how")
    await playwright_api.expect(page.locator(".source")).to_have_count(len(MARKUP))
    await page.click(".source .from >> nth=0")
    await playwright_api.expect(page.locator(f'#source [data-message="{CHANNEL}/1"]')).to_be_visible()
    await page.click("#who")
    await playwright_api.expect(page.locator("#menu .person")).to_have_count(len(MARKUP) + 1)
    assert await page.evaluate(STRANGE) == []
    assert await page.evaluate("[window.ran ?? 0, ...window.violated]") == [0]
    assert await page.evaluate("({}).offset") is None  # no prototype was touched
    assert wrong == []


@pytest.mark.parametrize("kind", ["nested", "beside", "crossing"])
async def test_ten_thousand_entities_do_not_break_the_page(
    hostile: Sandbox, shared_browser: playwright_api.Browser, kind: str
) -> None:
    many, text = 10_000, "x" * 4096
    marks = [
        {"type": "bold" if n % 2 else "italic"}
        | {
            "nested": {"offset": n % 2000, "length": 4096 - 2 * (n % 2000)},
            "beside": {"offset": n % 4096, "length": 1},
            "crossing": {"offset": n % 3000, "length": 1000},
        }[kind]
        for n in range(many)
    ]
    room = hostile.world.room(CHANNEL)
    hostile.world.add(room, {"sender_chat": room.wire(), "text": text, "entities": marks})
    hostile.world.add(room, {"sender_chat": room.wire(), "text": "The next post."})
    page = await shared_browser.new_page(locale="en-GB")
    wrong = note_faults(page)
    await page.goto(f"{hostile.url}/?user={READER}#{CHANNEL}")
    await playwright_api.expect(page.locator(f'[data-message="{CHANNEL}/2"]')).to_contain_text("The next post.")
    await playwright_api.expect(page.locator(f'[data-message="{CHANNEL}/1"] .text')).to_contain_text("xxxx")
    assert wrong == []


async def test_a_command_in_somebodys_post_sends_nothing_to_the_bot(
    hostile: Sandbox, shared_browser: playwright_api.Browser
) -> None:
    said = "/forget everything"
    command = {"type": "bot_command", "offset": 0, "length": len(said)}
    await hostile.post(CHANNEL, said, extra={"entities": [command]})
    await hostile.say(READER, "Hello")
    page = await shared_browser.new_page(locale="en-GB", viewport={"width": 1300, "height": 800})
    await page.goto(f"{hostile.url}/?user={READER}#{READER}/{CHANNEL}/1")
    await page.click("#source .command")
    await page.fill("#composer", "Is anybody there?")
    await page.click("#send")
    await playwright_api.expect(page.locator("#main .message.own").last).to_contain_text("Is anybody there?")
    texts = [message["text"] for message in hostile.world.room(READER).messages.values()]
    assert texts == ["Hello", "Is anybody there?"]
