import asyncio

from bot import stored_answer
from bot.stored_answer import record_traces
from rag_core.engine import open_engine
from rag_core.run import Budgets, Run
from rag_core.settings import DataSettings, LlmSettings, ModelSettings, RagSettings
from rag_core.storage.questions import fetch_trace


async def test_a_trace_that_cannot_be_kept_stops_neither_the_next_nor_the_end(tmp_path, monkeypatch):
    real = stored_answer.save_trace

    async def choosy(archive, trace_id, *more):
        if trace_id == "odd":
            raise TypeError("Object of type int64 is not JSON serializable")
        await real(archive, trace_id, *more)

    monkeypatch.setattr(stored_answer, "save_trace", choosy)
    settings = RagSettings(
        data=DataSettings(dir=tmp_path), models=ModelSettings(embedder="none"), llm=LlmSettings(model="none")
    )
    async with asyncio.timeout(60), open_engine(settings) as rag:
        async with record_traces(rag):
            for trace_id in ("odd", "even"):
                rag.traced(Run(Budgets(), "direct", trace_id))
        assert await fetch_trace(rag.archive, "odd") is None
        assert await fetch_trace(rag.archive, "even") is not None
