"""Turns with a language model: a fair queue, and a session that gives up a model that hangs."""

from __future__ import annotations

import asyncio
import logging
import math
from bisect import insort
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, cast

from rag_core.errors import GenerationFailed, ModelTooSlow, StageTimeout
from rag_core.llm.protocol import DecodingParams, Generation, LanguageModel, LlmSession, Prompt, QueuePositionCallback


class _WaitingRequest:
    """Request in the queue. Requests are served by their `round`, those of one round as they came."""

    __slots__ = ("on_place", "place", "reader", "round", "turn")

    def __init__(self, reader: int | None, round_number: int, on_place: QueuePositionCallback | None) -> None:
        self.reader, self.round, self.on_place, self.place = reader, round_number, on_place, -1
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def report(self, place: int) -> None:
        if self.on_place is not None and place != self.place:
            self.place = place
            self.on_place(place)


class FairScheduler:
    """Fair queue for the turns with a model, round-robin between readers; `seats` at once where a server is parallel.

    It reports positions to those who wait; waiting is not part of any stage's budget (`Run.open_session`).
    """

    def __init__(self, seats: int = 1) -> None:
        self._seats, self._busy, self._round = seats, 0, 0
        self._waiting: list[_WaitingRequest] = []  # the first has the next turn
        self.closed = ""  # why the queue is closed

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._busy + len(self._waiting)

    @asynccontextmanager
    async def acquire(self, reader: int | None, on_place: QueuePositionCallback | None = None) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises GenerationFailed when the queue is closed.

        Without a reader it comes ahead of all waiting requests: for work that all of them need.
        """
        if self.closed:
            raise GenerationFailed(self.closed)
        # a reader's further requests come after the first of every other reader
        own = [one.round + 1 for one in self._waiting if one.reader == reader]
        waiter = _WaitingRequest(reader, -1 if reader is None else max(own, default=self._round), on_place)
        insort(self._waiting, waiter, key=lambda one: one.round)
        self._grant_turns()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self._busy -= 1  # the turn was granted, and is not used
            self._grant_turns()
            raise
        try:
            yield
        finally:
            self._busy -= 1
            self._grant_turns()

    def _grant_turns(self) -> None:
        while self._busy < self._seats and self._waiting:
            first = self._waiting.pop(0)
            if not first.turn.done():  # else cancelled at this moment
                self._busy += 1
                self._round = max(self._round, first.round)
                first.turn.set_result(None)
                first.report(0)
        for place, waiter in enumerate(self._waiting, start=1):
            waiter.report(place)

    def close(self, why: str) -> None:
        """Close the queue: waiting requests raise GenerationFailed; a running turn continues."""
        self.closed = why
        for waiter in self._waiting:
            if not waiter.turn.done():
                waiter.turn.set_exception(GenerationFailed(why))
        self._waiting.clear()


_SHORTEST_REPLY_SHARE = 0.5  # of a reply's most tokens: with fewer it would be cut off
MIN_PATIENCE_S, _SLACK = 1.0, 3.0
_MAX_DECODE = 100.0  # tokens per second: from there on not the model limits a reply, but what is done with each token
_log = logging.getLogger(__name__)


class TimedSession:
    """`LlmSession` within stages, which begins nothing it cannot end in time, and gives up a model that hangs.

    A model whose rates are known has three times its own estimate for each reply, at least a second: other programs
    may slow the machine down for a while. Of a server no rates are known: a yes or no may take three times as long as
    the slowest one before, everything else as long as its stage. After a model was given up, its circuit breaker is
    open. `note` adds counts to the span of the current stage.
    """

    def __init__(
        self, session: LlmSession, model: LanguageModel, stages: Sequence[asyncio.Timeout], note: Callable[..., None]
    ) -> None:
        self._session, self._model, self._stages, self._note = session, model, stages, note
        self._judged = 0  # tokens read for a yes or no

    async def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        """Stream a reply of the tokens that can be written in time.

        A reply that falls behind the model's rates is given up. Raises ModelTooSlow, StageTimeout, GenerationFailed.
        """
        unread = await self._count_unread([prompt])
        tokens = self._limit_reply(unread, 1, decoding.max_tokens)
        pieces = self._session.stream(prompt, replace(decoding, max_tokens=tokens), grammar=grammar, schema=schema)
        now, waited = asyncio.get_running_loop().time, 0.0
        async with aclosing(cast(AsyncGenerator[str | Generation, None], pieces)):
            for n in count(1):
                began = now()
                async with self._expect(self._get_patience(unread, n) - waited, silent=n == 1):
                    piece = await anext(pieces, None)
                waited += now() - began
                if piece is None:
                    break
                yield piece
        self._model.breaker.record_answer()

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """Log odds of the next word. Raises ModelTooSlow, StageTimeout, GenerationFailed."""
        unread = await self._count_unread([prompt])
        self._limit_reply(unread, 1, 0)
        breaker, now = self._model.breaker, asyncio.get_running_loop().time
        length, began = len(str(prompt)), now()
        known = self._model.rates is not None
        patience = self._get_patience(unread, 1) if known else max(MIN_PATIENCE_S, _SLACK * breaker.slowest * length)
        async with self._expect(patience):
            found = await self._session.odds(prompt, yes, no)
        self._judged += unread
        self._note(read=self._judged)
        breaker.record_answer((now() - began) / length)
        return found

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text. Raises StageTimeout, GenerationFailed."""
        async with self._expect(math.inf if self._model.rates is None else MIN_PATIENCE_S):
            return await self._session.count(texts)

    async def count_unread(self, prompts: Sequence[Prompt]) -> list[int]:
        """Count the tokens of each prompt that are not cached. Raises StageTimeout, GenerationFailed."""
        async with self._expect(math.inf if self._model.rates is None else MIN_PATIENCE_S):
            return await self._session.count_unread(prompts)

    async def require_time(self, prompts: Sequence[Prompt], reply_tokens: int = 0) -> int:
        """Check that the stage has time to read the prompts and write a useful reply to each; the tokens of a reply.

        Raises ModelTooSlow; its span gets the seconds that were needed. Raises StageTimeout, GenerationFailed.
        """
        return self._limit_reply(await self._count_unread(prompts), len(prompts), reply_tokens)

    async def _count_unread(self, prompts: Sequence[Prompt]) -> int:
        """Count the tokens that are not cached, which takes a model no time; 0 where no rates are known."""
        return sum(await self.count_unread(prompts)) if self._model.rates and prompts else 0

    def _limit_reply(self, unread: int, prompts: int, reply_tokens: int) -> int:
        rates, ends = self._model.rates, [end for stage in self._stages if (end := stage.when()) is not None]
        if rates is None or not ends or not prompts:
            return reply_tokens
        left = min(ends) - asyncio.get_running_loop().time()
        shortest = math.ceil(_SHORTEST_REPLY_SHARE * reply_tokens)
        needed = rates.estimate_seconds(unread, shortest * prompts)
        if needed > left:
            self._note(skipped=round(needed, 1))
            raise ModelTooSlow(f"{self._model.name} would need {needed:.0f} s here, and {left:.0f} s are left.")
        written = rates.decode * (left - rates.estimate_seconds(unread)) / prompts
        return min(reply_tokens, max(shortest, int(written)))

    def _get_patience(self, unread: int, pieces: int) -> float:
        """Seconds that a reply may take up to so many pieces; infinite where no rates are known."""
        if (rates := self._model.rates) is None:
            return math.inf
        followed = replace(rates, decode=min(rates.decode, _MAX_DECODE))
        return max(MIN_PATIENCE_S, _SLACK * followed.estimate_seconds(unread, pieces))

    @asynccontextmanager
    async def _expect(self, seconds: float, *, silent: bool = True) -> AsyncIterator[None]:
        """Give the model up after so many seconds. Raises StageTimeout.

        A stage that ends first opens the circuit breaker too where nothing came from the model (`silent`) for so long
        that it hangs.
        """
        clock, now = asyncio.timeout(None if math.isinf(seconds) else seconds), asyncio.get_running_loop().time
        hangs_at = now() + _SLACK * MIN_PATIENCE_S
        try:
            async with clock:
                yield
        except TimeoutError as exc:
            if not clock.expired():
                raise
            self._give_up()
            raise StageTimeout(f"{self._model.name} did not answer in time: it is asked again later.") from exc
        except asyncio.CancelledError:
            ends = [end for stage in self._stages if (end := stage.when()) is not None]
            if silent and now() >= max(hangs_at, min(ends, default=math.inf)):
                self._give_up()
            raise

    def _give_up(self) -> None:
        pause = self._model.breaker.record_hang()
        _log.warning("the language model %s does not answer: it is left alone for %.0f s", self._model.name, pause)
