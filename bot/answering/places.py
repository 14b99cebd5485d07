"""Those who wait in line are told their place, and again when it changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from aiogram import Bot
from aiogram.utils.formatting import Italic

from bot.answering.screens import Draft, Message, passing, screen_for
from bot.session import EditPassing
from bot.words import words_for
from rag_core.doors.archive import Archive, line
from rag_core.doors.archive.questions import Asked
from rag_core.errors import RagError

__all__ = ["Places"]

_EVERY_S = 1.0
# Telegram takes about 30 calls a second: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
_APART_S = 0.05
# Who is further behind is told when they come nearer.
_MOST = 500
# A group's message is changed less often: others write there as well.
_GROUP_EVERY_S = 10.0

log = logging.getLogger(__name__)


class Places:
    """What is shown of questions that wait, and where. A question's screen goes on when its answer is made."""

    def __init__(self, bot: Bot, archive: Archive, running: Callable[[], int]) -> None:
        self._bot = bot
        self._archive = archive
        self._running = running
        self._screens: dict[int, Draft | Message] = {}
        self._told: dict[int, tuple[int, float]] = {}  # by question: the place, and when it may be told again
        self._bell = asyncio.Event()

    def wake(self) -> None:
        """The line has changed."""
        self._bell.set()

    def screen(self, asked: Asked) -> Draft | Message:
        """Where this question is shown."""
        return self._screens.setdefault(asked.id, screen_for(self._bot, asked, self._archive))

    def forget(self, asked: Asked) -> None:
        """Nothing more is shown of this question."""
        self._screens.pop(asked.id, None)
        self._told.pop(asked.id, None)

    async def gone(self, asked: Asked) -> None:
        """The question has left the line; a message that showed its place says so."""
        screen = self.screen(asked)
        await screen.close()
        self.forget(asked)
        if screen.message_id is not None:
            text = words_for(asked.lang)("stopped-nothing")
            await passing(EditPassing(chat_id=asked.chat_id, message_id=screen.message_id, text=text).as_(self._bot))

    async def run(self) -> None:
        """Tell places, until cancelled. A question that is answered at once is not told any."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            await asyncio.sleep(_EVERY_S)
            try:
                waiting = await line.standing_in_line(self._archive, _MOST)
            except RagError as exc:
                log.warning("places are not told: %s", exc)
                continue
            for place, asked in enumerate(waiting, self._running()):
                await self._tell(asked, place)
            if waiting:
                self._bell.set()  # a draft must be shown again before it fades

    async def _tell(self, asked: Asked, place: int) -> None:
        told, again = self._told.get(asked.id, (None, 0.0))
        screen, now = self.screen(asked), time.monotonic()
        # a draft fades: it is shown again although the place is the same
        if (told == place and (not asked.private or now < again)) or (not asked.private and now < again):
            return
        self._told[asked.id] = place, now + (screen.lasts if asked.private else _GROUP_EVERY_S)
        await screen.put(Italic(words_for(asked.lang)("live-place", count=max(1, place))))
        await asyncio.sleep(_APART_S)
