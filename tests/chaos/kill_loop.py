"""Kills the bot with -9, again and again, while its channels live on and people ask; then looks for what is lost,
twice or stale: posts, and answers.

python tests/chaos/kill_loop.py [--kills 100] [--updates 20000] [--rate 50] [--questions 1] [--seed 1]
    [--models DIR]
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # run as a script

from chaos.bot_process import BotHome, BotProcess, start_fork_server
from chaos.channel_traffic import CHANNELS, ChannelTraffic
from chaos.consistency_check import check_answers, check_consistency, is_lexical_index_behind
from chaos.expected_posts import ExpectedPost
from chaos.offline_models import offline_models
from driven_sandbox import DrivenSandbox
from tqdm import tqdm

from bot.sandbox import page_api
from bot.sandbox.page_api import UserMessage
from rag_core.storage import Archive, channels
from rag_core.types import PostKey

_LONGEST_END_S = 0.12  # from SIGTERM to a kill that comes before the end
_LONGEST_START_S = 1.5  # to a kill that comes before ready; those are counted apart
_EARLY_EVERY = 10  # kills
# What dies: the bot alone, the engine of its vectors with it, a bot that has just kept an update and not
# confirmed it, or one that is just saving its indexes.
_WAYS = ("bot", "engine too", "unconfirmed", "while stopping", "unconfirmed")
_FIRST_READER = 10_000
_QUIET_S = 2.0  # a round of the lexical leg, which is not seen from outside, fits in


@dataclass(frozen=True, slots=True)
class Plan:
    """How long it goes on: until so many kills and so many updates. `rate` in updates a second."""

    kills: int = 100
    updates: int = 20_000
    rate: float = 50.0
    questions: float = 1.0  # a second
    seed: int = 1
    patience: float = 900.0  # seconds for what is left after the last kill
    longest_life: float = 5.0  # seconds from ready to the kill


class Chaos:
    def __init__(self, plan, folder, models, process=BotProcess):
        self.plan, self.models, self._process = plan, models, process
        self.home, self.sandbox = BotHome(folder, models), DrivenSandbox()
        self.traffic = ChannelTraffic(self.sandbox, plan.seed)
        self.asked = []  # readers, each with one question
        # Readers whose answer Telegram took before a kill and the bot did not note, and how often: they get it again.
        self.unnoted = Counter()
        self._rng = random.Random(plan.seed + 1)
        self._life = None
        self.kills = Counter()
        self.early = self.redelivered = 0

    async def run(self):
        """All of it; the verdicts by store. Raises TimeoutError, RuntimeError where the bot does not do its part."""
        archive = await Archive.open(self.home.data)
        for channel in CHANNELS:
            await channels.save_channel(archive, channel)
        await archive.close()
        await self.sandbox.start()
        await start_fork_server()
        flow = asyncio.create_task(self._flow())
        try:
            await self._killing()
            await flow
            await self._settled()
        finally:
            flow.cancel()
            await asyncio.gather(flow, return_exceptions=True)
            if self._life:
                await self._life.killed(engine=True)
            await self.sandbox.stop()
        verdicts = await check_consistency(self.home.data, self.models, self.traffic)
        world = self.sandbox.world
        told = {who: [world.room(who).messages[n]["text"] for n in world.sent.get(who, ())] for who in self.asked}
        return verdicts | {"answers": check_answers(told, self.unnoted)}

    async def invent(self):
        """What the judge finds where the truth is another: a post more, one less, and one that was edited."""
        told, traffic = dict(self.traffic.told), self.traffic
        edited, other, *_ = (key for key, one in told.items() if one.text and not one.album)
        new = PostKey(edited.chat_id, 10**6)
        traffic.told |= {new: ExpectedPost(new, told[edited].date, ["never told zq9999x"])}
        traffic.told[edited] = replace(told[edited], texts=[*told[edited].texts, "edited zq9999x"])
        del traffic.told[other]
        verdicts = await check_consistency(self.home.data, None, traffic)
        traffic.told = told
        return Counter({f"{name} {kind}": n for name, one in verdicts.items() for kind, n in one.counts().items()})

    async def _flow(self):
        """Updates at their rate, whoever listens; a late one is made up for."""
        begun = time.monotonic()
        while self.kills.total() < self.plan.kills or self.traffic.updates < self.plan.updates:
            while self.traffic.updates < (time.monotonic() - begun) * self.plan.rate:
                self.traffic.next()
            while len(self.asked) < (time.monotonic() - begun) * self.plan.questions:
                self._ask()
            await asyncio.sleep(0.5 / self.plan.rate)

    def _ask(self):
        """A question of a reader who asks no other: what the reader is sent is its answer."""
        reader, world = _FIRST_READER + len(self.asked), self.sandbox.world
        english = bool(self._rng.getrandbits(1))
        world.add_person(reader, "R", lang="en" if english else "ru").started = True
        word = self._rng.choice(self.traffic.marks)
        question = f"What is said about {word}?" if english else f"Что пишут про {word}?"
        self.traffic.do(partial(page_api.send_as_person, world, reader, reader, UserMessage(question)))
        self.asked.append(reader)

    async def _killing(self):
        """The moments are spread evenly over the time that a life may take, in a random order."""
        kills = self.plan.kills
        moments = [(n + self._rng.random()) * self.plan.longest_life / kills for n in range(kills)]
        ways = [_WAYS[n % len(_WAYS)] for n in range(kills)]
        self._rng.shuffle(moments)
        self._rng.shuffle(ways)
        with tqdm(total=kills, desc="kills", unit="", disable=None) as bar:
            while moments:
                if not await self._killed(moments[-1], ways[-1]):
                    ways[-1] = "bot"  # it stopped faster than it was killed
                    continue
                moments.pop()
                self.kills[ways.pop()] += 1
                bar.update()
                if self.kills.total() % _EARLY_EVERY == _EARLY_EVERY // 2:
                    await self._killed_early()

    async def _killed_early(self):
        self._life = self._process(self.home, self.sandbox)
        await self._life.begin()
        await asyncio.sleep(self._rng.uniform(0, _LONGEST_START_S))
        self.early += await self._life.killed(engine=True)
        self._find_unnoted()

    def _find_unnoted(self):
        noted = {n for (n,) in self.home.rows("SELECT user_id FROM questions WHERE state = 'answered'")}
        self.unnoted.update({reader for reader in self.asked if self.sandbox.world.sent.get(reader)} - noted)

    async def _killed(self, moment, way):
        """A life, ended so many seconds after it was ready; False where it ended by itself before the kill."""
        life = await self._begun()
        await asyncio.sleep(moment)
        if way == "unconfirmed":
            await self._until_unconfirmed()
        if way == "while stopping":
            life.signal(signal.SIGTERM)
            await asyncio.sleep(self._rng.uniform(0, _LONGEST_END_S))
        killed = await life.killed(engine=way == "engine too")
        self._find_unnoted()
        self.redelivered += self._unconfirmed()
        return killed

    async def _begun(self):
        self._life = life = self._process(self.home, self.sandbox)
        await life.begin()
        await life.ready()
        return life

    async def _until_unconfirmed(self):
        """Wait for an update that is in the archive and not yet confirmed: a matter of milliseconds."""
        until = time.monotonic() + self.plan.longest_life
        while not self._unconfirmed() and time.monotonic() < until:  # noqa: ASYNC110 - nobody rings a bell for it
            await asyncio.sleep(0)

    def _unconfirmed(self):
        """How many updates are in the archive and will be sent again."""
        waiting = ", ".join(map(str, self.sandbox.world.queue.kept))
        return sum(n for (n,) in self.home.rows(f"SELECT count(*) FROM updates WHERE update_id IN ({waiting})"))

    async def _settled(self):
        """Let the bot finish its backlog and end cleanly, with both indexes on disk."""
        until = time.monotonic() + self.plan.patience
        while True:
            life = await self._begun()
            while not self._quiet():
                if time.monotonic() > until:
                    raise TimeoutError(f"the bot did not finish its backlog within {self.plan.patience:.0f} s")
                await asyncio.sleep(0.2)
            await asyncio.sleep(_QUIET_S)
            life.signal(signal.SIGTERM)
            if code := await life.ended():
                raise RuntimeError(f"the bot ended with {code}: see {self.home.log}")
            if not await is_lexical_index_behind(self.home.data) or time.monotonic() > until:
                return

    def _quiet(self):
        """Whether everything is confirmed, worked in and, where there is a model, embedded."""
        if self.sandbox.world.queue.kept or self.home.rows("SELECT 1 FROM updates WHERE state = 'pending' LIMIT 1"):
            return False
        if self.home.rows("SELECT 1 FROM questions WHERE state IN ('queued', 'running') LIMIT 1"):
            return False
        return not self.home.has_unembedded()

    def figures(self, verdicts):
        traffic, counted = self.traffic, {name: verdict.counts() for name, verdict in verdicts.items()}
        return {
            **{kind: sum(counts[kind] for counts in counted.values()) for kind in ("lost", "twice", "stale")},
            "stores": counted,
            "updates": traffic.updates,
            "posts": len(traffic.told),
            "versions": sum(len(one.texts) for one in traffic.told.values()),
            "poison": len(traffic.poison),
            "questions": len(self.asked),
            "answers_unnoted": len(self.unnoted),
            "deeds": traffic.deeds,
            "kills": self.kills.total(),
            "kills_by_way": dict(self.kills),
            "kills_before_ready": self.early,
            "kept_and_sent_again": self.redelivered,
            "tracebacks": self.home.said("Traceback"),
        }


async def run_kills(chaos):
    """Run it: figures, and a sentence for everything that is lost, twice or stale."""
    verdicts = await chaos.run()
    wrong = [f"{name}: {one}" for name, verdict in verdicts.items() for one in verdict.sentences()]
    return chaos.figures(verdicts), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for one in fields(Plan):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(one.default), default=one.default)
    parser.add_argument("--models", metavar="DIR", help="where the offline model is; none: words alone")
    asked = vars(parser.parse_args())
    models = offline_models(asked.pop("models"))
    chaos = Chaos(Plan(**asked), Path(tempfile.mkdtemp(prefix="citegram-kills-")), models)
    metrics, wrong = asyncio.run(run_kills(chaos))
    for name, value in metrics.items():
        print(f"{name:22}{value}")
    print(*wrong[:50], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
