"""The models that are used: their files whole, and memory enough for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from bot.doctor.findings import Case, Finding
from rag_core.dense import models_folder
from rag_core.doors.archive import choices
from rag_core.doors.llm.gguf import check_file, free_memory
from rag_core.doors.model_folder import size_of, verify
from rag_core.errors import ModelUnavailable
from rag_core.language import is_path
from rag_core.models import MODELS
from rag_core.using import in_use

__all__ = ["models"]

_MEMORY = (
    "The model {name} needs about {need:.1f} GB of memory, and {free:.1f} GB are free: choose a smaller one with "
    "citegram models use, or end what else runs."
)


async def models(case: Case) -> AsyncIterator[Finding]:
    """Each model in use once: its checksums, read in full, and the memory it needs where no bot holds it yet."""
    if case.archive is None:
        return
    given = case.settings.rag()
    used = in_use(given, await choices.remembered(case.archive))
    for name in dict.fromkeys(used.values()):
        try:
            need = await asyncio.to_thread(_looked_at, name, models_folder(given))
        except ModelUnavailable as exc:
            yield Finding(False, exc.reason)
            continue
        if need is None:  # a server's, or none
            continue
        free = free_memory()
        if not case.runs and free is not None and need > free:
            yield Finding(False, _MEMORY.format(name=name, need=need / 1e9, free=free / 1e9))
        else:
            yield Finding(True, f"{name}: its files are what they were when they came")


def _looked_at(name: str, folder: Path) -> int | None:
    """Bytes of memory a model needs, None for what is no file of ours; blocking. Raises ModelUnavailable."""
    if is_path(name):
        check_file(Path(name).expanduser())
        return Path(name).expanduser().stat().st_size
    row = next((row for row in MODELS if row.name == name), None)
    if row is None:
        return None
    verify(row, folder / row.name)
    return row.memory or size_of(folder / row.name)
