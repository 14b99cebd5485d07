"""ONNX runtime: choice of the provider (MODELS__PROVIDER), loading of a network, and the thread that owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import ModelUnavailable, RagError

CPU_PROVIDER = "CPUExecutionProvider"


def choose_onnx_providers(name: str) -> list[str]:
    """Providers of a session, the wanted one first. Raises ModelUnavailable for one that this build lacks."""
    # Imported here: a process without models does not pay for it.
    from onnxruntime import get_available_providers

    known = get_available_providers()
    if name not in known:
        raise ModelUnavailable(f"MODELS__PROVIDER is {name}, and onnxruntime has here: {', '.join(known)}.")
    return [name] if name == CPU_PROVIDER else [name, CPU_PROVIDER]  # the CPU runs operators the wanted one lacks


def load_onnx_model(
    folder: Path, file: str, max_tokens: int, threads: int, providers: list[str]
) -> Callable[[Sequence[str | tuple[str, str]]], NDArray[np.floating[Any]]]:
    """Load the tokenizer and the network of a model: a function from a batch of texts, or of pairs, to its output.

    Nothing is downloaded, and nothing else is imported: fastembed would take half a second of every start.
    """
    from onnxruntime import InferenceSession, SessionOptions
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    direction = (tokenizer.truncation or {}).get("direction", "right")
    tokenizer.enable_truncation(max_length=max_tokens, direction=direction)
    pad = next((token for token in ("<pad>", "[PAD]") if tokenizer.token_to_id(token) is not None), "[PAD]")
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)  # to the longest of a batch
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    network = InferenceSession(str(folder / file), options, providers=providers)
    wanted = {node.name for node in network.get_inputs()}

    def run(batch: Sequence[str | tuple[str, str]]) -> NDArray[np.floating[Any]]:
        encoded = tokenizer.encode_batch(batch)
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        given = {
            name: np.array([getattr(one, column) for one in encoded], np.int64)
            for name, column in columns.items()
            if name in wanted
        }
        return np.asarray(network.run(None, given)[0])

    return run


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
        except Exception as exc:  # tokenizers and onnxruntime raise various plain exceptions
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
