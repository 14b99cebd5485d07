"""The language models as they lie on the tray: who writes, and who plans. They may be one.

`chosen_by` is the order in which a choice counts: a setting that names something; what an admin chose while the bot
ran; the best that was pulled. So a configuration that names a model is never overruled by a button.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rag_core.dense import chosen, models_folder
from rag_core.doors.llm import LanguageModel
from rag_core.doors.llm.gguf import check_file
from rag_core.doors.llm.local import open_local
from rag_core.doors.model_folder import check
from rag_core.errors import ModelUnavailable
from rag_core.models import Role
from rag_core.settings import RagSettings

__all__ = ["FREE", "USES", "Gguf", "Language", "chosen_by", "gguf", "is_path", "open_language", "planner_of", "set_to"]

# What a model can be chosen for, and the setting that says so.
USES = {
    "writer": "LLM__MODEL",
    "planner": "LLM__PLANNER",
    "embedder": "MODELS__EMBEDDER",
    "reranker": "MODELS__RERANKER",
}
FREE = ("auto", "same")  # settings that leave the choice to others
_FIELDS = {name: tuple(part.lower() for part in setting.split("__")) for name, setting in USES.items()}


@dataclass(frozen=True, slots=True)
class Language:
    """Two models, which may be the same one; None where there is none."""

    writer: LanguageModel | None
    planner: LanguageModel | None

    async def close(self) -> None:
        """Let go of both."""
        for model in {id(model): model for model in (self.writer, self.planner) if model}.values():
            await model.close()


@dataclass(frozen=True, slots=True)
class Gguf:
    """A file and what its model is called; no name: as the file says."""

    path: Path
    name: str = ""


def is_path(given: str) -> bool:
    """Whether this is a file rather than the name of a row."""
    return given.endswith(".gguf") or "/" in given


def set_to(settings: RagSettings, use: str) -> str:
    """What is set for a use."""
    section, field = _FIELDS[use]
    return str(getattr(getattr(settings, section), field))


def chosen_by(settings: RagSettings, remembered: Mapping[str, str]) -> RagSettings:
    """The settings with what an admin chose, where they leave the choice open."""
    sections: dict[str, dict[str, str]] = {}
    for use, (section, field) in _FIELDS.items():
        if use in remembered and set_to(settings, use) in FREE:
            sections.setdefault(section, {})[field] = remembered[use]
    changed = {name: getattr(settings, name).model_copy(update=fields) for name, fields in sections.items()}
    return settings.model_copy(update=changed)


def gguf(settings: RagSettings, given: str) -> Gguf | None:
    """The file of a name, a path, or auto; None for none. Raises ModelUnavailable for one that cannot be read."""
    file = Gguf(Path(given).expanduser()) if is_path(given) else _pulled(settings, given)
    if file:
        check_file(file.path)
    return file


def _pulled(settings: RagSettings, given: str) -> Gguf | None:
    folder = models_folder(settings)
    row = chosen(Role.WRITER, given, folder)
    if row is None:
        return None
    if row.role is not Role.WRITER:
        raise ModelUnavailable(f"{row.name} writes no text: choose a writer of citegram models list.")
    check(row, folder / row.name)
    return Gguf(folder / row.name / row.file, row.name)


def _remote(settings: RagSettings) -> LanguageModel:
    from rag_core.doors.llm.remote import open_remote  # aiohttp takes a third of a second to load

    return open_remote(settings.llm)


async def open_language(settings: RagSettings) -> Language:
    """Open who writes and who plans. LLM__URL goes before a GGUF; a server need not be there yet.

    Raises ModelUnavailable.
    """
    writer = _remote(settings) if settings.llm.url else await _opened(settings, settings.llm.model)
    try:
        return Language(writer, await planner_of(settings, writer))
    except BaseException:
        if writer:
            await writer.close()
        raise


async def planner_of(settings: RagSettings, writer: LanguageModel | None) -> LanguageModel | None:
    """Who plans beside this writer: the writer too, where no other is named. Raises ModelUnavailable."""
    given = settings.llm.planner
    if given == "same" or (given == settings.llm.model and not settings.llm.url):
        return writer
    return await _opened(settings, given, writer)


async def _opened(settings: RagSettings, given: str, beside: LanguageModel | None = None) -> LanguageModel | None:
    file = gguf(settings, given)
    return await open_local(file.path, settings.llm, name=file.name, beside=beside) if file else None
