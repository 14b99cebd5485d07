"""The child process that owns the model, seen from its parent: started, asked, stopped."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from rag_core.doors.llm.gguf import why_not
from rag_core.errors import ModelUnavailable, raised_as

__all__ = ["Child", "ChildGone", "ChildRefused"]

# Run as a file, and not imported here: llama.cpp's native code stays out of this process.
_PROGRAM = Path(__file__).with_name("child.py")
_LOAD_PATIENCE_S = 900.0  # a slow disk and a model of tens of gigabytes
_STOP_PATIENCE_S = 10.0  # between "stop" and its end: milliseconds, where all is well
_END_PATIENCE_S = 5.0
_LONGEST_LINE = 1 << 24
_KILLED = -9  # as a system out of memory ends whom it chooses
_LAST_WORDS = 4096  # bytes of the child's log that are looked at


class ChildGone(Exception):
    """The process ended; `began`: after it had begun with the request."""

    def __init__(self, said: str, began: bool) -> None:
        super().__init__(said)
        self.began = began


class ChildRefused(Exception):
    """The child would not do it; `kind` as in native.py."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


class Child:
    """A running child. One request at a time; a request that is let go of is stopped."""

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes], patience: float) -> None:
        self._process, self._log, self._patience = process, log, patience
        self._number = self._open = 0  # of the last request; and where it is not over yet
        self._heard = 0  # bytes of the log that belong to earlier requests
        self._box: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._watch: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        self.gone = False
        self.context, self.name = 0, ""

    @classmethod
    async def start(cls, path: Path, options: Mapping[str, int], patience: float) -> Child:
        """Start it and wait until its model is loaded. Raises ModelUnavailable."""
        log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - as long-lived as the child
        # -P: our own folder must not hide the standard library's modules
        command = [sys.executable, "-P", str(_PROGRAM), str(path), json.dumps(options)]
        pipe = asyncio.subprocess.PIPE
        with raised_as(ModelUnavailable, OSError, say="The model's process cannot be started: {}. Free some memory."):
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=log, limit=_LONGEST_LINE
            )
        child = cls(process, log, patience)
        try:
            ready = await child._first()
        except BaseException:
            await child.stop()
            raise
        if "ready" not in ready:
            said = next(iter(child._lines()), ready.get("said", ""))  # the first error is the reason for the others
            await child.stop()
            raise ModelUnavailable(why_not(path, ready.get("refused", ""), said))
        child.context, child.name = ready["context"], ready["name"]
        child._reading = asyncio.create_task(child._read())
        return child

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    async def _first(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_LOAD_PATIENCE_S):
                line = await self._process.stdout.readline()
            return dict(json.loads(line))
        except TimeoutError:
            return {"said": f"it took longer than {_LOAD_PATIENCE_S:.0f} s"}
        except ValueError:
            code = await self._process.wait()
            return {"refused": "memory" if code == _KILLED else "", "said": f"its process ended with {code}"}

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                message = json.loads(line)
                if message["id"] == self._number:
                    self._box.put_nowait(message)
                if "over" in message:
                    self._over(message["id"])
        except ValueError:  # not a line of ours: whatever it is, it cannot be trusted any more
            self.kill()
        finally:
            self.gone = True
            self._box.put_nowait(None)

    def _over(self, number: int) -> None:
        self._open = 0 if number == self._open else self._open
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def ask(self, do: str, fields: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """The replies to one request. Raises ChildGone and ChildRefused."""
        self._number += 1
        self._box = asyncio.Queue()
        number = self._open = self._number
        self._heard = self._printed()
        began = False
        try:
            self._say({"id": number, "do": do, **fields})
            while (reply := await self._next()) is not None:
                began = True
                if "over" not in reply:
                    yield reply
                elif "refused" in reply:
                    raise ChildRefused(reply["refused"], reply["said"])
                elif "stopped" in reply:  # not by whoever reads this: the child is being ended
                    break
                else:
                    return
            raise ChildGone(await self._end_words(), began)
        finally:
            if number == self._number:
                self.halt()

    def halt(self) -> None:
        """Stop what is being worked on, if anything is. One that does not stop is killed."""
        if self._open and self._watch is None and not self.gone:
            self._say({"stop": self._open})
            self._watch = asyncio.get_running_loop().call_later(_STOP_PATIENCE_S, self.kill)

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        if self.gone or self._process.stdin.is_closing():
            self._box.put_nowait(None)
        else:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _next(self) -> dict[str, Any] | None:
        if not self._box.empty():
            return self._box.get_nowait()
        try:
            async with asyncio.timeout(self._patience):
                return await self._box.get()
        except TimeoutError:
            self.kill()
            return None

    async def _end_words(self) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_PATIENCE_S):
                code = await self._process.wait()
                return f"{code}: {next(reversed(self._lines()), 'it said nothing')}"
        return "no answer"

    def _printed(self) -> int:
        return os.fstat(self._log.fileno()).st_size

    def _lines(self) -> list[str]:
        """What the native library printed since the last request began."""
        start = max(self._heard, self._printed() - _LAST_WORDS)
        tail = os.pread(self._log.fileno(), _LAST_WORDS, start).decode("utf-8", "replace")
        return [line.strip()[:300] for line in tail.split("\n") if line.strip()]

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> None:
        """End it, gently at first, and wait for its end. Twice is no error."""
        self.gone = True
        if self._watch is not None:
            self._watch.cancel()
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_PATIENCE_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        finally:
            if self._reading is not None:
                await asyncio.wait([self._reading])
            self._log.close()
