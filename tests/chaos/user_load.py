"""A day in the bot's life, in a hurry: edits, questions of readers in two languages, and all they press and send.

After the warm-up nothing is posted: posts would be kept and indexed, and what they take is no leak. Edits go on.
Texts and questions come from a pool: ever new words would go on filling the caches of words and sentences, which have
their bounds, and that is no leak either.
"""

import asyncio
import io
import random
import time
from collections import Counter
from dataclasses import dataclass
from secrets import token_urlsafe

from chaos.channel_traffic import CHANNELS
from chaos.prepared_archive import OLD
from PIL import Image, ImageDraw, ImageFont

from bot.sandbox import page_api
from bot.sandbox.page_api import UserMessage
from bot.sandbox.state import UploadedFile

ADMIN = 900
READERS = range(901, 909)
_PATIENCE_S = 120.0
_TEXTS = 300  # in the pool
_EN = ("When does the {0} come to the {1}?", "What is said about the {0} and the {1}?", "Where is the {0}, zs{2}x?")
_RU = ("Что пишут про {0} и {1}?", "Когда открывается {0}, {1}?", "Где {0}, zs{2}x?")
_WORDS = ("ferry", "harbour", "museum", "ticket", "lantern", "captain", "bridge", "orchard", "kettle")
_SLOVA = ("паром", "гавань", "музей", "билет", "фонарь", "капитан", "мост", "сад", "чайник")
# What a reader does, and how often of a hundred.
_DEEDS = {"ask": 60, "verify": 12, "search": 14, "press": 12, "forget": 2}


@dataclass(frozen=True, slots=True)
class Rates:
    """`edits` a second; the seconds a reader thinks, on average; how often an index is rebuilt; how many are posted
    before, in the warm-up; how often the picture of a post is replaced, 0: never."""

    edits: float = 1.0
    think_s: float = 2.0
    reindex_s: float = 300.0
    posted: int = 200
    picture_s: float = 0.0


class Load:
    """People who keep a bot busy. `waits` are seconds from a question to its answer, by when it was asked."""

    def __init__(self, sandbox, rates, old, seed):
        self._sandbox, self._world, self._rates, self._old = sandbox, sandbox.world, rates, old
        self._rng = random.Random(seed)
        self._mine = []
        self._texts = [self._text() for _ in range(_TEXTS)]
        self._begun = time.monotonic()
        self.waits = []
        self.done = Counter()
        self.unanswered = []
        self.warm_s = 0.0  # when the warm-up ended, seconds after the begin
        for channel in CHANNELS:
            self._world.add_channel(channel.chat_id, channel.title, channel.username)
        for n, reader in enumerate((ADMIN, *READERS)):
            self._world.add_person(reader, "R", lang="en" if n % 2 else "ru").started = True

    def is_warm(self, answers):
        """Whether all is posted and, where answers are wanted, so many came and an index was rebuilt."""
        done = self.done
        return done["post"] >= self._rates.posted and done["ask"] >= answers and done["reindex"] >= min(answers, 1)

    async def run(self, reindex):
        """Go on until cancelled; `reindex` is awaited now and then."""
        self._begun = time.monotonic()
        tasks = [asyncio.create_task(self._read(reader, n % 2 == 0)) for n, reader in enumerate(READERS)]
        tasks += [asyncio.create_task(self._write()), asyncio.create_task(self._rebuild(reindex))]
        if self._rates.picture_s:
            tasks.append(asyncio.create_task(self._replace_pictures()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self):
        """The posts of the warm-up, in quick succession, then edits of these for ever."""
        for n in range(self._rates.posted):
            chat = CHANNELS[n % len(CHANNELS)].chat_id
            message = page_api.post_as_channel(self._world, chat, UserMessage(self._rng.choice(self._texts)))
            self._mine.append((chat, message["message_id"]))
            self.done["post"] += 1
            await asyncio.sleep(0.05)
        while True:
            page_api.edit_as_author(self._world, *self._rng.choice(self._mine), self._rng.choice(self._texts))
            self.done["edit"] += 1
            await asyncio.sleep(self._rng.expovariate(self._rates.edits))

    async def _replace_pictures(self):
        """A post whose picture is replaced by ever new ones, to be read."""
        room = self._world.room(CHANNELS[0].chat_id)
        photo = self._draw()
        message = page_api.post_as_channel(self._world, room.id, UserMessage(extra={"text": None, "photo": photo}))
        while True:
            await asyncio.sleep(self._rates.picture_s)
            photo = self._draw()
            edited = {"photo": photo, "edit_date": int(self._world.clock())}
            self._world.queue.push("edited_channel_post", self._world.change(room, message["message_id"], **edited))
            self.done["picture"] += 1

    def _draw(self):
        picture, stored = Image.new("RGB", (900, 300), "white"), io.BytesIO()
        font = ImageFont.load_default(30)
        ImageDraw.Draw(picture).text((40, 40), self._text().replace(" ", "\n", 4), fill="black", font=font)
        picture.save(stored, "PNG")
        upload = UploadedFile(token_urlsafe(12), "picture.png", "image/png", stored.getvalue())
        self._world.files[upload.file_id] = upload
        return [upload.wire() | {"width": 900, "height": 300}]

    def _text(self):
        return " ".join(self._rng.choices((*_WORDS, *_SLOVA), k=12)) + f" zl{self._rng.randrange(_TEXTS)}x"

    async def _rebuild(self, reindex):
        while True:
            await asyncio.sleep(self._rates.reindex_s)
            await reindex()
            self.done["reindex"] += 1

    async def _read(self, reader, english):
        deeds = {
            "ask": self._ask, "verify": self._verify, "search": self._search, "press": self._press,
            "forget": self._forget,
        }  # fmt: skip
        await asyncio.sleep(self._rng.uniform(0, self._rates.think_s))
        while True:
            deed = self._rng.choices(list(_DEEDS), list(_DEEDS.values()))[0]
            await deeds[deed](reader, english)
            await asyncio.sleep(self._rng.expovariate(1 / self._rates.think_s))

    def _question(self, english):
        words = self._rng.sample(_WORDS if english else _SLOVA, 2)
        return self._rng.choice(_EN if english else _RU).format(
            *words, OLD + self._rng.randrange(min(self._old, _TEXTS))
        )

    async def _said(self, reader, text, kind):
        """Say something and wait for a message; the seconds it took."""
        sent = self._world.sent.setdefault(reader, [])
        before, asked = len(sent), time.monotonic()
        await self._sandbox.say(reader, text)
        if not await self._sandbox.until(lambda: len(sent) > before, _PATIENCE_S):
            self.unanswered.append(f"{kind}: {text}")
            return None
        self.done[kind] += 1
        return time.monotonic() - asked

    async def _ask(self, reader, english):
        asked = time.monotonic() - self._begun
        took = await self._said(reader, self._question(english), "ask")
        if took is not None:
            self.waits.append((asked, took))

    async def _verify(self, reader, english):
        words = self._rng.sample(_WORDS if english else _SLOVA, 3)
        said = "The {} is near the {} and the {}." if english else "{} стоит там, где {} и {}."
        await self._said(reader, f"/verify {said.format(*words)}", "verify")

    async def _search(self, reader, english):
        await self._said(reader, f"/search {self._rng.choice(_WORDS if english else _SLOVA)}", "search")

    async def _press(self, reader, english):
        """Some button under the latest message that has any."""
        room, sent = self._world.room(reader), self._world.sent.get(reader, [])
        latest = reversed(sent[-5:])
        rows = next((row for n in latest if (row := _buttons(room.messages.get(n, {})))), None)
        if rows is None:
            return await self._ask(reader, english)
        return await self._pressed(reader, *self._rng.choice(rows))

    async def _pressed(self, reader, message, data):
        query = self._world.queries[page_api.press_button(self._world, reader, reader, message, data)]
        if not await self._sandbox.until(lambda: query.answer is not None, _PATIENCE_S):
            self.unanswered.append(f"press: {data}")
        self.done["press"] += 1

    async def _forget(self, reader, english):
        """/forget asks first: it is confirmed with the first button."""
        if await self._said(reader, "/forget", "forget") is None:
            return
        message = self._world.room(reader).messages.get(self._world.sent[reader][-1], {})
        if rows := _buttons(message):
            await self._pressed(reader, *rows[0])


def _buttons(message):
    keyboard = message.get("reply_markup", {}).get("inline_keyboard", [])
    return [(message["message_id"], b["callback_data"]) for row in keyboard for b in row if "callback_data" in b]
