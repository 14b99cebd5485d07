"""Settings: one tree of nested pydantic models.

This module never reads the environment; the `citegram` command does (bot/settings.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator


class _SettingsSection(BaseModel):
    """Base of the sections: unknown names are refused, so that a misspelt setting is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_SettingsSection):
    """Data folder, backups and retention."""

    dir: Path = Field(Path("data"), description="Folder of the archive and the indexes.")
    backups: int = Field(7, ge=0, le=1000, description="Nightly backups that are kept; 0 makes none.")
    keep_questions_days: int = Field(
        30, ge=1, le=36_500, description="Days after which the texts of questions and answers are forgotten."
    )


class ModelSettings(_SettingsSection):
    """Embedding model and reranker. Neither is needed: without an embedder posts are searched by words alone."""

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
    provider: str = Field("CPUExecutionProvider", description="ONNX provider of embedder and reranker.")


class LlmSettings(_SettingsSection):
    """Language model that plans and writes. None is needed: without it answers are verbatim quotes."""

    model: str = Field(
        "auto",
        description="Writer: a name from `citegram models list`, a path to a GGUF, auto (the best pulled), or none.",
    )
    planner: str = Field("same", description="Planner: same (the writer plans too), a name, a path, or none.")
    url: str = Field("", description="Address of an OpenAI-compatible server (llama-server, vLLM) instead of a GGUF.")
    key: SecretStr = Field(SecretStr(""), description="Its API key, if it wants one.")
    name: str = Field("", description="The model to ask that server for. Empty: the first it has.")
    parallel: int = Field(1, ge=1, le=64, description="Questions that server may work on at once.")
    threads: int = Field(0, ge=0, description="Threads of the model. 0: one fewer than there are processors.")
    gpu_layers: int = Field(0, ge=-1, description="Layers on the GPU; -1 is all. Needs a build that can.")
    context: int = Field(4096, ge=512, description="Tokens a prompt and its reply may have together.")
    batch: int | None = Field(
        None, ge=32, description="Prompt tokens that are read at once. Empty: 128 on a processor, 512 with a GPU."
    )
    idle_minutes: int = Field(0, ge=0, description="Unload the model after so many idle minutes. 0: never.")
    temperature: float = Field(0.2, ge=0, le=2, description="Temperature of the writer.")
    top_p: float = Field(0.9, gt=0, le=1, description="Nucleus of the writer.")
    seed: int = Field(42, ge=0, description="Seed of the writer.")
    warm: bool = Field(True, description="Load the model at the start; false: with the first question that needs it.")
    answer_tokens: int = Field(600, ge=64, le=4096, description="Longest answer in tokens.")
    evidence_tokens: int = Field(1800, ge=128, le=100_000, description="Most tokens of posts shown to the model.")
    two_pass: bool = Field(False, description="Write freely first, then attribute: for models that grammars confuse.")


class QdrantSettings(_SettingsSection):
    """Qdrant server or cluster for the indexes. Without an address they are kept in the data folder."""

    url: str = Field(
        "", description="Address of a Qdrant server, such as http://127.0.0.1:6333; commas between a cluster's nodes."
    )
    key: SecretStr = Field(SecretStr(""), description="Its API key, if it wants one.")
    collection: str = Field("citegram", description="Name of the collection.")
    words: bool = Field(False, description="true: the search by words is kept there too, as sparse vectors.")
    shards: int = Field(0, ge=0, le=4096, description="Shards of a collection; 0: as the server likes. For good.")
    replicas: int = Field(1, ge=1, le=16, description="Copies of each shard, on different machines.")
    consistency: int = Field(1, ge=1, le=16, description="Copies that must have a write before it counts.")
    quantization: Literal["none", "int8", "binary"] = Field(
        "none", description="Vectors in memory as they are (16 bits), as int8, or as single bits."
    )
    oversampling: float = Field(
        3.0, ge=1, le=20, description="Times as many quantised hits as wanted, measured again by whole vectors."
    )
    on_disk: bool = Field(False, description="true: whole vectors stay on disk; with int8 or binary, or fast disks.")
    links: int = Field(0, ge=0, le=128, description="Links of a point in the HNSW graph; 0: none, searches are exact.")
    ef_construct: int = Field(128, ge=4, le=2048, description="Neighbours looked at while the graph is built.")
    ef: int = Field(256, ge=4, le=4096, description="Neighbours looked at by a search through the graph.")
    timeout: int = Field(10, ge=1, le=600, description="Seconds a request may take.")
    retries: int = Field(2, ge=0, le=10, description="Times a request is repeated when the server refuses to connect.")

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

    dense: float | None = Field(
        None, ge=0, le=1, description="Weight of the search by meaning (0-1). Empty: as calibrated for the model."
    )
    fusion: Literal["auto", "rrf", "weighted"] = Field(
        "auto", description="How both searches are fused: rrf, weighted, or auto (as calibrated for the model)."
    )
    keep: int = Field(40, ge=5, le=100, description="Passages kept of both legs; the rest are too alike.")
    rounds: int = Field(1, ge=1, le=2, description="2: search once more, wider, before an answer is refused.")
    neighbours: int = Field(
        0, ge=0, le=10, description="First hits whose posts before, after, replies and replied-to are read too."
    )
    diversity: float = Field(0.5, ge=0, le=1, description="1 keeps the best, less leaves out what is alike.")


class AnswerSettings(_SettingsSection):
    """Length of an answer without a model, and the coverage below which it is refused."""

    sentences: int = Field(3, ge=1, le=5, description="At most so many sentences without a model.")
    coverage: float | None = Field(
        None, ge=0, le=1, description="Refuse below this coverage (0-1). Empty: the calibrated value."
    )


class AgentSettings(_SettingsSection):
    """Choice of recipes by `auto`; the choices of an admin in the chat take precedence."""

    enabled: bool = Field(True, description="Answer complex questions (of several parts) by the recipe agent.")
    share: float = Field(1, ge=0, le=1, description="Share of the chats where it does (0-1).")
    queue: int = Field(4, ge=1, description="Questions waiting above which all are answered by the recipe direct.")
    errors: float = Field(0.5, gt=0, le=1, description="A recipe that fails more often (0-1) is left out for a while.")
    max_steps: int = Field(4, ge=1, le=8, description="Most tool calls of the recipe react for a question.")


class CouncilSettings(_SettingsSection):
    """Parameters of the recipe council."""

    alpha: float = Field(0.65, ge=0, le=1, description="Weight of the search by meaning (0-1).")
    deviations: float = Field(0.5, ge=0, description="Standard deviations below the mean: posts above are kept.")
    top_k: int = Field(20, ge=2, le=50, description="Posts that are judged.")
    predictors: int | None = Field(
        None,
        ge=1,
        le=50,
        description="Most posts read one by one, as time allows. Empty: 3; all with a server or GPU.",
    )
    follow_up: bool = Field(True, description="Search once more for the parts of a question that are not answered.")


class VerifySettings(_SettingsSection):
    """Verification of answers and of claims."""

    threshold: float = Field(
        0.5, ge=0.5, le=1, description="Share of its words that the posts of a model's sentence must hold (0.5-1)."
    )
    passages: int = Field(
        10, ge=1, le=20, description="Posts read for a claim. Fewer than ten miss posts that contradict it."
    )


class MemorySettings(_SettingsSection):
    """Conversation memory for follow-ups. It is never a source of an answer."""

    enabled: bool = Field(True, description="Remember earlier questions, so that “and in March?” is understood.")
    tokens: int = Field(400, ge=32, le=4000, description="Tokens of earlier questions that are looked back at.")
    minutes: int = Field(60, ge=1, le=10_080, description="Minutes after which an earlier question is forgotten.")


class ToolSettings(_SettingsSection):
    """Tools of the recipe react."""

    allowlist: str = Field("all", description="Tools that may be used, with commas between them; all, or none.")
    seconds: float = Field(4, gt=0, le=60, description="Seconds a tool may take.")


class Budgets(_SettingsSection):
    """Budgets of the stages, in seconds."""

    question: float | None = Field(
        None, gt=0, description="Seconds for a whole question. Empty: 30 with a server or a GPU, else 90."
    )
    plan: float = Field(10, gt=0, description="Seconds for planning.")
    rerank: float = Field(6, gt=0, description="Seconds for the reranker: as many passages as fit are looked at.")
    search: float = Field(4, gt=0, description="Seconds for one search leg.")
    fusion: float = Field(1, gt=0, description="Seconds for ordering and thinning out what was found.")
    fetch: float = Field(2, gt=0, description="Seconds for reading the found posts.")
    write: float = Field(60, gt=0, description="Seconds for writing the answer.")
    rewrite: float = Field(5, gt=0, description="Seconds for more queries by the model.")
    verify: float = Field(5, gt=0, description="Seconds for holding a claim against the found posts.")
    map: float = Field(40, gt=0, description="Seconds for reading posts one by one.")
    judge: float = Field(10, gt=0, description="Seconds for judging passages by the model.")


class RagSettings(_SettingsSection):
    """All settings of `open_engine`."""

    data: DataSettings = DataSettings()
    models: ModelSettings = ModelSettings()
    llm: LlmSettings = LlmSettings()
    qdrant: QdrantSettings = QdrantSettings()
    retrieval: SearchSettings = SearchSettings()
    answer: AnswerSettings = AnswerSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolSettings = ToolSettings()
    agent: AgentSettings = AgentSettings()
    council: CouncilSettings = CouncilSettings()
    verify: VerifySettings = VerifySettings()
    budgets: Budgets = Budgets()

    @property
    def question_s(self) -> float:
        """Seconds for a whole question; fewer by default with a GPU or a server, which are quick."""
        quick = self.llm.url or self.llm.gpu_layers
        return self.budgets.question or (30.0 if quick else 90.0)
