"""How soon a reader sees the first words: from the question to the draft, with a model that needs 20 seconds.

python tests/bench/time_to_first_words.py [--size 100000] [--questions 40] [--seconds 20]
Prints a line of JSON: seconds to the first draft that holds a post's own words.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "fake_models")]

from bench.end_to_end_engine import fill
from driven_sandbox import DrivenSandbox, running_bot
from slow_model import SlowLlm

from bot.sandbox import Sandbox
from bot.settings import Settings
from rag_core.models.active_models import LanguageModels

ADMIN = 501


async def first_words(folder: Path, asked: list[str], seconds: float) -> dict[str, float]:
    """Ask one after the other, each stopped when its first words are there; seconds at p50, p95 and the most."""
    import rag_core.engine

    model = SlowLlm("Nothing of this was asked. [1]\n", seconds)

    async def opened(*_: Any) -> LanguageModels:
        return LanguageModels(model, None)

    rag_core.engine.open_language_models = opened
    sandbox = DrivenSandbox()
    sandbox.world.add_person(ADMIN, "Ada")
    await sandbox.start()
    given = {"token": sandbox.token, "api": sandbox.url, "admins": (ADMIN,)}
    settings = Settings.model_validate({"bot": given, "data": {"dir": folder}})
    async with running_bot(settings):
        took = [one for text in asked if (one := await _one(sandbox, text)) is not None]
    await sandbox.stop()
    took.sort()
    shown = {"p50": took[len(took) // 2], "p95": took[int(len(took) * 0.95)], "most": took[-1]}
    return {"asked": len(asked), "shown": len(took)} | {name: round(value, 3) for name, value in shown.items()}


async def _one(sandbox: Sandbox, text: str) -> float | None:
    """Seconds until the first words of one question; None where it is answered or refused without a model."""
    sent = sandbox.world.sent.setdefault(ADMIN, [])
    before, already = len(sandbox.transcript), len(sent)
    begun = time.perf_counter()
    await sandbox.say(ADMIN, text)

    def drafted() -> bool:
        lines = sandbox.transcript[before:]
        return any(line["method"] == "sendMessageDraft" and "t.me/" in str(line["params"]) for line in lines)

    await sandbox.until(lambda: drafted() or len(sent) > already, 60)
    took = time.perf_counter() - begun
    if not drafted():
        return None
    await sandbox.say(ADMIN, "/stop")
    await sandbox.until(lambda: len(sent) > already, 60)
    return took


def main() -> None:
    """Make an archive of so many posts, ask, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(options.size, Path(folder), options.questions)
        asked = [row["text"] for row in json.loads((Path(folder) / "questions.json").read_text(encoding="utf-8"))]
        print(json.dumps(asyncio.run(first_words(Path(folder), asked, options.seconds))))


if __name__ == "__main__":
    main()
