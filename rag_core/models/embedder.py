"""Embedding models: texts to unit vectors, in a thread of their own.

Nothing is downloaded here: the model's folder is given (`rag_core.models.download` fills it). Several models for one
language each can share one vector: each text goes by its language into that model's block, and the rest is zero, so
that texts of different languages are orthogonal.

The thread that owns a model (`OnnxThread`) and the choice of the ONNX provider (MODELS__PROVIDER) are shared with
the reranker.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_core.models.catalog import ModelSpec, PackageSource, Pooling, check_model_files
from rag_core.models.onnx_models import (
    CPU_PROVIDER,
    OnnxThread,
    choose_onnx_providers,
    load_offline_model,
    load_text_embedding,
    trim_for_tokenizer,
)
from rag_core.text.tokens import detect_language

EmbeddingArray = NDArray[np.float32]

_BATCH_TEXTS = 8  # texts embedded before a waiting question is embedded
_SAMPLE_TEXT = "A ferry leaves at half past seven. Паром уходит в половине восьмого."


class Embedder(ABC):
    """Embedding model: texts to vectors of unit length. Vectors of models with different names are not comparable."""

    def __init__(self, row: ModelSpec, thread: OnnxThread) -> None:
        self._thread = thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages

    @abstractmethod
    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        """Embed posts: shape (len(texts), dimension), in the order of the texts."""

    @abstractmethod
    async def query(self, text: str) -> EmbeddingArray:
        """Embed a question: shape (dimension,). Waits for one batch of passages at most."""

    async def close(self) -> None:
        """Release the model and its thread."""
        await self._thread.close()


async def open_embedder(model: ModelSpec, folder: Path, threads: int = 2, provider: str = CPU_PROVIDER) -> Embedder:
    """Load an embedding model from its folder and embed one text with it.

    Raises ModelUnavailable where files are missing or changed, the vectors have another dimension than the row says,
    or onnxruntime has no such provider.
    """
    thread = OnnxThread(model.name)
    try:
        session = {"threads": threads, "providers": await thread.run(choose_onnx_providers, provider)}
        rows = {row.name: (row, folder / row.name) for row in model.parts} or {model.name: (model, folder)}
        for row, place in rows.values():
            await thread.run(check_model_files, row, place, model.name)
        parts = [_SingleEmbedder(row, place, session, thread) for row, place in rows.values()]
        if model.parts:
            return _PerLanguageEmbedder(model, parts, thread)
        await thread.run(parts[0].embed_texts, [_SAMPLE_TEXT])
        return parts[0]
    except BaseException:
        await thread.close()
        raise


class _SingleEmbedder(Embedder):
    """Embedder of one model, loaded with its first text: a process that reads one language loads no other."""

    def __init__(self, row: ModelSpec, folder: Path, session: dict[str, Any], thread: OnnxThread) -> None:
        super().__init__(row, thread)
        self._row, self._folder, self._session = row, folder, session
        self._embed: Callable[[list[str]], Iterable[NDArray[Any]]] | None = None

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for first in range(0, len(texts), _BATCH_TEXTS):
            batch = [self._row.passage_prefix + text for text in texts[first : first + _BATCH_TEXTS]]
            vectors[first : first + _BATCH_TEXTS] = await self._thread.run(self.embed_texts, batch)
        return vectors

    async def query(self, text: str) -> EmbeddingArray:
        vector: EmbeddingArray = (await self._thread.run(self.embed_texts, [self._row.query_prefix + text]))[0]
        return vector

    def embed_texts(self, texts: list[str]) -> EmbeddingArray:
        """Embed texts to unit vectors, in the thread. Raises ModelUnavailable for zero or infinite vectors."""
        if self._embed is None:
            self._embed = self._load_network()
        trimmed = [trim_for_tokenizer(text, self._row.max_tokens) for text in texts]
        # One text at a time: in a batch its vector would depend on the others, which may be of closed channels. On a
        # CPU it costs nothing: no text is padded to the longest of its batch.
        vectors: EmbeddingArray = np.array(list(self._embed(trimmed)), np.float32)
        if vectors.shape[1] != self.dimension:
            raise self._thread.broken(f"makes vectors of {vectors.shape[1]} numbers instead of {self.dimension}")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise self._thread.broken("makes vectors without a length")
        units: EmbeddingArray = vectors / lengths
        return units

    def _load_network(self) -> Callable[[list[str]], Iterable[NDArray[Any]]]:
        if not isinstance(self._row.source, PackageSource):
            model = load_text_embedding(self._folder, self._row, self._session)
            return lambda texts: model.embed(texts, batch_size=1)
        run = load_offline_model(self._folder, self._row, self._session)
        if self._row.pooling is Pooling.NONE:
            return lambda texts: (run([text])[0] for text in texts)
        return lambda texts: (run([text])[0].mean(axis=0, dtype=np.float64) for text in texts)


class _PerLanguageEmbedder(Embedder):
    """Models for one language each, which share one thread and one vector in blocks."""

    def __init__(self, row: ModelSpec, parts: Sequence[_SingleEmbedder], thread: OnnxThread) -> None:
        super().__init__(row, thread)
        self._parts = parts
        ends = np.cumsum([part.dimension for part in parts])
        self._blocks = [slice(int(end) - part.dimension, int(end)) for end, part in zip(ends, parts, strict=True)]

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        assigned = await asyncio.to_thread(self._assign_parts, texts)
        for number, (part, block) in enumerate(zip(self._parts, self._blocks, strict=True)):
            rows = [i for i, owner in enumerate(assigned) if owner == number]
            vectors[rows, block] = await part.passages([texts[i] for i in rows])
        return vectors

    async def query(self, text: str) -> EmbeddingArray:
        (number,) = self._assign_parts([text])
        vector = np.zeros(self.dimension, np.float32)
        vector[self._blocks[number]] = await self._parts[number].query(text)
        return vector

    def _assign_parts(self, texts: Sequence[str]) -> list[int]:
        """Assign each text to a model by language; to the first for an unknown language."""
        by_language = {lang: n for n, part in enumerate(self._parts) for lang in part.languages}
        return [by_language.get(detect_language(text[:1000]), 0) for text in texts]
