"""LLM worker process: the program that owns a GGUF model; it knows llama_cpp, and nothing else of Citegram.

Three ordinary mistakes crash llama.cpp's process, a damaged file may too, and a busy Python thread in the same process
makes it 5 to 12 times slower. So it runs in a process of its own, as a file and not as a module of the package.

Requests and replies are lines of JSON. A request has an increasing `id` and a method name in `do`;
`{"stop": id}` cancels that request and all before it. Every reply names its request; the last one of a request has
`over`. The program ends at the end of its input: its parent is gone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from rag_core.llm.llama_model import LlamaModel

__all__ = ["RequestServer", "main"]

_SHUTDOWN_GRACE_S = 2.0  # for a graceful exit when the parent is gone


def _load_sibling_module(name: str) -> Any:
    """Load a module from this folder without importing its package, which would load the whole product."""
    spec = importlib.util.spec_from_file_location(f"llm_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RequestServer:
    """Request loop of the worker: it reads further requests while one runs, so that it can be cancelled."""

    def __init__(self, native: LlamaModel, replies: BinaryIO) -> None:
        self._native, self._replies = native, replies
        self._jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._running = self._stopped = 0

    def say(self, **message: Any) -> None:
        """Send one line to the parent."""
        self._replies.write(json.dumps(message).encode() + b"\n")
        self._replies.flush()

    def listen(self, requests: BinaryIO) -> None:
        """Read requests until the parent is gone; then exit, at the latest after two seconds."""
        for line in requests:
            message = json.loads(line)
            if "stop" not in message:
                self._jobs.put(message)
                continue
            with self._lock:
                self._stopped = max(self._stopped, message["stop"])
                if self._running <= self._stopped:
                    self._native.stop(True)
        with self._lock:
            self._stopped = sys.maxsize
            self._native.stop(True)
        self._jobs.put(None)
        time.sleep(_SHUTDOWN_GRACE_S)
        os._exit(0)

    def work(self, refused: type[Exception], stopped: type[Exception]) -> None:
        """Process one request after another."""
        while (job := self._jobs.get()) is not None:
            number = job["id"]
            with self._lock:
                self._running = number
                self._native.stop(number <= self._stopped)
            self.say(id=number, began=True)
            try:
                for reply in getattr(self._native, job["do"])(job, lambda: self.say(id=number)):  # noqa: B023
                    self.say(id=number, **reply)
                end: dict[str, Any] = {}
            except stopped:
                end = {"stopped": True}
            except refused as exc:
                end = {"refused": getattr(exc, "kind", ""), "said": str(exc)}
            except Exception as exc:  # a bug in one request must not end the worker
                end = {"refused": "failed", "said": f"{type(exc).__name__}: {exc}"[:300]}
            self.say(id=number, over=True, **end)


def main(path: str, options: dict[str, int], requests: BinaryIO, replies: BinaryIO) -> None:
    """Load the model, report it as ready, and serve requests."""

    def send(**message: Any) -> None:
        replies.write(json.dumps(message).encode() + b"\n")
        replies.flush()

    try:
        native = _load_sibling_module("llama_model")
    except ImportError as exc:
        send(refused="missing", said=str(exc))
        return
    try:
        model = native.LlamaModel(path, options)
    except native.RequestRefused as exc:
        send(refused=exc.kind, said=str(exc))
        return
    send(ready=True, context=model.context, name=model.name)
    server = RequestServer(model, replies)
    threading.Thread(target=server.listen, args=(requests,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        server.work(native.RequestRefused, native.RequestStopped)
    os._exit(0)  # the listening thread may hold the input: an orderly exit would wait for it


if __name__ == "__main__":
    # The parent decides when to stop: Ctrl-C in a terminal reaches both processes, and the parent has work to finish.
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    # Output of the native library must not mix with the replies.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    main(sys.argv[1], json.loads(sys.argv[2]), sys.stdin.buffer, channel)
