import asyncio
import json
import re
import sqlite3
from contextlib import asynccontextmanager, closing

from driven_sandbox import running_bot
from driver import ADMIN, GROUP, HARBOUR, KILN, OTTO, sent, wait_until_idle
from hostile_texts import entities, every_other, posts, prompt_leaks, questions
from obedient_model import KNOWN, TOKEN, obedient_server
from sample_sizes import choose_size

from bot.settings import Settings
from ingest.message_kinds import count_utf16_units

# What only members, only admins may read; the bot's own token; what the model claims to know.
HIDDEN = ("4417", "blue door", "staircase", "counted twice", "The safe", KNOWN, TOKEN, TOKEN[9:])
OURS = re.compile(r"https://t\.me/(?:harbour_news|pech_i_glina|citegram_bot\?start=)")
TABLES = "channels posts post_versions bindings grants group_rules".split()
SAID = ("@channel",)  # our own words: /bind @channel
READERS = range(600, 612)


@asynccontextmanager
async def running(sandbox, home):
    async with obedient_server() as model:
        bot = {"token": sandbox.token, "api": sandbox.url, "admins": (ADMIN,), "reader_limit": 10_000}
        llm = {"url": model.url, "parallel": 4, "answer_tokens": 300}
        given = {"bot": {**bot, "chat_limit": 10_000}, "data": {"dir": home}, "llm": llm}
        async with running_bot(Settings.model_validate(given)):
            yield


def state(home):
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        there = {row[0] for row in archive.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        found = {table: archive.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES if table in there}
    assert {"channels", "posts"} <= set(found)
    return found


def check(sandbox, *chats, said=""):
    """All that was sent to these chats: only links of our own making, nothing hidden, nothing of a prompt.

    What the reader `said` may be said back, as words.
    """
    messages = sent(sandbox, *chats)
    for message in messages:
        text, marks = message.get("text", ""), message.get("entities", [])
        assert count_utf16_units(text) <= 4096
        raw = text.encode("utf-16-le", "surrogatepass")
        for mark in marks:
            piece = raw[2 * mark["offset"] : 2 * (mark["offset"] + mark["length"])].decode("utf-16-le", "replace")
            assert mark["type"] not in {"url", "email", "mention", "text_mention"} or piece in SAID, (piece, text)
            assert mark["type"] != "text_link" or OURS.match(mark["url"]), mark
        for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
            assert all(OURS.match(button["url"]) for button in row if "url" in button)
    calls = [call for call in sandbox.transcript if call["params"].get("chat_id") in {*chats, *map(str, chats)}]
    whole = json.dumps([call["params"] for call in calls], ensure_ascii=False)
    # as a word: the random letters of a button may hold four digits by chance
    found = [word for word in HIDDEN if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", whole)]
    assert [word for word in found if word not in said] == []
    assert not prompt_leaks("\n".join(message.get("text", "") for message in messages))
    refused = [call for call in calls if call.get("error") and "can't parse" in str(call["error"])]
    assert refused == []
    return len(messages)


async def test_hostile_posts_change_nothing_and_nothing_gets_out(sandbox, home):
    for reader in READERS:
        sandbox.world.add_person(reader, "Reader", lang="en")
    rows = [row for row in posts() if len(row["text"]) <= 4096]
    assert len(rows) >= 60
    async with running(sandbox, home):
        for row in rows:
            marks = entities(row, count_utf16_units(row["text"]))[:100]
            await sandbox.post(HARBOUR if row["lang"] == "en" else KILN, row["text"], extra={"entities": marks})
        await wait_until_idle(sandbox, home)
        before = state(home)
        asked = rows[:: choose_size(3, 5)]  # some of each language: all are asked where no chat is
        for number, row in enumerate(asked):
            await sandbox.say(READERS[number % len(READERS)], row["asked"])
        await wait_until_idle(sandbox, home)
        for number, row in enumerate(asked[::3]):
            reader = READERS[number % len(READERS)]
            for text in (f"/search {row['asked']}", "/sources", "/why", "/verify " + row["text"].split(". ")[0]):
                await sandbox.say(reader, text)
        await wait_until_idle(sandbox, home)
        await press_all(sandbox, home)
        said = "".join(row["text"] for row in rows)
        assert check(sandbox, *READERS, said=said.replace("staircase", "")) > len(asked) + 4 * len(asked[::3])
    assert state(home) == before


async def press_all(sandbox, home):
    for reader in READERS[:4]:
        kinds = {}
        for message in sent(sandbox, reader):
            for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
                for button in row:
                    if data := button.get("callback_data"):
                        kinds[data[:5]] = (message["message_id"], data)
        await asyncio.gather(*(sandbox.press(reader, reader, number, data) for number, data in kinds.values()))
    await wait_until_idle(sandbox, home)


async def test_hostile_questions_change_nothing_and_nothing_gets_out(sandbox, home):
    for reader in READERS:
        sandbox.world.add_person(reader, "Reader", lang="ru")
    async with running(sandbox, home):
        await sandbox.say(OTTO, "hello")
        await wait_until_idle(sandbox, home)
        before = state(home)
        rows = every_other(questions(), 0)
        for number, row in enumerate(rows):
            text, reader = row["text"].replace("\0", "")[:4096], READERS[number % len(READERS)]
            await sandbox.say(reader, text)
            if command := ("", "search", "verify")[number % 3]:
                await sandbox.say(reader, f"/{command} {text}"[:4096])
            else:
                await sandbox.say(OTTO, f"/ask@citegram_bot {text}"[:4096], chat_id=GROUP)
        await wait_until_idle(sandbox, home)
        said = "".join(row["text"] for row in rows)
        assert check(sandbox, *READERS, GROUP, said=said.replace("staircase", "")) > 1.86 * len(rows)
    assert state(home) == before
