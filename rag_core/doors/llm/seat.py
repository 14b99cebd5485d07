"""The model as long as it is one's turn: what is asked of the child, and what its replies say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from rag_core.doors.llm.contract import Decoding, Figures, Finish, Generated, Prompt

__all__ = ["Ask", "LocalSeat", "Speed"]

Ask = Callable[[str, Mapping[str, Any]], AsyncGenerator[dict[str, Any], None]]


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of prompt and reply, measured here, and what this build of llama.cpp can use."""

    prefill: float
    decode: float
    gpu: bool  # whether it could use one
    threads: int
    parameters: int
    bytes: int
    build: str
    version: str


class LocalSeat:
    """See Seat. One request at a time; nothing can be asked after the turn."""

    def __init__(self, ask: Ask) -> None:
        self._asks = ask
        self._left = False

    def leave(self) -> None:
        """The turn is over."""
        self._left = True

    def _ask(self, do: str, **fields: Any) -> AsyncGenerator[dict[str, Any], None]:
        assert not self._left, "the turn is over"
        return self._asks(do, fields)

    async def stream(
        self,
        prompt: Prompt,
        decoding: Decoding,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generated]:
        """Pieces of whole characters, and `Generated` last. `schema` is not looked at: grammars are obeyed here."""
        now = asyncio.get_running_loop().time
        began, first, pieces = now(), 0.0, list[str]()
        end: dict[str, Any] = {}
        how = {**asdict(decoding), "max_tokens": max(1, decoding.max_tokens)}
        async with aclosing(self._ask("generate", **asdict(prompt), how=how, grammar=grammar)) as replies:
            async for reply in replies:
                if text := reply.pop("text", ""):
                    first = first or now()
                    pieces.append(text)
                    yield text
                end |= reply
        first_ms, took_ms = 1000 * ((first or now()) - began), 1000 * (now() - began)
        figures = Figures(end["prompt_tokens"], end["evaluated"], end["tokens"], first_ms, took_ms)
        yield Generated("".join(pieces), Finish(end["finish"]), figures)

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """Log P(yes) - log P(no), where the tokens of the two words part."""
        return float(await self._last("odds", "odds", **asdict(prompt), words=[yes, no]))

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return list(await self._last("counts", "count", texts=list(texts)))

    async def _last(self, field: str, do: str, **fields: Any) -> Any:
        async with aclosing(self._ask(do, **fields)) as replies:
            said = [reply async for reply in replies]
        return said[-1][field]
