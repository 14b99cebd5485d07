"""The workers: a queued question is taken, answered for what its asker may read, rendered and delivered.

A question is a row from the moment it is asked; a worker that dies leaves its row, and the next start
queues it again. Its answer is kept before it is sent (answering/delivery.py), so that neither is lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from functools import partial

from aiogram import Bot
from aiogram.types import InlineKeyboardMarkup
from aiogram.utils.formatting import Text

from bot import access, kept, keyboard, trouble
from bot.answering.delivery import packed
from bot.answering.lightly import Lightly
from bot.answering.limits import Limits
from bot.answering.live import Live, shown
from bot.answering.outbox import JOB, PAUSE_S, Outbox
from bot.answering.places import Places
from bot.answering.remembered import Remembered
from bot.deeper import noted, searching
from bot.metrics.meter import Meter
from bot.pages import pages
from bot.plain import Shown
from bot.receipts import buttons
from bot.recheck import CouldNotCheck, Reader, Withdrawn, basis_of_answer, basis_of_verdicts, rechecked
from bot.render import render
from bot.rights import Rights
from bot.rules import kept_to, words_in
from bot.settings import BotSettings
from bot.verdict_page import kept_verdicts, verdict_page
from bot.watch import Watch
from bot.words import Words, question_language, words_for
from ingest.ledger import Ledger
from rag_core.answering import answer
from rag_core.doors.archive import deliveries, line, posts, questions
from rag_core.doors.archive.questions import Asked
from rag_core.rag import Rag
from rag_core.types import Answer, Question, Shortfall
from rag_core.verify.verdicts import verify

__all__ = ["Turns"]

# Most of them only wait for the model, with the posts' own words already shown: see answering/lightly.py.
_WORKERS = 16
# A question that took the process down this often is answered with an apology instead.
_MOST_ATTEMPTS = 10
# How long running questions may go on after the bot was told to stop.
_DRAIN_S = 5.0

log = logging.getLogger(__name__)


class Turns:
    """Who is answered when. `wake` after queueing; `start` and `stop` around the life of the bot."""

    def __init__(
        self,
        bot: Bot,
        rag: Rag,
        settings: BotSettings,
        rights: Rights,
        ledger: Ledger | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._bot = bot
        self._rag = rag
        self._settings = settings
        self._rights = rights
        self._watch = watch
        self.meter = Meter()
        self._ledger = ledger or Ledger(rag.archive)
        self.limits = Limits(rag.archive, settings, rights)
        self._remembered = Remembered(rag)
        self._lightly = Lightly()
        self._running: dict[int, tuple[Asked, asyncio.Task[tuple[Text, kept.Json]]]] = {}
        self._halted: set[int] = set()
        self._places = Places(bot, rag.archive, lambda: len(self._running))
        self._bells = [asyncio.Event() for _ in range(_WORKERS)]
        self._tasks: list[asyncio.Task[None]] = []
        self._outbox = Outbox(bot, rag.archive, rights, self._ledger, self.wake)
        self._closing = False

    def wake(self) -> None:
        """A question has been queued."""
        self._places.wake()
        for bell in self._bells:
            bell.set()

    async def start(self) -> None:
        """Queue again what was running when the process ended, then work."""
        if left := await questions.requeue_running(self._rag.archive):
            log.info("%d unanswered questions are queued again", left)
        self._tasks = [asyncio.create_task(self._work(bell)) for bell in self._bells]
        self._telling = asyncio.create_task(self._places.run())

    async def stop(self, drain: float = _DRAIN_S) -> None:
        """Take no more; let running questions finish for `drain` seconds; queue again those that do not."""
        self._closing = True
        self.wake()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=drain)
            for task in (*late, self._telling):
                task.cancel()
            await asyncio.gather(*self._tasks, self._telling, return_exceptions=True)
        await self._outbox.stop()
        await questions.requeue_running(self._rag.archive)

    async def halt(self, chat_id: int, reader: int, question: int | None = None) -> tuple[int, int]:
        """Stop this reader's questions in a chat, or one of them: how many were running, and how many waited."""
        meant = [
            (asked, task)
            for asked, task in self._running.values()
            if (asked.chat_id, asked.user_id) == (chat_id, reader) and question in {None, asked.id}
        ]
        for asked, task in meant:
            self._halted.add(asked.id)
            task.cancel()
        left = await line.leave(self._rag.archive, chat_id, reader, question)
        for asked in left:
            await self._places.gone(asked)
        return len(meant), len(left)

    def forget(self) -> None:
        """Remember no answer of a moment ago."""
        self._remembered.forget()

    async def _work(self, bell: asyncio.Event) -> None:
        while not self._closing:
            bell.clear()
            try:
                asked = await questions.take(self._rag.archive)
                if asked is None:
                    await bell.wait()
                    continue
                started = asyncio.get_running_loop().time()
                with self.meter.turn(asked):
                    await self._one(asked)
                self._ledger.passed(JOB, asyncio.get_running_loop().time() - started)
                self.wake()  # the next question of the same reader may go now
            except Exception as exc:  # the worker itself must not die
                self._ledger.failed(JOB, exc)
                await asyncio.sleep(PAUSE_S)

    async def _one(self, asked: Asked) -> None:
        """One question, from row to finished row, or to an answer that is on its way."""
        waiting, whole = await deliveries.kept(self._rag.archive, asked.id)
        if waiting:
            try:
                await self._outbox.recheck_kept(asked, whole)
            except Withdrawn:
                await deliveries.drop(self._rag.archive, asked.id)
                waiting = []
            except CouldNotCheck:  # the outbox checks before it sends, and waits as long as that fails
                log.info("question %d: its answer of an earlier life is checked later", asked.id)
        if not waiting:
            screen = self._places.screen(asked)
            said, found = await self._said(asked)
            await screen.close()
            waiting = packed(pages(said), self._buttons(asked, found), screen.message_id)
            whole = None if found is None else json.dumps(found, ensure_ascii=False)
        self._places.forget(asked)
        await self._outbox.send(asked, waiting, whole)

    def _buttons(self, asked: Asked, found: kept.Json | None) -> InlineKeyboardMarkup | None:
        """What can be pressed under an answer; under verdicts the quotes alone."""
        words = words_for(asked.lang)
        quotes = buttons.keyboard(kept.given(found or {}), self._rag.archive, words)
        if asked.kind == "verify":
            return quotes
        return keyboard.under(asked, found, words, *(quotes.inline_keyboard if quotes else ()))

    async def _said(self, asked: Asked) -> tuple[Text, kept.Json | None]:
        """What to send, and what to keep of it; where it failed, a sentence about that, and nothing to keep."""
        try:
            if asked.attempts > _MOST_ATTEMPTS:
                raise RuntimeError(f"question {asked.id} was interrupted {asked.attempts - 1} times")
            live = Live(await words_in(asked, self._rag.archive))
            checking = partial(rechecked, reader=_reader_of(asked), archive=self._rag.archive, rights=self._rights)
            async with shown(live, self._places.screen(asked), self._bot, asked, checking):
                return await self._unless_halted(asked, live)
        except Exception as exc:
            self.meter.noted("trouble")
            log.error("question %d failed: %s", asked.id, exc, exc_info=trouble.surprise(exc))
            admin = asked.private and asked.user_id in self._rights
            return Text(trouble.sentence(exc, words_for(asked.lang), admin=admin)), None

    async def _unless_halted(self, asked: Asked, live: Live) -> tuple[Text, kept.Json]:
        work = asyncio.create_task(self._answered(asked, live))
        self._running[asked.id] = asked, work
        try:
            return await work
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if asked.id not in self._halted or (me and me.cancelling()):
                raise
            return await self._halfway(asked, live)
        finally:
            del self._running[asked.id]
            self._halted.discard(asked.id)

    async def _halfway(self, asked: Asked, live: Live) -> tuple[Text, kept.Json]:
        """What there was of an answer when its reader stopped it."""
        found = live.so_far(self._rag.writer.name if self._rag.writer else None)
        self.meter.noted("stopped", found)
        if found is None:
            return Text(live.words("stopped-nothing")), {}
        return await self._rendered(asked, found.without(Shortfall("stopped", "")), live.words)

    async def _answered(self, asked: Asked, live: Live) -> tuple[Text, kept.Json]:
        archive = self._rag.archive
        where = {"user_id": asked.user_id, "chat_id": asked.chat_id}
        viewer = await access.viewer_for(archive, self._rights, **where, private=asked.private)
        if not viewer.channels:
            self.meter.noted("refused")
            admin = asked.user_id in self._rights
            return Text(await access.closed(archive, live.words, admin=admin, private=asked.private)), {}
        asked_at = asked.asked_at.astimezone(self._settings.zone)  # "yesterday" is the reader's
        question = Question(asked.text, asked.lang, asked_at, viewer, asked.chat_id, asked.thread)
        if asked.kind == "verify":
            return await self._verified(asked, question, live.words)
        found = await kept_to(asked, await self._found(asked, question, live), archive)
        self.meter.noted("answered", found)
        if self._watch:
            self._watch.answered(asked.chat_id, asked.message_id, found)
        return await self._rendered(asked, found, live.words)

    async def _found(self, asked: Asked, question: Question, live: Live) -> Answer:
        """The answer, or the same one of a moment ago."""
        key, version = await self._remembered.key(question, asked.mode), self._rag.version
        if (known := await self._remembered.get(question, key)) is not None:
            return known
        async with self._lightly.seat() as leave:
            live.waits = leave
            rag = searching(asked, self._rag)
            found = await answer(question, rag, **live.callbacks())
        self._remembered.put(key, version, found)
        return found

    async def _rendered(self, asked: Asked, found: Answer, words: Words) -> tuple[Text, kept.Json]:
        cited = await posts.get(self._rag.archive, (*found.named(), *(passage.key for passage in found.nearest)))
        whole = kept.written(found, cited) | {"basis": basis_of_answer(found, cited).as_json()}
        said = render(found, cited, Shown(words, self._settings.zone, group=not asked.private))
        return await noted(said, asked, whole, self._rag.archive, words), whole

    async def _verified(self, asked: Asked, question: Question, words: Words) -> tuple[Text, kept.Json]:
        """What to send and to keep of verdicts. What was forwarded may be in another language than its reader's."""
        question = replace(question, lang=question_language(asked.text, asked.lang))
        async with self._lightly.seat_to_verify():
            found = await verify(question, self._rag)
        self.meter.noted("answered")
        named = await posts.get(self._rag.archive, found.posts())
        shown = Shown(words, self._settings.zone, group=not asked.private)
        whole = kept_verdicts(found, named) | {"basis": basis_of_verdicts(found, named).as_json()}
        return verdict_page(found, named, shown), whole


def _reader_of(asked: Asked) -> Reader:
    return Reader(asked.user_id, asked.chat_id, asked.private)
