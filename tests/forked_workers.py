"""A fork server for worker processes: most of the start of one is the import of numpy, pydantic, llama.cpp and others.

`subprocess` hands it what it would have executed itself. A worker is still a process of its own with pipes, a session
and a log as usual, and a child of the process that asked: it is adopted by that one when the process between them,
which forked it, has ended (prctl, PR_SET_CHILD_SUBREAPER). Workers of bots that run as processes are started plainly.
"""

import ctypes
import gc
import importlib
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

# The modules that are forked, and what to import before.
_FORKED = {
    "rag_core.index.edge_shard_process": "rag_core.index.edge_shard_process",
    "rag_core.llm.llama_worker": "rag_core.llm.llama_worker",
    "ingest.rebuild": "ingest.rebuild",
    "rag_core.processes": "ingest.exports",  # which it runs with limits
    "vector_store_programs": "vector_store_programs",
    "embedder_change_program": "embedder_change_program",
    "pip": "pip._internal.commands.download",
}
_SUBREAPER = 36
_MAX_BYTES = 1 << 17


class ForkServer:
    """Starts workers for this process; the server itself starts with the first of them."""

    def __init__(self):
        self._lock, self._exec, self._path = threading.Lock(), subprocess._fork_exec, os.environ.get("PYTHONPATH")
        self._server = None
        self._prctl = ctypes.CDLL(None).prctl

    def fork_or_exec(self, args, *rest):
        """Take the place of `subprocess._fork_exec`: start a worker of `_FORKED`, or any other program plainly."""
        python, *words = map(os.fsdecode, args)
        if words[:1] == ["-P"]:
            del words[0]
        worker = python == sys.executable and words[:1] == ["-m"] and words[1] in _FORKED
        if not worker or os.environ.get("PYTHONPATH") != self._path:
            return int(self._exec(args, *rest))
        _, _, kept, *rest = rest
        files, unset = [rest[at] for at in (2, 5, 7)], rest[9]  # what is for input, output, errors; ends at the start
        files = [file if file >= 0 else usual for usual, file in enumerate(files)]
        files += [file for file in kept if file != unset]
        umask = re.search(r"Umask:\s+(\d+)", Path("/proc/self/status").read_text())
        ask = {
            "args": words[1:],
            "path": sys.path,
            "env": {**os.environ},
            "cwd": str(Path.cwd()),
            "umask": int(umask[1], 8),
        }
        with self._lock:
            self._server = self._server or self._start()
            self._prctl(_SUBREAPER, 1)
            socket.send_fds(self._server[1], [json.dumps(ask).encode()], files)
            pid = int(self._server[1].recv(_MAX_BYTES))
            self._prctl(_SUBREAPER, 0)
            return pid

    def _start(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-P", __file__, str(theirs.fileno()), "-" * 1000]
            return subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL), ours

    def stop(self):
        if self._server:
            self._server[1].close()
            self._server[0].wait()


def serve(requests):
    """Fork a worker for each request, until the process that asks has ended."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, _MAX_BYTES, 16)
        if not message:
            return
        ask = json.loads(message)
        sys.path = ask["path"]
        with suppress(ImportError):  # the worker says what is missing
            importlib.import_module(_FORKED[ask["args"][0]])
        gc.freeze()
        read, write = os.pipe()
        between = os.fork()
        if not between:
            if os.fork():
                os._exit(0)
            os.setsid()
            os.write(write, str(os.getpid()).encode())
            for file in (read, write, requests.fileno()):
                os.close(file)
            run(ask, files)
        os.waitpid(between, 0)
        requests.send(os.read(read, 64))
        for file in (read, write, *files):
            os.close(file)


def run(ask, files):
    """Become the worker; never returns."""
    code = 1
    try:
        show_command_line(ask["args"])
        for usual, file in enumerate(files[:3]):
            os.dup2(file, usual)
            os.close(file)
        os.umask(ask["umask"])
        os.chdir(ask["cwd"])
        os.environ.clear()
        os.environ.update(ask["env"])
        sys.argv = ask["args"]
        if not hasattr(sys.modules.get(sys.argv[0]), "__path__"):  # of a package it is the __main__ that runs
            sys.modules.pop(sys.argv[0], None)  # what it imports stays: it runs anew without a warning
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def show_command_line(args):
    """Write the worker's arguments over those of the server, where /proc and tests read them."""
    start, end = map(int, Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[45:47])
    shown = "\0".join([sys.executable, "-P", "-m", *args]).encode()[: end - start]
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
