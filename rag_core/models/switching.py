"""Model switching while the bot runs: check a choice, replace the model at once where possible, and remember it.

A writer, planner or reranker is replaced immediately; an embedder is used from the next start on, because its vectors
have to be made anew beside the old ones.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from rag_core.engine import Engine
from rag_core.errors import ModelUnavailable
from rag_core.llm import LanguageModel
from rag_core.llm.local import LocalModel, open_local_model
from rag_core.models.catalog import ModelRole, find_models
from rag_core.models.model_folder import check_model_files
from rag_core.models.selection import (
    MODEL_USES,
    UNDECIDED_VALUES,
    GgufFile,
    LanguageModels,
    apply_model_choices,
    find_gguf,
    get_model_setting,
    get_models_folder,
    is_gguf_path,
    open_selected_reranker,
    select_model,
)
from rag_core.settings import RagSettings
from rag_core.storage import Archive, users

_STAGE_BY_USE = {"writer": "write", "planner": "write", "reranker": "rerank"}
_CLOSING_TASKS: set[asyncio.Task[None]] = set()  # close old models; asyncio itself holds only weak references
_SWITCH_LOCK = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class ModelSwitch:
    """Result of a switch: use and model, at once or (`now` is False) from the next start on."""

    use: str
    name: str
    now: bool


def resolve_model_use(given: str, wanted: str = "") -> str:
    """Resolve the use of a model: the wanted one, else the role of its row. Raises ModelUnavailable."""
    if wanted:
        if wanted not in MODEL_USES:
            raise ModelUnavailable(f"A model is used as {', '.join(MODEL_USES)}, not as {wanted!r}.")
        return wanted
    if given in ("none", *UNDECIDED_VALUES):
        raise ModelUnavailable(f"Say what {given!r} is meant for: --for {'|'.join(MODEL_USES)}.")
    if is_gguf_path(given):
        return ModelRole.WRITER.value
    rows = find_models(given)
    if len(rows) > 1:
        raise ModelUnavailable(f"{given} is a tier of several models: name one, {', '.join(row.name for row in rows)}.")
    return rows[0].role.value


async def switch_model(rag: Engine, given: str, wanted: str = "") -> ModelSwitch:
    """Switch to a model (a catalog name, a path, auto, none, or same) at once and for every restart.

    Waiting requests are served by the new writer; where it cannot be loaded the old one stays. Another embedder is
    used from the next start on: its vectors are then made beside the old ones. Raises ModelUnavailable.
    """
    use = resolve_model_use(given, wanted)
    async with _SWITCH_LOCK:
        _check_choice_allowed(rag.settings, use, given)
        settings = apply_model_choices(rag.settings, {**await users.load_choices(rag.archive), use: given})
        if use in ("writer", "planner"):
            await _switch_language_models(rag, settings)
        elif use == "reranker":
            await _switch_reranker(rag, settings)
        if use in _STAGE_BY_USE:
            rag.without = tuple(each for each in rag.without if each.stage != _STAGE_BY_USE[use])
        await users.save_choice(rag.archive, use, given)
    return ModelSwitch(use, given, now=use != "embedder")


async def choose_model_for_next_start(
    settings: RagSettings, archive: Archive, given: str, wanted: str = ""
) -> ModelSwitch:
    """Store a model for the next start, while no bot runs. Raises ModelUnavailable for one that is not present."""
    use = resolve_model_use(given, wanted)
    _check_choice_allowed(settings, use, given)
    await users.save_choice(archive, use, given)
    return ModelSwitch(use, given, now=False)


def _check_choice_allowed(settings: RagSettings, use: str, given: str) -> None:
    """Raise ModelUnavailable where a setting overrules the choice, or the model cannot be used."""
    if (fixed := get_model_setting(settings, use)) not in UNDECIDED_VALUES:
        raise ModelUnavailable(
            "{setting} is {value}, and a setting goes before a choice: change it there.",
            code="model-fixed",
            setting=MODEL_USES[use],
            value=fixed,
        )
    if use == "writer" and settings.llm.url:
        raise ModelUnavailable(
            "LLM__URL is set, and that server writes: empty it to choose a model here.", code="model-server-writes"
        )
    if given in ("none", "auto") or (given == "same" and use == "planner"):
        return
    if use in ("writer", "planner"):
        find_gguf(settings, given)  # raises where the file is missing or no GGUF
        return
    row = select_model(ModelRole(use), given, get_models_folder(settings))
    if row is None or row.role.value != use:
        raise ModelUnavailable(f"{given} is no {use}: citegram models list names those there are.")
    check_model_files(row, get_models_folder(settings) / row.name)


async def _switch_language_models(rag: Engine, settings: RagSettings) -> None:
    """Replace writer and planner; an open local model swaps its file instead of being reopened."""
    before = LanguageModels(rag.writer, rag.planner)
    written = find_gguf(settings, settings.llm.model) if not settings.llm.url else None
    planned = written if settings.llm.planner == "same" else find_gguf(settings, settings.llm.planner)
    shared = settings.llm.planner == "same" or (planned == written and not settings.llm.url)
    own = rag.planner if rag.planner is not rag.writer else None
    writer = rag.writer if settings.llm.url else await _swap_gguf(rag.writer, written, settings, own)
    rag.writer = writer
    rag.planner = writer if shared else await _swap_gguf(own, planned, settings, writer)
    for model in {id(one): one for one in (before.writer, before.planner) if one}.values():
        if model not in (rag.writer, rag.planner):
            await model.close()


async def _swap_gguf(
    old: LanguageModel | None, file: GgufFile | None, settings: RagSettings, beside: LanguageModel | None
) -> LanguageModel | None:
    if file is None:
        return None
    if not isinstance(old, LocalModel):
        return await open_local_model(file.path, settings.llm, name=file.name, beside=beside)
    if old.path != file.path:
        await old.swap(file.path, file.name)
    return old


async def _switch_reranker(rag: Engine, settings: RagSettings) -> None:
    old, new = rag.reranker, await open_selected_reranker(settings)
    rag.reranker = new
    if old is None:
        return

    async def close_later() -> None:
        try:  # a question that already uses it may finish its stage
            await asyncio.sleep(2 * settings.budgets.rerank)
        finally:
            await old.close()

    task = asyncio.create_task(close_later())
    _CLOSING_TASKS.add(task)
    task.add_done_callback(_CLOSING_TASKS.discard)


def list_models_in_use(settings: RagSettings, remembered: dict[str, str]) -> dict[str, str]:
    """Name or path of the model that a start would open now, by use; uses without a model are left out."""
    wanted = apply_model_choices(settings, remembered)
    models = {}
    for use in MODEL_USES:
        given = get_model_setting(wanted, use)
        if use == "planner" and given == "same":
            given = wanted.llm.model
        if wanted.llm.url and (use == "writer" or get_model_setting(wanted, use) == "same"):
            models[use] = "LLM__URL"
        elif is_gguf_path(given):
            models[use] = str(Path(given))
        else:
            role = ModelRole.WRITER if use == "planner" else ModelRole(use)
            row = select_model(role, given, get_models_folder(settings))
            models |= {use: row.name} if row else {}
    return models
