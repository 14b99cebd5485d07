"""What a language model can be asked, whoever runs it.

A model does one thing at a time: who wants something waits for a turn and then has the seat. Waiting is fair
between readers and is told by place; it is no part of any stage's budget (`Run.seated`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

__all__ = ["Decoding", "Figures", "Finish", "Generated", "LanguageModel", "OnPlace", "Prompt", "Seat", "finished"]

OnPlace = Callable[[int], None]  # how many are before one in the queue; 0 is the seat itself


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
class Decoding:
    """How tokens are chosen. `max_tokens` is a hard end; greedy where `temperature` is 0."""

    max_tokens: int
    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 40
    repeat_penalty: float = 1.0
    seed: int = 42


class Finish(StrEnum):
    """Why a generation ended: it was whole, or out of tokens. One that is cancelled has no end."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Figures:
    """What one generation cost. `evaluated` are the prompt's tokens that were not known from the call before."""

    prompt_tokens: int = 0
    evaluated: int = 0
    tokens: int = 0
    first_ms: float = 0.0  # from the seat to the first piece of text
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Generated:
    """The end of a generation: the whole text and what it cost."""

    text: str
    finish: Finish
    figures: Figures = field(default_factory=Figures)


class Seat(Protocol):
    """The model, as long as it is one's own turn. Everything raises GenerationFailed when the model goes away."""

    def stream(
        self,
        prompt: Prompt,
        decoding: Decoding,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generated]:
        """Pieces of text as they come, and `Generated` last. Closing the iterator stops the model at once.

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

    def turn(self, reader: int, on_place: OnPlace | None = None) -> AbstractAsyncContextManager[Seat]:
        """Wait for one's turn: readers take turns, each of them in order. Raises GenerationFailed."""
        ...

    async def close(self) -> None:
        """Let the model go; whoever waits is told so."""
        ...


async def finished(pieces: AsyncIterator[str | Generated]) -> Generated:
    """Read a stream to its end."""
    last: str | Generated | None = None
    async for piece in pieces:
        last = piece
    assert isinstance(last, Generated)
    return last
