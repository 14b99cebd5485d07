"""Language model protocol: prompt, decoding parameters, sessions, generations and circuit breaker, for every backend.

A model serves one request at a time: a caller waits for its turn (`FairScheduler`) and then holds a session.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from rag_core.errors import ModelLeftAlone

_FIRST_PAUSE_S, _PAUSE_GROWTH, _MAX_PAUSE_S = 15.0, 4.0, 600.0
_SLOW_PAUSE_S = 3.0  # of a model that stopped when told to: a busy machine, not a hang
MODEL_CLOSED = "The model is being closed: ask again after the start."
_MAX_FAILURES = 3  # in a row; each of a server was retried
_DECAY = 0.9  # of the slowest answer, with each one that is quicker


class CircuitBreaker:
    """Open while a model that hung, or a process or server that failed, is left alone: one question waits for it alone.

    https://martinfowler.com/bliki/CircuitBreaker.html: `hangs` in a row make the pause longer: 15, 60, 240 s, at most
    10 minutes; `failures` do not, it is looked for every `rest` seconds. `slowest`: seconds for each character of
    the slowest prompt answered by yes or no; infinite before.
    """

    def __init__(self, rest: float = _FIRST_PAUSE_S) -> None:
        self.hangs, self.failures, self.slowest, self._rest, self._until = 0, 0, math.inf, rest, -math.inf

    def require_closed(self) -> None:
        """Raise ModelLeftAlone while the model is left alone."""
        if asyncio.get_running_loop().time() < self._until:
            raise ModelLeftAlone("The model did not answer: it is left alone for a while.")

    def leave_alone(self, pause: float | None = None) -> None:
        """Leave the model alone for so many seconds, else for its rest."""
        self._until = asyncio.get_running_loop().time() + (self._rest if pause is None else pause)

    def record_hang(self) -> float:
        """Record that the model did not answer in time; the seconds that it is left alone."""
        pause = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * _PAUSE_GROWTH**self.hangs)
        self.hangs += 1
        self.leave_alone(pause)
        return pause

    def record_stop(self) -> None:
        """Record that a model given up stopped when it was told to: it is slow for a while, and hangs no longer."""
        self.hangs = 0
        self._until = min(self._until, asyncio.get_running_loop().time() + _SLOW_PAUSE_S)

    def record_failure(self) -> None:
        """Record that a server or a process failed; the third time in a row it is left alone."""
        self.failures += 1
        if self.failures >= _MAX_FAILURES:
            self.leave_alone()

    def record_answer(self, seconds_per_character: float = 0.0) -> None:
        """Record that the model answered, and how slowly where that was a yes or no."""
        self.hangs = 0
        if seconds_per_character:
            before = 0.0 if math.isinf(self.slowest) else _DECAY * self.slowest
            self.slowest = max(seconds_per_character, before)


QueuePositionCallback = Callable[[int], None]  # number of requests before this one; 0: it has its turn


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt with its constant part first: the model caches the longest common prefix.

    `shots` are examples: a request and the right reply. All texts are plain: what looks like a control token of the
    model is neutralised by the backend.
    """

    system: str
    ask: str
    shots: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DecodingParams:
    """Decoding parameters. `max_tokens` is a hard limit; decoding is greedy where `temperature` is 0."""

    max_tokens: int
    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 40
    repeat_penalty: float = 1.0
    seed: int = 42


@dataclass(frozen=True, slots=True)
class TokenRates:
    """Rates of a model on this machine: tokens of a prompt read per second, and of a reply written."""

    prefill: float
    decode: float

    def estimate_seconds(self, prompt_tokens: int, reply_tokens: int = 0) -> float:
        """Seconds to read so many tokens of a prompt and to write so many of a reply."""
        return prompt_tokens / self.prefill + reply_tokens / self.decode


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

    async def count_unread(self, prompts: Sequence[Prompt]) -> list[int]:
        """Count the tokens of each prompt that are not cached, if the prompts are read in this order."""


class LanguageModel(Protocol):
    """Language model with a queue of turns.

    `rates` are measured; None where they are not known, as of a server: then nothing is left out for its time. The
    `breaker` is open while the model is left alone because it hung.
    """

    rates: TokenRates | None
    breaker: CircuitBreaker

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
    last = [piece async for piece in pieces][-1]
    assert isinstance(last, Generation)
    return last
