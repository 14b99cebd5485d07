"""The real bot, `citegram run`, in a process of its own that may be killed at any moment and is begun again."""

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import sys
import time
from contextlib import closing, suppress

from bot.__main__ import main

# Importing takes five seconds, most of them aiogram's models: each bot is forked from a process that has done it.
_WARM = multiprocessing.get_context("forkserver")
_WARM.set_forkserver_preload(["bot.cli.run", "bot.sandbox", "onnxruntime", "tokenizers"])
_READY_S = 180.0  # far beyond any start
_PAUSE_S = 2.0  # of the unit's RestartSec
_LOOK_EVERY_S = 0.02


async def start_fork_server():
    first = _WARM.Process(target=str)
    await asyncio.to_thread(first.start)
    await asyncio.to_thread(first.join)


def fork_bot(settings, log, *words):
    """A process that is `citegram run`, or with other words, once it is started; its settings in its environment."""
    return fork_process(settings, log, main, words or ("run",))


def fork_process(settings, log, target, *args):
    """A process that ends with what `target` gives, and writes into `log`."""
    return _WARM.Process(target=_live, args=(settings, log, target, args))


class BotHome:
    """A data folder, its models (none: search by words alone), and what its bots said."""

    def __init__(self, folder, models, more=None):
        """`more`: further settings of the bots, by their names in the environment."""
        self.data = folder / "data"
        self.models = models
        self._more = dict(more or {})
        self.log = folder / "bot.log"

    def environment(self, sandbox):
        models = {"MODELS__DIR": str(self.models)} if self.models else {"MODELS__EMBEDDER": "none"}
        bot = {"BOT__TOKEN": sandbox.token, "BOT__API": sandbox.url}
        return bot | models | {"MODELS__RERANKER": "none", "DATA__DIR": str(self.data)} | self._more

    async def start_command(self, sandbox, *words, **streams):
        """Start Python beside the bot with these arguments, in the bot's environment."""
        usual = {name: value for name, value in os.environ.items() if "__" not in name}
        usual |= self.environment(sandbox) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return await asyncio.create_subprocess_exec(sys.executable, *words, env=usual, cwd=self.log.parent, **streams)

    def has_unembedded(self):
        """Whether the dense leg, where there is one, has work left."""
        behind = (
            "SELECT (SELECT count(*) FROM to_embed) + (SELECT value FROM sequence) "
            "- coalesce((SELECT watermark FROM dense), 0)"
        )
        return self.models is not None and self.rows(behind) != [(0,)]

    def rows(self, sql):
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(f"file:{self.data / 'citegram.db'}?mode=ro", uri=True)) as connection,
        ):
            return connection.execute(sql).fetchall()
        return []

    def said(self, words):
        return self.log.read_text(encoding="utf-8", errors="replace").count(words) if self.log.exists() else 0


class BotProcess:
    """One life of the bot: begun, then killed or stopped."""

    def __init__(self, home, sandbox):
        self._home, self._sandbox = home, sandbox
        self._process = fork_bot(home.environment(sandbox), home.log)

    async def begin(self):
        await asyncio.to_thread(self._process.start)

    async def ready(self):
        """Wait until it asks for updates. Raises TimeoutError, RuntimeError where it has ended."""
        calls, seen = self._sandbox.transcript, len(self._sandbox.transcript)
        until = time.monotonic() + _READY_S
        while not any(line["method"].lower() == "getupdates" for line in calls[seen:]):
            if self.over is not None:
                raise RuntimeError(f"the bot ended with {self.over}: see {self._home.log}")
            if time.monotonic() > until:
                raise TimeoutError(f"the bot asked for no updates within {_READY_S:.0f} s: see {self._home.log}")
            await asyncio.sleep(0.01)

    def signal(self, number, *, engine=False):
        if self.pid is None or self.over is not None:
            return  # its number may be somebody else's by now
        if engine:
            with suppress(ProcessLookupError):  # too young to lead a group
                os.killpg(self.pid, number)
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def pid(self):
        """Its process; None where it never began."""
        return self._process.pid

    @property
    def over(self):
        """The exit code, negative for a signal; None while it lives."""
        return self._process.exitcode

    async def ended(self, patience=60.0):
        """Wait for the end; the exit code, negative for a signal. Raises TimeoutError.

        Only the event loop asks for the code: of two threads that ask at once the second reads nothing and gets 255.
        """
        until = time.monotonic() + patience
        while (code := self.over) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"the bot does not end: see {self._home.log}")
            await asyncio.sleep(0.01)
        return code

    async def killed(self, *, engine=False):
        """Kill it with -9; False where it had ended before, or never began."""
        if self.pid is None:
            return False
        self.signal(signal.SIGKILL, engine=engine)
        return await self.ended() == -signal.SIGKILL


def _live(settings, log, target, args):
    os.setsid()  # so that it can be killed with the process it starts
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    for name in [name for name in os.environ if "__" in name]:  # what is set for some other bot
        del os.environ[name]
    os.environ.update(settings)
    os.chdir(log.parent)  # away from anybody's .env
    sys.exit(target(*args))


class Supervisor:
    """One bot after the other until `stop`, begun again after a pause, as systemd does it.

    `deaths` are their exit codes, negative for a signal.
    """

    def __init__(self, home, sandbox):
        self._home, self._sandbox = home, sandbox
        self._task = None
        self._stopping = False
        self._allowed = asyncio.Event()
        self._allowed.set()
        self._ready = asyncio.Event()
        self.life = None
        self.deaths = []

    async def start(self):
        """Begin, and wait until the first bot asks for updates. Raises TimeoutError, RuntimeError."""
        self._task = asyncio.create_task(self._run())
        waiting = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._task.done():
            await self._task

    async def _run(self):
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
                await asyncio.sleep(_PAUSE_S)

    def signal(self, number, *, engine=False):
        if self.life:
            self.life.signal(number, engine=engine)

    def hold(self):
        """Begin no bot until `release`: the machine is off."""
        self._allowed.clear()

    def release(self):
        """Bots may be begun again."""
        self._allowed.set()

    async def stop(self):
        """End the bot as an operator does; its exit code. Raises TimeoutError."""
        self._stopping = True
        self.signal(signal.SIGTERM)
        assert self.life and self._task
        code = await self.life.ended()
        await self._task
        return code

    async def kill(self):
        self._stopping = True
        if self.life:
            await self.life.killed(engine=True)
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
