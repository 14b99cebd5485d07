"""A hostile world: whatever strangers may name is shown inert in every view, by one function and one net below it."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiogram.types import MessageEntity
from driver import ADMIN, GROUP, RITA, index_posts, wait_until_idle
from sample_sizes import choose_size

from bot.handlers import start
from bot.i18n import get_translator
from bot.sandbox.messages import extract_entity_text, prepare_text
from bot.sandbox.state import set_chat_member
from bot.telegram.session import _ADMIN_COMMANDS, _READER_COMMANDS
from bot.views.format import BOT_COMMANDS, find_link_spans, neutralize_entities, neutralize_links
from rag_core import RagSettings, open_engine
from rag_core.errors import ModelUnavailable
from rag_core.storage import channels
from rag_core.types import Channel, Media, Origin, Post, PostKey, Visibility

EVE = 666
FIRST, SECOND, THIRD, NEW = -1001000101, -1001000102, -1001000103, -1001000199
LINKS = "Go evil.com/x @evil_chat злой.рф/приз"
TAGS = "See #evil@evil_chat #evil $EVIL /unbind now"
NUMBERS = "Call +79991234567 or 88005553535 4111 1111 1111 1111 e@evil.io"
NAMES = (LINKS, TAGS, NUMBERS)
CHANNELS = [
    Channel(FIRST, LINKS, visibility=Visibility.PUBLIC),
    Channel(SECOND, TAGS, "second_chan", visibility=Visibility.PUBLIC),
    Channel(THIRD, NUMBERS, visibility=Visibility.PUBLIC),
]
TEXTS = [
    "The ferry to Owl Island leaves at 7:30 every morning from pier four.",
    "Fresh mackerel is sold on the quay on Fridays.",
    "A ferry ticket costs twelve euros; children under six sail for nothing.",
]


def written():
    for place, channel in enumerate(CHANNELS):
        for number, text in enumerate(TEXTS, 1):
            name = NAMES[(place + number) % 3]
            yield Post(
                PostKey(channel.chat_id, number),
                datetime(2024, 3, 12, 9, tzinfo=UTC) + timedelta(hours=3 * number + place),
                f"{text} {name}",
                author=name,
                origin=Origin(name=name, chat_id=-100777, message_id=5) if number == 1 else None,
                media=Media("document", f"{name}.pdf", "application/pdf") if number == 2 else None,
            )


async def fill(folder):
    async with open_engine(
        RagSettings.model_validate({"data": {"dir": folder}, "models": {"embedder": "none"}})
    ) as rag:
        await index_posts(rag, [*written()], CHANNELS)
        for channel in CHANNELS:
            await channels.record_bot_joined(rag.archive, channel.chat_id)


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "data"
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
def world(sandbox):
    """A sandbox in which every chat and person has a hostile name."""
    world = sandbox.world
    for channel in CHANNELS:
        world.add_channel(channel.chat_id, channel.title, channel.username, members=[ADMIN, RITA])
    world.add_person(EVE, TAGS, lang="en")
    world.people[ADMIN].started = world.people[RITA].started = world.people[EVE].started = True
    return sandbox


def active(text, entities):
    """What can be tapped in a message, but for links to posts and channels and commands that the bot names."""
    found = []
    for mark in prepare_text(text, entities, empty=True)[1]:
        piece = extract_entity_text(text, mark["offset"], mark["length"])
        if mark["type"] in {"text_link", "url"}:
            if not mark.get("url", piece).startswith("https://t.me/") or "evil" in mark.get("url", ""):
                found.append((mark["type"], piece))
        elif mark["type"] == "bot_command":
            if piece[1:] not in BOT_COMMANDS - {"unbind"}:
                found.append((mark["type"], piece))
        elif mark["type"] in {"mention", "email", "hashtag", "cashtag", "phone_number", "bank_card", "text_mention"}:
            found.append((mark["type"], piece))
    return found


def sent(sandbox):
    for call in sandbox.transcript:
        params = call["params"]
        for text, entities in (("text", "entities"), ("caption", "caption_entities")):
            if params.get(text) and call["method"].lower() != "answercallbackquery":
                marks = params.get(entities) or []
                yield params[text], json.loads(marks) if isinstance(marks, str) else marks


def kind_of(data):
    return ":".join(data.split(":")[:2])


async def press_each(sandbox, who, chat, seen):
    """Press every button in a chat once, by default three of a kind in all chats."""
    most = choose_size(120, 3)
    room = sandbox.world.room(chat)
    for number in list(sandbox.world.sent.get(chat, ())):
        message = room.messages.get(number, {})
        for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
            for button in row:
                data = button.get("callback_data", "")
                if data and data not in seen and sum(kind_of(one) == kind_of(data) for one in seen) < most:
                    seen.add(data)
                    await sandbox.press(who, chat, number, data)


async def test_no_view_shows_a_link_that_a_stranger_named(world, home, live, monkeypatch):
    async def pull_nothing(*_, **__):
        raise ModelUnavailable("There is no hub here.")

    monkeypatch.setattr("bot.handlers.admin.pull_model", pull_nothing)  # its button is pressed, too
    sandbox = world
    async with live(sections={"models": {"embedder": "none"}}, reader_limit=10_000, chat_limit=10_000):
        sandbox.world.add_channel(NEW, LINKS, members=[EVE], bot=False)
        set_chat_member(sandbox.world, NEW, sandbox.world.bot.id, "administrator", by=EVE)
        set_chat_member(sandbox.world, SECOND, sandbox.world.bot.id, "left", by=EVE)
        await wait_until_idle(sandbox, home)
        asked = ["/start", "/help", "When does the ferry leave?", "/why", "/sources", "/link", f"/search {LINKS}",
                 "/search ferry", f"/search \"{TAGS}\" ferry", f"Is it true that {NUMBERS}?", "xylophone lessons?",
                 f"/verify The ferry leaves at 7:30. {LINKS}", "timeline of the ferry", f"/mode {TAGS}",
                 f"/verify {NUMBERS}", "/privacy", "/mydata", "/unknown", f"/start {TAGS}", "/stop"]  # fmt: skip
        for text in asked:
            await sandbox.say(RITA, text)
            await wait_until_idle(sandbox, home)
        for text in ("/channels", f"/grant {EVE}", f"/revoke {EVE}", f"/delete {LINKS}", "/check", "/import",
                     "/delete https://t.me/second_chan/1", "/reindex", f"/reindex {TAGS}", "/models", "/stats",
                     "/grant", "/why"):  # fmt: skip
            await sandbox.say(ADMIN, text)
            await wait_until_idle(sandbox, home)
        for name in NAMES:
            await sandbox.send_file(ADMIN, f"{name}.json", b'{"name": "x"')
            await wait_until_idle(sandbox, home)
        for text in (f"/bind@citegram_bot {FIRST}", f"/bind@citegram_bot {TAGS}",
                     f"/bind@citegram_bot {LINKS} no",
                     f"/bind@citegram_bot {THIRD}", "/bind@citegram_bot", "/settings@citegram_bot",
                     "/start@citegram_bot",
                     "/ask@citegram_bot When does the ferry leave?", "/why", "/sources",
                     f"/unbind@citegram_bot {FIRST}"):  # fmt: skip
            await sandbox.say(ADMIN, text, chat_id=GROUP)
            await wait_until_idle(sandbox, home)
        seen = set()
        for _ in range(2):
            for who, chat in ((RITA, RITA), (ADMIN, GROUP), (ADMIN, ADMIN)):
                await press_each(sandbox, who, chat, seen)
            await wait_until_idle(sandbox, home)
        assert len(seen) > 30
    messages = [*sent(sandbox)]
    assert len(messages) > 60
    shown = "\n".join(text for text, _ in messages)
    assert all(part in shown for name in NAMES for part in name.split()[1:2])
    assert [(found, text) for text, marks in messages if (found := active(text, marks))] == []


@pytest.mark.parametrize("name", NAMES)
def test_values_of_sentences_are_inert_unless_they_are_ours(name):
    words = get_translator("en")
    for text in (words.rich("added-by", name=name, id="5"), words.rich("bind-done", title=neutralize_links(name))):
        said, marks = text.render()
        assert active(said, [mark.model_dump(exclude_none=True, mode="json") for mark in marks]) == []
    plain = words("added-by", name=name, id="5")
    assert "bot_command" not in {mark["type"] for mark in prepare_text(plain, [])[1]}
    assert plain.replace("\u2060", "") == f"Added by {name} (id 5)."


def test_commands_of_ours_stay_commands_to_tap():
    said, marks = get_translator("en").rich("bind-unknown", name="/stop", channels="/channels").render()
    assert [
        extract_entity_text(said, mark["offset"], mark["length"])
        for mark in prepare_text(said, [mark.model_dump(exclude_none=True, mode="json") for mark in marks])[1]
        if mark["type"] == "bot_command"
    ] == ["/channels"]
    handlers = "".join(file.read_text("utf-8") for file in sorted(Path(start.__file__).parent.glob("*.py")))
    registered = {
        name for given in re.findall(r'ChatCommand\(((?:"\w+"(?:, )?)+)', handlers) for name in given.split('"')[1::2]
    }
    assert registered == BOT_COMMANDS
    assert {*_READER_COMMANDS, *_ADMIN_COMMANDS} < BOT_COMMANDS


def test_what_a_view_overlooks_is_code_when_it_is_sent():
    text = "\U0001f600 see evil.com/x and /help or t.me/a in bold evil.org"
    bold = MessageEntity(type="bold", offset=0, length=len(text) + 1)
    link = MessageEntity(type="text_link", offset=text.index("t.me") + 1, length=6, url="https://t.me/a")
    marks = [mark.model_dump(exclude_none=True, mode="json") for mark in neutralize_entities(text, [bold, link])]
    assert active(text, marks) == []
    assert {extract_entity_text(text, m["offset"], m["length"]) for m in marks if m["type"] == "code"} == {
        "evil.com/x",
        "evil.org",
    }
    assert not any(
        m["offset"] < c["offset"] + c["length"] and c["offset"] < m["offset"] + m["length"]
        for m in marks if m["type"] == "bold" for c in marks if c["type"] == "code"
    )  # fmt: skip
    assert neutralize_entities("Nothing here, /help", []) == []


@pytest.mark.parametrize("text", [LINKS, TAGS, NUMBERS, "x@evil.io", "evil\u3002com", "$BTC", "#a1@evil_chat"])
def test_all_kinds_are_found(text):
    assert find_link_spans(text)
    said, marks = neutralize_links(text).render()
    assert active(said, [mark.model_dump(exclude_none=True, mode="json") for mark in marks]) == []
