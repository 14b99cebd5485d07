"""LLM worker process: the program that owns a GGUF model.

Three ordinary mistakes crash llama.cpp's process, a damaged file may too, and a busy Python thread in the same process
makes it 5 to 12 times slower. So it runs in a process of its own, which imports as little as it can.

A request has a method name in `do`, and `{"stop": true}` cancels it; the last of its replies has `over`, and the next
request comes only after that.
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


def listen(native: LlamaModel, requests: BinaryIO, jobs: queue.Queue[Message | None]) -> None:
    """Read requests until the parent is gone, also while one runs; then exit, at the latest after two seconds."""
    while received := read_message(requests):
        message, _ = received
        native.stop("stop" in message)  # a request comes after the end of the one before: there is no other to stop
        if "stop" not in message:
            jobs.put(message)
    native.stop(True)
    jobs.put(None)
    time.sleep(_SHUTDOWN_GRACE_S)
    os._exit(0)


def work(
    native: LlamaModel,
    jobs: queue.Queue[Message | None],
    replies: BinaryIO,
    refused: type[Exception],
    stopped: type[Exception],
) -> None:
    """Process one request after another."""

    def say(**reply: Any) -> None:
        write_message(replies, reply)

    while (job := jobs.get()) is not None:
        say(began=True)
        try:
            for reply in getattr(native, job["do"])(job, say):
                say(**reply)
            end: Message = {}
        except stopped:
            end = {"stopped": True}
        except refused as exc:
            end = {"refused": getattr(exc, "kind", ""), "said": str(exc)}
        except Exception as exc:  # a bug in one request must not end the worker
            end = {"refused": "failed", "said": f"{type(exc).__name__}: {exc}"[:300]}
        say(over=True, **end)


def main(path: str, options: dict[str, int], requests: BinaryIO, replies: BinaryIO) -> None:
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
    jobs: queue.Queue[Message | None] = queue.Queue()
    threading.Thread(target=listen, args=(model, requests, jobs), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        work(model, jobs, replies, native.RequestRefused, native.RequestStopped)
    os._exit(0)  # the listening thread may hold the input: an orderly exit would wait for it


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), *open_parent_pipes())
