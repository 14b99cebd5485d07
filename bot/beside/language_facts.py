"""What can be said of the models that write and plan: which, how fast on this machine, what this build can use."""

from __future__ import annotations

from importlib.util import find_spec

from rag_core.doors.llm import LanguageModel
from rag_core.doors.llm.local import LocalModel
from rag_core.doors.llm.remote import RemoteModel
from rag_core.errors import GenerationFailed
from rag_core.rag import Rag

__all__ = ["language_facts"]

_WORD_FOR_WORD = "answers are word for word from the posts"


async def language_facts(rag: Rag) -> list[tuple[bool | None, str]]:
    """Fine or not (None: neither), and a sentence. Measures, which takes a turn of the model and some seconds."""
    said: list[tuple[bool | None, str]] = []
    for shortfall in rag.without:
        if shortfall.stage == "write":
            said.append((False, f"no writer, {_WORD_FOR_WORD}: {shortfall.reason}"))
    if rag.writer:
        said.append(await _measured("writer", rag.writer))
    elif not said:
        said.append((None, f"no writer, {_WORD_FOR_WORD}: citegram models pull default, or set LLM__URL"))
    if rag.planner is None:
        said.append((None, "plans are made by rules"))
    elif rag.planner is not rag.writer:
        said.append(await _measured("planner", rag.planner))
    if find_spec("llama_cpp") is None and not isinstance(rag.writer, RemoteModel):
        said.append((None, "llama.cpp is not installed, a GGUF needs it: pip install 'citegram[local]'"))
    return said


async def _measured(use: str, model: LanguageModel) -> tuple[bool | None, str]:
    try:
        if isinstance(model, RemoteModel):
            return True, f"{use}: {await _remote(model)}"
        if isinstance(model, LocalModel):
            return True, f"{use}: {await _local(model)}"
    except GenerationFailed as exc:
        return False, f"{use}: {exc.reason}"
    return None, f"{use}: {model.name}"


async def _local(model: LocalModel) -> str:
    speed = await model.speed()
    size = f"{speed.parameters / 1e9:.1f} B parameters, {speed.bytes / 1e9:.1f} GB"
    gpu = "can use a GPU" if speed.gpu else "can use no GPU"
    rates = f"reads {speed.prefill:,.0f} and writes {speed.decode:,.1f} tokens/s with {speed.threads} threads"
    return f"{model.name} ({size}) {rates}; this llama.cpp {gpu}"


async def _remote(model: RemoteModel) -> str:
    rates = await model.speed()
    held = "replies are held to a grammar" if model.grammars else "replies are checked, grammars not trusted"
    seen = f"reads {rates.prefill:,.0f} and writes {rates.decode:,.1f} tokens/s as seen from here"
    return f"{model.name} on {model.place} ({model.dialect}) {seen}; {held}"
