"""Diagnostic facts for `citegram doctor` that only the process with the open indexes knows.

How far the indexes are, whether they agree with the archive, which models write and plan, and how fast they are on
this machine.
"""

from __future__ import annotations

import time
from importlib.util import find_spec

from bot.control.schemas import DenseFacts, IndexFacts
from ingest.indexer import DenseIndexer
from ingest.integrity import compare_indexes
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, ModelUnavailable
from rag_core.llm.local import LocalModel
from rag_core.llm.openai_client import RemoteModel
from rag_core.llm.protocol import LanguageModel
from rag_core.storage import posts

_WORD_FOR_WORD_TEXT = "answers are word for word from the posts"


async def _collect_language_facts(rag: Engine) -> list[tuple[bool | None, str]]:
    """Describe the language models: (True, False or None for neutral, a sentence) for each."""
    facts: list[tuple[bool | None, str]] = []
    for shortfall in rag.without:
        if shortfall.stage == "write":
            facts.append((False, f"no writer, {_WORD_FOR_WORD_TEXT}: {shortfall.reason}"))
    if rag.writer:
        facts.append(await _describe_model("writer", rag.writer))
    elif not facts:
        facts.append((None, f"no writer, {_WORD_FOR_WORD_TEXT}: citegram models pull default, or set LLM__URL"))
    if rag.planner is None:
        facts.append((None, "plans are made by rules"))
    elif rag.planner is not rag.writer:
        facts.append(await _describe_model("planner", rag.planner))
    if find_spec("llama_cpp") is None and not isinstance(rag.writer, RemoteModel):
        facts.append((None, "llama.cpp is not installed, a GGUF needs it: pip install 'citegram[local]'"))
    return facts


async def _describe_model(use: str, model: LanguageModel) -> tuple[bool | None, str]:
    if not isinstance(model, RemoteModel | LocalModel):
        return None, f"{use}: {model.name}"
    try:
        if isinstance(model, RemoteModel):
            return True, await _describe_server(use, model)
        await model.load()
    except (GenerationFailed, ModelUnavailable) as exc:
        return False, f"{use}: {exc.reason}"
    if (speed := model.speed) is None or (rates := model.rates) is None:
        return False, f"{use}: {model.name} could not be measured: start the bot again"
    size = f"{speed.parameters / 1e9:.1f} B parameters, {speed.bytes / 1e9:.1f} GB"
    gpu = "can use a GPU" if speed.gpu else "can use no GPU"
    read = _format_rates(rates.prefill, rates.decode)
    return True, f"{use}: {model.name} ({size}) {read} with {speed.threads} threads; this llama.cpp {gpu}"


async def _describe_server(use: str, model: RemoteModel) -> str:
    """Measure the model of a server; takes a turn and some seconds. Raises GenerationFailed."""
    speed = await model.measure_speed()
    rates = _format_rates(speed.prefill, speed.decode)
    form = "replies are held to a grammar" if model.grammars else "replies are checked, grammars not trusted"
    return f"{use}: {model.name} on {model.place} ({model.dialect}) {rates} as seen from here; {form}"


def _format_rates(prefill: float, decode: float) -> str:
    return f"reads {prefill:,.0f} and writes {decode:,.1f} tokens/s"


_SAMPLE_COUNT = 16  # texts embedded to estimate the time for a backlog
_SAMPLE_TEXT = "Паром уходит в половине восьмого. The ferry leaves at half past seven, and comes back before dark. " * 2


async def collect_index_facts(rag: Engine) -> IndexFacts:
    """Collect the facts from an open engine. Raises ArchiveUnavailable, VectorsUnavailable, ModelUnavailable."""
    last, dense = await posts.get_last_seq(rag.archive), await _collect_dense_facts(rag)
    late = rag.lexical.watermark > last or bool(await posts.list_post_changes(rag.archive, rag.lexical.watermark, 1))
    comparison = await compare_indexes(rag) if not (late or (dense and dense["waiting"])) else None
    return IndexFacts(
        passages=len(rag.lexical),
        watermark=rag.lexical.watermark,
        behind=last - rag.lexical.watermark if late else 0,
        dense=dense,
        compared=comparison,
        without=[shortfall.reason for shortfall in rag.without if shortfall.stage != "write"],
        language=await _collect_language_facts(rag),
        bar=f"{rag.calibration.bar} ({rag.calibration.data})",
    )


async def _collect_dense_facts(rag: Engine) -> DenseFacts | None:
    if rag.dense is None:
        return None
    model, vectors, embedder = rag.dense.model.name, rag.dense.vectors, rag.dense.embedder
    waiting, seconds = await DenseIndexer(rag.archive, vectors, embedder).waiting(), 0.0
    if waiting:
        started = time.perf_counter()
        await embedder.passages([_SAMPLE_TEXT] * _SAMPLE_COUNT)
        seconds = (time.perf_counter() - started) / _SAMPLE_COUNT * waiting
    return DenseFacts(model=model, vectors=await vectors.count(), waiting=waiting, seconds=seconds)
