"""The bot as a service: whenever it ends it is begun again after a pause, as systemd does it."""

from __future__ import annotations

import asyncio
import signal

from chaos.bot_process import BotHome, BotProcess

from bot.sandbox import Sandbox

PAUSE_S = 2.0  # of the unit's RestartSec
_LOOK_EVERY_S = 0.02


class Supervisor:
    """One bot after the other until `stop`. `deaths` are their exit codes, negative for a signal."""

    def __init__(self, home: BotHome, sandbox: Sandbox, pause: float = PAUSE_S) -> None:
        self._home, self._sandbox, self._pause = home, sandbox, pause
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._allowed = asyncio.Event()
        self._allowed.set()
        self._ready = asyncio.Event()
        self.life: BotProcess | None = None
        self.deaths: list[int] = []

    async def start(self) -> None:
        """Begin, and wait until the first bot asks for updates. Raises TimeoutError, RuntimeError."""
        self._task = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task

    async def _run(self) -> None:
        while not self._stopping:
            await self._allowed.wait()
            life = BotProcess(self._home, self._sandbox)
            await life.begin()
            self.life = life
            if not self._ready.is_set():
                await life.ready()
                self._ready.set()
            while life.over is None:  # noqa: ASYNC110 - a process rings no bell
                await asyncio.sleep(_LOOK_EVERY_S)
            self.deaths.append(life.over)
            if not self._stopping:
                await asyncio.sleep(self._pause)

    def signal(self, number: int, *, engine: bool = False) -> None:
        """Send a signal to the bot that lives now."""
        if self.life:
            self.life.signal(number, engine=engine)

    def hold(self) -> None:
        """Begin no bot until `release`: the machine is off."""
        self._allowed.clear()

    def release(self) -> None:
        """Bots may be begun again."""
        self._allowed.set()

    async def stop(self) -> int:
        """End the bot as an operator does; its exit code. Raises TimeoutError."""
        self._stopping = True
        self.signal(signal.SIGTERM)
        assert self.life and self._task
        code = await self.life.ended()
        await self._task
        return code

    async def kill(self) -> None:
        """End whatever is left."""
        self._stopping = True
        if self.life:
            await self.life.killed(engine=True)
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
