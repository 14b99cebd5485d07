"""Driver of the bot on the sandbox: what people do in tests, and waits that end when the bot is done."""

import asyncio
import fcntl
import json
import sqlite3
from contextlib import closing, contextmanager
from typing import NamedTuple

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import MessageEntity

from bot.data_folder import open_archive as open_archive  # tests take it from here
from bot.sandbox.state import get_message_key
from ingest.copies import CopyIndexer
from ingest.indexer import LexicalIndexer
from rag_core import RagSettings, open_engine
from rag_core.storage import channels, posts, readers


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    def json(self):
        (line,) = self.out.splitlines()
        return json.loads(line)

    def is_one_sentence(self):
        """Whether the command failed with one sentence and nothing else."""
        line = self.err.strip()
        return self.code == 1 and not self.out and "\n" not in line and "Traceback" not in line and line.endswith(".")


ADMIN, RITA, OTTO = 501, 500, 502
GROUP = -1009
HARBOUR, KILN, CREW, SAFE = -1001000001, -1001000002, -1001000003, -1001000004


async def say(sandbox, who, text, chat=None, **more):
    """Write to the bot, or in a chat; the bot's one reply."""
    await sandbox.say(who, text, chat_id=chat, **more)
    (reply,) = await sandbox.replies(chat or who)
    return reply


async def say_text(sandbox, who, text, chat=None, **more):
    """Write to the bot, or in a chat; the text of its one reply."""
    return str((await say(sandbox, who, text, chat, **more))["text"])


async def ask_until(sandbox, who, question, words):
    """Ask until an answer holds the words, as posts are taken in meanwhile; that answer."""
    async with asyncio.timeout(60):
        while words not in str(reply := await say(sandbox, who, question)):
            pass
    return reply


def current(sandbox, message):
    return sandbox.world.room(message["chat"]["id"]).messages[get_message_key(message)]


def sent(sandbox, *chats):
    """The bot's messages in these chats that are still there, as they are now."""
    rooms = [(sandbox.world.room(chat), sandbox.world.sent.get(chat, ())) for chat in chats]
    return [room.messages[number] for room, numbers in rooms for number in numbers if number in room.messages]


def buttons(message):
    """Label -> callback data (links left out)."""
    rows = (message.get("reply_markup") or {}).get("inline_keyboard", ())
    return {b["text"]: b["callback_data"] for row in rows for b in row if "callback_data" in b}


async def open_more(sandbox, message, who):
    """Press "More" under an answer, where it has that button; the message as it is then."""
    found = buttons(current(sandbox, message))
    if data := found.get("More") or found.get("Ещё"):
        await sandbox.press(who, message["chat"]["id"], get_message_key(message), data)
    return current(sandbox, message)


async def press(sandbox, message, label, who):
    """Press a button by its label, also behind "More", or send made-up callback data; what the bot says to the press,
    "" for nothing."""
    found = buttons(current(sandbox, message))
    if label not in found and ":" not in label:
        found = buttons(await open_more(sandbox, message, who))
    data = found.get(label, label)
    pressed = await sandbox.press(who, message["chat"]["id"], get_message_key(message), data)
    assert pressed["answer"] is not None, f"nobody answered {label}"
    return str(pressed["answer"].get("text") or "")


ANONYMOUS = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}


def write_as_chat(message, text, sender=ANONYMOUS):
    """A message as a command that Telegram says was sent by the chat itself."""
    command = {"type": "bot_command", "offset": 0, "length": len(text.split()[0])}
    return message | {"text": text, "sender_chat": message["chat"], "from": sender, "entities": [command]}


class Shown:
    def __init__(self, sandbox, message, who=ADMIN):
        self.sandbox, self.message, self.who = sandbox, message, who
        self.place = message["chat"]["id"], get_message_key(message)

    @property
    def text(self):
        return str(current(self.sandbox, self.message)["text"])

    @property
    def buttons(self):
        return buttons(current(self.sandbox, self.message))

    async def press(self, *labels):
        """Press one button after another; what the bot said to the last."""
        for label in labels:
            said = await self.send(self.buttons[label])
        return said

    async def send(self, data, who=None):
        """Press with this callback data, which may be made up; what the bot said to it."""
        pressed = await self.sandbox.press(who or self.who, *self.place, data)
        assert pressed["answer"] is not None, f"nobody answered {data}"
        return dict(pressed["answer"])

    async def says(self, words):
        return await self.sandbox.until(lambda: self.text.startswith(words), 30)

    async def end(self):
        """What it says once its buttons are gone."""
        assert await self.sandbox.until(lambda: not self.buttons, 60), self.text
        return self.text


async def open_channels(sandbox):
    return Shown(sandbox, await say(sandbox, ADMIN, "/channels"), ADMIN)


async def load_channel(home, chat_id):
    found = await query_archive(home, channels.load_channels)
    return found[chat_id]


async def wait_until(condition):
    """Wait for what rings no bell."""
    async with asyncio.timeout(40):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return True


async def wait_for_text(sandbox, message, start):
    """What a message says once it begins so."""
    begun = await sandbox.until(lambda: current(sandbox, message)["text"].startswith(start), 60)
    assert begun, current(sandbox, message)
    return str(current(sandbox, message)["text"])


async def press_until(sandbox, message, label, start):
    await press(sandbox, message, label, ADMIN)
    return await wait_for_text(sandbox, message, start)


def find_formatted(message, kind):
    entities = [MessageEntity.model_validate(entity) for entity in message["entities"]]
    return [e.extract_from(message["text"]) for e in entities if e.type == kind]


async def wait_until_handled(sandbox):
    """Wait until the bot has taken every update and its handlers have ended (questions may still be running)."""
    assert await sandbox.until(lambda: not sandbox.world.queue.kept), "updates are left"
    while tasks := [task for task in asyncio.all_tasks() if "_process_update" in repr(task.get_coro())]:
        await asyncio.wait(tasks, timeout=30)


async def wait_until_idle(sandbox, home):
    """Wait until every update is handled, every post taken in and every question answered."""
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        sql = "SELECT (SELECT count(*) FROM questions WHERE state IN ('queued', 'running'))"
        sql += " + (SELECT count(*) FROM updates WHERE state = 'pending')"
        async with asyncio.timeout(60):
            await wait_until_handled(sandbox)
            while archive.execute(sql).fetchone()[0]:
                await asyncio.sleep(0.02)
                await wait_until_handled(sandbox)


async def query_archive(home, ask):
    async with open_archive(home) as archive:
        return await ask(archive)


def execute(home, sql, *values):
    """Run one statement on the archive of a data folder; its rows.

    A bot in this process waits meanwhile: one that is writing keeps a statement that writes from ending.
    """
    with closing(sqlite3.connect(home / "citegram.db")) as archive, archive:
        return archive.execute(sql, values).fetchall()


async def bind(home, *chats):
    async with open_archive(home) as archive:
        for chat in chats:
            await readers.bind_channel(archive, GROUP, chat)


async def index_posts(rag, kept=(), new=()):
    for channel in new:
        await channels.save_channel(rag.archive, channel)
    await posts.save_posts(rag.archive, kept, source="test")
    indexer = LexicalIndexer(rag.archive, rag.lexical)
    await indexer.catch_up()
    await indexer.save()


async def save(home, *kept):
    """Put posts into the archive and the saved index, while no bot runs."""
    async with open_engine(RagSettings.model_validate({"data": {"dir": home}})) as rag:
        await index_posts(rag, kept)
        await CopyIndexer(rag.archive).catch_up()


@contextmanager
def hold_rebuild(folder):
    """Hold the lock of a rebuild: its child waits, as for one that has lost its parent."""
    with (folder / "rebuild.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_rows(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return file


class LoopbackSession(AiohttpSession):
    def __init__(self, url):
        super().__init__(api=TelegramAPIServer.from_base(url))

    async def close(self):
        """Close at once: aiogram waits a quarter of a second for TLS, which is not used here."""
        if self._session is not None and not self._session.closed:
            await self._session.close()


def make_local_bot(url, token):
    """Make a bot that uses the Bot API server at `url`. Use as `async with`, or close its session."""
    return Bot(token, session=LoopbackSession(url))
