"""A language model that reads from a script: for whole answers whose every word is known beforehand."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

from rag_core.llm.protocol import (
    CircuitBreaker,
    FinishReason,
    Generation,
    GenerationStats,
    TokenRates,
)


class FakeLlm:
    """Replies in order, each to one generation; an exception is raised instead. What was asked is kept in `asked`.

    `odds_of` gives the log-odds of a prompt, which is kept in `weighed`. A token is four characters. Other models
    override `choose_reply`;
    `ended` counts the generations that came to their end, `pause` is waited before each piece of one.
    """

    name, grammars, bare_verdicts = "scripted", True, False
    rates: TokenRates | None = None
    piece_length, pause, ended = 4, 0.0, 0

    def __init__(self, *replies, context=4096, odds_of=lambda prompt: 0.0):
        self.replies = deque(replies)
        self.context = context
        self.breaker = CircuitBreaker()
        self.waiting = 0
        self.asked = []
        self.weighed = []
        self.grammars_asked = []
        self._odds_of = odds_of

    @asynccontextmanager
    async def turn(self, reader, on_place=None):
        self.waiting += 1
        try:
            yield self
        finally:
            self.waiting -= 1

    async def choose_reply(self, prompt, grammar, schema):
        return self.replies.popleft()

    async def stream(self, prompt, decoding, *, grammar=None, schema=None):
        self.asked.append(prompt)
        self.grammars_asked.append(grammar)
        reply = await self.choose_reply(prompt, grammar, schema)
        if isinstance(reply, Exception):
            raise reply
        whole = reply if isinstance(reply, str) else reply(prompt)
        shown = whole[: 4 * decoding.max_tokens]
        for start in range(0, len(shown), self.piece_length):
            if self.pause:
                await asyncio.sleep(self.pause)
            yield shown[start : start + self.piece_length]
        finish = FinishReason.STOP if shown == whole else FinishReason.LENGTH
        self.ended += 1
        yield Generation(shown, finish, GenerationStats(tokens=len(shown) // 4))

    async def odds(self, prompt, yes, no):
        self.weighed.append(prompt)
        return self._odds_of(prompt)

    async def count(self, texts):
        return [len(text) // 4 + 1 for text in texts]

    async def count_unread(self, prompts):
        return [sum(await self.count([p.system, *(text for s in p.shots for text in s), p.ask])) for p in prompts]

    async def close(self):
        pass
