"""An answer while it is made: the posts' own words first, then what the model writes, and what is being done now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol

from aiogram import Bot
from aiogram.utils.formatting import BlockQuote, Italic, Text, as_list

from bot.answering.screens import passing
from bot.inert import inert
from bot.plain import plain
from bot.recheck import CACHED_FOR_DRAFTS_S, Basis, CouldNotCheck, Withdrawn, basis_of_sentences
from bot.render import spoken, titled
from bot.words import Words
from rag_core.doors.archive.questions import Asked
from rag_core.types import Answer, Sentence

__all__ = ["Live", "Screen", "shown"]

# Before so much is over nothing is said of a search: the answer itself may come first.
_PATIENCE_S = 0.8
# "typing" shows for five seconds: https://core.telegram.org/bots/api#sendchataction
_TYPING_EVERY_S = 4.0
# Stages that a reader is told of; the others are a part of them.
_TOLD = {"plan", "search", "rerank", "hyde", "write"}


log = logging.getLogger(__name__)


class Live:
    """What is known of one answer so far. The callbacks of `answer` fill it; `news` is set by each of them."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.extract: Answer | None = None
        self.sentences: list[Sentence] = []
        self.place = 0
        self.stage = "search"
        self.news = asyncio.Event()
        self.waits: Callable[[], None] = lambda: None  # called when a model is waited for
        self.worth = asyncio.Event()  # set when there is more to show than that something is being done

    def callbacks(self) -> dict[str, Any]:
        """What `answer` is to call."""
        return {
            "on_extract": self.extracted,
            "on_sentence": self.written,
            "on_place": self.placed,
            "on_stage": self.begun,
        }

    def extracted(self, answer: Answer) -> None:
        """The best of the posts' own words."""
        self.waits()
        self.extract = answer
        self._changed(worth=True)

    def written(self, sentence: Sentence) -> None:
        """One more sentence of the model."""
        self.sentences.append(sentence)
        self._changed(worth=True)

    def placed(self, place: int) -> None:
        """So many are before this question."""
        self.waits()
        self.place = place
        self._changed(worth=place > 0)

    def begun(self, stage: str) -> None:
        """This is being done now."""
        if stage in _TOLD and stage != self.stage:
            self.stage = stage
            self._changed()

    def _changed(self, *, worth: bool = False) -> None:
        self.news.set()
        if worth:
            self.worth.set()

    def so_far(self, model: str | None) -> Answer | None:
        """The answer as far as it goes: the model's sentences, else the posts' own words; None where there is none."""
        if self.extract is None or not self.sentences:
            return self.extract
        return replace(self.extract, sentences=tuple(self.sentences), model=model)

    def basis(self) -> Basis:
        """The posts whose words `text` shows."""
        if self.extract is None:
            return Basis()
        return basis_of_sentences(self.sentences or self.extract.sentences[:1])

    def text(self, *, with_posts: bool = True) -> Text:
        """What the reader sees now; without posts only what is being done."""
        now = self.words("live-place", count=self.place) if self.place else self.words("live-stage", stage=self.stage)
        blocks: list[Text] = [Italic(now)]
        if not with_posts:
            return as_list(*blocks)
        if self.sentences and self.extract:
            blocks.insert(0, spoken(replace(self.extract, sentences=tuple(self.sentences), model="")))
        elif self.extract:
            blocks.insert(0, _best(self.extract, self.words))
        return as_list(*blocks, sep="\n\n")


def _best(extract: Answer, words: Words) -> Text:
    """The first sentence of the posts' own words, and the link to its post."""
    first = extract.sentences[0]
    key = first.citations[0].post
    who = titled(extract.channels.get(key.chat_id), None, extract.link(key), words)
    return as_list(BlockQuote(inert(plain(first.text))), who)


class Screen(Protocol):
    """Where something can be shown that passes. `every`: seconds between two changes, `lasts`: until it is gone."""

    every: float
    lasts: float

    async def put(self, text: Text) -> float:
        """Show it in place of what was shown before; the seconds that Telegram wants to be left alone."""
        ...


Checking = Callable[..., AbstractContextManager[None]]


@asynccontextmanager
async def shown(live: Live, screen: Screen, bot: Bot, asked: Asked, checking: Checking) -> AsyncIterator[None]:
    """While the answer is made, show what is known of it, and "typing".

    `checking` is `rechecked` for its reader: posts that are not open to them any more are not shown.
    """
    tasks = [asyncio.create_task(_show(live, screen, checking)), asyncio.create_task(_type(bot, asked))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for said in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(said, Exception):
                log.error("an answer could not be shown while it was made", exc_info=said)


async def _show(live: Live, screen: Screen, checking: Checking) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            await live.worth.wait()
    while True:
        live.news.clear()
        try:
            with checking(live.basis(), max_age_s=CACHED_FOR_DRAFTS_S):
                pause = await screen.put(live.text())
        except (Withdrawn, CouldNotCheck):
            pause = await screen.put(live.text(with_posts=False))
        await asyncio.sleep(max(pause, screen.every))
        with suppress(TimeoutError):
            async with asyncio.timeout(screen.lasts):
                await live.news.wait()


async def _type(bot: Bot, asked: Asked) -> None:
    while True:
        await passing(bot.send_chat_action(asked.chat_id, "typing", message_thread_id=asked.thread))
        await asyncio.sleep(_TYPING_EVERY_S)
