"""Embedding models: texts to unit vectors, in a thread of their own.

Nothing is downloaded here: the model's folder is given (`rag_core.models.download` fills it). Several models for one
language each can share one vector: each text goes by its language into that model's block, and the rest is zero, so
that texts of different languages are orthogonal.

The thread that owns a model (`OnnxThread`) and the choice of the ONNX provider (MODELS__PROVIDER) are shared with
the reranker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_core.models.catalog import ModelSpec, PackageSource, Pooling
from rag_core.models.model_files import check_model_files
from rag_core.models.onnx_models import (
    CPU_PROVIDER,
    OnnxThread,
    choose_onnx_providers,
    load_offline_model,
    load_text_embedding,
    trim_for_tokenizer,
)
from rag_core.text.language_detection import detect_language

EmbeddingArray = NDArray[np.float32]

_BATCH_TEXTS = 8  # texts embedded before a waiting question is embedded
_SAMPLE_TEXT = "A ferry leaves at half past seven. Паром уходит в половине восьмого."


class Embedder:
    """Embedding model: texts to vectors of unit length. Vectors of models with different names are not comparable."""

    def __init__(self, row: ModelSpec, networks: Sequence[_EmbeddingNetwork], thread: OnnxThread) -> None:
        self._networks, self._thread = networks, thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        """Embed posts: shape (len(texts), dimension), in the order of the texts."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        chosen = await asyncio.to_thread(self._choose_networks, texts)
        for network in self._networks:
            rows = [i for i, one in enumerate(chosen) if one is network]
            for first in range(0, len(rows), _BATCH_TEXTS):
                batch = rows[first : first + _BATCH_TEXTS]
                given = [network.row.passage_prefix + texts[i] for i in batch]
                vectors[batch, network.block] = await self._thread.run(network.embed_texts, given)
        return vectors

    async def query(self, text: str) -> EmbeddingArray:
        """Embed a question: shape (dimension,). Waits for one batch of passages at most."""
        (network,) = self._choose_networks([text])
        vector = np.zeros(self.dimension, np.float32)
        vector[network.block] = (await self._thread.run(network.embed_texts, [network.row.query_prefix + text]))[0]
        return vector

    async def close(self) -> None:
        """Release the model and its thread."""
        await self._thread.close()

    def _choose_networks(self, texts: Sequence[str]) -> list[_EmbeddingNetwork]:
        """Choose the network of each text by its language; the first for an unknown language."""
        by_language = {lang: network for network in self._networks for lang in network.row.languages}
        return [by_language.get(detect_language(text[:1000]), self._networks[0]) for text in texts]


async def open_embedder(model: ModelSpec, folder: Path, threads: int = 2, provider: str = CPU_PROVIDER) -> Embedder:
    """Load an embedding model from its folder; one without parts embeds a text at once.

    Raises ModelUnavailable where files are missing or changed, the vectors have another dimension than the row says,
    or onnxruntime has no such provider.
    """
    thread = OnnxThread(model.name)
    try:
        session = {"threads": threads, "providers": await thread.run(choose_onnx_providers, provider)}
        await thread.run(check_model_files, model, folder)
        networks: list[_EmbeddingNetwork] = []
        first = 0
        for row, place in [(part, folder / part.name) for part in model.parts] or [(model, folder)]:
            networks.append(_EmbeddingNetwork(row, place, session, thread, slice(first, first + row.dimension)))
            first += row.dimension
        if not model.parts:
            await thread.run(networks[0].embed_texts, [_SAMPLE_TEXT])
        return Embedder(model, networks, thread)
    except BaseException:
        await thread.close()
        raise


class _EmbeddingNetwork:
    """Network that fills one block of the vector, for texts of `row.languages`.

    It is loaded with its first text: a process that reads one language loads no other.
    """

    def __init__(self, row: ModelSpec, folder: Path, session: dict[str, Any], thread: OnnxThread, block: slice) -> None:
        self.row, self.block = row, block
        self._folder, self._session, self._thread = folder, session, thread
        self._embed: Callable[[list[str]], Iterable[NDArray[Any]]] | None = None

    def embed_texts(self, texts: list[str]) -> EmbeddingArray:
        """Embed texts to unit vectors, in the thread. Raises ModelUnavailable for zero or infinite vectors."""
        if self._embed is None:
            self._embed = self._load_network()
        trimmed = [trim_for_tokenizer(text, self.row.max_tokens) for text in texts]
        # One text at a time: in a batch its vector would depend on the others, which may be of closed channels. On a
        # CPU it costs nothing: no text is padded to the longest of its batch.
        vectors: EmbeddingArray = np.array(list(self._embed(trimmed)), np.float32)
        if vectors.shape[1] != self.row.dimension:
            raise self._thread.broken(f"makes vectors of {vectors.shape[1]} numbers instead of {self.row.dimension}")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise self._thread.broken("makes vectors without a length")
        units: EmbeddingArray = vectors / lengths
        return units

    def _load_network(self) -> Callable[[list[str]], Iterable[NDArray[Any]]]:
        if not isinstance(self.row.source, PackageSource):
            model = load_text_embedding(self._folder, self.row, self._session)
            return lambda texts: model.embed(texts, batch_size=1)
        run = load_offline_model(self._folder, self.row, self._session)
        if self.row.pooling is Pooling.NONE:
            return lambda texts: (run([text])[0] for text in texts)
        return lambda texts: (run([text])[0].mean(axis=0, dtype=np.float64) for text in texts)
