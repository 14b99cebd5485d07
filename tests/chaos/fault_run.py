"""Faults in the midst of an activity: how soon all is well again after each, and what is lost or there twice."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from chaos.bot_environment import ADMIN, BotEnvironment, Needs
from chaos.channel_traffic import CHANNELS
from chaos.consistency_check import check_consistency
from chaos.expected_posts import ExpectedPost, list_expected_posts
from chaos.faults import OFFLINE, small_disk
from chaos.slow_disk_and_clock import FaultInjection

WITHIN_S = 60.0  # after a fault all goes on without a hand
_SETTLE_S = 180.0  # for the backlog
_QUIET_S = 2.5  # a round of the lexical leg and of copies, not seen from outside, fits in
_TWICE = 2
_OPEN = "state IN ('queued', 'running')"


@dataclass(frozen=True, slots=True)
class Stage:
    """What cells share: the data folders they begin with, and their posts."""

    folder: Path
    weather: FaultInjection
    templates: dict[str, tuple[Path, Sequence[ExpectedPost]]]
    models: Path | None
    told: Callable[[FaultRun], None]
    seconds: float = 4.0
    seed: int = 1


@dataclass
class FaultRun:
    """What came of one; `wrong` holds a sentence for everything that should not be. Seconds after the fault's end."""

    fault: str
    activity: str
    skipped: str = ""
    answering_s: float | None = None  # a post of after the fault is found by a question of after the fault
    settled_s: float | None = None  # nothing waits, and the activity is done
    gap_told_s: float | None = None
    posts: int = 0
    questions: int = 0
    repeated: int = 0  # answers so far that stand in a chat twice
    restarts: int = 0
    said: list[str] = field(default_factory=list)  # the commands' sentences when they could not
    wrong: list[str] = field(default_factory=list)


async def run_fault(stage, needs, faults, activity):
    """Play faults that need the same, one after the other in the life of one bot; what is judged in the end is
    laid to the last.
    """
    cells = [FaultRun(fault.name, activity.name, _lacking(stage, fault)) for fault in faults]
    folder = stage.folder / f"{needs or 'plain'} {activity.name}".replace(" ", "-")
    (folder / "data").mkdir(parents=True)
    template, old = stage.templates["few" if needs == "qdrant" else "many"]
    wanted = Needs(needs == "writer", stage.models if needs == "qdrant" else None)
    left = [(fault, cell) for fault, cell in zip(faults, cells, strict=True) if not cell.skipped]
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(small_disk(folder / "data"))
        except OSError as exc:
            for fault, cell in left:
                cell.skipped = str(exc) if fault.needs == "disk" else ""
        left = [(fault, cell) for fault, cell in left if not cell.skipped]
        if not left:
            return cells
        scene = BotEnvironment(folder, stage.weather, old, wanted, stage.seed)
        try:
            await scene.open(template)
            await _one_after_the_other(scene, stage, left, activity)
        except Exception as exc:  # the other activities are played all the same
            left[-1][1].wrong.append(f"{type(exc).__name__}: {exc}")
        finally:
            stage.weather.set()
            await scene.close()
    return cells


def _lacking(stage, fault):
    if fault.needs == "weather":
        return stage.weather.lacking
    if fault.needs == "disk" and sys.platform != "linux":
        return "a disk of its own needs Linux"
    return "no embedding model is here" if fault.needs == "qdrant" and stage.models is None else ""


async def _one_after_the_other(scene, stage, left, activity):
    flow = asyncio.create_task(scene.flow(activity.posts, activity.questions))
    try:
        for fault, cell in left:
            before = len(scene.bot.deaths), scene.asked
            try:
                await _lived(scene, stage, fault, activity, cell)
            except Exception as exc:  # the next fault is played all the same
                cell.wrong.append(f"{type(exc).__name__}: {exc}")
            stage.weather.set()
            cell.restarts, cell.questions = len(scene.bot.deaths) - before[0], scene.asked - before[1]
            _heard(scene, cell)
            stage.told(cell)
    finally:
        flow.cancel()
        await asyncio.gather(flow, return_exceptions=True)
    await asyncio.sleep(_QUIET_S)
    cell = left[-1][1]
    if code := await scene.bot.stop():
        cell.wrong.append(f"the bot ended with {code}")
    await _judge(scene, cell)


async def _lived(scene, stage, fault, activity, cell):
    scene.quiet = scene.over = False
    work = asyncio.ensure_future(activity.work(scene))
    try:
        await asyncio.sleep(0.1)  # the work begins
        await activity.midst(scene)
        await asyncio.sleep(random.Random(f"{stage.seed}{fault.name}{activity.name}").uniform(0, 0.5))
        await fault.strike(scene, stage.seconds)
        scene.over, ended = True, time.monotonic()
        cell.answering_s = await _answering(scene, ended)
        if fault.name == OFFLINE:
            cell.gap_told_s = await _gap_told(scene, ended)
        scene.quiet = True
        async with asyncio.timeout(_SETTLE_S):
            cell.said = await work
        await _settled(scene)
        cell.settled_s = round(time.monotonic() - ended, 1)
    finally:
        scene.quiet = True
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _answering(scene, ended):
    """Seconds after the fault until something posted since is found by somebody who asks since."""
    mark = scene.traffic.marked()
    while time.monotonic() - ended < _SETTLE_S:
        reader = scene.ask(f"What about {mark}?")
        until = time.monotonic() + _SETTLE_S
        while not scene.heard(reader) and time.monotonic() < until:  # noqa: ASYNC110 - read where it is written
            await asyncio.sleep(0.02)
        if any(f"{mark}" in text.replace(f"about {mark}", "") for text in scene.heard(reader)):
            return round(time.monotonic() - ended, 1)
        await asyncio.sleep(0.5)
    raise TimeoutError("a post of after the fault is not found")


async def _gap_told(scene, ended):
    an_hour_ago = int(time.time() + scene.shift) - 3600  # and not a gap of before
    told = f"SELECT 1 FROM gaps WHERE told_at IS NOT NULL AND until > {an_hour_ago}"
    while time.monotonic() - ended < _SETTLE_S:
        if scene.heard(ADMIN) and scene.home.rows(told):
            return round(time.monotonic() - ended, 1)
        await asyncio.sleep(0.1)
    raise TimeoutError("nobody was told of the gap")


async def _settled(scene):
    """Wait until everything is confirmed and worked in, and every question over. Raises TimeoutError."""
    until = time.monotonic() + _SETTLE_S
    pending = "SELECT count(*) FROM updates WHERE state = 'pending'"
    waiting = f"SELECT ({pending}), (SELECT count(*) FROM questions WHERE {_OPEN})"
    while scene.sandbox.world.queue.kept or scene.home.rows(waiting) != [(0, 0)] or scene.home.has_unembedded():
        if time.monotonic() > until:
            raise TimeoutError(f"waiting still: {len(scene.sandbox.world.queue.kept)}, {scene.home.rows(waiting)}")
        await asyncio.sleep(0.05)


def _heard(scene, cell):
    """Who was told nothing or too often, what helped nobody, what took too long."""
    for reader in scene.readers():
        heard = scene.heard(reader)
        if not heard:
            cell.wrong.append(f"reader {reader} was told nothing")
        times = Counter(heard)
        # Telegram does not say whether a call that was cut off went through: twice at most is the bot's promise.
        cell.repeated += sum(n == _TWICE for n in times.values())
        cell.wrong += [f"reader {reader} was told {n} times: {text[:80]!r}" for text, n in times.items() if n > _TWICE]
    cell.wrong += [f"a command said: {said.strip()[-500:]!r}" for said in cell.said if "Traceback" in said]
    for name, seconds in (("answers", cell.answering_s), ("the gap was told", cell.gap_told_s)):
        if seconds is not None and seconds > WITHIN_S:
            cell.wrong.append(f"{name} after {seconds} s, not within {WITHIN_S:.0f}")


async def _judge(scene, cell):
    """What is lost, twice or stale after all of it, and what was logged as a surprise."""
    for store, verdict in (await check_consistency(scene.home.data, None, scene.traffic)).items():
        cell.wrong += [f"{store}: {one}" for one in verdict.sentences()[:20]]
    cell.posts = len(scene.traffic.told)
    if number := scene.home.said("Traceback"):
        cell.wrong.append(f"{number} tracebacks in {scene.home.log}")
    if scene.needs.models:
        await _embedded(scene, cell)


async def _embedded(scene, cell):
    """Every passage has its vector on the Qdrant server, and no other."""
    from qdrant_client import AsyncQdrantClient  # a second, for every process that collects the tests

    places = list_expected_posts(scene.traffic.told, {channel.chat_id: channel.title for channel in CHANNELS})
    client = AsyncQdrantClient(url=scene.qdrant.url, check_compatibility=False)
    found = (await client.count("citegram")).count
    await client.close()
    if found != len(places):
        cell.wrong.append(f"the Qdrant server has {found} vectors for {len(places)} passages")
