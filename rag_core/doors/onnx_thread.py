"""What embedder and reranker share: one thread that owns a model, its errors as one sentence, readable texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from rag_core.errors import ModelUnavailable, RagError

__all__ = ["REGISTERING", "OnnxThread", "readable"]

T = TypeVar("T")

REGISTERING = Lock()  # fastembed's list of models belongs to the process

# A token is rarely longer; what is behind so many characters would be cut after tokenising anyway.
_CHARS_PER_TOKEN = 16


class OnnxThread:
    """One thread of its own: calls run one after another, the event loop and other models go on meanwhile."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Call `work` in the thread. Raises ModelUnavailable, whatever goes wrong there, and after `close`."""
        if self._pool is None:
            raise ModelUnavailable(f"The model {self.name} is closed: Citegram is stopping.")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)
        except RagError:
            raise
        except Exception as exc:  # fastembed, tokenizers and onnxruntime raise plain ones, each in its own way
            raise self.broken(f"cannot be used ({exc})") from exc

    def broken(self, what: str) -> ModelUnavailable:
        """The sentence for a model that does not work, and what to do."""
        return ModelUnavailable(f"The model {self.name} {what}: run citegram models pull {self.name} again.")

    async def close(self) -> None:
        """End the thread after what it does now; what waits for it is dropped."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def readable(text: str, tokens: int) -> str:
    """A text the tokenizer accepts, and not much more of it than `tokens` tokens."""
    return text[: tokens * _CHARS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")
