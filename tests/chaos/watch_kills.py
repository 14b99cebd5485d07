"""Notices of watches over kill -9: none is lost, and one comes twice only where the process died between Telegram
taking the message and our noting it.

python tests/chaos/watch_kills.py 20 kills twenty times and prints the figures.
"""

from __future__ import annotations

import asyncio
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # run as a script

from chaos.bot_process import BotHome, BotProcess, start_fork_server
from driven_sandbox import DrivenSandbox

from rag_core.storage import Archive, channels, subscriptions
from rag_core.storage.subscriptions import NewWatch
from rag_core.types import Channel, Visibility

CHANNEL = -1001000009
# Each reader watches another animal: a reader gets at most twenty notices a day.
READERS = {901: "walrus", 902: "beaver", 903: "falcon", 904: "turtle", 905: "badger"}
TOKEN = "42:" + "SANDBOX-" * 4 + "abc"
WORDS = "amber basil cedar delta ember fjord grove heron inlet jetty koala lemon maple north otter pearl quill".split()
POSTS_A_KILL = 4


async def measure_kills(folder: Path, kills: int, seed: int = 1) -> dict[str, float]:
    """Kill the bot so often, 0 to 2 s after a post, while a channel goes on; then count the notices."""
    chance = random.Random(seed)
    home = BotHome(folder, None, {"BOT__ADMINS": "1"})
    archive = await Archive.open(home.data)
    await channels.save_channel(archive, Channel(CHANNEL, "Bay", "bay_news", visibility=Visibility.PUBLIC))
    for reader, animal in READERS.items():
        await subscriptions.add_watch(archive, NewWatch(reader, reader, True, animal, animal))
    await archive.close()
    sandbox = DrivenSandbox(token=TOKEN)
    for reader, animal in READERS.items():
        sandbox.world.add_person(reader, animal, lang="en")
    sandbox.world.add_channel(CHANNEL, "Bay", "bay_news", members=[*READERS])
    await sandbox.start()
    for reader in READERS:
        await sandbox.say(reader, "/start")
    await start_fork_server()
    told: Counter[str] = Counter()
    posted: dict[str, float] = {}
    waits: dict[str, float] = {}

    def count() -> int:
        told.clear()
        messages = [(sandbox.world.room(reader), reader) for reader in READERS]
        for message in (room.messages[n] for room, reader in messages for n in sandbox.world.sent.get(reader, ())):
            for name in re.findall(r"number (\d+) ", message["text"]):
                told[name] += 1
                waits.setdefault(name, time.monotonic() - posted[name])
        return len(told)

    try:
        for kill in range(kills + 1):
            life = BotProcess(home, sandbox)
            await life.begin()
            try:
                assert await sandbox.until(lambda: not sandbox.world.queue.kept, timeout=60)
                for _ in range(POSTS_A_KILL):
                    name, animal = str(len(posted)), [*READERS.values()][len(posted) % len(READERS)]
                    rest = " ".join(chance.sample(WORDS, 9))
                    posted[name] = time.monotonic()
                    await sandbox.post(CHANNEL, f"The {animal} of number {name} likes {rest}.")
                    await asyncio.sleep(chance.uniform(0, 0.3))
                if kill < kills:
                    await asyncio.sleep(chance.uniform(0, 2))
                else:
                    await sandbox.until(lambda: count() == len(posted), timeout=60)
                    await asyncio.sleep(2)  # a second notice would come now
            finally:
                await life.killed()
    finally:
        count()
        await sandbox.stop()
    last = sorted(waits[str(n)] for n in range(len(posted) - POSTS_A_KILL, len(posted)) if str(n) in waits)
    twice = sum(number > 1 for number in told.values())
    return {
        "posts": len(posted),
        "lost": len(posted) - len(told),
        "twice": twice,
        "slowest_last_s": max(last, default=0),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        print(asyncio.run(measure_kills(Path(where), int(sys.argv[1]))))
