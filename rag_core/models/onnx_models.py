"""ONNX models: embedding models, rerankers, and the similarities of a question to the tokens of a passage.

Nothing is downloaded here: a model's folder is given (`rag_core.models.download` fills it). Each model has threads of
its own. Hub models run in fastembed, imported with the first of them. The offline ones, which no catalog of fastembed
has, are run by onnxruntime itself: fastembed would add half a second to every start of a machine without hub models.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock, get_native_id
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from rag_core.errors import ModelUnavailable, RagError
from rag_core.models.catalog import ModelSpec, PackageSource, Pooling, check_model_files, name_vector_space
from rag_core.processes import release_free_memory
from rag_core.text.tokens import detect_language, stem

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer


MAX_LOG_WEIGHT = 4.0  # of a token, also in training


class TokenVectors:
    """Vectors of the tokens of a text: shape (tokens, dimension), and their offsets in it: shape (tokens, 2).

    `heads`, shape (2, dimension), say of each token how much it weighs among the others, and how far it speaks for an
    answer whatever is asked: `weights` and `priors`, shape (tokens,). Vectors are kept in 8 bits with a scale for each
    token, a quarter of the memory: cosines differ by less than 0.001.
    """

    def __init__(self, vectors: NDArray[np.float32], spans: NDArray[np.int64], heads: NDArray[np.float32]) -> None:
        self._scales = np.maximum(np.abs(vectors).max(axis=1, keepdims=True, initial=0), 1e-9).astype(np.float32) / 127
        self._numbers, self.spans = np.rint(vectors / self._scales).astype(np.int8), spans
        log_weights, self.priors = heads @ vectors.T
        self.weights: NDArray[np.float32] = np.exp(np.clip(log_weights, -MAX_LOG_WEIGHT, MAX_LOG_WEIGHT))
        kept = (self._numbers, self._scales, spans, self.weights, self.priors)
        self.nbytes = sum(array.nbytes for array in kept)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The vectors as they were, but for what rounding took."""
        restored: NDArray[np.float32] = self._numbers * self._scales
        return restored


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-9)
    return units


class PieceSimilarity(NamedTuple):
    """Similarity of a question to a piece: MaxSim, cosine of the means, and the mean of the piece's priors."""

    maxsim: float
    cosine: float
    prior: float


class PassageSimilarity:
    """Similarity of a question to a passage: `post` is MaxSim over all its tokens.

    MaxSim is the mean, over the tokens of the question by their weights, of the cosine to the nearest token of the
    text: late interaction, here with the tokens of an embedding model and its adapter. Source: Khattab and Zaharia,
    "ColBERT" (2020), https://arxiv.org/abs/2004.12832.
    """

    def __init__(self, question: TokenVectors, passage: TokenVectors) -> None:
        asked, self._vectors, self._passage = question.vectors, passage.vectors, passage
        self._shares = question.weights / max(1e-9, question.weights.sum())
        self._mean = _normalize(self._shares @ asked)
        # an end of a piece may be behind the last token: one column more
        self._with_end = np.zeros((len(asked), len(self._vectors) + 1), np.float32)
        self._cosines = self._with_end[:, :-1]
        self._cosines[:] = _normalize(asked) @ _normalize(self._vectors).T
        whole = self._find_nearest(slice(None))
        self.post, self.strongest = float(self._shares @ whole), float(whole.max(initial=0.0))
        self._measured = dict[tuple[tuple[int, int], ...], list[PieceSimilarity]]()

    def _find_nearest(self, tokens: slice) -> NDArray[np.float32]:
        cosines = self._cosines[:, tokens]
        nearest: NDArray[np.float32] = cosines.max(axis=1) if cosines.size else np.zeros(len(cosines), np.float32)
        return nearest

    def _find_tokens(self, start: int, end: int) -> slice:
        return slice(*np.searchsorted(self._passage.spans[:, 1], (start, end), side="right").tolist())

    def compare_piece(self, start: int, end: int) -> NDArray[np.float32]:
        """Cosine of each token of the question to the nearest of the piece at these offsets: shape (tokens,)."""
        return self._find_nearest(self._find_tokens(start, end))

    def embed_piece(self, start: int, end: int) -> NDArray[np.float32]:
        """Weighted mean of the tokens of the piece at these offsets, of unit length; zeros where it has none."""
        here = self._find_tokens(start, end)
        return _normalize(self._passage.weights[here] @ self._vectors[here])

    def measure_pieces(self, spans: Sequence[tuple[int, int]]) -> list[PieceSimilarity]:
        """Similarities of the pieces at these offsets, once for each; zeros where one has no token, as behind a cut."""
        if (known := self._measured.get(key := tuple(spans))) is not None:
            return known
        bounds = np.searchsorted(self._passage.spans[:, 1], np.array(spans).reshape(-1, 2), side="right")
        measured, full = np.zeros((len(bounds), 3)), bounds[:, 0] < bounds[:, 1]
        if full.any():
            bounds = bounds[full]
            nearest = np.maximum.reduceat(self._with_end, bounds.ravel(), axis=1)[:, ::2]
            tokens = np.arange(len(self._vectors))
            inside = (bounds[:, :1] <= tokens) & (tokens < bounds[:, 1:])
            weighed = np.column_stack((self._vectors * self._passage.weights[:, None], self._passage.priors))
            sums: NDArray[Any] = inside.astype(np.float64) @ weighed.astype(np.float64)
            means = _normalize(sums[:, :-1]) @ self._mean
            measured[full] = np.column_stack((self._shares @ nearest, means, sums[:, -1] / np.diff(bounds)[:, 0]))
        self._measured[key] = [PieceSimilarity(*row) for row in measured.tolist()]
        return self._measured[key]


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

    def __call__(self, batch: Sequence[str | tuple[str, str]]) -> tuple[NDArray[np.floating[Any]], Sequence[Encoding]]:
        """Output for a batch of texts, or of pairs, and how each was cut into tokens."""
        encoded = self.tokenizer.encode_batch(batch)
        columns = self._columns.items()
        given = {name: np.array([getattr(one, column) for one in encoded], np.int64) for name, column in columns}
        return np.asarray(self._network.run(None, given)[0]), encoded


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
    weights = _adapt_model(folder, row) if row.adapter else str(folder / row.file)
    network = InferenceSession(weights, options, providers=session["providers"])
    release_free_memory()  # a tenth of what loading took: of the vocabulary as JSON, of weights before their packing
    return OfflineModel(tokenizer, network)


def _adapt_model(folder: Path, row: ModelSpec) -> str | bytes:
    """Path of the model with the row's adapter, made once beside it; its bytes where the folder cannot be written."""
    made = folder / f"adapted-{name_vector_space(row).removeprefix(row.name + '-')}.onnx"
    if made.is_file():
        return str(made)
    from rag_core.models.onnx_conversion import adapt_bert_onnx  # with onnx, a second's work of importing

    weights = adapt_bert_onnx(folder / row.file, Path(__file__).with_name(row.adapter))
    part = made.with_suffix(f".{os.getpid()}")
    try:
        part.write_bytes(weights)
        part.replace(made)  # another process may have made the same
        for other in folder.glob("adapted-*"):  # of an earlier adapter, or of a process that was killed
            if other != made:
                other.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            part.unlink()
        return weights
    return str(made)


def _load_with_fastembed(
    kind: Any, name: str, folder: Path, row: ModelSpec, session: dict[str, Any], **about: Any
) -> tuple[Any, Tokenizer]:
    """Register a model, described by `about`, and load it. With a path and local_files_only no hub is contacted."""
    from fastembed.common.model_description import ModelSource

    name = f"citegram/{name}".lower()
    source = ModelSource(hf=name)  # required, never used
    with _REGISTRATION_LOCK:
        if name not in {known["model"].lower() for known in kind.list_supported_models()}:
            kind.add_custom_model(model=name, sources=source, model_file=row.file, **about)
    loaded = kind(name, specific_model_path=str(folder), local_files_only=True, cache_dir=str(folder), **session)
    return loaded, loaded.model.tokenizer


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
        await asyncio.gather(*(asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True) for pool in pools))


def _lower_thread_priority() -> None:
    """Lower the priority of this thread and of those that it starts: onnxruntime's, where it loads a network."""
    if sys.platform == "linux":  # elsewhere a thread has none of its own
        thread = get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _BACKGROUND_NICENESS)


def trim_for_tokenizer(text: str, tokens: int) -> str:
    """Cut a text to little more than `tokens` tokens, and replace characters that the tokenizer rejects."""
    return text[: tokens * _MAX_CHARS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")


EmbeddingArray = NDArray[np.float32]

_CENTRE_LANGUAGES = ("ru", "en")  # of the file of mean vectors, as in `ModelSpec.centres`
_QUERY, _PASSAGE = 0, 1
# Tokens of the last passages, 40 kB each: reading them is two thirds of an answer's time, and questions at one time are
# often about the same posts. In memory only.
_TOKEN_CACHE_BYTES = 24_000_000
_KEPT_QUESTIONS = 16  # outputs of the last ones, 50 kB each of a short one: more than are answered at a time
TokenOutput = tuple[NDArray[np.floating[Any]], NDArray[np.int64]]  # of each token, and its offsets in the text
_SAMPLE_TEXT = "A ferry leaves at half past seven. Паром уходит в половине восьмого."


def _build_text_digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


class Embedder:
    """Embedding model: texts to unit vectors, comparable under one name. `close` releases the model and its thread."""

    def __init__(self, row: ModelSpec, networks: Sequence[_EmbeddingNetwork], thread: OnnxThread) -> None:
        self._networks, self._thread = networks, thread
        self._tokens: LRUCache[bytes, TokenVectors] = LRUCache(_TOKEN_CACHE_BYTES, lambda kept: kept.nbytes)
        self.name, self.dimension, self.languages, self.close = row.name, row.dimension, row.languages, thread.close

    async def passages(self, texts: Sequence[str]) -> EmbeddingArray:
        """Embed posts: shape (len(texts), dimension), in the order of the texts."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            lang = await asyncio.to_thread(detect_language, text[:1000])
            network = self._choose_network(lang)
            vector[network.block] = await self._thread.run(network.embed, _PASSAGE, text, lang, background=True)
        return vectors

    async def query(self, text: str) -> EmbeddingArray:
        """Embed a question: shape (dimension,). Waits for no passage."""
        lang, vector = detect_language(text[:1000]), np.zeros(self.dimension, np.float32)
        network = self._choose_network(lang)
        if not network.make_vector:
            await self._thread.run(network.load, background=True)
        vector[network.block] = await self._thread.run(network.embed, _QUERY, text, lang)
        return vector

    async def forget_questions(self) -> None:
        """Forget what was read of the last questions. Raises ModelUnavailable after `close`."""
        for network in self._networks:
            await self._thread.run(network.asked.clear)

    async def compare(self, question: str, texts: Sequence[str]) -> list[PassageSimilarity]:
        """Compare a question with the tokens of posts; for an offline model with centres only."""
        network = self._networks[0]

        def compare_all() -> list[PassageSimilarity]:  # in one thread, as are all looks into the cache
            asked, compared = network.embed_tokens(question, _QUERY), []
            for text in texts:
                digest = _build_text_digest(text)
                if (tokens := self._tokens.get(digest)) is None:
                    tokens = self._tokens[digest] = network.embed_tokens(text, _PASSAGE)
                compared.append(PassageSimilarity(asked, tokens))
            return compared

        return await self._thread.run(compare_all)

    async def read_ahead(self, texts: Iterable[str]) -> None:
        """Read the tokens of passages in the background, so that the first questions need not wait for that."""
        for text in texts:
            tokens = await self._thread.run(self._networks[0].embed_tokens, text, _PASSAGE, background=True)
            await self._thread.run(self._tokens.__setitem__, _build_text_digest(text), tokens)

    def has_word(self, word: str) -> bool:
        """Whether the vocabulary holds an English word or its stem whole; true before the model is loaded."""
        return self._choose_network("en").has_word(word)

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
            await thread.run(networks[0].embed, _PASSAGE, _SAMPLE_TEXT, "en", background=True)
        return Embedder(model, networks, thread)
    except BaseException:
        await thread.close()
        raise


class _EmbeddingNetwork:
    """Network that fills one block of the vector, for texts of `row.languages`; loaded with its first text."""

    def __init__(self, row: ModelSpec, folder: Path, session: dict[str, Any], thread: OnnxThread, block: slice) -> None:
        self.row, self.block = row, block
        self._folder, self._session, self._thread = folder, session, thread
        self._prefixes = row.query_prefix, row.passage_prefix
        self._centres = np.load(Path(__file__).with_name(row.centres)) if row.centres else None
        # of the tokens of questions and of passages, trained with the adapter
        self._heads: NDArray[np.float32] = np.zeros((2, 2, row.dimension), np.float32)
        if row.adapter:
            with np.load(Path(__file__).with_name(row.adapter)) as adapter:
                self._heads = adapter["token_heads"]
        self.make_vector: Callable[[str, int], NDArray[Any]] | None = None  # of a text and its kind, from `load` on
        self.asked: LRUCache[bytes, TokenOutput] = LRUCache(_KEPT_QUESTIONS)
        self._offline: OfflineModel | None = None
        self._tokenizer: Tokenizer | None = None

    def embed(self, kind: int, text: str, lang: str) -> EmbeddingArray:
        """Embed a text of a kind to a unit vector, in a thread. Raises ModelUnavailable for a zero or infinite one.

        Not several at a time: in a batch its vector would depend on the others, which may be of closed channels. On a
        CPU it costs nothing: no text is padded to the longest of its batch.
        """
        if kind == _PASSAGE:
            self.load()  # in the background; of a question it was done
        assert self.make_vector
        vector = np.asarray(self.make_vector(text, kind), np.float32)
        if len(vector) != self.row.dimension:
            raise self._thread.broken(f"makes vectors of {len(vector)} numbers instead of {self.row.dimension}")
        if not 0 < np.linalg.norm(vector) < math.inf:
            raise self._thread.broken("makes vectors without a length")
        vector = _normalize(vector)
        if self._centres is None:
            return vector
        # Without the mean vector of the text's language and kind, so that languages no longer lie apart.
        return _normalize(vector - self._centres[kind, _CENTRE_LANGUAGES.index(lang)])

    def embed_tokens(self, text: str, kind: int) -> TokenVectors:
        """Embed the tokens of a text, centred by its language, in the thread; an offline model with centres only."""
        assert self._centres is not None
        output, offsets = self._read(text, kind)
        own = offsets[:, 1] > 0  # neither the prefix nor the marks of begin and end, which span nothing
        centre = self._centres[kind, _CENTRE_LANGUAGES.index(detect_language(text[:1000]))]
        return TokenVectors(output[own] - centre, offsets[own], self._heads[kind])

    def _read(self, text: str, kind: int) -> TokenOutput:
        """Run the offline network on a text, in the thread.

        A question is embedded, and its tokens are compared with posts, at times twice: the last ones are kept.
        """
        assert self._offline is not None  # loaded as the model was opened
        digest = _build_text_digest(text) if kind == _QUERY else b""
        if (read := self.asked.get(digest)) is None:
            prefix = self._prefixes[kind]
            output, (encoded,) = self._offline([trim_for_tokenizer(prefix + text, self.row.max_tokens)])
            read = output[0], np.array(encoded.offsets, np.int64) - len(prefix)
            if digest:
                self.asked[digest] = read
        return read

    def has_word(self, word: str) -> bool:
        """Whether the vocabulary holds a word or its stem as one piece; true before the network is loaded."""
        return self._tokenizer is None or any(
            sum(bool(piece.strip("▁")) for piece in self._tokenizer.encode(one, add_special_tokens=False).tokens) == 1
            for one in (word, stem(word))
        )

    def load(self) -> None:
        """Load the network, in the background thread alone, so that it is loaded once."""
        if self.make_vector:
            return
        row = self.row
        if isinstance(row.source, PackageSource):
            self._offline = load_offline_model(self._folder, row, self._session)
            self._tokenizer = self._offline.tokenizer
            if row.pooling is Pooling.NONE:
                self.make_vector = lambda text, kind: self._read(text, kind)[0]
            else:
                self.make_vector = lambda text, kind: self._read(text, kind)[0].mean(axis=0, dtype=np.float64)
            return
        from fastembed import TextEmbedding
        from fastembed.common.model_description import PoolingType

        pooling = {Pooling.MEAN: PoolingType.MEAN, Pooling.CLS: PoolingType.CLS, Pooling.NONE: PoolingType.DISABLED}
        name = f"{row.name}-{row.pooling}-{row.dimension}"
        # normalised here, with a check for zero and infinite lengths
        about = {"pooling": pooling[row.pooling], "normalization": False, "dim": row.dimension}
        model, self._tokenizer = _load_with_fastembed(TextEmbedding, name, self._folder, row, self._session, **about)
        direction = (self._tokenizer.truncation or {}).get("direction", "right")
        self._tokenizer.enable_truncation(max_length=row.max_tokens, direction=direction)

        def embed(text: str, kind: int) -> NDArray[Any]:
            return next(iter(model.embed([trim_for_tokenizer(self._prefixes[kind] + text, row.max_tokens)])))

        self.make_vector = embed


Scorer = Callable[[str, list[str]], Iterable[float]]

_BATCH_PAIRS = 16
_SAMPLE_PAIR = "When does the ferry leave?", "The ferry to the island leaves at half past seven every morning. " * 12


async def open_reranker(model: ModelSpec, folder: Path, threads: int = 2, provider: str = CPU_PROVIDER) -> Reranker:
    """Load a cross-encoder from its folder and measure its speed. Raises ModelUnavailable."""
    thread = OnnxThread(model.name)
    try:
        await thread.run(check_model_files, model, folder)
        session = {"threads": threads, "providers": await thread.run(choose_onnx_providers, provider)}

        def load() -> Scorer:
            if isinstance(model.source, PackageSource):
                run = load_offline_model(folder, model, session)
                return lambda question, texts: run([(question, text) for text in texts])[0][:, 0]
            from fastembed.rerank.cross_encoder import TextCrossEncoder

            encoder, tokenizer = _load_with_fastembed(TextCrossEncoder, model.name, folder, model, session)
            # the text is cut, not the question
            tokenizer.enable_truncation(max_length=model.max_tokens, strategy="longest_first")
            return lambda question, texts: encoder.rerank(question, texts, batch_size=_BATCH_PAIRS)

        reranker = Reranker(model, await thread.run(load), thread)
        await reranker.time()
    except BaseException:
        await thread.close()
        raise
    return reranker


class Reranker:
    """Cross-encoder in a thread of its own, which `close` ends. `pair_s`: seconds for one full-length text."""

    def __init__(self, row: ModelSpec, model: Scorer, thread: OnnxThread) -> None:
        self._row, self._model, self._thread = row, model, thread
        self.name, self.languages, self.close = row.name, row.languages, thread.close
        self.pair_s = 0.0

    async def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score each text, in their order; greater is better, and only scores of one question are comparable."""
        order, scored = sorted(range(len(texts)), key=lambda i: len(texts[i])), list[float]()
        for first in range(0, len(order), _BATCH_PAIRS):
            batch = [texts[i] for i in order[first : first + _BATCH_PAIRS]]
            scored += await self._thread.run(self._score, question, batch)
        score_by_place = dict(zip(order, scored, strict=True))
        return [score_by_place[i] for i in range(len(texts))]

    async def time(self) -> None:
        """Measure `pair_s`; the first call of a model does not count."""
        question, text = _SAMPLE_PAIR
        await self.scores(question, [text])
        started = time.perf_counter()
        await self.scores(question, [text] * 2)
        self.pair_s = (time.perf_counter() - started) / 2

    def _score(self, question: str, texts: list[str]) -> list[float]:
        limit = self._row.max_tokens
        trimmed = [trim_for_tokenizer(text, limit) for text in texts]
        scores = [float(score) for score in self._model(trim_for_tokenizer(question, limit), trimmed)]
        if not all(math.isfinite(score) for score in scores):
            raise self._thread.broken("makes scores that are no numbers")
        return scores
