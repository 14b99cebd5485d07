"""The page in a real browser: what people do there, and what strangers may write, which is text and nothing else."""

import asyncio
import io
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp
import pytest
import pytest_asyncio
from aiogram.types import (
    BotCommand,
    CopyTextButton,
    EphemeralMessageParameters,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InlineQueryResultArticle,
    InputRichBlockDetails,
    InputRichBlockExpandableBlockQuotation,
    InputRichBlockParagraph,
    InputRichBlockSectionHeading,
    InputRichBlockTable,
    InputRichMessage,
    InputTextMessageContent,
    ReplyParameters,
    RichBlockTableCell,
    RichTextMarked,
    RichTextReference,
    RichTextReferenceLink,
    RichTextSuperscript,
    RichTextUrl,
    SwitchInlineQueryChosenChat,
)
from aiogram.utils.formatting import ExpandableBlockQuote, Text, TextLink
from driven_sandbox import DrivenSandbox
from driver import ADMIN, make_local_bot
from page_faults import note_faults, playwright_api
from PIL import Image

from rag_core.types import Answer, Citation, Passage, Post, PostKey, Sentence, Source

pytestmark = pytest.mark.asyncio(loop_scope="module")

READER, CHANNEL, SECRET = 500, -1001111, -1002222


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox():
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


async def answered(sandbox):
    """A question of the reader, answered with two citations and something nasty."""
    await sandbox.say(READER, "when?")
    open_, closed = "https://t.me/harbour/7", "https://t.me/c/2222/1"
    marks = Text("At <img src=x onerror=alert(1)> nine ", TextLink("[1]", url=open_), TextLink("[2]", url=closed))
    content = Text(marks, "\n", ExpandableBlockQuote("line\n" * 9))
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        await bot.set_my_commands([BotCommand(command="ask", description="Ask a question")])
        return await bot.send_message(READER, **content.as_kwargs())


async def test_a_citation_opens_its_post_beside_the_answer(sandbox, shared_browser):
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


def mark(name):
    return RichTextSuperscript(text=RichTextReferenceLink(text=f"[{name}]", reference_name=name))


@pytest.mark.parametrize(("locale", "note", "more"), [("en-GB", "Note", "Show more"), ("ru-RU", "Сноска", "Показать")])
async def test_a_rich_answer_is_drawn_and_its_notes_open_by_press_and_by_key(
    sandbox, shared_browser, locale, note, more
):
    def footnote(name, words):
        link = RichTextUrl(text=f"[{name}]", url=f"https://t.me/harbour/{name}")
        text = RichTextReference(text=[link, " ", RichTextMarked(text=words)], name=name)
        return InputRichBlockExpandableBlockQuotation(text=text, credit="Harbour News")

    cell = partial(RichBlockTableCell, align="left", valign="top")
    rows = [[cell(text=f"{n} May"), cell(text=[f"{n}00 ", mark("8")])] for n in (3, 4)]
    blocks = [
        InputRichBlockSectionHeading(text="Prices <b>x</b>", size=3),
        InputRichBlockParagraph(text=["At nine. ", mark("7")]),
        InputRichBlockTable(cells=rows, is_compact=True),
        InputRichBlockDetails(summary="Sources", blocks=[footnote("7", "line\n" * 9), footnote("8", "Eight")]),
        footnote("9", "line\n" * 9),
    ]
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        await sandbox.say(READER, "how much?")
        answer = await bot.send_rich_message(READER, InputRichMessage(blocks=blocks))
    page = await shared_browser.new_page(locale=locale, viewport={"width": 1300, "height": 800})
    wrong = note_faults(page)
    await page.goto(f"{sandbox.url}/?user={READER}&lang={locale[:2]}")
    bubble, expect = page.locator(f'[data-message="{READER}/{answer.message_id}"]'), playwright_api.expect
    await expect(bubble.get_by_role("heading")).to_have_text("Prices <b>x</b>")
    await expect(bubble.get_by_role("cell")).to_have_text(["3 May", "300 [8]", "4 May", "400 [8]"])
    await expect(page.locator("#chats .chat").first).to_contain_text("Prices <b>x</b>")

    first = bubble.get_by_role("button", name=f"{note} [7]")
    await first.focus()
    await page.keyboard.press("Enter")
    await expect(first).to_have_attribute("aria-expanded", "true")
    opened = bubble.get_by_role("note")
    await expect(opened).to_contain_text("Harbour News")
    assert (await opened.locator("mark").inner_text()).count("line") == 9
    await page.keyboard.press("Escape")
    await expect(opened).to_have_count(0)
    await bubble.get_by_role("button", name=f"{note} [8]").last.click()
    await expect(opened).to_contain_text("Eight")
    await opened.locator("a.citation").click()
    await expect(page.locator(f'#source [data-message="{CHANNEL}/8"]')).to_be_in_viewport()

    await expect(bubble.get_by_text("Sources")).to_be_visible()
    assert not await bubble.locator("details blockquote").first.is_visible()
    await bubble.get_by_text("Sources").click()
    await expect(bubble.locator("details blockquote").first).to_be_visible()
    fold = bubble.locator("blockquote.expandable").last
    await expect(fold.get_by_role("button")).to_contain_text(more)
    closed = (await fold.bounding_box() or {})["height"]
    await fold.get_by_role("button").click()
    assert (await fold.bounding_box() or {})["height"] > 2 * closed
    assert wrong == []


async def test_an_admin_posts_and_edits_in_a_channel(sandbox, shared_browser):
    page = await shared_browser.new_page(locale="ru-RU", viewport={"width": 1300, "height": 800})
    await page.goto(f"{sandbox.url}/?user={ADMIN}#{CHANNEL}")
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


async def test_what_is_typed_while_a_message_is_sent_stays(sandbox, shared_browser):
    page, held = await shared_browser.new_page(), asyncio.Event()

    async def hold(route):
        await held.wait()
        await route.continue_()

    await page.route("**/sandbox/post", hold)
    await page.goto(f"{sandbox.url}/?user={ADMIN}#{CHANNEL}")
    await page.fill("#composer", "Паром в девять")
    await page.press("#composer", "Enter")
    await page.fill("#composer", "И в десять")
    held.set()
    await playwright_api.expect(page.locator(f'#main [data-message="{CHANNEL}/401"]')).to_contain_text("в девять")
    await playwright_api.expect(page.locator("#composer")).to_have_value("И в десять")


@pytest.mark.parametrize(("name", "field"), [("Menu.png", "photo"), ("note.ogg", "audio"), ("prices.txt", "document")])
async def test_an_admin_attaches_a_file_in_a_channel(sandbox, shared_browser, name, field):
    one_pixel = io.BytesIO()
    Image.new("L", (1, 1)).save(one_pixel, "PNG")
    page = await shared_browser.new_page(viewport={"width": 1300, "height": 800})
    await page.goto(f"{sandbox.url}/?user={ADMIN}#{CHANNEL}")
    await page.fill("#composer", "Boat hire")
    await page.set_input_files(
        "input[type=file]", {"name": name, "mimeType": "image/png", "buffer": one_pixel.getvalue()}
    )
    post = page.locator(f'#main article[data-message="{CHANNEL}/401"]')
    await playwright_api.expect(post).to_contain_text("Boat hire")
    ((_, update),) = sandbox.world.queue.kept.values()
    assert field in update["channel_post"]
    if field == "photo":
        width = await post.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)")
        assert width == 1
    else:
        await playwright_api.expect(post).to_contain_text(name)


async def test_an_inline_query_offers_quotes_and_the_chosen_one_is_sent(sandbox, shared_browser):
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
        typed, offset = "", 0
        async with asyncio.timeout(60):
            while typed != "ferry":  # on a slow machine the page may ask for the beginning first
                for update in await bot.get_updates(offset, timeout=5, allowed_updates=["inline_query"]):
                    query, offset = update.inline_query, update.update_id + 1
                    assert query.from_user.id == ADMIN
                    typed = query.query
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


async def test_what_an_answer_offers_to_copy_or_share_happens_in_the_page(sandbox, shared_browser):
    chosen = SwitchInlineQueryChosenChat(query="=0a1b", allow_user_chats=True)
    keys = [
        InlineKeyboardButton(text="Copy", copy_text=CopyTextButton(text="At nine. https://t.me/harbour/1")),
        InlineKeyboardButton(text="Share", switch_inline_query_chosen_chat=chosen),
    ]
    sandbox.world.people[ADMIN].started = True
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        await bot.send_message(ADMIN, "At nine.", reply_markup=InlineKeyboardMarkup(inline_keyboard=[keys]))
    page = await shared_browser.new_page(locale="en-GB")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(f"{sandbox.url}/?user={ADMIN}#{ADMIN}")
    await page.get_by_role("button", name="Copy", exact=True).click()
    assert await page.evaluate("navigator.clipboard.readText()") == "At nine. https://t.me/harbour/1"
    await page.get_by_role("button", name="Share", exact=True).click()
    await playwright_api.expect(page.locator("#composer")).to_have_value(f"@{sandbox.world.bot.username} =0a1b")


async def test_the_control_answers_this_machine_only_and_by_the_readers_rights(sandbox):
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


# What strangers may write

MALLORY, GROUP = 510, -1003333
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


def entities(text):
    """Entities of all kinds over a text: overlapping, nested, empty, outside of it, and of no use at all."""
    size = len(text.encode("utf-16-le", "surrogatepass")) // 2
    marks = []
    for n, kind in enumerate(KINDS):
        spans = [(0, size), (n % max(1, size), size), (n, 3), (-2, 5), (-5, 2**31), (size, 4), (0, 0), (3, -1)]
        for m, (offset, length) in enumerate(spans):
            about = {"url": ADDRESSES[(n + m) % len(ADDRESSES)], "language": '" onload=x', "custom_emoji_id": "<img>"}
            marks.append({"type": kind, "offset": offset, "length": length, **about})
    return marks


def links(text):
    return [
        {"type": "text_link", "offset": n, "length": 1, "url": url} for n, url in enumerate(ADDRESSES) if n < len(text)
    ]


@pytest_asyncio.fixture(loop_scope="module")
async def hostile():
    sandbox = DrivenSandbox()
    world = sandbox.world
    world.add_person(READER, MARKUP[0], lang="en")
    for n, name in enumerate(MARKUP):
        world.add_person(MALLORY + n, name, lang="en")
    for n, title in enumerate(MARKUP):
        world.add_channel(CHANNEL - 10 * n, title, f"channel{n}", members=[READER])
    world.add_group(GROUP, MARKUP[1], members=[READER, *(MALLORY + n for n in range(len(MARKUP)))])
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


def written(sandbox):
    """All of it in every field of a message that the page shows, also what no server of Telegram lets through."""
    world = sandbox.world
    for n, text in enumerate(MARKUP):
        room = world.room(CHANNEL - 10 * n)
        origin = {
            "type": "channel",
            "chat": {"id": SECRET, "type": "channel", "title": text},
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
        person = world.people[MALLORY + n].wire()
        world.add(world.room(GROUP), {"from": person, "text": text, "entities": links(text)})


async def found(sandbox):
    """An answer, and how it was found."""
    question = await sandbox.say(READER, "What is it?")
    sources = []
    for n, text in enumerate(MARKUP, 1):
        key = PostKey(CHANNEL - 10 * (n - 1), 1)
        sources.append(Source(n, Passage(key, 0, text, text, 0, len(text), DATE), 1.0, "dense"))
    cited = tuple(
        Sentence(one.passage.text, (Citation(one.passage.key, one.passage.text, 0, 9, DATE),)) for one in sources
    )
    given = Answer(cited, 1.0, "direct", found=tuple(sources))
    sandbox.observed.show_answer(READER, question["message_id"], given)
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        parent = ReplyParameters(message_id=question["message_id"])
        await bot.send_message(READER, MARKUP[0], reply_parameters=parent)


async def test_nothing_that_strangers_write_runs_leads_away_or_breaks_the_page(hostile, shared_browser):
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


async def test_ten_thousand_entities_do_not_break_the_page(hostile, shared_browser):
    room = hostile.world.room(CHANNEL)
    for spans in (
        [(n % 2000, 4096 - 2 * (n % 2000)) for n in range(10_000)],  # nested
        [(n % 4096, 1) for n in range(10_000)],  # beside each other
        [(n % 3000, 1000) for n in range(10_000)],  # crossing
    ):
        kinds = ("italic", "bold")
        marks = [{"type": kinds[n % 2], "offset": at, "length": length} for n, (at, length) in enumerate(spans)]
        hostile.world.add(room, {"sender_chat": room.wire(), "text": "x" * 4096, "entities": marks})
    hostile.world.add(room, {"sender_chat": room.wire(), "text": "The next post."})
    page = await shared_browser.new_page(locale="en-GB")
    wrong = note_faults(page)
    await page.goto(f"{hostile.url}/?user={READER}#{CHANNEL}")
    await playwright_api.expect(page.locator(f'[data-message="{CHANNEL}/4"]')).to_contain_text("The next post.")
    for n in (1, 2, 3):
        await playwright_api.expect(page.locator(f'[data-message="{CHANNEL}/{n}"] .text')).to_contain_text("xxxx")
    assert wrong == []


async def test_a_command_in_somebodys_post_sends_nothing_to_the_bot(hostile, shared_browser):
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


async def test_an_ephemeral_message_stands_in_its_place_for_one_member(sandbox, shared_browser):
    group = CHANNEL - 900
    sandbox.world.add_group(group, "Neighbours", members=[ADMIN, READER], bot="administrator")
    await sandbox.say(READER, "before", chat_id=group)
    async with make_local_bot(sandbox.url, sandbox.token) as bot:
        given = EphemeralMessageParameters(receiver_user_id=READER)
        button = InlineKeyboardButton(text="Again", callback_data="again")
        await bot.send_message(
            group,
            "for you alone",
            ephemeral_message_parameters=given,
            reply_markup=InlineKeyboardMarkup(inline_keyboard=[[button]]),
        )
    await sandbox.say(ADMIN, "after", chat_id=group)
    seen = {}
    for who in (ADMIN, READER):
        page = await shared_browser.new_page(locale="en-GB", viewport={"width": 1300, "height": 800})
        wrong = note_faults(page)
        await page.goto(f"{sandbox.url}/?user={who}#{group}")
        await playwright_api.expect(page.locator("#main .message .text").last).to_contain_text("after")
        seen[who] = await page.locator("#main .message .text").all_inner_texts()
        assert wrong == []
    assert [text.split("\n")[0].strip() for text in seen[ADMIN]] == ["before", "after"]
    assert [word in text for word, text in zip(("before", "for you", "after"), seen[READER], strict=True)] == [True] * 3
    assert "only you see this" in seen[READER][1]
    await page.click("button.key")
    assert await sandbox.until(lambda: any(query.key < 0 for query in sandbox.world.queries.values()))
