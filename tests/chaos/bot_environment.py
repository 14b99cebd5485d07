"""Where a cell is played: one bot with its data, its Telegram, its servers, and people who post and ask."""

import asyncio
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chaos.bot_process import BotHome, Supervisor
from chaos.channel_traffic import CHANNELS, ChannelTraffic
from chaos.expected_posts import ExpectedPost
from chaos.prepared_archive import EXPORTED, make_expected_posts, write_export
from chaos.slow_disk_and_clock import FaultInjection
from driven_sandbox import DrivenSandbox
from fake_models.openai_server import OpenAiServer, answer_with

from bot.sandbox import page_api
from bot.sandbox.page_api import UserMessage
from rag_core.storage import Archive, channels

ADMIN = 900
_FIRST_READER = 10_000
_MANY, _FEW = 1500, 150  # posts of an export; few where vectors are made of them
_ASKED = ("What do the posts say about {}?", "Что пишут про {}?", "When does the {} come?", "Где {}?")
_WORDS = ("ferry", "паром", "harbour", "музей", "ticket", "фонарь", "captain", "чайник", "unheardof")
_POST = re.compile(r"<post (\d+) \|[^>]*>\n(.+?)\n</post \1>", re.DOTALL)
_PAUSE_S = 0.02  # between pieces, so that an outage meets answers half-way


def quote_first_post(asked):
    """The first line of the last prompt's first post, with its number."""
    found = _POST.search(asked["messages"][-1]["content"])
    return f"{found[2].splitlines()[0]} [{found[1]}]" if found else "The posts do not say."


@dataclass(frozen=True, slots=True)
class Needs:
    """What a cell wants beside a bot: a writer, a Qdrant server with this folder of models."""

    writer: bool = False
    models: Path | None = None


@dataclass
class BotEnvironment:
    """The stage of one cell; not frozen: things happen on it. `shift` is by how much Telegram's clock differs."""

    folder: Path
    weather: FaultInjection
    old: Sequence[ExpectedPost]
    needs: Needs = field(default_factory=Needs)
    seed: int = 1
    shift: float = 0.0
    asked: int = 0
    quiet: bool = False  # nobody posts or asks
    over: bool = False  # the fault is
    first: int = EXPORTED  # where the next export begins
    imported: int = EXPORTED  # and the last one began

    def __post_init__(self):
        from fake_qdrant import FakeQdrant  # its client takes a second to import

        self.sandbox = DrivenSandbox(clock=lambda: time.time() + self.shift)
        self.traffic = ChannelTraffic(self.sandbox, self.seed)
        self.traffic.told.update({one.key: one for one in self.old})
        self.writer, self.qdrant = OpenAiServer(answer_with(quote_first_post, length=8, pause=_PAUSE_S)), FakeQdrant()

    async def open(self, template):
        """Furnish it with a copy of a data folder and begin the bot. Raises TimeoutError, RuntimeError."""
        self.sandbox.world.add_person(ADMIN, "Ada", lang="en").started = True
        await self.sandbox.start()
        more = {"BOT__ADMINS": str(ADMIN), "BOT__READER_LIMIT": "10000"}
        if self.needs.writer:
            await self.writer.start()
            more["LLM__URL"] = self.writer.url
        if self.needs.models:
            await self.qdrant.start()
            more["QDRANT__URL"] = self.qdrant.url
        self.home = BotHome(self.folder, self.needs.models, more)
        shutil.copytree(template, self.home.data, dirs_exist_ok=True)
        archive = await Archive.open(self.home.data)
        for channel in CHANNELS:
            await channels.save_channel(archive, channel)
        await archive.close()
        self.bot = Supervisor(self.home, self.sandbox)
        await self.bot.start()

    async def close(self):
        await self.bot.kill()
        await self.sandbox.stop()
        await self.writer.stop()
        await self.qdrant.__aexit__()

    def ask(self, text=None):
        """A new reader asks in private; who it is."""
        self.asked += 1
        reader = _FIRST_READER + self.asked
        self.sandbox.world.add_person(reader, "R", lang="en" if self.asked % 2 else "ru").started = True
        text = text or _ASKED[self.asked % len(_ASKED)].format(_WORDS[self.asked % len(_WORDS)])
        self.traffic.do(partial(page_api.send_as_person, self.sandbox.world, reader, reader, UserMessage(text)))
        return reader

    def readers(self):
        return range(_FIRST_READER + 1, _FIRST_READER + 1 + self.asked)

    def heard(self, reader):
        messages = self.sandbox.world.room(reader).messages
        return [messages[n].get("text", "") for n in self.sandbox.world.sent.get(reader, ()) if n in messages]

    def exported(self):
        """An export of posts that are new to the bot; they must be found in the end."""
        posts = make_expected_posts(self.first, _FEW if self.needs.models else _MANY, self.seed)
        self.traffic.told.update({one.key: one for one in posts})
        self.imported, self.first = self.first, self.first + len(posts)
        return write_export(self.folder / "export", posts)

    async def flow(self, posts, questions):
        """Posts and questions at their rates (a second), until cancelled."""
        last, posted, asked = time.monotonic(), 0.0, 0.0  # what is due, in parts
        while True:
            await asyncio.sleep(0.02)
            last, passed = time.monotonic(), time.monotonic() - last
            if self.quiet:
                continue
            posted, asked = posted + passed * posts, asked + passed * questions
            while posted >= 1:
                self.traffic.next()
                posted -= 1
            while asked >= 1:
                self.ask()
                asked -= 1
