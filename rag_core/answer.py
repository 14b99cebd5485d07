"""The map: a question goes in, a cited answer comes out."""

from __future__ import annotations

from rag_core.cite import cite, standing
from rag_core.doors.archive import channels
from rag_core.rag import Rag
from rag_core.recipes.direct import direct
from rag_core.stage import Run
from rag_core.types import Answer, Question

__all__ = ["answer"]

MOST_NEAREST = 3  # posts offered with a refusal


async def answer(question: Question, rag: Rag) -> Answer:
    """Answer from what this asker may read, or refuse. Raises RagError when that cannot be known."""
    run = Run(rag.settings.budgets, "direct", shortfalls=list(rag.without))
    try:
        draft, evidence = await direct(question, rag, run)
        sentences = await run.require("cite", cite(draft, question.viewer, rag))
        passages = [source.passage for source in evidence.sources]
        here = set(await run.require("nearest", standing(passages, question.viewer, rag)) if passages else ())
        found = tuple(source for source in evidence.sources if source.passage in here)
        known = await channels.known(rag.archive)
        return Answer(
            sentences=sentences,
            confidence=draft.covered,
            recipe=run.recipe,
            shortfalls=tuple(run.shortfalls),
            trace_id=run.trace_id,
            nearest=() if sentences else tuple(source.passage for source in found[:MOST_NEAREST]),
            channels={chat: channel for chat, channel in known.items() if chat in question.viewer.channels},
            copies={s.passage.key: s.passage.copies for s in evidence.sources if s.passage.copies},
            found=found,
        )
    finally:
        rag.traced(run)
