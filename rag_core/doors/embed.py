"""Texts to vectors with fastembed: prefixes, batches, a thread of its own, and checks of what comes out.

Nothing is fetched here: the model's folder is given (`rag_core.doors.pull` fills it). Several models for
one language each can share one vector: each text goes by its language into that model's block, the rest
is zero, so that texts of different languages are at right angles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_core.analysis import language_of
from rag_core.doors.model_folder import check
from rag_core.doors.onnx_provider import CPU, checked_provider
from rag_core.doors.onnx_thread import REGISTERING, OnnxThread, readable
from rag_core.models import ModelRow, Pooling

if TYPE_CHECKING:
    from fastembed import TextEmbedding

__all__ = ["Embedder", "open_embedder"]

Vectors = NDArray[np.float32]

# Texts at a time. Beside others a text is padded, and a model in 8 bits may take one scale for all of them: its vector
# would depend on the posts of other channels. MiniLM takes 22 ms of a post either way, navec 1 ms instead of 0.7.
_BATCH = 1
_SAMPLE = "A ferry leaves at half past seven. Паром уходит в половине восьмого."


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

    async def passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of posts, shape (len(texts), dimension), in the order of the texts."""

    async def query(self, text: str) -> Vectors:
        """The vector of a question, shape (dimension,). Waits for one batch of passages at most."""

    async def close(self) -> None:
        """Let go of the model and its thread."""


async def open_embedder(model: ModelRow, folder: Path, threads: int = 2, provider: str = CPU) -> Embedder:
    """Load the model of a row from its folder and embed one text with it.

    Raises ModelUnavailable where files are missing or changed, the vectors have another dimension than the row says,
    or onnxruntime has no such provider.
    """
    thread = OnnxThread(model.name)
    try:
        session = {"threads": threads, "providers": await thread.run(checked_provider, provider)}
        if not model.parts:
            return await _open_one(model, folder, session, thread)
        parts = [await _open_one(part, folder / part.name, session, thread) for part in model.parts]
        return _ByLanguage(model, parts, thread)
    except BaseException:
        await thread.close()
        raise


async def _open_one(row: ModelRow, folder: Path, session: dict[str, Any], thread: OnnxThread) -> _One:
    await thread.run(check, row, folder, thread.name)
    one = _One(row, await thread.run(_loaded, row, folder, session), thread)
    (vector,) = await thread.run(one.embedded, [_SAMPLE])
    if len(vector) != row.dimension:
        raise thread.broken(f"makes vectors of {len(vector)} numbers instead of {row.dimension}")
    return one


def _loaded(row: ModelRow, folder: Path, session: dict[str, Any]) -> TextEmbedding:
    # Half a second of imports that a process without an embedder is spared.
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    pooling = {Pooling.MEAN: PoolingType.MEAN, Pooling.CLS: PoolingType.CLS, Pooling.NONE: PoolingType.DISABLED}
    name = f"citegram/{row.name}-{row.pooling}-{row.dimension}".lower()
    with REGISTERING:
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


class _One:
    """One model in its thread."""

    def __init__(self, row: ModelRow, model: TextEmbedding, thread: OnnxThread) -> None:
        self._row, self._model, self._thread = row, model, thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages

    async def passages(self, texts: Sequence[str]) -> Vectors:
        found = np.empty((len(texts), self.dimension), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for first in range(0, len(order), _BATCH):
            batch = order[first : first + _BATCH]
            # one call for each batch, so that a question gets in between
            given = [self._row.passage_prefix + texts[i] for i in batch]
            found[batch] = await self._thread.run(self.embedded, given)
        return found

    async def query(self, text: str) -> Vectors:
        vector: Vectors = (await self._thread.run(self.embedded, [self._row.query_prefix + text]))[0]
        return vector

    async def close(self) -> None:
        await self._thread.close()

    def embedded(self, texts: list[str]) -> Vectors:
        """Vectors of unit length; runs in the thread. Raises ModelUnavailable for vectors that cannot be compared."""
        given = [readable(text, self._row.max_tokens) for text in texts]
        vectors: Vectors = np.array(list(self._model.embed(given, batch_size=_BATCH)), np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise self._thread.broken("makes vectors without a length")
        units: Vectors = vectors / lengths
        return units


class _ByLanguage:
    """Models for one language each, which share one thread and one vector."""

    def __init__(self, row: ModelRow, parts: Sequence[_One], thread: OnnxThread) -> None:
        self._parts, self._thread = parts, thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages
        ends = np.cumsum([part.dimension for part in parts])
        self._blocks = [slice(int(end) - part.dimension, int(end)) for end, part in zip(ends, parts, strict=True)]

    async def passages(self, texts: Sequence[str]) -> Vectors:
        found = np.zeros((len(texts), self.dimension), np.float32)
        whose = await asyncio.to_thread(self._whose, texts)
        for number, (part, block) in enumerate(zip(self._parts, self._blocks, strict=True)):
            mine = [i for i, owner in enumerate(whose) if owner == number]
            found[mine, block] = await part.passages([texts[i] for i in mine])
        return found

    async def query(self, text: str) -> Vectors:
        (number,) = self._whose([text])
        found = np.zeros(self.dimension, np.float32)
        found[self._blocks[number]] = await self._parts[number].query(text)
        return found

    async def close(self) -> None:
        await self._thread.close()

    def _whose(self, texts: Sequence[str]) -> list[int]:
        """Which model each text goes to; the first for a language nobody knows."""
        by_language = {lang: n for n, part in enumerate(self._parts) for lang in part.languages}
        return [by_language.get(language_of(text[:1000]), 0) for text in texts]
