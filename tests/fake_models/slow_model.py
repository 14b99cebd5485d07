"""A language model that reads from a script, slowly, and serves one question after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from scripted_model import FakeLlm, Reply

from rag_core.llm import DecodingParams, FairScheduler, Generation, Prompt, QueuePositionCallback


class SlowLlm(FakeLlm):
    """Every generation is `reply` and takes `seconds`, this share of them before its first words.

    `ended` counts those that came to their end, `begun` those that began.
    """

    name = "slow"

    def __init__(self, reply: Reply, seconds: float, share: float = 0.5) -> None:
        super().__init__()
        self.reply, self.before, self.seconds = reply, seconds * share, seconds * (1 - share)
        self.begun = self.ended = 0
        self._turns = FairScheduler()

    @property
    def waiting(self) -> int:
        return self._turns.waiting

    @waiting.setter
    def waiting(self, number: int) -> None:
        pass

    @asynccontextmanager
    async def turn(self, reader: int, on_place: QueuePositionCallback | None = None) -> AsyncIterator[SlowLlm]:
        async with self._turns.acquire(reader, on_place):
            yield self

    async def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        self.begun += 1
        self.replies.append(self.reply)
        await asyncio.sleep(self.before)
        length = len(self.reply if isinstance(self.reply, str) else self.reply(prompt)) // 4 + 1
        async for piece in super().stream(prompt, decoding, grammar=grammar, schema=schema):
            if isinstance(piece, str):
                await asyncio.sleep(self.seconds / length)
            else:
                self.ended += 1
            yield piece
