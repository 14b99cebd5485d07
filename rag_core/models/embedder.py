"""Embedding models: texts to unit vectors with fastembed and onnxruntime, in a thread of their own.

Nothing is downloaded here: the model's folder is given (`rag_core.models.download` fills it). Several models for one
language each can share one vector: each text goes by its language into that model's block, and the rest is zero, so
that texts of different languages are orthogonal.

The thread that owns a model (`OnnxThread`) and the choice of the ONNX provider (MODELS__PROVIDER) are shared with
the reranker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_core.models.catalog import ModelSpec, Pooling
from rag_core.models.model_folder import check_model_files
from rag_core.models.onnx_runtime import (
    CPU_PROVIDER,
    REGISTRATION_LOCK,
    OnnxThread,
    choose_onnx_providers,
    trim_for_tokenizer,
)
from rag_core.text.tokens import detect_language

if TYPE_CHECKING:
    from fastembed import TextEmbedding

__all__ = ["Embedder", "open_embedder"]

EmbeddingArray = NDArray[np.float32]

_BATCH_TEXTS = 8  # texts embedded before a question gets in between
_SAMPLE_TEXT = "A ferry leaves at half past seven. Паром уходит в половине восьмого."


class Embedder(Protocol):
    """Texts to vectors of unit length."""

    @property
    def name(self) -> str:
        """The name of the model: vectors of different names do not belong together."""

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""

    @property
    def languages(self) -> frozenset[str]:
        """Languages the model knows."""

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        """Vectors of posts, shape (len(texts), dimension), in the order of the texts."""

    async def query(self, text: str) -> EmbeddingArray:
        """The vector of a question, shape (dimension,). Waits for one batch of passages at most."""

    async def close(self) -> None:
        """Let go of the model and its thread."""


async def open_embedder(model: ModelSpec, folder: Path, threads: int = 2, provider: str = CPU_PROVIDER) -> Embedder:
    """Load the model of a row from its folder and embed one text with it.

    Raises ModelUnavailable where files are missing or changed, the vectors have another dimension than the row says,
    or onnxruntime has no such provider.
    """
    thread = OnnxThread(model.name)
    try:
        session = {"threads": threads, "providers": await thread.run(choose_onnx_providers, provider)}
        if not model.parts:
            return await _open_single_embedder(model, folder, session, thread)
        parts = [await _open_single_embedder(part, folder / part.name, session, thread) for part in model.parts]
        return _PerLanguageEmbedder(model, parts, thread)
    except BaseException:
        await thread.close()
        raise


async def _open_single_embedder(
    row: ModelSpec, folder: Path, session: dict[str, Any], thread: OnnxThread
) -> _SingleEmbedder:
    await thread.run(check_model_files, row, folder, thread.name)
    one = _SingleEmbedder(row, await thread.run(_load_text_embedding, row, folder, session), thread)
    (vector,) = await thread.run(one.embedded, [_SAMPLE_TEXT])
    if len(vector) != row.dimension:
        raise thread.broken(f"makes vectors of {len(vector)} numbers instead of {row.dimension}")
    return one


def _load_text_embedding(row: ModelSpec, folder: Path, session: dict[str, Any]) -> TextEmbedding:
    # Half a second of imports that a process without an embedder is spared.
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    pooling = {Pooling.MEAN: PoolingType.MEAN, Pooling.CLS: PoolingType.CLS, Pooling.NONE: PoolingType.DISABLED}
    name = f"citegram/{row.name}-{row.pooling}-{row.dimension}".lower()
    with REGISTRATION_LOCK:
        if name not in {known["model"].lower() for known in TextEmbedding.list_supported_models()}:
            TextEmbedding.add_custom_model(
                model=name,
                pooling=pooling[row.pooling],
                normalization=False,  # we do, and look at what there is to divide by
                sources=ModelSource(hf=name),  # must be there, is never asked
                dim=row.dimension,
                model_file=row.file,
            )
    # A given path and local_files_only: the hub is not asked, whatever the environment says.
    model = TextEmbedding(
        name, specific_model_path=str(folder), local_files_only=True, cache_dir=str(folder), **session
    )
    tokenizer = model.model.tokenizer  # type: ignore[attr-defined]  # every ONNX model of fastembed has one
    direction = (tokenizer.truncation or {}).get("direction", "right")
    tokenizer.enable_truncation(max_length=row.max_tokens, direction=direction)
    return model


class _SingleEmbedder:
    """One model in its thread."""

    def __init__(self, row: ModelSpec, model: TextEmbedding, thread: OnnxThread) -> None:
        self._row, self._model, self._thread = row, model, thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        found = np.empty((len(texts), self.dimension), np.float32)
        for first in range(0, len(texts), _BATCH_TEXTS):
            given = [self._row.passage_prefix + text for text in texts[first : first + _BATCH_TEXTS]]
            found[first : first + _BATCH_TEXTS] = await self._thread.run(self.embedded, given)
        return found

    async def query(self, text: str) -> EmbeddingArray:
        vector: EmbeddingArray = (await self._thread.run(self.embedded, [self._row.query_prefix + text]))[0]
        return vector

    async def close(self) -> None:
        await self._thread.close()

    def embedded(self, texts: list[str]) -> EmbeddingArray:
        """Vectors of unit length; runs in the thread. Raises ModelUnavailable for vectors that cannot be compared."""
        given = [trim_for_tokenizer(text, self._row.max_tokens) for text in texts]
        # One text at a time: in a batch its vector would depend on the others, which may be of closed channels. On a
        # CPU it costs nothing: no text is padded to the longest of its batch.
        vectors: EmbeddingArray = np.array(list(self._model.embed(given, batch_size=1)), np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise self._thread.broken("makes vectors without a length")
        units: EmbeddingArray = vectors / lengths
        return units


class _PerLanguageEmbedder:
    """Models for one language each, which share one thread and one vector."""

    def __init__(self, row: ModelSpec, parts: Sequence[_SingleEmbedder], thread: OnnxThread) -> None:
        self._parts, self._thread = parts, thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages
        ends = np.cumsum([part.dimension for part in parts])
        self._blocks = [slice(int(end) - part.dimension, int(end)) for end, part in zip(ends, parts, strict=True)]

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        found = np.zeros((len(texts), self.dimension), np.float32)
        whose = await asyncio.to_thread(self._whose, texts)
        for number, (part, block) in enumerate(zip(self._parts, self._blocks, strict=True)):
            mine = [i for i, owner in enumerate(whose) if owner == number]
            found[mine, block] = await part.passages([texts[i] for i in mine])
        return found

    async def query(self, text: str) -> EmbeddingArray:
        (number,) = self._whose([text])
        found = np.zeros(self.dimension, np.float32)
        found[self._blocks[number]] = await self._parts[number].query(text)
        return found

    async def close(self) -> None:
        await self._thread.close()

    def _whose(self, texts: Sequence[str]) -> list[int]:
        """Which model each text goes to; the first for a language nobody knows."""
        by_language = {lang: n for n, part in enumerate(self._parts) for lang in part.languages}
        return [by_language.get(detect_language(text[:1000]), 0) for text in texts]
