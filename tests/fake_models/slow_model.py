"""A language model that reads from a script, slowly, and serves one question after the other."""

import asyncio
from contextlib import asynccontextmanager

from scripted_model import FakeLlm

from rag_core.llm.turns import FairScheduler


class SlowLlm(FakeLlm):
    """Every generation is `reply` and takes `seconds`, this share of them before its first words.

    `begun` counts those that began.
    """

    name = "slow"

    def __init__(self, reply, seconds, share=0.5):
        super().__init__()
        self.reply, self.before, self.seconds = reply, seconds * share, seconds * (1 - share)
        self.begun = 0
        self._turns = FairScheduler()

    @property
    def waiting(self):
        return self._turns.waiting

    @waiting.setter
    def waiting(self, number):
        pass

    @asynccontextmanager
    async def turn(self, reader, on_place=None):
        async with self._turns.acquire(reader, on_place):
            yield self

    async def choose_reply(self, prompt, grammar, schema):
        self.begun += 1
        await asyncio.sleep(self.before)
        self.pause = self.seconds / (len(self.reply if isinstance(self.reply, str) else self.reply(prompt)) // 4 + 1)
        return self.reply


def use_writer(monkeypatch, model, *, plans=False):
    """Let the bot open this model as its writer; without `plans` it writes and never plans."""

    async def opened(*_):
        return model

    monkeypatch.setattr("rag_core.engine.open_writer", opened)
    if not plans:
        monkeypatch.setattr("rag_core.planning.llm_planner.is_worth_planning", lambda plan: False)
