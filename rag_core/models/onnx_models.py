"""ONNX models: choice of the provider (MODELS__PROVIDER), loading of a network, and the thread that owns it.

Hub models run in fastembed, imported with the first of them. The offline ones, which no catalog of fastembed has,
are run by onnxruntime itself: fastembed would add half a second to every start of a machine without hub models.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock, get_native_id
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import ModelUnavailable, RagError
from rag_core.models.catalog import ModelSpec, Pooling
from rag_core.process_memory_release import release_free_memory

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from fastembed.rerank.cross_encoder import TextCrossEncoder
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

CPU_PROVIDER = "CPUExecutionProvider"
_REGISTRATION_LOCK = Lock()  # fastembed's list of models is global in the process


def choose_onnx_providers(name: str) -> list[str]:
    """Providers of a session, the wanted one first. Raises ModelUnavailable for one that this build lacks."""
    # Imported here: a process without models does not pay for it.
    from onnxruntime import get_available_providers

    known = get_available_providers()
    if name not in known:
        raise ModelUnavailable(f"MODELS__PROVIDER is {name}: choose one that onnxruntime has here, {', '.join(known)}.")
    return [name] if name == CPU_PROVIDER else [name, CPU_PROVIDER]  # the CPU runs operators the wanted one lacks


class OfflineModel:
    """Tokenizer and network of an offline model, run by onnxruntime itself."""

    def __init__(self, tokenizer: Tokenizer, network: InferenceSession) -> None:
        self.tokenizer, self._network = tokenizer, network
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        self._columns = {node.name: columns[node.name] for node in network.get_inputs()}

    def __call__(self, batch: Sequence[str | tuple[str, str]]) -> NDArray[np.floating[Any]]:
        """Output for a batch of texts, or of pairs."""
        return self._run(self.tokenizer.encode_batch(batch))

    def run_with_offsets(self, text: str) -> tuple[NDArray[np.floating[Any]], NDArray[np.int64]]:
        """Output for the tokens of one text, and the offsets of each in it: shape (tokens, 2)."""
        encoded = self.tokenizer.encode(text)
        return self._run([encoded])[0], np.array(encoded.offsets, np.int64)

    def _run(self, encoded: Sequence[Encoding]) -> NDArray[np.floating[Any]]:
        columns = self._columns.items()
        given = {name: np.array([getattr(one, column) for one in encoded], np.int64) for name, column in columns}
        return np.asarray(self._network.run(None, given)[0])


def load_offline_model(folder: Path, row: ModelSpec, session: dict[str, Any]) -> OfflineModel:
    """Load the tokenizer and the network of a model."""
    from onnxruntime import InferenceSession, SessionOptions
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=row.max_tokens)
    pad = next((token for token in ("<pad>", "[PAD]") if tokenizer.token_to_id(token) is not None), "[PAD]")
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)  # to the longest of a batch
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = session["threads"]
    # Threads that wait busily for the next operator cost a short question three times its own processor time.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    network = InferenceSession(str(folder / row.file), options, providers=session["providers"])
    release_free_memory()  # a tenth of what loading took: of the vocabulary as JSON, of weights before their packing
    return OfflineModel(tokenizer, network)


def load_text_embedding(folder: Path, row: ModelSpec, session: dict[str, Any]) -> TextEmbedding:
    """Load an embedding model with fastembed."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import PoolingType

    pooling = {Pooling.MEAN: PoolingType.MEAN, Pooling.CLS: PoolingType.CLS, Pooling.NONE: PoolingType.DISABLED}
    model: TextEmbedding = _load_with_fastembed(
        TextEmbedding,
        f"{row.name}-{row.pooling}-{row.dimension}",
        folder,
        row,
        session,
        pooling=pooling[row.pooling],
        normalization=False,  # done by the caller, with a check for zero and infinite lengths
        dim=row.dimension,
    )
    tokenizer = model.model.tokenizer  # type: ignore[attr-defined]  # every ONNX model of fastembed has one
    direction = (tokenizer.truncation or {}).get("direction", "right")
    tokenizer.enable_truncation(max_length=row.max_tokens, direction=direction)
    return model


def load_cross_encoder(folder: Path, row: ModelSpec, session: dict[str, Any]) -> TextCrossEncoder:
    """Load a cross-encoder with fastembed."""
    from fastembed.rerank.cross_encoder import TextCrossEncoder

    model: TextCrossEncoder = _load_with_fastembed(TextCrossEncoder, row.name, folder, row, session)
    # longest first: the text is cut, not the question
    model.model.tokenizer.enable_truncation(max_length=row.max_tokens, strategy="longest_first")  # type: ignore[attr-defined]
    return model


def _load_with_fastembed(
    kind: Any, name: str, folder: Path, row: ModelSpec, session: dict[str, Any], **about: Any
) -> Any:
    """Register a model, described by `about`, and load it. With a path and local_files_only no hub is contacted."""
    from fastembed.common.model_description import ModelSource

    name = f"citegram/{name}".lower()
    source = ModelSource(hf=name)  # required, never used
    with _REGISTRATION_LOCK:
        if name not in {known["model"].lower() for known in kind.list_supported_models()}:
            kind.add_custom_model(model=name, sources=source, model_file=row.file, **about)
    return kind(name, specific_model_path=str(folder), local_files_only=True, cache_dir=str(folder), **session)


T = TypeVar("T")

# A token is rarely longer; text beyond this would be truncated after tokenising anyway.
_MAX_CHARS_PER_TOKEN = 16


# Against one busy thread the background gets a quarter of a processor, of an idle machine everything.
_BACKGROUND_NICENESS = 5


class OnnxThread:
    """Executor of one model, beside the event loop and other models: a thread for questions, which runs calls one after
    another, and one of lower priority for work in the background, which no question waits for.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._pools: tuple[ThreadPoolExecutor, ...] = (
            ThreadPoolExecutor(1, thread_name_prefix=name),
            ThreadPoolExecutor(1, thread_name_prefix=f"{name} background", initializer=_lower_thread_priority),
        )

    async def run(self, work: Callable[..., T], *given: Any, background: bool = False) -> T:
        """Call `work` in a thread. Raises ModelUnavailable for any failure there, and after `close`."""
        if not self._pools:
            raise ModelUnavailable(f"The model {self.name} is closed: Citegram is stopping.")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pools[background], work, *given)
        except RagError:
            raise
        except Exception as exc:  # fastembed, tokenizers and onnxruntime raise various plain exceptions
            raise self.broken(f"cannot be used ({exc})") from exc

    def broken(self, what: str) -> ModelUnavailable:
        """Error for a model that does not work, with a sentence that says what to do."""
        return ModelUnavailable(f"The model {self.name} {what}: run citegram models pull {self.name} again.")

    async def close(self) -> None:
        """End the threads after their current calls; waiting calls are cancelled."""
        pools, self._pools = self._pools, ()
        for pool in pools:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


def _lower_thread_priority() -> None:
    """Lower the priority of this thread and of those that it starts: onnxruntime's, where it loads a network."""
    if sys.platform == "linux":  # elsewhere a thread has none of its own
        os.setpriority(os.PRIO_PROCESS, get_native_id(), _BACKGROUND_NICENESS)


def trim_for_tokenizer(text: str, tokens: int) -> str:
    """Cut a text to little more than `tokens` tokens, and replace characters that the tokenizer rejects."""
    return text[: tokens * _MAX_CHARS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")
