"""Language model protocol: prompt, decoding parameters, sessions and generations, for every backend.

A model serves one request at a time: a caller waits for its turn and then holds a session. The queue is fair between
readers and reports positions; waiting is not part of any stage's budget (`Run.seated`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

__all__ = [
    "DecodingParams",
    "FinishReason",
    "Generation",
    "GenerationStats",
    "LanguageModel",
    "LlmSession",
    "Prompt",
    "QueuePositionCallback",
    "collect_generation",
]

QueuePositionCallback = Callable[[int], None]  # how many are before one in the queue; 0 is the seat itself


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation, what stays the same first: the model keeps what it has read of the longest common beginning.

    `shots` are examples: what was asked, and the right reply. `reply` is how the reply begins.
    All texts are plain: whatever looks like a control token of the model is neutralised by the door.
    """

    system: str
    ask: str
    shots: tuple[tuple[str, str], ...] = ()
    reply: str = ""


@dataclass(frozen=True, slots=True)
class DecodingParams:
    """How tokens are chosen. `max_tokens` is a hard end; greedy where `temperature` is 0."""

    max_tokens: int
    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 40
    repeat_penalty: float = 1.0
    seed: int = 42


class FinishReason(StrEnum):
    """Why a generation ended: it was whole, or out of tokens. One that is cancelled has no end."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """What one generation cost. `evaluated` are the prompt's tokens that were not known from the call before."""

    prompt_tokens: int = 0
    evaluated: int = 0
    tokens: int = 0
    first_ms: float = 0.0  # from the seat to the first piece of text
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Generation:
    """The end of a generation: the whole text and what it cost."""

    text: str
    finish: FinishReason
    figures: GenerationStats = field(default_factory=GenerationStats)


class LlmSession(Protocol):
    """The model, as long as it is one's own turn. Everything raises GenerationFailed when the model goes away."""

    def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        """Pieces of text as they come, and `Generation` last. Closing the iterator stops the model at once.

        `grammar` is GBNF with the rule `root`; `schema`, a JSON schema of the same, serves servers without GBNF.
        Raises GenerationFailed for a grammar that does not parse or a prompt longer than the context.
        """
        ...

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """Log P(yes) - log P(no) of the next word after the prompt."""
        ...

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        ...


class LanguageModel(Protocol):
    """A model that can be asked. `context` is in tokens; `grammars`: whether it obeys GBNF to the letter."""

    @property
    def name(self) -> str:
        """What is shown to readers as the model that answered."""
        ...

    @property
    def context(self) -> int:
        """Tokens that prompt and reply may have together."""
        ...

    @property
    def grammars(self) -> bool:
        """Whether text under a grammar can be trusted to obey it."""
        ...

    @property
    def bare_verdicts(self) -> bool:
        """Whether `odds` can only say which word is likelier, and not by how much. Known once it was asked."""
        ...

    @property
    def waiting(self) -> int:
        """How many have the seat or wait for it: 0 is idle."""
        ...

    def turn(
        self, reader: int, on_place: QueuePositionCallback | None = None
    ) -> AbstractAsyncContextManager[LlmSession]:
        """Wait for one's turn: readers take turns, each of them in order. Raises GenerationFailed."""
        ...

    async def close(self) -> None:
        """Let the model go; whoever waits is told so."""
        ...


async def collect_generation(pieces: AsyncIterator[str | Generation]) -> Generation:
    """Read a stream to its end."""
    last: str | Generation | None = None
    async for piece in pieces:
        last = piece
    assert isinstance(last, Generation)
    return last
