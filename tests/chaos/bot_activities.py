"""What the bot is in the midst of when a fault comes: each is a task that ends when its work is done."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from chaos.bot_environment import BotEnvironment
from chaos.channel_traffic import CHANNELS

_AGAIN_S = 1.0
_LOOK_EVERY_S = 0.02
_BEGUN_S = 60.0


@dataclass(frozen=True, slots=True)
class Activity:
    """`work` goes on beside posts and questions at these rates (a second); `midst` waits until it is under way."""

    name: str
    posts: float
    questions: float
    work: Callable[[BotEnvironment], Awaitable[list[str]]]
    midst: Callable[[BotEnvironment], Awaitable[None]]


async def _command(scene, *words):
    """A command beside the bot: its exit code, and what it said to a person."""
    pipe = asyncio.subprocess.PIPE
    process = await scene.home.start_command(scene.sandbox, "-m", "bot.__main__", *words, stdout=pipe, stderr=pipe)
    try:
        _, error = await process.communicate()
        return process.returncode or 0, error.decode("utf-8", "replace")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _until_done(scene, *words):
    """Give a command again until it is done, as a person or a script would; what it said each time it was not."""
    said = []
    while True:
        code, error = await _command(scene, *words)
        if code == 0:
            return said
        said.append(error)
        await asyncio.sleep(_AGAIN_S)


async def _import(scene):
    file = scene.exported()
    return await _until_done(scene, "import", str(file), "--username", str(CHANNELS[-1].username))


async def _reindex(scene):
    """Rebuild again and again until the fault is over, then once more."""
    said = []
    while not scene.over:
        said += await _until_done(scene, "reindex")
    return said + await _until_done(scene, "reindex")


async def _nothing(scene):
    return []


async def _shown(scene, sql):
    until = time.monotonic() + _BEGUN_S
    while not scene.home.rows(sql):
        if time.monotonic() > until:
            raise TimeoutError("the work did not begin")
        await asyncio.sleep(_LOOK_EVERY_S)


async def _importing(scene):
    await _shown(scene, f"SELECT 1 FROM posts WHERE message_id >= {scene.imported} LIMIT 1")


async def _reindexing(scene):
    await _shown(scene, "SELECT 1 FROM rebuilds WHERE state = 'running'")


async def _a_while(scene):
    await asyncio.sleep(2.0)


ACTIVITIES = (
    Activity("import", 4, 0.5, _import, _importing),
    Activity("live posts", 30, 0.5, _nothing, _a_while),
    Activity("questions", 4, 4, _nothing, _a_while),
    Activity("reindex", 4, 0.5, _reindex, _reindexing),
)
