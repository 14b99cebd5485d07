"""ONNX runtime: choice of the provider (MODELS__PROVIDER), and the thread that owns a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from rag_core.errors import ModelUnavailable, RagError

__all__ = ["CPU_PROVIDER", "OnnxThread", "choose_onnx_providers", "trim_for_tokenizer"]

CPU_PROVIDER = "CPUExecutionProvider"


def choose_onnx_providers(name: str) -> list[str]:
    """Providers of a session, the wanted one first. Raises ModelUnavailable for one that this build lacks."""
    # Imported here: a process without models does not pay for it. fastembed installs it.
    from onnxruntime import get_available_providers

    known = get_available_providers()
    if name not in known:
        raise ModelUnavailable(f"MODELS__PROVIDER is {name}, and onnxruntime has here: {', '.join(known)}.")
    return [name] if name == CPU_PROVIDER else [name, CPU_PROVIDER]  # the CPU runs operators the wanted one lacks


T = TypeVar("T")

# A token is rarely longer; text beyond this would be truncated after tokenising anyway.
_MAX_CHARS_PER_TOKEN = 16


class OnnxThread:
    """Single-thread executor of one model: calls run one after another, beside the event loop and other models."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Call `work` in the thread. Raises ModelUnavailable for any failure there, and after `close`."""
        if self._pool is None:
            raise ModelUnavailable(f"The model {self.name} is closed: Citegram is stopping.")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)
        except RagError:
            raise
        except Exception as exc:  # fastembed, tokenizers and onnxruntime raise various plain exceptions
            raise self.broken(f"cannot be used ({exc})") from exc

    def broken(self, what: str) -> ModelUnavailable:
        """Error for a model that does not work, with a sentence that says what to do."""
        return ModelUnavailable(f"The model {self.name} {what}: run citegram models pull {self.name} again.")

    async def close(self) -> None:
        """End the thread after its current call; waiting calls are cancelled."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def trim_for_tokenizer(text: str, tokens: int) -> str:
    """Cut a text to little more than `tokens` tokens, and replace characters that the tokenizer rejects."""
    return text[: tokens * _MAX_CHARS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")
