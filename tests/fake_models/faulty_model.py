"""A language model with one fault: whatever it is asked, that is what happens."""

import asyncio
from contextlib import asynccontextmanager

from scripted_model import FakeLlm

from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import TokenRates

HANG_S, DRIP_S = 600.0, 0.05
FAULTS = ("queued", "hung", "slow", "dripping", "dying", "dead", "refusing", "garbage", "too slow")


class FaultyLlm(FakeLlm):
    """queued: its turn never comes; slow: a reply after a minute; dying: in one; too slow: by its rates."""

    name, piece_length = "faulty", 2

    def __init__(self, fault, rates=None):
        super().__init__(odds_of=lambda prompt: 0.0)
        self.fault = fault
        self.rates = TokenRates(0.5, 0.1) if fault == "too slow" else rates
        self.pause = DRIP_S if fault == "dripping" else 0.0

    @asynccontextmanager
    async def turn(self, reader, on_place=None):
        if self.fault == "queued":
            await asyncio.sleep(HANG_S)
        async with super().turn(reader, on_place) as session:
            yield session

    async def _act(self):
        if self.fault in {"hung", "slow"}:
            await asyncio.sleep(HANG_S if self.fault == "hung" else 60.0)
        if self.fault == "dead":
            raise GenerationFailed("The model's process ended.")

    async def choose_reply(self, prompt, grammar, schema):
        await self._act()
        replies = {
            "dripping": "The posts say that " * 200,
            "dying": self._die,
            "refusing": "The posts do not say." if "The posts do not say" in prompt.system else "В постах этого нет.",
        }
        return replies.get(self.fault, "�]]}{ qqq 77 [9] ###\n")

    @staticmethod
    def _die(prompt):
        raise GenerationFailed("The model's process was killed.")

    async def count_unread(self, prompts):
        if self.fault == "hung":
            await asyncio.sleep(HANG_S)
        return await super().count_unread(prompts)

    async def odds(self, prompt, yes, no):
        await self._act()
        if self.fault == "dripping":
            await asyncio.sleep(HANG_S)
        return await super().odds(prompt, yes, no)
