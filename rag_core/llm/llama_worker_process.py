"""LLM worker process: the program that owns a GGUF model.

Three ordinary mistakes crash llama.cpp's process, a damaged file may too, and a busy Python thread in the same process
makes it 5 to 12 times slower. So it runs in a process of its own, which imports as little as it can.

A request has an increasing `id` and a method name in `do`; `{"stop": id}` cancels that request and all before it. Every
reply names its request; the last one of a request has `over`.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO

from rag_core.worker_process import Message, open_parent_pipes, read_message, write_message

if TYPE_CHECKING:
    from rag_core.llm.llama_model import LlamaModel

_SHUTDOWN_GRACE_S = 2.0  # for a graceful exit when the parent is gone


class RequestServer:
    """Request loop of the worker: it reads further requests while one runs, so that it can be cancelled."""

    def __init__(self, native: LlamaModel, replies: BinaryIO) -> None:
        self._native, self._replies = native, replies
        self._jobs: queue.Queue[Message | None] = queue.Queue()
        self._lock = threading.Lock()
        self._running = self._stopped = 0

    def listen(self, requests: BinaryIO) -> None:
        """Read requests until the parent is gone; then exit, at the latest after two seconds."""
        while received := read_message(requests):
            message, _ = received
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

            def say(number: int = number, **reply: Any) -> None:
                write_message(self._replies, {"id": number, **reply})

            with self._lock:
                self._running = number
                self._native.stop(number <= self._stopped)
            say(began=True)
            try:
                for reply in getattr(self._native, job["do"])(job, say):
                    say(**reply)
                end: Message = {}
            except stopped:
                end = {"stopped": True}
            except refused as exc:
                end = {"refused": getattr(exc, "kind", ""), "said": str(exc)}
            except Exception as exc:  # a bug in one request must not end the worker
                end = {"refused": "failed", "said": f"{type(exc).__name__}: {exc}"[:300]}
            say(over=True, **end)


def main(path: str, options: dict[str, Any], requests: BinaryIO, replies: BinaryIO) -> None:
    """Load the model, report it as ready, and serve requests."""
    try:
        from rag_core.llm import llama_model as native
    except ImportError as exc:
        write_message(replies, {"refused": "missing", "said": str(exc)})
        return
    try:
        model = native.LlamaModel(path, options)
    except native.RequestRefused as exc:
        write_message(replies, {"refused": exc.kind, "said": str(exc)})
        return
    write_message(replies, {"ready": True, "context": model.context, "name": model.name})
    server = RequestServer(model, replies)
    threading.Thread(target=server.listen, args=(requests,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        server.work(native.RequestRefused, native.RequestStopped)
    os._exit(0)  # the listening thread may hold the input: an orderly exit would wait for it


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), *open_parent_pipes())
