"""A language model that plays a part for each purpose: what it replies depends on what it is asked to be."""

import asyncio

from scripted_model import FakeLlm

from rag_core.writing.prompts import load_prompt

SLOW = TimeoutError("as a reply: none comes for a long time")
PURPOSES = ("write", "map", "parts", "judge", "hyde")


class RoleLlm(FakeLlm):
    """`replies` by purpose ("write", "map", "parts", "judge", "hyde", else "other"); of several the last stays.

    SLOW is a reply that does not come. `odds` are those of the judge: numbers, or an exception.
    """

    piece_length = 1 << 20

    def __init__(self, replies, odds=(1.0,)):
        super().__init__()
        self.parts = {
            name: [said] if isinstance(said, str | Exception) else list(said) for name, said in replies.items()
        }
        self.judged = odds
        self.calls = []

    async def choose_reply(self, prompt, grammar, schema):
        purpose = detect_purpose(prompt)
        self.calls.append(purpose)
        lines = self.parts[purpose]
        said = lines.pop(0) if len(lines) > 1 else lines[0]
        if said is SLOW:
            await asyncio.sleep(60)
        return said

    async def odds(self, prompt, yes, no):
        self.calls.append("judge")
        if self.judged is SLOW:
            await asyncio.sleep(60)
        if isinstance(self.judged, Exception):
            raise self.judged
        return self.judged[(self.calls.count("judge") - 1) % len(self.judged)]


def detect_purpose(prompt):
    told = [(name, "all" if name == "judge" else lang) for name in PURPOSES for lang in ("ru", "en")]
    found = [name for name, lang in told if load_prompt(name, lang).system == prompt.system]
    return found[0] if found else "other"
