"""Recommendation of a writer for a machine: its free memory, its cores, and the rates that were measured on it."""

from __future__ import annotations

from rag_core.llm.protocol import TokenRates
from rag_core.llm.stage_feasibility import estimate_stages
from rag_core.models.catalog import ModelRole, ModelSpec, ModelTier, find_models
from rag_core.settings import Budgets

# Of Qwen2.5-Coder-1.5B on one core; more cores read as many times faster, and write as far as the memory's rate goes.
_CORE_RATES, _MEASURED_BYTES, _MAX_WRITING_CORES = TokenRates(prefill=29, decode=7.4), 1_117_320_768, 3


def recommend_writer(
    free: int | None, cores: int, budgets: Budgets, measured: tuple[TokenRates, int] | None = None
) -> ModelSpec | None:
    """Recommend the best writer that writes in time here, else the one that judges in time; None where none does.

    `free` is in bytes, None where unknown; `measured` are the rates of a model here and the bytes of its file.
    """
    busy = max(1, cores - 1)  # one stays for the bot, as LLM__THREADS=0 has it
    expected = TokenRates(_CORE_RATES.prefill * busy, _CORE_RATES.decode * min(busy, _MAX_WRITING_CORES))
    rates, size = measured or (expected, _MEASURED_BYTES)
    best: ModelSpec | None = None
    for tier in (ModelTier.OFFLINE_WRITER, ModelTier.DEFAULT):
        row = next(row for row in find_models(tier) if row.role is ModelRole.WRITER)
        if free is not None and row.memory > free:
            continue
        share = size / row.bytes
        judge, _, write = estimate_stages(TokenRates(rates.prefill * share, rates.decode * share), budgets)
        if write.fits or (best is None and judge.fits):
            best = row
    return best
