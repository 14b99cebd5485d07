"""Traces are kept beside the answers: whatever becomes of one, the others are kept, and the end comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot import traces
from bot.traces import tracing
from rag_core.doors.archive.traces import trace_of
from rag_core.rag import open_rag
from rag_core.settings import Budgets, DataSettings, LlmSettings, ModelSettings, RagSettings
from rag_core.stage import Run


async def test_a_trace_that_cannot_be_kept_stops_neither_the_next_nor_the_end(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = traces.keep_trace

    async def choosy(archive: Any, trace_id: str, *more: Any) -> None:
        if trace_id == "odd":
            raise TypeError("Object of type int64 is not JSON serializable")
        await real(archive, trace_id, *more)

    monkeypatch.setattr(traces, "keep_trace", choosy)
    settings = RagSettings(
        data=DataSettings(dir=tmp_path), models=ModelSettings(embedder="none"), llm=LlmSettings(model="none")
    )
    async with asyncio.timeout(60), open_rag(settings) as rag:
        async with tracing(rag):
            for trace_id in ("odd", "even"):
                rag.traced(Run(Budgets(), "direct", trace_id))
        assert await trace_of(rag.archive, "odd") is None
        assert await trace_of(rag.archive, "even") is not None
