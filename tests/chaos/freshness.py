"""How soon a new or edited post can be found: a running bot, 10 posts and 2 edits a second, albums among them.

python tests/chaos/freshness.py [--seconds 60] [--posts 10] [--edits 2] [--models DIR]

The time runs from the moment Telegram has the update to the moment a leg finds the post as it is; for an album
from its last part. Now and then a reader asks for what a leg has, and must get it.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # run as a script

import numpy as np
from chaos.offline_models import offline_models
from driven_sandbox import DrivenSandbox, running_bot

from bot.sandbox import page_api
from bot.sandbox.page_api import UserMessage
from bot.sandbox.state import SAMPLE_CHANNELS_FOLDER
from bot.settings import Settings
from rag_core.retrieval.fusion import DENSE, LEXICAL
from rag_core.storage import Archive, channels
from rag_core.types import Channel, PostKey, Visibility

BOUNDS_S = {LEXICAL: 5.0, DENSE: 15.0}  # at the 95th percentile

_CHANNEL = Channel(-1_001_000_000_201, "Fresh news", "fresh_news", visibility=Visibility.PUBLIC)
_READER = 701
_ALBUM_EVERY = 20  # posts
_PARTS = 3
_ASK_EVERY_S = 2.0
_ANSWER_S = 30.0
_PATIENCE_S = 60.0  # for what is not found yet when the last post has been sent


@dataclass(frozen=True, slots=True)
class Load:
    """What comes, and for how long; the same seed, the same posts."""

    seconds: float
    posts: float  # a second
    edits: float  # a second
    seed: int = 1


class Stopwatch:
    """A watch that stops a clock when a leg has taken a version in, and keeps what a reader's question found."""

    def __init__(self, legs):
        self.begun = {}  # -> what it is, when Telegram had it
        self.took = {leg: {} for leg in legs}  # leg -> seconds
        self.found = {}  # by the question's message: post -> leg

    def show_answer(self, chat_id, message_id, answer):
        """See `bot.indexing.BotObserver`."""
        self.found[message_id] = {source.passage.key: source.leg for source in answer.found}

    def show_progress(self, leg, waiting, taken):
        """See `bot.indexing.BotObserver`."""
        for version in ((post.key, post.text) for post in taken):
            if version in self.begun:
                self.took[leg].setdefault(version, time.monotonic() - self.begun[version][1])

    def everywhere(self, version):
        """Whether every leg has taken it in."""
        return all(version in took for took in self.took.values())

    def missing(self):
        """How many versions some leg has not taken in."""
        return sum(not self.everywhere(version) for version in self.begun)

    def figures(self):
        """By leg, and by what it was: how many, and seconds at the median and the 95th percentile."""
        found = {}
        for leg, took in self.took.items():
            for kind in sorted({kind for kind, _ in self.begun.values()}):
                seconds = [s for version, s in took.items() if self.begun[version][0] == kind] or [float("inf")]
                p50, p95 = np.percentile(seconds, [50, 95]).round(2).tolist()
                found.setdefault(leg, {})[kind] = {"number": len(seconds), "p50_s": p50, "p95_s": p95}
        return found


class _Feed:
    """Posts, albums and edits at their rate, and a reader who asks for some of them."""

    def __init__(self, sandbox, watch, load):
        self._sandbox, self._world, self._watch, self._load = sandbox, sandbox.world, watch, load
        self._rng = random.Random(load.seed)
        self._sentences = _sentences()
        self._latest = {}
        self._said = 0
        self.asked = []  # whether the post was among what was found

    async def run(self):
        """Until the time is over, and on a slow machine until all has been sent."""
        load, begun = self._load, time.monotonic()
        posts, edits = load.seconds * load.posts, load.seconds * load.edits
        posted = edited = 0
        while (now := time.monotonic() - begun) < load.seconds + _PATIENCE_S and (posted < posts or edited < edits):
            if posted < min(posts, now * load.posts):
                posted += 1
                self._post(album=f"1{posted:016}" if posted % _ALBUM_EVERY == 0 else None)
            elif edited < min(edits, now * load.edits) and (key := self._settled()):
                edited += 1
                self._edit(key)
            else:
                await asyncio.sleep(0.2 / (load.posts + load.edits))

    def _settled(self):
        """A post of late that every leg has: what is replaced sooner is never taken in."""
        some = [key for key in [*self._latest][-200:] if self._watch.everywhere((key, self._latest[key]))]
        return self._rng.choice(some) if some else None

    def _text(self):
        """A few sentences of the sample channels, and a word that stands nowhere else."""
        self._said += 1
        said = self._rng.sample(self._sentences, self._rng.randint(2, 6))
        return f"{' '.join(said)} zr{self._said}x"

    def _post(self, album):
        text, chat = self._text(), _CHANNEL.chat_id
        message = page_api.post_as_channel(self._world, chat, UserMessage(text, album=album))
        for _ in range(_PARTS - 1 if album else 0):
            page_api.post_as_channel(self._world, chat, UserMessage(album=album))
        self._begin(PostKey(chat, message["message_id"]), text, "album" if album else "post")

    def _edit(self, key):
        text = self._text()
        page_api.edit_as_author(self._world, *key, text)
        self._begin(key, text, "edit")

    def _begin(self, key, text, kind):
        self._latest[key] = text
        self._watch.begun[key, text] = kind, time.monotonic()

    async def ask(self):
        """Ask for the latest that the lexical leg says it has, and again."""
        while True:
            await asyncio.sleep(_ASK_EVERY_S)
            leg = self._rng.choice([*self._watch.took])
            key, text = next((v for v in reversed(self._watch.took[leg]) if self._latest[v[0]] == v[1]), (None, ""))
            if key is None:
                continue
            said = " ".join(text.split()[-10:]) if leg == LEXICAL else text[:300]
            number = (await self._sandbox.say(_READER, said))["message_id"]
            await self._sandbox.until(partial(self._watch.found.__contains__, number), _ANSWER_S)
            if self._latest[key] == text:  # else it was edited meanwhile
                self.asked.append(self._watch.found.get(number, {}).get(key) in {leg, "both"})


async def measure_freshness(load, folder, models):
    """Run the bot under this load, in this process: figures by leg, what was never found, how the reader fared."""
    sandbox, watch = await _furnished(folder), Stopwatch((LEXICAL, DENSE) if models else (LEXICAL,))
    feed = _Feed(sandbox, watch, load)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sandbox.stop)
        await stack.enter_async_context(running_bot(_settings(sandbox, folder, models), watch))
        asking = asyncio.create_task(feed.ask())
        try:
            await feed.run()
            until = time.monotonic() + _PATIENCE_S
            while (watch.missing() or not feed.asked) and time.monotonic() < until:  # noqa: ASYNC110 - a watch rings no bell
                await asyncio.sleep(0.05)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    asked = {"asked": len(feed.asked), "found": sum(feed.asked)}
    return {"legs": watch.figures(), "never_found": watch.missing(), "questions": asked}


def _sentences():
    """Of the sample channels."""
    files = [SAMPLE_CHANNELS_FOLDER / name / "result.json" for name in ("kirpichiki", "zaslonka", "owl-hill")]
    messages = [one for file in files for one in json.loads(file.read_text(encoding="utf-8"))["messages"]]
    texts = ["".join(span["text"] for span in message.get("text_entities", ())) for message in messages]
    pieces = {piece.strip() for text in texts for piece in re.split(r"(?<=[.!?…])\s+|\n+", text)}
    return sorted(piece for piece in pieces if 4 <= len(piece.split()) <= 40)


async def _furnished(folder):
    sandbox = DrivenSandbox()
    sandbox.world.add_person(_READER, "Rita", lang="en").started = True
    sandbox.world.add_channel(_CHANNEL.chat_id, _CHANNEL.title, _CHANNEL.username)
    archive = await Archive.open(folder)
    await channels.save_channel(archive, _CHANNEL)
    await archive.close()
    await sandbox.start()
    return sandbox


def _settings(sandbox, folder, models):
    embedder = {"dir": models} if models else {"embedder": "none"}
    given = {"bot": {"token": sandbox.token, "api": sandbox.url}, "data": {"dir": folder}}
    return Settings.model_validate(given | {"models": embedder | {"reranker": "none"}})


def main():
    """Measure and print; 1 where the bounds are broken or something is never found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long posts come")
    parser.add_argument("--posts", type=float, default=10.0, help="posts a second")
    parser.add_argument("--edits", type=float, default=2.0, help="edits a second")
    parser.add_argument("--models", metavar="DIR", help="where the offline model is; none: words alone")
    asked = vars(parser.parse_args())
    models = offline_models(asked.pop("models"))
    with tempfile.TemporaryDirectory() as folder:
        metrics = asyncio.run(measure_freshness(Load(**asked), Path(folder), models))
    print(json.dumps(metrics, indent=2))
    return 0 if is_fresh(metrics) else 1


def is_fresh(metrics):
    """Whether it all came in time, and the reader got everything asked for."""
    late = [k for leg, kinds in metrics["legs"].items() for k in kinds.values() if k["p95_s"] > BOUNDS_S[leg]]
    return not late and not metrics["never_found"] and metrics["questions"]["asked"] == metrics["questions"]["found"]


if __name__ == "__main__":
    sys.exit(main())
