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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rag_core.models.catalog import ModelSpec, PackageSource, Pooling
from rag_core.models.model_files import check_model_files
from rag_core.models.onnx_models import (
    CPU_PROVIDER,
    OfflineModel,
    OnnxThread,
    choose_onnx_providers,
    load_offline_model,
    load_text_embedding,
    trim_for_tokenizer,
)
from rag_core.models.token_similarity import PassageSimilarity, TokenVectors
from rag_core.text.language_detection import detect_language
from rag_core.text.tokens import stem

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EmbeddingArray = NDArray[np.float32]

_CENTRE_LANGUAGES = ("ru", "en")  # of the file of mean vectors, as in `ModelSpec.centres`
_QUERY, _PASSAGE = 0, 1
_SAMPLE_TEXT = "A ferry leaves at half past seven. Паром уходит в половине восьмого."


class Embedder:
    """Embedding model: texts to vectors of unit length. Vectors of models with different names are not comparable."""

    def __init__(self, row: ModelSpec, networks: Sequence[_EmbeddingNetwork], thread: OnnxThread) -> None:
        self._networks, self._thread = networks, thread
        self.name, self.dimension, self.languages = row.name, row.dimension, row.languages

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        """Embed posts: shape (len(texts), dimension), in the order of the texts."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        languages = await asyncio.to_thread(lambda: [detect_language(text[:1000]) for text in texts])
        for network in self._networks:
            rows = [i for i, lang in enumerate(languages) if self._choose_network(lang) is network]
            for i in rows:
                one = [texts[i]], [languages[i]]
                vectors[i, network.block] = await self._thread.run(network.embed_passages, *one, background=True)
        return vectors

    async def query(self, text: str) -> EmbeddingArray:
        """Embed a question: shape (dimension,). Waits for no passage."""
        lang = detect_language(text[:1000])
        network = self._choose_network(lang)
        if not network.loaded:
            await self._thread.run(network.load, background=True)
        vector = np.zeros(self.dimension, np.float32)
        vector[network.block] = await self._thread.run(network.embed_query, text, lang)
        return vector

    async def compare(self, question: str, texts: Sequence[str]) -> list[PassageSimilarity]:
        """Compare a question with the tokens of posts; for an offline model with centres only."""
        network = self._networks[0]
        asked = await self._thread.run(network.embed_tokens, question, _QUERY)
        return [
            PassageSimilarity(asked, await self._thread.run(network.embed_tokens, text, _PASSAGE)) for text in texts
        ]

    def has_word(self, word: str) -> bool:
        """Whether the vocabulary holds an English word or its stem whole; true before the model is loaded.

        Of a word that it seldom met it has only pieces.
        """
        return self._choose_network("en").has_word(word)

    async def close(self) -> None:
        """Release the model and its thread."""
        await self._thread.close()

    def _choose_network(self, lang: str) -> _EmbeddingNetwork:
        """Choose the network of a language; the first for an unknown one."""
        return next((network for network in self._networks if lang in network.row.languages), self._networks[0])


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
            await thread.run(networks[0].embed_passages, [_SAMPLE_TEXT], ["en"], background=True)
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
        self._centres = np.load(Path(__file__).with_name(row.centres)) if row.centres else None
        self._embed: Callable[[list[str]], Iterable[NDArray[Any]]] | None = None
        self._offline: OfflineModel | None = None
        self._tokenizer: Tokenizer | None = None

    def embed_passages(self, texts: Sequence[str], languages: Sequence[str]) -> EmbeddingArray:
        """Embed posts to unit vectors, in the background. Raises ModelUnavailable for zero or infinite vectors."""
        self.load()
        return self._center(self._embed_texts([self.row.passage_prefix + text for text in texts]), languages, _PASSAGE)

    def embed_query(self, text: str, lang: str) -> EmbeddingArray:
        """Embed a question to a unit vector, in the thread; the network is loaded. Raises as `embed_passages`."""
        vector: EmbeddingArray = self._center(self._embed_texts([self.row.query_prefix + text]), [lang], _QUERY)[0]
        return vector

    def embed_tokens(self, text: str, kind: int) -> TokenVectors:
        """Embed the tokens of a text, centred by its language, in the thread; an offline model with centres only."""
        assert self._offline is not None  # loaded as the model was opened
        assert self._centres is not None
        prefix = (self.row.query_prefix, self.row.passage_prefix)[kind]
        output, offsets = self._offline.run_with_offsets(trim_for_tokenizer(prefix + text, self.row.max_tokens))
        own = offsets[:, 1] > len(prefix)  # neither the prefix nor the marks of begin and end, which span nothing
        centre = self._centres[kind, _CENTRE_LANGUAGES.index(detect_language(text[:1000]))]
        return TokenVectors((output[own] - centre).astype(np.float32), offsets[own] - len(prefix))

    def has_word(self, word: str) -> bool:
        """Whether the vocabulary holds a word or its stem as one piece; true before the network is loaded."""
        return self._tokenizer is None or any(
            sum(bool(piece.strip("▁")) for piece in self._tokenizer.encode(one, add_special_tokens=False).tokens) == 1
            for one in (word, stem(word))
        )

    def _center(self, vectors: EmbeddingArray, languages: Sequence[str], kind: int) -> EmbeddingArray:
        """Subtract the mean vector of each text's language and kind, so that languages no longer lie apart."""
        if self._centres is None:
            return vectors
        columns = [_CENTRE_LANGUAGES.index(lang) for lang in languages]
        return self._normalize(vectors - self._centres[kind, columns])

    @property
    def loaded(self) -> bool:
        """Whether the network can be used at once."""
        return self._embed is not None

    def load(self) -> None:
        """Load the network, in the background thread alone, so that it is loaded once."""
        self._embed = self._embed or self._load_network()

    def _embed_texts(self, texts: list[str]) -> EmbeddingArray:
        assert self._embed
        trimmed = [trim_for_tokenizer(text, self.row.max_tokens) for text in texts]
        # One text at a time: in a batch its vector would depend on the others, which may be of closed channels. On a
        # CPU it costs nothing: no text is padded to the longest of its batch.
        vectors: EmbeddingArray = np.array(list(self._embed(trimmed)), np.float32)
        if vectors.shape[1] != self.row.dimension:
            raise self._thread.broken(f"makes vectors of {vectors.shape[1]} numbers instead of {self.row.dimension}")
        return self._normalize(vectors)

    def _normalize(self, vectors: EmbeddingArray) -> EmbeddingArray:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths) & (lengths > 0)).all():
            raise self._thread.broken("makes vectors without a length")
        units: EmbeddingArray = vectors / lengths
        return units

    def _load_network(self) -> Callable[[list[str]], Iterable[NDArray[Any]]]:
        if not isinstance(self.row.source, PackageSource):
            model = load_text_embedding(self._folder, self.row, self._session)
            self._tokenizer = model.model.tokenizer  # type: ignore[attr-defined]  # every ONNX model of fastembed has one
            return lambda texts: model.embed(texts, batch_size=1)
        self._offline = run = load_offline_model(self._folder, self.row, self._session)
        self._tokenizer = run.tokenizer
        if self.row.pooling is Pooling.NONE:
            return lambda texts: (run([text])[0] for text in texts)
        return lambda texts: (run([text])[0].mean(axis=0, dtype=np.float64) for text in texts)
