"""What goes wrong: each fault is a function that returns when it is over."""

import asyncio
import errno
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from chaos.bot_environment import BotEnvironment
from chaos.channel_traffic import CHANNELS

from bot.sandbox import page_api
from bot.sandbox.page_api import UserMessage

OFFLINE = "24 h offline"
_FOREVER = 10**9
_DAY_S = 25 * 3600
_DISK_MB = 160
_IS_FULL, _LONGEST_FULL_S = "is full", 30.0
_SYNC_S = 0.4

SERVERS = {"qdrant", "writer"}  # of what a fault may need

Strike = Callable[[BotEnvironment, float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A name, what happens for so many seconds, and what it needs: "weather", "disk", "writer", "qdrant"."""

    name: str
    strike: Strike
    needs: str = ""


async def _killed(scene, seconds):
    """Killed, and killed again when it has come back: a machine that is short of memory."""
    scene.bot.signal(signal.SIGKILL, engine=True)
    await asyncio.sleep(seconds)
    scene.bot.signal(signal.SIGKILL, engine=True)


async def _stopped(scene, seconds):
    scene.bot.signal(signal.SIGTERM)
    await asyncio.sleep(seconds)


async def _full(scene, seconds):
    """Another program takes every byte that is left, and gives them back when the bot has felt it for a while.

    The log of the archive has room of its own, so that more must come than fits in.
    """
    ballast, before, felt = scene.home.data / "ballast", scene.home.said(_IS_FULL), 0.0
    clock = asyncio.get_running_loop().time
    with ballast.open("wb", buffering=0) as file:
        until = clock() + _LONGEST_FULL_S
        while clock() < min(until, felt + seconds if felt else until):
            try:
                file.write(bytes(1 << 16))
            except OSError as exc:
                if exc.errno != errno.ENOSPC:
                    raise
                await asyncio.sleep(0.02)  # what somebody gives up is taken too
                scene.traffic.next()
            felt = felt or (clock() if scene.home.said(_IS_FULL) > before else 0.0)
    ballast.unlink()


async def _slow(scene, seconds):
    scene.weather.set(sync=_SYNC_S)
    await asyncio.sleep(seconds)
    scene.weather.set()


async def _no_qdrant(scene, seconds):
    await scene.qdrant.stop()
    await asyncio.sleep(seconds)
    await scene.qdrant.start()


async def _started_without_qdrant(scene, seconds):
    """It is the whole machine that starts again, and Qdrant comes up last."""
    await scene.qdrant.stop()
    calls = scene.sandbox.transcript
    scene.bot.signal(signal.SIGKILL, engine=True)
    seen = len(calls)
    while not any(line["method"] == "getUpdates" for line in calls[seen:]):  # noqa: ASYNC110 - a list rings no bell
        await asyncio.sleep(0.1)
    await asyncio.sleep(seconds)
    await scene.qdrant.start()


async def _no_writer(scene, seconds):
    await scene.writer.stop()
    await asyncio.sleep(seconds)
    await scene.writer.start()


def _telegram(kind):
    """Every call fails so, the waiting for updates too."""

    async def strike(scene, seconds):
        for method in ("getupdates", *(() if kind == "409" else ("*",))):
            scene.sandbox.faults.fail_next(method, kind, times=_FOREVER, retry_after=2)
        await asyncio.sleep(seconds)
        scene.sandbox.faults.clear()

    return strike


async def _unknown(scene, seconds):
    for _ in range(int(10 * seconds)):
        scene.traffic.strange()
        await asyncio.sleep(0.1)


async def _jumps(scene, seconds):
    """A day ahead, then an hour behind, then right again."""
    for wall in (26 * 3600, -3600):
        scene.weather.set(wall=wall)
        await asyncio.sleep(seconds / 2)
    scene.weather.set()


async def _offline(scene, seconds):
    """Off for a day and an hour: what was posted in the first hour is gone at Telegram."""
    scene.quiet = True
    queue = scene.sandbox.world.queue
    while queue.kept:  # noqa: ASYNC110 - what is not confirmed yet would be gone as well, and rightly so
        await asyncio.sleep(0.02)
    scene.bot.hold()
    scene.bot.signal(signal.SIGKILL, engine=True)
    for channel in CHANNELS:
        page_api.post_as_channel(
            scene.sandbox.world, channel.chat_id, UserMessage("posted while nobody listened zgone")
        )
    await asyncio.sleep(seconds)
    scene.shift = _DAY_S
    scene.weather.set(wall=_DAY_S, slept=_DAY_S)
    scene.quiet = False
    scene.bot.release()


@asynccontextmanager
async def small_disk(folder):
    """A disk of its own for a folder, in memory. Raises OSError where this is not allowed."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or await _run(*words):
        raise OSError("a disk of its own needs root and the right to mount")
    try:
        yield
    finally:
        await _run("umount", "--lazy", str(folder))


async def _run(*words):
    process = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
    return await process.wait()


FAULTS = (
    Fault("kill -9", _killed),
    Fault("SIGTERM", _stopped),
    Fault("disk full", _full, "disk"),
    Fault("slow disk", _slow, "weather"),
    Fault("Qdrant gone", _no_qdrant, "qdrant"),
    Fault("Qdrant later", _started_without_qdrant, "qdrant"),
    Fault("model server gone", _no_writer, "writer"),
    Fault("429", _telegram("429")),
    Fault("5xx", _telegram("500")),
    Fault("invalid JSON", _telegram("garbled")),
    Fault("connection reset", _telegram("drop")),
    Fault("409", _telegram("409")),
    Fault("unknown updates", _unknown),
    Fault("clock jumps", _jumps, "weather"),
    Fault(OFFLINE, _offline, "weather"),
)
