"""Language model protocol: prompt, decoding parameters, sessions and generations, for every backend.

A model serves one request at a time: a caller waits for its turn and then holds a session. The queue is fair between
readers and reports positions; waiting is not part of any stage's budget (`Run.open_session`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from rag_core.errors import GenerationFailed

QueuePositionCallback = Callable[[int], None]  # number of requests before this one; 0: it has its turn


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt with its constant part first: the model caches the longest common prefix.

    `shots` are examples: a request and the right reply. `reply` is the beginning of the reply.
    All texts are plain: text that looks like a control token of the model is neutralised by the backend.
    """

    system: str
    ask: str
    shots: tuple[tuple[str, str], ...] = ()
    reply: str = ""


@dataclass(frozen=True, slots=True)
class DecodingParams:
    """Decoding parameters. `max_tokens` is a hard limit; decoding is greedy where `temperature` is 0."""

    max_tokens: int
    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 40
    repeat_penalty: float = 1.0
    seed: int = 42


class FinishReason(StrEnum):
    """Reason for the end of a generation: complete, or out of tokens. A cancelled one has no reason."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Costs of one generation. `evaluated` are the prompt's tokens that were not cached from the call before."""

    prompt_tokens: int = 0
    evaluated: int = 0
    tokens: int = 0
    first_ms: float = 0.0  # from the request to the first piece of text
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Generation:
    """Completed generation: the whole text and its costs."""

    text: str
    finish: FinishReason
    figures: GenerationStats = field(default_factory=GenerationStats)


class LlmSession(Protocol):
    """Session with the model for one turn. Every method raises GenerationFailed when the model stops."""

    def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        """Stream pieces of text, and `Generation` last. Closing the iterator stops the model at once.

        `grammar` is GBNF with the rule `root`; `schema` is a JSON schema of the same, for servers without GBNF.
        Raises GenerationFailed for a grammar that does not parse or a prompt longer than the context.
        """

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """Log odds, log P(yes) - log P(no), of the next word after the prompt."""

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""


class LanguageModel(Protocol):
    """Language model with a queue of turns. `context` is in tokens; `grammars`: whether it obeys GBNF strictly."""

    @property
    def name(self) -> str:
        """Name of the model, as shown to readers."""

    @property
    def context(self) -> int:
        """Maximum tokens of prompt and reply together."""

    @property
    def grammars(self) -> bool:
        """Whether text generated under a grammar always obeys it."""

    @property
    def bare_verdicts(self) -> bool:
        """Whether `odds` knows only which word is likelier, not by how much. Known after its first call."""

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one: 0 is idle."""

    def turn(
        self, reader: int, on_place: QueuePositionCallback | None = None
    ) -> AbstractAsyncContextManager[LlmSession]:
        """Wait for a turn: round-robin between readers, in order for each of them. Raises GenerationFailed."""

    async def close(self) -> None:
        """Close the model; waiting requests raise GenerationFailed."""


async def collect_generation(pieces: AsyncIterator[str | Generation]) -> Generation:
    """Read a stream to its end and return the generation."""
    last: str | Generation | None = None
    async for piece in pieces:
        last = piece
    assert isinstance(last, Generation)
    return last


class _WaitingRequest:
    __slots__ = ("on_place", "place", "turn")

    def __init__(self, on_place: QueuePositionCallback | None) -> None:
        self.on_place, self.place = on_place, -1
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def report(self, place: int) -> None:
        if self.on_place is not None and place != self.place:
            self.place = place
            self.on_place(place)


class FairScheduler:
    """Fair queue for the turns with a model: one at a time, or several (`seats`) where a server is parallel."""

    def __init__(self, seats: int = 1) -> None:
        self._seats, self._busy = seats, 0
        self._lines: dict[int, deque[_WaitingRequest]] = {}  # by reader; the first key has the next turn
        self._urgent: deque[_WaitingRequest] = deque()
        self.closed = ""  # why the queue is closed

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._busy + sum(1 for _ in self._in_order())

    def _in_order(self) -> Iterator[_WaitingRequest]:
        yield from self._urgent
        longest = max(map(len, self._lines.values()), default=0)
        for n in range(longest):
            yield from (line[n] for line in self._lines.values() if n < len(line))

    @asynccontextmanager
    async def acquire(self, reader: int | None, on_place: QueuePositionCallback | None = None) -> AsyncIterator[None]:
        """Wait for a turn and hold it. Raises GenerationFailed when the queue is closed.

        Without a reader it comes ahead of all waiting requests: for work that all of them need.
        """
        await self._wait(reader, _WaitingRequest(on_place))
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, reader: int | None, waiter: _WaitingRequest) -> None:
        if self.closed:
            raise GenerationFailed(self.closed)
        line = self._urgent if reader is None else self._lines.setdefault(reader, deque())
        line.append(waiter)
        self._next()
        self._report_places()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter in line:
                line.remove(waiter)
                self._drop_empty()
                self._report_places()
            elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
                self._leave()  # the turn was granted, and is not used
            raise

    def _leave(self) -> None:
        self._busy -= 1
        self._next()

    def _next(self) -> None:
        """Grant the next turn; the reader's further requests come after the first of every other reader."""
        while self._busy < self._seats and (first := self._pop_first()) is not None:
            if not first.turn.done():  # else cancelled at this moment
                self._busy += 1
                first.turn.set_result(None)
                first.report(0)
        self._report_places()

    def _pop_first(self) -> _WaitingRequest | None:
        if self._urgent:
            return self._urgent.popleft()
        self._drop_empty()
        if not self._lines:
            return None
        reader, line = next(iter(self._lines.items()))
        first = line.popleft()
        del self._lines[reader]
        if line:
            self._lines[reader] = line
        return first

    def _report_places(self) -> None:
        for place, waiter in enumerate(self._in_order(), start=1):
            waiter.report(place)

    def _drop_empty(self) -> None:
        for reader in [reader for reader, line in self._lines.items() if not line]:
            del self._lines[reader]

    def close(self, why: str) -> None:
        """Close the queue: waiting requests raise GenerationFailed; a running turn continues."""
        self.closed = why
        for waiter in [*self._in_order()]:
            if not waiter.turn.done():
                waiter.turn.set_exception(GenerationFailed(why))
        self._urgent.clear()
        self._lines.clear()
