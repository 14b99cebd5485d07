"""Another model while the bot runs: chosen for one use, put in place where that can be done at once, and remembered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from rag_core.dense import chosen, models_folder, open_reranking
from rag_core.doors.archive import Archive, choices
from rag_core.doors.llm import LanguageModel
from rag_core.doors.llm.local import LocalModel, open_local
from rag_core.doors.model_folder import check
from rag_core.errors import ModelUnavailable
from rag_core.language import FREE, USES, Gguf, Language, chosen_by, gguf, is_path, set_to
from rag_core.models import Role, rows_of
from rag_core.rag import Rag
from rag_core.settings import RagSettings

__all__ = ["Used", "exchange", "in_use", "keep", "use_of"]

_STAGES = {"writer": "write", "planner": "write", "reranker": "rerank"}
_LEAVING: set[asyncio.Task[None]] = set()  # what closes old models; asyncio itself holds tasks weakly
_TURN = asyncio.Lock()


@dataclass(frozen=True, slots=True)
class Used:
    """What a model is used for from now on, or (`now` is False) from the next start on."""

    use: str
    name: str
    now: bool


def use_of(given: str, wanted: str = "") -> str:
    """What a model is chosen for: as wanted, else what its row is for. Raises ModelUnavailable."""
    if wanted:
        if wanted not in USES:
            raise ModelUnavailable(f"A model is used as {', '.join(USES)}, not as {wanted!r}.")
        return wanted
    if given in ("none", *FREE):
        raise ModelUnavailable(f"Say what {given!r} is meant for: --for {'|'.join(USES)}.")
    if is_path(given):
        return Role.WRITER.value
    rows = rows_of(given)
    if len(rows) > 1:
        raise ModelUnavailable(f"{given} is a tier of several models: name one, {', '.join(row.name for row in rows)}.")
    return rows[0].role.value


async def exchange(rag: Rag, given: str, wanted: str = "") -> Used:
    """Use a model (a row's name, a path, auto, none, or same) at once, and after every restart.

    Who waits for a writer is served by the new one; where the new one cannot be loaded the old one stays.
    Another embedder is for the next start: its vectors are made anew then, beside the old ones.
    Raises ModelUnavailable.
    """
    use = use_of(given, wanted)
    async with _TURN:
        _allowed(rag.settings, use, given)
        settings = chosen_by(rag.settings, {**await choices.remembered(rag.archive), use: given})
        if use in ("writer", "planner"):
            await _language(rag, settings)
        elif use == "reranker":
            await _reranker(rag, settings)
        if use in _STAGES:
            rag.exchange(without=tuple(each for each in rag.without if each.stage != _STAGES[use]))
        await choices.remember(rag.archive, use, given)
    return Used(use, given, now=use != "embedder")


async def keep(settings: RagSettings, archive: Archive, given: str, wanted: str = "") -> Used:
    """Remember a model for the next start, where no bot runs now. Raises ModelUnavailable for one that is not here."""
    use = use_of(given, wanted)
    _allowed(settings, use, given)
    await choices.remember(archive, use, given)
    return Used(use, given, now=False)


def _allowed(settings: RagSettings, use: str, given: str) -> None:
    """Raise where a choice would not count, or could not be carried out."""
    if (fixed := set_to(settings, use)) not in FREE:
        raise ModelUnavailable(f"{USES[use]} is {fixed}, and a setting goes before a choice: change it there.")
    if use == "writer" and settings.llm.url:
        raise ModelUnavailable("LLM__URL is set, and that server writes: empty it to choose a model here.")
    if given in ("none", "auto") or (given == "same" and use == "planner"):
        return
    if use in ("writer", "planner"):
        gguf(settings, given)  # raises where it is not here, or no GGUF
        return
    row = chosen(Role(use), given, models_folder(settings))
    if row is None or row.role.value != use:
        raise ModelUnavailable(f"{given} is no {use}: citegram models list names those there are.")
    check(row, models_folder(settings) / row.name)


async def _language(rag: Rag, settings: RagSettings) -> None:
    """Bring writer and planner to what is wanted: by swapping the file under one that is open, where there is one."""
    before = Language(rag.writer, rag.planner)
    written = gguf(settings, settings.llm.model) if not settings.llm.url else None
    planned = written if settings.llm.planner == "same" else gguf(settings, settings.llm.planner)
    shared = settings.llm.planner == "same" or (planned == written and not settings.llm.url)
    own = rag.planner if rag.planner is not rag.writer else None
    writer = rag.writer if settings.llm.url else await _swapped(rag.writer, written, settings, own)
    rag.exchange(writer=writer)
    rag.exchange(planner=writer if shared else await _swapped(own, planned, settings, writer))
    for model in {id(one): one for one in (before.writer, before.planner) if one}.values():
        if model not in (rag.writer, rag.planner):
            await model.close()


async def _swapped(
    old: LanguageModel | None, file: Gguf | None, settings: RagSettings, beside: LanguageModel | None
) -> LanguageModel | None:
    if file is None:
        return None
    if not isinstance(old, LocalModel):
        return await open_local(file.path, settings.llm, name=file.name, beside=beside)
    if old.path != file.path:
        await old.swap(file.path, file.name)
    return old


async def _reranker(rag: Rag, settings: RagSettings) -> None:
    old, new = rag.reranker, await open_reranking(settings)
    rag.exchange(reranker=new)
    if old is None:
        return

    async def let_go() -> None:
        try:  # a question that has it already may use it to the end of its stage
            await asyncio.sleep(2 * settings.budgets.rerank)
        finally:
            await old.close()

    task = asyncio.create_task(let_go())
    _LEAVING.add(task)
    task.add_done_callback(_LEAVING.discard)


def in_use(settings: RagSettings, remembered: dict[str, str]) -> dict[str, str]:
    """By use, the name or path of the model that is opened at a start now; uses without one are left out."""
    wanted = chosen_by(settings, remembered)
    found = {}
    for use in USES:
        given = set_to(wanted, use)
        if use == "planner" and given == "same":
            given = wanted.llm.model
        if wanted.llm.url and (use == "writer" or set_to(wanted, use) == "same"):
            found[use] = "LLM__URL"
        elif is_path(given):
            found[use] = str(Path(given))
        else:
            role = Role.WRITER if use == "planner" else Role(use)
            row = chosen(role, given, models_folder(settings))
            found |= {use: row.name} if row else {}
    return found
