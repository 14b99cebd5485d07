"""`direct`: plan, search, compose, extract, and write where a model is. Also what every other recipe falls back to."""

from __future__ import annotations

from rag_core.plan import wider
from rag_core.rag import Rag
from rag_core.rounds import begun, concluded, imagined, looked, told
from rag_core.stage import Run
from rag_core.types import Draft, Evidence, Question

__all__ = ["direct"]


async def direct(question: Question, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on; a draft without sentences is a refusal."""
    plan, exact = await begun(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    draft, evidence = await looked(question, plan, rag, run)
    if not draft.sentences and rag.settings.retrieval.rounds > 1 and plan.queries:
        again, more = await looked(question, await imagined(question, wider(plan), draft, rag, run), rag, run)
        if again.covered > draft.covered:
            draft, evidence = again, more
    draft = await told(question, plan, draft, evidence, rag, run)
    return await concluded(question, plan, draft, evidence, rag, run)
