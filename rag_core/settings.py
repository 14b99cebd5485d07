"""Plain nested values. This file never reads the environment: the `citegram` command does (bot/settings.py)."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

__all__ = [
    "AnswerSettings",
    "Budgets",
    "DataSettings",
    "ModelSettings",
    "QdrantSettings",
    "RagSettings",
    "SearchSettings",
]


class _Section(BaseModel):
    """A section refuses names it does not know, so that a misspelt setting is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_Section):
    """Where everything lives."""

    dir: Path = Field(Path("data"), description="Folder of the archive and the indexes.")
    backups: int = Field(7, ge=0, le=1000, description="Nightly backups that are kept; 0 makes none.")
    keep_questions_days: int = Field(
        30, ge=1, le=36_500, description="Days after which the texts of questions and answers are forgotten."
    )


class ModelSettings(_Section):
    """Which models are used. None is needed: without an embedder posts are searched by words alone."""

    dir: Path | None = Field(None, description="Folder of the models. Empty: models in the data folder.")
    embedder: str = Field(
        "auto",
        description="Embedding model: a name from `citegram models list`, auto (the best that was pulled), or none.",
    )
    reranker: str = Field("auto", description="Reranker: a name, auto (the one that was pulled), or none.")
    hub: str = Field(
        "https://huggingface.co", description="Where `citegram models pull` gets models: a hub, a mirror, or a folder."
    )
    threads: int = Field(
        1, ge=1, description="Threads of an embedding model. Two are slower where the bot shares them."
    )


class QdrantSettings(_Section):
    """A Qdrant server for the vectors. Empty: they are kept in the data folder."""

    url: str = Field("", description="Address of a Qdrant server, such as http://127.0.0.1:6333.")
    key: SecretStr = Field(SecretStr(""), description="Its API key, if it wants one.")
    collection: str = Field("citegram", description="Name of the collection.")


class SearchSettings(_Section):
    """How the legs are joined."""

    dense: float | None = Field(
        None, ge=0, le=1, description="Weight of the search by meaning (0-1). Empty: as calibrated for the model."
    )
    keep: int = Field(40, ge=5, le=100, description="Passages kept of both legs; the rest are too alike.")
    diversity: float = Field(0.5, ge=0, le=1, description="1 keeps the best, less leaves out what is alike.")


class AnswerSettings(_Section):
    """How an answer looks and when one is refused."""

    sentences: int = Field(3, ge=1, le=5, description="At most so many sentences without a model.")
    coverage: float | None = Field(
        None, ge=0, le=1, description="Refuse below this coverage (0-1). Empty: the calibrated value."
    )


class Budgets(_Section):
    """Seconds a stage may take (DESIGN 5)."""

    plan: float = Field(10, gt=0, description="Seconds for planning.")
    rerank: float = Field(6, gt=0, description="Seconds for the reranker: as many passages as fit are looked at.")
    search: float = Field(4, gt=0, description="Seconds for one search leg.")
    fetch: float = Field(2, gt=0, description="Seconds for reading the found posts.")
    write: float = Field(60, gt=0, description="Seconds for writing the answer.")


class RagSettings(_Section):
    """Everything `open_rag` needs."""

    data: DataSettings = DataSettings()
    models: ModelSettings = ModelSettings()
    qdrant: QdrantSettings = QdrantSettings()
    retrieval: SearchSettings = SearchSettings()
    answer: AnswerSettings = AnswerSettings()
    budgets: Budgets = Budgets()
