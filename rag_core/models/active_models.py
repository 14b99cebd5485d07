"""Model selection: which embedder, reranker, writer and speech recognition the settings and the admin's choices name.

The order of precedence (`apply_model_choices`): a setting that names a model; an admin's choice in the chat; the best
model that was pulled. So a configuration that names a model is never overruled by a button.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.models.catalog import (
    MODELS,
    ModelRole,
    ModelSpec,
    check_model_files,
    find_models,
    is_model_present,
    name_vector_space,
)
from rag_core.settings import RagSettings
from rag_core.storage import Archive, index_state, posts
from rag_core.storage.readers import load_choices, save_choice

if TYPE_CHECKING:  # what opens a model is imported with the first of its kind: many commands need none
    from rag_core.index.vector_store import VectorStore
    from rag_core.llm.protocol import LanguageModel
    from rag_core.models.onnx_models import Embedder, Reranker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """Embedding model with its catalog row and its vectors."""

    model: ModelSpec
    embedder: Embedder
    vectors: VectorStore

    @property
    def store(self) -> str | None:
        """Identity of the vector store; None where it is on a server that has not answered yet."""
        try:
            return self.vectors.about.identity
        except VectorsUnavailable:
            return None

    async def close(self) -> None:
        """Close the vectors and the embedder."""
        await asyncio.gather(self.vectors.close(), self.embedder.close())


def get_models_folder(settings: RagSettings) -> Path:
    """Folder of the models; the data that `citegram demo` keeps in a data folder share the models of that folder."""
    data = settings.data.dir
    shares = data.name == "demo" and not (data / "models").is_dir()
    return settings.models.dir or (data.parent if shares else data) / "models"


def select_model(role: ModelRole, name: str, folder: Path) -> ModelSpec | None:
    """Select the named model, the best pulled for "auto", or None for "none". Raises ModelUnavailable."""
    if name == "none":
        return None
    if name != "auto":
        rows = find_models(name)
        return next((row for row in rows if row.role is role), rows[0])
    pulled = list_pulled_models(role, folder)
    return pulled[-1] if pulled else None


def select_embedder(settings: RagSettings, live: str = "") -> ModelSpec | None:
    """Select the embedder; "auto" keeps the one whose vectors the archive has (`live`), whatever was pulled since.

    Another one makes all vectors anew, which takes hours for a large archive: it must be asked for by name.
    Raises ModelUnavailable for an unknown name.
    """
    if settings.models.embedder == "auto" and live:
        return find_models(live)[0]
    return select_model(ModelRole.EMBEDDER, settings.models.embedder, get_models_folder(settings))


def list_pulled_models(role: ModelRole, folder: Path) -> list[ModelSpec]:
    """List the models of a role in the folder, from small to good."""
    return [row for row in MODELS if row.role is role and is_model_present(row, folder / row.name)]


async def find_live_model(archive: Archive) -> str:
    """Find the name of the model that made the archive's vectors; "" where there are none."""
    state = await index_state.load_vector_state(archive)
    return state.model if state else ""


async def open_selected_reranker(settings: RagSettings) -> Reranker | None:
    """Load the reranker; None where none is chosen or pulled. Raises ModelUnavailable."""
    folder = get_models_folder(settings)
    row = select_model(ModelRole.RERANKER, settings.models.reranker, folder)
    if row is None:
        return None
    if row.role is not ModelRole.RERANKER:
        raise ModelUnavailable(f"{row.name} is no reranker: choose another one for MODELS__RERANKER.")
    from rag_core.models.onnx_models import open_reranker

    return await open_reranker(row, folder / row.name, settings.models.threads, settings.models.provider)


async def open_dense_index(settings: RagSettings, archive: Archive) -> DenseIndex | None:
    """Open the embedding model and the vectors of the archive: those that it has also where another model is
    selected, which then takes their place (`ingest.rebuild`). None where no model is selected or pulled.

    Raises ModelUnavailable, VectorsUnavailable.
    """
    live = await find_live_model(archive)
    row = select_embedder(settings, live)
    if row is not None and live and live != row.name:
        rows = [one for one in list_pulled_models(ModelRole.EMBEDDER, get_models_folder(settings)) if one.name == live]
        row = rows[0] if rows else row
    return await open_vectors_of(settings, row, archive) if row else None


async def open_vectors_of(settings: RagSettings, row: ModelSpec, archive: Archive) -> DenseIndex:
    """Open an embedding model and its vector store. Raises ModelUnavailable, VectorsUnavailable."""
    if row.role is not ModelRole.EMBEDDER:
        raise ModelUnavailable(f"{row.name} is no embedding model: choose another one for MODELS__EMBEDDER.")
    from rag_core.models.onnx_models import open_embedder

    folder = get_models_folder(settings) / row.name
    embedder = await open_embedder(row, folder, settings.models.threads, settings.models.provider)
    try:
        return DenseIndex(row, embedder, await open_store_of(settings, row, archive))
    except BaseException:
        await embedder.close()
        raise


async def open_store_of(settings: RagSettings, row: ModelSpec, archive: Archive) -> VectorStore:
    """Open or create the vector store of a model and an archive. Raises VectorsUnavailable."""
    from rag_core.index.vectors_edge import open_vector_store

    space = name_vector_space(row)
    folder = settings.data.dir / "vectors" / space
    return await open_vector_store(
        folder, model=space, dimension=row.dimension, qdrant=settings.qdrant, archive=archive.origin
    )


def remove_other_spaces(settings: RagSettings, row: ModelSpec) -> None:
    """Remove the folders of vectors that another adapter of a model made, or the model before it had one."""
    of_model = re.compile(rf"{re.escape(row.name)}(-[0-9a-f]{{8}})?")
    for folder in (settings.data.dir / "vectors").glob(f"{row.name}*"):
        if of_model.fullmatch(folder.name) and folder.name != name_vector_space(row):
            shutil.rmtree(folder, ignore_errors=True)


# Uses of a model, and the setting of each; "auto" leaves the choice open.
MODEL_USES = {
    "writer": "LLM__MODEL",
    "embedder": "MODELS__EMBEDDER",
    "reranker": "MODELS__RERANKER",
    "speech": "MODELS__SPEECH",
}
_SETTING_PATHS = {name: tuple(part.lower() for part in setting.split("__")) for name, setting in MODEL_USES.items()}


class GgufFile(NamedTuple):
    """GGUF file and the name of its model; without a name, the one in the file counts."""

    path: Path
    name: str = ""


def is_gguf_path(given: str) -> bool:
    """Whether this is a path rather than a name of the catalog."""
    return given.endswith(".gguf") or "/" in given


def get_model_setting(settings: RagSettings, use: str) -> str:
    """Value of the setting of a use."""
    section, field = _SETTING_PATHS[use]
    return str(getattr(getattr(settings, section), field))


def apply_model_choices(settings: RagSettings, remembered: Mapping[str, str]) -> RagSettings:
    """Apply the stored choices of an admin, where the settings leave the choice open."""
    sections: dict[str, dict[str, str]] = {}
    for use, (section, field) in _SETTING_PATHS.items():
        if use in remembered and get_model_setting(settings, use) == "auto":
            sections.setdefault(section, {})[field] = remembered[use]
    changed = {name: getattr(settings, name).model_copy(update=fields) for name, fields in sections.items()}
    return settings.model_copy(update=changed)


async def find_speech_model(settings: RagSettings, archive: Archive) -> Path | None:
    """Find the folder of the speech model that the settings or an admin's choice name; None where it is not here.

    Raises ModelUnavailable for an unknown name, ArchiveUnavailable.
    """
    folder = get_models_folder(settings)
    name = apply_model_choices(settings, await load_choices(archive)).models.speech
    row = select_model(ModelRole.SPEECH, name, folder)
    usable = row and row.role is ModelRole.SPEECH and is_model_present(row, folder / row.name)
    return folder / row.name if row and usable else None


def find_gguf(settings: RagSettings, given: str) -> GgufFile | None:
    """Find the GGUF of a name, a path, or "auto"; None for "none". Raises ModelUnavailable for an unreadable file."""
    if is_gguf_path(given):
        file = GgufFile(Path(given).expanduser())
    else:
        folder = get_models_folder(settings)
        row = select_model(ModelRole.WRITER, given, folder)
        if row is None:
            return None
        if row.role is not ModelRole.WRITER:
            raise ModelUnavailable(f"{row.name} writes no text: choose a writer of citegram models list.")
        check_model_files(row, folder / row.name)
        file = GgufFile(folder / row.name / row.file, row.name)
    from rag_core.llm.local import check_gguf_file

    check_gguf_file(file.path)
    return file


async def open_writer(settings: RagSettings) -> LanguageModel | None:
    """Open the writer, which plans and judges too: LLM__URL before a GGUF. Raises ModelUnavailable."""
    if settings.llm.url:
        from rag_core.llm.openai_client import RemoteModel  # aiohttp takes a third of a second to load

        return RemoteModel(settings.llm)
    return await open_gguf(find_gguf(settings, settings.llm.model), settings)


async def open_gguf(file: GgufFile | None, settings: RagSettings) -> LanguageModel | None:
    """Open a GGUF; None for none. Raises ModelUnavailable."""
    if file is None:
        return None
    from rag_core.llm.local import open_local_model
    from rag_core.writing.prompts import list_prompt_prefixes

    data = settings.data.dir
    return await open_local_model(file.path, settings.llm, name=file.name, data=data, prefixes=list_prompt_prefixes)


@dataclass(frozen=True, slots=True)
class ModelSwitch:
    """Result of a switch: at once (`now`), when the vectors are made (`beside`), or from the next start on."""

    use: str
    name: str
    now: bool
    beside: bool = False


def resolve_model_use(given: str, wanted: str = "") -> str:
    """Resolve the use of a model: the wanted one, else the role of its row. Raises ModelUnavailable."""
    if wanted:
        if wanted not in MODEL_USES:
            raise ModelUnavailable(f"A model is used as {', '.join(MODEL_USES)}, not as {wanted!r}.")
        return wanted
    if given in ("none", "auto"):
        raise ModelUnavailable(f"Say what {given!r} is meant for: --for {'|'.join(MODEL_USES)}.")
    if is_gguf_path(given):
        return ModelRole.WRITER.value
    rows = find_models(given)
    if len(rows) > 1:
        raise ModelUnavailable(f"{given} is a tier of several models: name one, {', '.join(row.name for row in rows)}.")
    return rows[0].role.value


def find_next_embedder(settings: RagSettings, dense: DenseIndex) -> ModelSpec | None:
    """Find the embedder that is to take the place of the open one; None where that one stays."""
    row = select_embedder(settings, dense.model.name)
    return row if row and row.name != dense.model.name else None


async def choose_model_for_next_start(settings: RagSettings, archive: Archive, given: str, wanted: str) -> ModelSwitch:
    """Store a model for the next start, while no bot runs. Raises ModelUnavailable for one that is not present."""
    use = resolve_model_use(given, wanted)
    check_choice_allowed(settings, use, given)
    await save_choice(archive, use, given)
    return ModelSwitch(use, given, now=False)


def check_choice_allowed(settings: RagSettings, use: str, given: str) -> None:
    """Raise ModelUnavailable where a setting overrules the choice, or the model cannot be used."""
    if (fixed := get_model_setting(settings, use)) != "auto":
        said = "{setting} is {value}, and a setting goes before a choice: change it there."
        raise ModelUnavailable(said, code="model-fixed", setting=MODEL_USES[use], value=fixed)
    if use == "writer" and settings.llm.url:
        said = "LLM__URL is set, and that server writes: empty it to choose a model here."
        raise ModelUnavailable(said, code="model-server-writes")
    if given in ("none", "auto"):
        return
    if use == "writer":
        find_gguf(settings, given)  # raises where the file is missing or no GGUF
        return
    row = select_model(ModelRole(use), given, get_models_folder(settings))
    if row is None or row.role.value != use:
        raise ModelUnavailable(f"{given} is no {use}: citegram models list names those there are.")
    check_model_files(row, get_models_folder(settings) / row.name)


def list_models_in_use(settings: RagSettings, remembered: dict[str, str], live: str = "") -> dict[str, str]:
    """Name or path of the model that a start would open now, by use; `live` made the archive's vectors."""
    wanted = apply_model_choices(settings, remembered)
    models = {}
    for use in MODEL_USES:
        given = get_model_setting(wanted, use)
        if wanted.llm.url and use == "writer":
            models[use] = "LLM__URL"
        elif is_gguf_path(given):
            models[use] = str(Path(given))
        else:
            folder = get_models_folder(settings)
            row = select_embedder(wanted, live) if use == "embedder" else select_model(ModelRole(use), given, folder)
            models |= {use: row.name} if row else {}
    return models


@dataclass(frozen=True, slots=True)
class EmbedderProgress:
    """Embedder that takes the place of `live` once all posts are embedded: how many are, of how many."""

    name: str
    live: str
    done: int
    total: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.done:,} of {self.total:,} posts are embedded; until all are, while the bot runs, "
            f"{self.live} answers (citegram reindex does it at once)."
        )


async def find_embedder_progress(settings: RagSettings, archive: Archive) -> EmbedderProgress | None:
    """Find the embedder that was asked for in place of the live one. Raises Archive- and ModelUnavailable."""
    live = await find_live_model(archive)
    row = select_embedder(apply_model_choices(settings, await load_choices(archive)), live) if live else None
    if row is None or row.name == live:
        return None
    begun = await index_state.load_next_vectors(archive)
    mark, last = begun.watermark if begun and begun.model == row.name else 0, await posts.get_last_seq(archive)
    done, left = [await index_state.count_changed_posts(archive, None, *span) for span in ((0, mark), (mark, last))]
    return EmbedderProgress(row.name, live, done, done + left)
