"""Processes: workers with messages over pipes, timeouts and resource limits, and the memory that this process returns.

Native code that may crash or hold Python's lock, and data of strangers, are handled in processes of their own. A
message, in both directions, is a line of JSON; its field `raw` says how many bytes follow the line. A worker ends at
the end of its input: its parent has ended. Its standard output carries messages only; what libraries print goes to
its log. It leaves Ctrl-C and SIGTERM to its parent, which still has requests to make.

Workers import this module too: it imports nothing of Citegram.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import asyncio  # imported where a parent uses it: a worker starts in half the time without


Message = dict[str, Any]


def format_install_command(*packages: str) -> str:
    """Format the command that installs packages into this environment, whatever the shell's own pip belongs to."""
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.join(packages)}"


_PYTHON = (sys.executable, "-P")  # -P: the working directory must not shadow modules of the standard library
CONFINED = ("-m", "rag_core.processes")  # before a module's name: run it with the limits of `limit_process`
_MAX_LINE_BYTES = 1 << 24
_LOG_TAIL_BYTES = 4096
_NO_WORDS = "it said nothing"
_EXIT_TIMEOUT_S = 5.0  # from the end of a worker's output to its exit
_MAX_MEMORY_BYTES = 2**30  # of address space; an import of an export needs a fifth of it
_MAX_CPU_SECONDS = 300  # an export of 500 MB needs a quarter of it on a small machine
_NICENESS = 10  # the bot keeps answering meanwhile


def write_message(pipe: IO[bytes], message: Mapping[str, Any], raw: bytes = b"") -> None:
    """Send a message and wait until the pipe has taken it."""
    pipe.write(_encode_message(message, raw))
    pipe.flush()


def read_message(pipe: IO[bytes]) -> tuple[Message, bytes] | None:
    """Wait for a message; None at the end of the input, also in the middle of a message. Raises ValueError."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    message: Message = json.loads(line)
    size = message.pop("raw", 0)
    raw = pipe.read(size) if size else b""
    return (message, raw) if len(raw) == size else None


def _encode_message(message: Mapping[str, Any], raw: bytes = b"") -> bytes:
    return json.dumps({**message, "raw": len(raw)} if raw else message).encode() + b"\n" + raw


class WorkerExited(Exception):
    """Worker process has ended; `code`: negative for a signal, None if unknown; `said`: the last line of its log."""

    def __init__(self, code: int | None, said: str) -> None:
        super().__init__(f"{code}: {said}" if code is not None else "no answer")
        self.code, self.said = code, said


class WorkerProcess:
    """Worker process for asyncio; see `start`."""

    def __init__(self, process: asyncio.subprocess.Process, log: IO[bytes] | None) -> None:
        assert process.stdin and process.stdout
        self._process, self._log, self.pid = process, log, process.pid
        self._requests, self._replies = process.stdin, process.stdout

    @classmethod
    async def start(cls, *arguments: str, log: IO[bytes] | None = None) -> WorkerProcess:
        """Start Python with these arguments, its standard error in `log`. Raises OSError."""
        import asyncio

        process = await asyncio.create_subprocess_exec(
            *_PYTHON,
            *arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            limit=_MAX_LINE_BYTES,
        )
        return cls(process, log)

    @property
    def exited(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; to a worker that has ended nothing is sent, and `receive` reports its end."""
        if not self._requests.is_closing():
            self._requests.write(_encode_message(message))

    async def receive(self) -> Message:
        """Wait for a message. A worker that sends anything else is killed. Raises WorkerExited."""
        import asyncio

        try:
            if line := await self._replies.readline():
                return dict(json.loads(line))
        except ValueError:
            self.kill()
        try:
            async with asyncio.timeout(_EXIT_TIMEOUT_S):
                code = await self._process.wait()
        except TimeoutError:
            raise WorkerExited(None, "") from None
        raise WorkerExited(code, next(reversed(read_log_lines(self._log)), _NO_WORDS))

    def kill(self) -> None:
        """Kill the process and those that it started."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, grace: float = 0.0) -> None:
        """Close the input and wait for the end of the process; after `grace` seconds kill it. Twice is no error."""
        import asyncio

        self._requests.close()
        try:
            async with asyncio.timeout(grace):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
        except asyncio.CancelledError:
            self.kill()
            raise


class BlockingWorkerProcess:
    """Worker process for a thread: one request and its reply after the other."""

    def __init__(self, *arguments: str, log: IO[bytes], pass_fds: tuple[int, ...] = ()) -> None:
        """Start Python with these arguments; it inherits the open files `pass_fds`. Raises OSError."""
        self._log, self._last_words = log, _NO_WORDS
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [*_PYTHON, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        self._requests, self._replies, self.pid = self._process.stdin, self._process.stdout, self._process.pid

    def request(self, message: Mapping[str, Any], raw: bytes, timeout: float) -> tuple[Message, bytes]:
        """Send a request and wait for its reply; kill a worker silent for `timeout` seconds. Raises WorkerExited."""
        with suppress(OSError, ValueError):
            write_message(self._requests, message, raw)
            if not wait([self._replies.fileno()], timeout):
                self._process.kill()
            elif reply := read_message(self._replies):
                return reply
        code = self.stop(timeout)
        raise WorkerExited(code, self._last_words)

    def stop(self, grace: float) -> int:
        """Close the input and wait for the process to end, killed after `grace` seconds; its exit code; twice, too."""
        with suppress(OSError):  # the process may have ended already
            self._requests.close()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._replies.close()
        if not self._log.closed:
            self._last_words = next(reversed(read_log_lines(self._log)), self._last_words)
            self._log.close()
        return self._process.returncode


def read_log_lines(log: IO[bytes] | None) -> list[str]:
    """Read the last lines of a worker's log, without empty ones, at most 4 kB."""
    if log is None or log.closed:
        return []
    start = max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL_BYTES)
    tail = os.pread(log.fileno(), _LOG_TAIL_BYTES, start).decode("utf-8", "replace")
    return [line.strip()[:300] for line in tail.split("\n") if line.strip()]


def open_parent_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Open the pipes of a worker: requests from the parent, and replies to it. Call it first."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return sys.stdin.buffer, replies


def limit_process() -> None:
    """Limit memory, CPU time, core files and priority of this process, for data that strangers wrote."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_SECONDS, _MAX_CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold posts
    os.nice(_NICENESS)


# Constants of glibc's malloc.h and, in the second line, of Linux's mman.h.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MADV_DONTNEED = 4
_MAX_ARENAS = 2  # threads mostly wait for each other: Python's lock, the archive, the model
# By default glibc raises this threshold up to 32 MB when large blocks are freed, and then puts such blocks in the heap.
_MMAP_THRESHOLD_BYTES = 1 << 20


# glibc gives every thread that allocates an arena of its own, up to eight for each processor, and keeps what was freed
# between two blocks in use: a process that runs for months takes more and more memory although nothing in it grows. So
# it gets few arenas, and freed memory is returned to the system. Other C libraries do not need this.
# https://man7.org/linux/man-pages/man3/mallopt.3.html
@cache
def _load_glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def limit_malloc_arenas() -> None:
    """Limit malloc to a few arenas and keep large blocks out of the heap. Call it at the start of a process."""
    if library := _load_glibc():
        library.mallopt(_M_ARENA_MAX, _MAX_ARENAS)
        library.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def release_free_memory() -> bool:
    """Return free memory to the system; whether there was any. Blocks for some milliseconds."""
    library = _load_glibc()
    return bool(library and library.malloc_trim(0))


def release_mapped_pages(folder: str) -> None:
    """Return the pages of files of a folder that are mapped as shared to the system; they come back when used."""
    library = _load_glibc()
    if not library:
        return
    with Path("/proc/self/maps").open(encoding="utf-8", errors="replace") as maps:
        for line in maps:
            addresses, rights, *_, path = line.split(maxsplit=5)
            if rights.endswith("s") and path.startswith(folder):
                first, last = (int(address, 16) for address in addresses.split("-"))
                library.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_DONTNEED)


if __name__ == "__main__":
    # Limits are set before the module is loaded; it cannot lift them.
    limit_process()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
