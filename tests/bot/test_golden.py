"""Golden files: what readers are shown by the sample channels' bot, in the chat and on the terminal.

`GOLDEN=write` makes them anew; a difference is a change that readers see, and belongs in a commit that says so.
"""

import asyncio
import json
import os
import re
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path

import pytest
from driven_sandbox import DrivenSandbox
from driver import sent, wait_until_idle
from rich_text import find_notes, join_words, list_links, list_marks, outline, read_body

from bot.__main__ import main
from bot.cli.demo import ADMIN_ID, GROUP_ID, READER_ID, open_demo_sandbox, run_demo_bot
from bot.sandbox.state import get_message_key
from bot.settings import Settings
from rag_core.engine import open_engine
from rag_core.run import Budgets

GOLDEN = Path(__file__).with_name("golden")
WRITE = os.environ.get("GOLDEN") == "write"

CHAT = [
    (READER_ID, "/start"),
    (READER_ID, "/help"),
    (READER_ID, "When does the farmers' market open?"),
    (READER_ID, "/why"),
    (READER_ID, "/sources"),
    (READER_ID, "are you sure?"),
    (READER_ID, "how old is this info"),
    (READER_ID, "show me the whole post"),
    (READER_ID, "more"),
    (READER_ID, "How much does the owl walk cost?"),
    (READER_ID, "Who leads the owl walk?"),
    (READER_ID, "and in winter?"),
    (READER_ID, "how many posts mention the library?"),
    (READER_ID, "when was the library first mentioned?"),
    (READER_ID, "timeline of the market"),
    (READER_ID, "what is new in October 2026?"),
    (READER_ID, "What was posted on 1 October 2026?"),
    (READER_ID, "Who is the mayor of Paris?"),
    (READER_ID, "/search library"),
    (READER_ID, '/search "owl walk"'),
    (READER_ID, "/search photos in September"),
    (READER_ID, "/verify The library is open on Sundays."),
    (READER_ID, "/verify The owl walk is free. The market opens at nine."),
    (READER_ID, "/verify Nothing like this was ever said about zeppelins."),
    (READER_ID, "tell me about the swimming pool"),
    (READER_ID, "Сколько стоит абонемент в бассейн?"),
    (READER_ID, "/privacy"),
    (READER_ID, "/mode"),
    (READER_ID, "/new"),
    (READER_ID, "/unknowncommand"),
    (READER_ID, "!!!"),
    (ADMIN_ID, "/start"),
    (ADMIN_ID, "/help"),
    (ADMIN_ID, "Сколько стоит абонемент в бассейн?"),
    (ADMIN_ID, "/why"),
    (ADMIN_ID, "/sources"),
    (ADMIN_ID, "По какому номеру звонить, если ночью прорвало трубу?"),
    (ADMIN_ID, "Где репетируют певцы Зотовой?"),
    (ADMIN_ID, "Куда выбросить батарейки?"),
    (ADMIN_ID, "Когда открывается пекарня?"),
    (ADMIN_ID, "а в воскресенье?"),
    (ADMIN_ID, "Сколько постов про библиотеку?"),
    (ADMIN_ID, "Когда впервые написали про пекарню?"),
    (ADMIN_ID, "хронология пекарни"),
    (ADMIN_ID, "Что писали 5 октября 2026?"),
    (ADMIN_ID, "Что нового в октябре?"),
    (ADMIN_ID, "расскажи про бассейн"),
    (ADMIN_ID, "Кто мэр Парижа?"),
    (ADMIN_ID, "/search бассейн"),
    (ADMIN_ID, "/search «горячая вода»"),
    (ADMIN_ID, "/search посты с фото за сентябрь"),
    (ADMIN_ID, "/verify Абонемент в бассейн стоит 2 750 рублей."),
    (ADMIN_ID, "/verify Библиотека закрыта по понедельникам. Пекарня работает круглосуточно."),
    (ADMIN_ID, "/verify Дирижабли летают по пятницам."),
    (ADMIN_ID, "/channels"),
    (ADMIN_ID, "/models"),
    (ADMIN_ID, "/privacy"),
    (ADMIN_ID, "/mode"),
    (ADMIN_ID, "/grant"),
    (ADMIN_ID, "/import"),
    (ADMIN_ID, "/reindex"),
]
IN_GROUP = [
    "/ask@citegram_bot When does the farmers' market open?",
    "/ask@citegram_bot Сколько стоит абонемент в бассейн?",
    "/settings@citegram_bot",
    "/bind@citegram_bot",
]
# The same in rich messages, without commands and views of an answer, which are plain in any chat.
REMARKS = {"are you sure?", "how old is this info", "show me the whole post", "more", "!!!"}
RICH = [(who, text) for who, text in CHAT if text.startswith("/verify") or not (text[0] == "/" or text in REMARKS)]
TERMINAL = [
    ("ask", "Сколько стоит абонемент в бассейн?"),
    ("ask", "How much does the owl walk cost?"),
    ("ask", "how many posts mention the library?"),
    ("ask", "Who is the mayor of Paris?"),
    ("ask", "Кто мэр Парижа?"),
    ("ask", "хронология пекарни"),
    ("verify", "Абонемент в бассейн стоит 2 750 рублей."),
    ("verify", "The owl walk is free."),
    ("verify", "Дирижабли летают по пятницам."),
]
# What differs from run to run: marks of buttons and traces, versions, times of day of the bot itself.
CHANGING = re.compile(r"\b[0-9a-f]{12,}\b|start=[\w-]+|\b\d+(?:[.,]\d+)? (?:ms|мс|s|с|GB|ГБ|MB|МБ)\b")


def plain(text):
    return re.sub(" {2,}", "  ", CHANGING.sub("…", text))  # a table of times is as wide as its widest


def shown(message):
    """A message as a reader sees it: words, what is formatted or linked, labels of buttons."""
    text = message.get("text", message.get("caption", ""))
    units = text.encode("utf-16-le")
    entities = [
        [one["type"], plain(units[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode("utf-16-le"))[:60]]
        + ([plain(one["url"])] if "url" in one else [])
        for one in message.get("entities", message.get("caption_entities", ()))
    ]
    rows = message.get("reply_markup", {}).get("inline_keyboard", ())
    labels = [[button["text"] for button in row] for row in rows]
    if "rich_message" in message:
        return {"rich": list(map(plain, outline(message["rich_message"]["blocks"]))), "buttons": labels}
    return {"text": plain(text).split("\n"), "entities": entities, "buttons": labels}


def compare(name, found):
    file = GOLDEN / f"{name}.json"
    if WRITE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for old, new in zip(json.loads(file.read_text(encoding="utf-8")), found, strict=True):
        assert new == old


PATIENT = Budgets(**{field.name: 600.0 for field in fields(Budgets)})  # a busy machine changes no answer


@pytest.fixture(autouse=True)
def patient_engines(monkeypatch):
    @asynccontextmanager
    async def open_patiently(*settings, **more):
        async with open_engine(*settings, **more) as rag:
            rag.budgets = PATIENT
            yield rag

    for module in ("bot.app", "bot.cli.demo", "bot.data_folder"):
        monkeypatch.setattr(f"{module}.open_engine", open_patiently)


def settings_in(folder):
    given = {"data": {"dir": folder}, "models": {"embedder": "none"}, "bot": {"reader_limit": 999}}
    return Settings.model_validate(given)


async def replies(sandbox, home, chat, who, text):
    """The messages that the bot leaves in a chat after someone wrote there, once it has nothing left to do."""
    before = set(sandbox.world.room(chat).messages)
    await sandbox.say(who, text, chat_id=chat)
    await wait_until_idle(sandbox, home)
    return [message for message in sent(sandbox, chat) if get_message_key(message) not in before]


def check_forms(plain_one, rich_one, sandbox):
    """Both forms of an answer have the same words and links, and each note has the words of the post that it opens."""
    rich, notes = rich_one["rich_message"], find_notes(rich_one["rich_message"])
    body, sources = read_body(rich)
    numbers = Counter(f"{name.removeprefix('p')}." for name in notes)  # in the plain list
    assert Counter(re.split(r"[\s:]+", plain_one["text"])) - numbers == Counter(
        re.split(r"[\s:]+", " ".join(body + sources))
    )
    links = {one["url"] for one in plain_one.get("entities", ()) if "url" in one}
    assert set(list_links(rich)) == links
    assert set(list_marks(rich)) == notes.keys()
    for note in notes.values():
        link, *_ = list_links(note["text"])
        _, place, number = link.rsplit("/", 2)
        room = next(r for r in sandbox.world.rooms.values() if place in (r.username, str(r.id).removeprefix("-100")))
        post = room.messages[int(number)]
        words = " ".join(join_words(note["text"]).partition(" ")[2].strip("…").split())
        assert words in " ".join(post.get("text", post.get("caption", "")).split())


async def sleep_for_ever(*_args, **_named):
    await asyncio.Event().wait()


@pytest.mark.timeout(300)
async def test_the_chat_shows_what_it_showed(tmp_path, monkeypatch):
    monkeypatch.setattr("bot.cli.demo.Sandbox", DrivenSandbox)
    # suggested questions are ready some seconds after the start: on a busy machine they would stand under answers
    monkeypatch.setattr("bot.worker.known_answers._FIRST_RUN_SECONDS", 3600)
    # the demo's indexes must be complete before its bot starts: how soon the bot looks at them may change no answer
    monkeypatch.setattr("bot.indexing.repeat_job", sleep_for_ever)
    found, rich, answers = [], [], {}
    async with open_demo_sandbox(settings_in(tmp_path), 0) as (sandbox, settings), run_demo_bot(settings):
        for who, text in CHAT:
            answers[who, text] = await replies(sandbox, tmp_path, who, who, text)
            found.append({"asked": text, "by": who, "shown": list(map(shown, answers[who, text]))})
        for text in IN_GROUP:
            told = await replies(sandbox, tmp_path, GROUP_ID, ADMIN_ID, text)
            found.append({"asked": text, "by": ADMIN_ID, "shown": list(map(shown, told))})
        for who in (READER_ID, ADMIN_ID):
            await replies(sandbox, tmp_path, who, who, "/mode rich")
            await replies(sandbox, tmp_path, who, who, "/new")
        for who, text in RICH:
            told = await replies(sandbox, tmp_path, who, who, text)
            rich.append({"asked": text, "by": who, "shown": list(map(shown, told))})
            for plain_one, rich_one in zip(answers[who, text], told, strict=True):
                check_forms(plain_one, rich_one, sandbox)
    compare("chat", found)
    compare("rich", rich)


def test_the_terminal_prints_what_it_printed(tmp_path, capsys, monkeypatch):
    async def filled():
        async with open_demo_sandbox(settings_in(tmp_path), 0):
            pass

    asyncio.run(filled())
    monkeypatch.setenv("MODELS__EMBEDDER", "none")
    found = []
    for command, text in TERMINAL:
        code = main(["--data", str(tmp_path), command, text])
        read = capsys.readouterr()
        found.append({"asked": f"{command} {text}", "code": code, "printed": plain(read.out).split("\n")})
    compare("terminal", found)
