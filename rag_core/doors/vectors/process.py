"""The child process that owns the shard, seen from its parent: started, asked, stopped. Blocking calls."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any

__all__ = ["OPEN_PATIENCE_S", "PATIENCE_S", "Engine", "EngineGone", "EngineRefused"]

# Run as a file, and not imported here: the engine's native code stays out of this process.
_PROGRAM = Path(__file__).with_name("engine.py")
_LENGTHS = struct.Struct(">II")  # as in engine.py
# Far beyond any call: who waits longer waits for a disk that hangs.
PATIENCE_S = 120.0
# Opening reads all payload indexes and what the log holds since the last flush: 3 s for a million vectors.
OPEN_PATIENCE_S = 900.0

# `errno` of what is wrong around the shard, not with it: EPERM, EIO, EAGAIN, ENOMEM, EACCES, ENFILE, EMFILE,
# ENOSPC, EROFS, EDQUOT; or another program has the log open. The engine's errors are texts.
_AROUND = ("WouldBlock", *(f"(os error {code})" for code in (1, 5, 11, 12, 13, 23, 24, 28, 30, 122)))


class EngineGone(Exception):
    """The process ended; `code` is how, negative for a signal, and `said` its last words."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"the vector engine ended with {code}: {said}")
        self.code, self.said = code, said


class EngineRefused(Exception):
    """The engine raised; `kind` is "around" (disk, rights, memory) or "failed"."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said
        self.kind = "around" if any(words in said for words in _AROUND) else "failed"


class Engine:
    """A running engine. One thread at a time."""

    def __init__(self, log: Path, lock: int) -> None:
        """Start it; it keeps the open file `lock` for as long as it lives, and writes its last words to `log`."""
        self._log = log
        # -P: our own folder must not hide the standard library's modules
        command = [sys.executable, "-P", str(_PROGRAM)]
        with log.open("wb") as words:
            self._child = subprocess.Popen(  # noqa: S603 - our own program
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, pass_fds=[lock]
            )

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    def ask(self, do: str, fields: Mapping[str, object], raw: bytes, patience: float) -> tuple[dict[str, Any], bytes]:
        """One request and its reply: named values and float32 numbers. Raises EngineGone, EngineRefused."""
        said = json.dumps({"do": do, **fields}).encode()
        try:
            pipe = self._child.stdin
            assert pipe is not None
            pipe.write(_LENGTHS.pack(len(said), len(raw)) + said)
            pipe.write(raw)
            pipe.flush()
            reply, out = self._reply(patience)
        except (OSError, ValueError, EOFError):
            raise self._gone() from None
        if "error" in reply:
            raise EngineRefused(reply["error"])
        return reply, out

    def _reply(self, patience: float) -> tuple[dict[str, Any], bytes]:
        pipe = self._child.stdout
        assert pipe is not None
        if not wait([pipe.fileno()], patience):
            self._child.kill()
            raise EOFError
        text, numbers = _LENGTHS.unpack(_whole(pipe, _LENGTHS.size))
        return json.loads(_whole(pipe, text)), _whole(pipe, numbers)

    def _gone(self) -> EngineGone:
        self.stop()
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n") if self._log.exists() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return EngineGone(self._child.returncode, last[:300])

    def stop(self) -> bool:
        """End the process, gently at first; True where it closed the shard properly. Twice is no error."""
        pipe_in, pipe_out = self._child.stdin, self._child.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        with suppress(OSError):  # it may have gone before us
            pipe_in.close()
        try:
            self._child.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        pipe_out.close()
        return self._child.returncode == 0


def _whole(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
