"""Settings: one tree of nested pydantic models; only the `citegram` command reads the environment (bot/settings.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator


def _expand_home(path: Path) -> Path:
    """Read `~/citegram` as the shell does: from a file it would make a folder named ~."""
    try:
        return path.expanduser()
    except RuntimeError as exc:
        raise ValueError("the home folder that ~ stands for is not known: write the whole path") from exc


FolderPath = Annotated[Path, AfterValidator(_expand_home)]


class _SettingsSection(BaseModel):
    """Base of the sections: unknown names are refused, so that a misspelt setting is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_SettingsSection):
    """Data folder, backups and retention."""

    dir: FolderPath = Field(Path("data"), description="Folder of the archive and the indexes.")
    backups: int = Field(7, ge=0, le=1000, description="Nightly backups that are kept; 0 makes none.")
    keep_questions_days: int = Field(
        30, ge=1, le=36_500, description="Days after which the texts of questions and answers are forgotten."
    )


class ModelSettings(_SettingsSection):
    """Embedder, reranker and speech recognition. None is needed: without an embedder posts are searched by words."""

    dir: FolderPath | None = Field(None, description="Folder of the models. Empty: models in the data folder.")
    embedder: str = Field(
        "auto",
        description="Embedding model: a name from `citegram models list`, auto (the best that was pulled), or none.",
    )
    reranker: str = Field("auto", description="Reranker: a name, auto (the one that was pulled), or none.")
    speech: str = Field("auto", description="Speech recognition: a name, auto (the best that was pulled), or none.")
    hub: str = Field(
        "https://huggingface.co", description="Where `citegram models pull` gets models: a hub, a mirror, or a folder."
    )
    threads: int = Field(
        1, ge=1, description="Threads of an embedding model. Two are slower where the bot shares them."
    )
    provider: str = Field("CPUExecutionProvider", description="ONNX provider of embedder and reranker.")


class LlmSettings(_SettingsSection):
    """Language model that plans, judges and writes. None is needed: without it answers are verbatim quotes."""

    model: str = Field(
        "auto",
        description="Writer: a name from `citegram models list`, a path to a GGUF, auto (the best pulled), or none.",
    )
    url: str = Field("", description="Address of an OpenAI-compatible server (llama-server, vLLM) instead of a GGUF.")
    key: SecretStr = Field(SecretStr(""), description="Its API key, if it wants one.")
    name: str = Field("", description="The model to ask that server for. Empty: the first it has.")
    parallel: int = Field(1, ge=1, le=64, description="Questions that server may work on at once.")
    threads: int = Field(0, ge=0, description="Threads of the model. 0: one fewer than there are processors.")
    gpu_layers: int = Field(0, ge=-1, description="Layers on the GPU; -1 is all. Needs a build that can.")
    context: int = Field(4096, ge=512, description="Tokens a prompt and its reply may have together.")
    idle_minutes: int = Field(0, ge=0, description="Unload the model after so many idle minutes. 0: never.")
    temperature: float = Field(0.2, ge=0, le=2, description="Temperature of the writer.")
    top_p: float = Field(0.9, gt=0, le=1, description="Nucleus of the writer.")
    seed: int = Field(42, ge=0, description="Seed of the writer.")
    warm: bool | None = Field(
        None,
        description="Load the model at the start; false: with the first question that needs it. Empty: at the start "
        "where 2 GB of memory are free.",
    )
    answer_tokens: int = Field(600, ge=64, le=4096, description="Longest answer in tokens.")
    evidence_tokens: int = Field(1800, ge=128, le=100_000, description="Most tokens of posts shown to the model.")


class QdrantSettings(_SettingsSection):
    """Qdrant server or cluster for the indexes. Without an address they are kept in the data folder."""

    url: str = Field(
        "", description="Address of a Qdrant server, such as http://127.0.0.1:6333; commas between a cluster's nodes."
    )
    key: SecretStr = Field(SecretStr(""), description="Its API key, if it wants one.")
    collection: str = Field("citegram", description="Name of the collection; another archive's is left alone.")
    shards: int = Field(0, ge=0, le=4096, description="Shards of a collection; 0: as the server likes. For good.")
    replicas: int = Field(1, ge=1, le=16, description="Copies of each shard, on different machines.")
    consistency: int = Field(1, ge=1, le=16, description="Copies that must have a write before it counts.")
    quantization: Literal["none", "int8", "binary"] = Field(
        "none", description="Vectors in memory as they are (16 bits), as int8, or as single bits."
    )
    on_disk: bool = Field(False, description="true: whole vectors stay on disk; with int8 or binary, or fast disks.")
    links: int = Field(0, ge=0, le=128, description="Links of a point in the HNSW graph; 0: none, searches are exact.")
    timeout: int = Field(10, ge=1, le=600, description="Seconds a request may take.")

    @property
    def urls(self) -> list[str]:
        """Addresses of the nodes; the first that answers is used."""
        return [url.strip() for url in self.url.split(",") if url.strip()]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.consistency > self.replicas:
            raise ValueError(f"CONSISTENCY {self.consistency} asks for more copies than REPLICAS {self.replicas} makes")
        return self


class SearchSettings(_SettingsSection):
    """Fusion of the lexical and the dense retriever, rounds and diversity."""

    diversity: float = Field(0.5, ge=0, le=1, description="1 keeps the best, less leaves out what is alike.")


class AnswerSettings(_SettingsSection):
    """Time and length of an answer, and the probability below which it is refused."""

    seconds: float | None = Field(
        None, gt=0, description="Seconds for a whole question. Empty: 30 with a server or a GPU, else 90."
    )
    sentences: int = Field(3, ge=1, le=5, description="At most so many sentences without a model.")
    coverage: float | None = Field(
        None, ge=0, le=1, description="Refuse below this probability (0-1). Empty: the calibrated value."
    )


class AgentSettings(_SettingsSection):
    """Choice of recipes by `auto`; the choices of an admin in the chat take precedence."""

    enabled: bool = Field(True, description="Answer complex questions (of several parts) by the recipe agent.")


class CouncilSettings(_SettingsSection):
    """Parameters of the recipe council."""

    alpha: float = Field(0.65, ge=0, le=1, description="Weight of the search by meaning (0-1).")
    deviations: float = Field(0.5, ge=0, description="Standard deviations below the mean: posts above are kept.")


class VerifySettings(_SettingsSection):
    """Verification of answers and of claims."""

    threshold: float = Field(
        0.5, ge=0.5, le=1, description="Share of its words that the posts of a model's sentence must hold (0.5-1)."
    )


class MemorySettings(_SettingsSection):
    """Conversation memory for follow-ups. It is never a source of an answer."""

    enabled: bool = Field(True, description="Remember earlier questions, so that “and in March?” is understood.")
    minutes: int = Field(60, ge=1, le=10_080, description="Minutes after which an earlier question is forgotten.")


class RagSettings(_SettingsSection):
    """All settings of `open_engine`."""

    data: DataSettings = DataSettings()
    models: ModelSettings = ModelSettings()
    llm: LlmSettings = LlmSettings()
    qdrant: QdrantSettings = QdrantSettings()
    retrieval: SearchSettings = SearchSettings()
    answer: AnswerSettings = AnswerSettings()
    memory: MemorySettings = MemorySettings()
    agent: AgentSettings = AgentSettings()
    council: CouncilSettings = CouncilSettings()
    verify: VerifySettings = VerifySettings()

    @property
    def question_s(self) -> float:
        """Seconds for a whole question; fewer by default with a GPU or a server, which are quick."""
        quick = self.llm.url or self.llm.gpu_layers
        return self.answer.seconds or (30.0 if quick else 90.0)
