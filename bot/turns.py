"""The workers: a queued question is taken, answered for what its asker may read, rendered and sent.

A question is a row from the moment it is asked; a worker that dies leaves its row, and the next start
queues it again. So an answer can come twice after a crash, but a question is never lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.types import ReplyParameters
from aiogram.utils.formatting import Text

from bot import access, kept, trouble
from bot.pages import Page, pages
from bot.plain import Shown
from bot.render import render
from bot.settings import BotSettings
from bot.watch import Watch
from bot.words import words_for
from ingest.ledger import Ledger
from rag_core.answer import answer
from rag_core.doors.archive import posts, questions
from rag_core.doors.archive.questions import Asked
from rag_core.errors import RagError
from rag_core.rag import Rag
from rag_core.types import Question

__all__ = ["Turns"]

_WORKERS = 2
# A question that took the process down this often is answered with an apology instead.
_MOST_ATTEMPTS = 10
# "typing" shows for five seconds: https://core.telegram.org/bots/api#sendchataction
_TYPING_EVERY_S = 4.0
# How long running questions may go on after the bot was told to stop.
_DRAIN_S = 5.0
# After a failure that is not a question's: the archive is busy or broken.
_PAUSE_S = 1.0
_JOB = "answers"  # in the ledger

log = logging.getLogger(__name__)


class Turns:
    """Who is answered when. `wake` after queueing; `start` and `stop` around the life of the bot."""

    def __init__(
        self, bot: Bot, rag: Rag, settings: BotSettings, ledger: Ledger | None = None, watch: Watch | None = None
    ) -> None:
        self._bot = bot
        self._rag = rag
        self._settings = settings
        self._watch = watch
        self._ledger = ledger or Ledger(rag.archive)
        self._bells = [asyncio.Event() for _ in range(_WORKERS)]
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    def wake(self) -> None:
        """A question has been queued."""
        for bell in self._bells:
            bell.set()

    async def start(self) -> None:
        """Queue again what was running when the process ended, then work."""
        if left := await questions.requeue_running(self._rag.archive):
            log.info("%d unanswered questions are queued again", left)
        self._tasks = [asyncio.create_task(self._work(bell)) for bell in self._bells]

    async def stop(self, drain: float = _DRAIN_S) -> None:
        """Take no more; let running questions finish for `drain` seconds; queue again those that do not."""
        self._closing = True
        self.wake()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=drain)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await questions.requeue_running(self._rag.archive)

    async def _work(self, bell: asyncio.Event) -> None:
        while not self._closing:
            bell.clear()
            try:
                asked = await questions.take(self._rag.archive)
                if asked is None:
                    await bell.wait()
                    continue
                started = asyncio.get_running_loop().time()
                await self._one(asked)
                self._ledger.passed(_JOB, asyncio.get_running_loop().time() - started)
                self.wake()  # the next question of the same reader may go now
            except Exception as exc:  # the worker itself must not die
                self._ledger.failed(_JOB, exc)
                await asyncio.sleep(_PAUSE_S)

    async def _one(self, asked: Asked) -> None:
        """One question, from row to finished row."""
        words, found = words_for(asked.lang), None
        try:
            if asked.attempts > _MOST_ATTEMPTS:
                raise RuntimeError(f"question {asked.id} was interrupted {asked.attempts - 1} times")
            async with self._typing(asked):
                said, found = await self._answered(asked)
        except Exception as exc:
            log.error("question %d failed: %s", asked.id, exc, exc_info=trouble.surprise(exc))
            admin = asked.private and asked.user_id in self._settings.admins
            said = Text(trouble.sentence(exc, words, admin=admin))
        sent: list[int] = []
        try:
            sent = await self._send(asked, pages(said))
        except (TelegramAPIError, ClientDecodeError) as exc:
            # Blocked, removed from the group, or out of reach for longer than the session tries.
            log.warning("question %d: the answer was not delivered: %s", asked.id, exc)
        whole = kept.with_messages(found, sent) if found is not None and sent else None
        state = "answered" if whole else "failed"
        first = sent[0] if sent else None
        await self._finish(asked, state, whole, first)

    async def _finish(self, asked: Asked, state: str, whole: str | None, first: int | None) -> None:
        """Close the question. An open one keeps its reader from the next, so that this is tried until it works."""
        while True:
            try:
                return await questions.finish(self._rag.archive, asked.id, state=state, answer=whole, message_id=first)
            except RagError as exc:
                self._ledger.failed(_JOB, exc)
                await asyncio.sleep(_PAUSE_S)

    async def _answered(self, asked: Asked) -> tuple[Text, kept.Json]:
        """What to send, and what to keep of it."""
        words, admins = words_for(asked.lang), self._settings.admins
        where = {"user_id": asked.user_id, "chat_id": asked.chat_id}
        viewer = await access.viewer_for(self._rag.archive, admins, **where, private=asked.private)
        if not viewer.channels:
            said = await access.closed(self._rag.archive, words, admin=asked.user_id in admins, private=asked.private)
            return Text(said), {}
        question = Question(asked.text, asked.lang, asked.asked_at, viewer, asked.chat_id, asked.thread)
        found = await answer(question, self._rag)
        if self._watch:
            self._watch.answered(asked.chat_id, asked.message_id, found)
        cited = await posts.get(self._rag.archive, found.named())
        shown = Shown(words, self._settings.zone, group=not asked.private)
        return render(found, cited, shown), kept.written(found, cited)

    async def _send(self, asked: Asked, messages: list[Page]) -> list[int]:
        """Send the answer; the ids of its messages."""
        sent = []
        reply = ReplyParameters(message_id=asked.message_id, allow_sending_without_reply=True)
        for page in messages:
            message = await self._bot.send_message(
                asked.chat_id,
                page.text,
                entities=list(page.entities),
                message_thread_id=asked.thread,
                reply_parameters=reply if page is messages[0] else None,
            )
            sent.append(message.message_id)
        return sent

    @contextlib.asynccontextmanager
    async def _typing(self, asked: Asked) -> AsyncIterator[None]:
        async def keep_typing() -> None:
            while True:
                # It is only a sign of life: without it the answer comes all the same.
                with contextlib.suppress(TelegramAPIError, ClientDecodeError):
                    await self._bot.send_chat_action(asked.chat_id, "typing", message_thread_id=asked.thread)
                await asyncio.sleep(_TYPING_EVERY_S)

        task = asyncio.create_task(keep_typing())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
