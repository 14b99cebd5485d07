"""A recipe within its time; where it does not come to its end, `direct` answers in the time kept back for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, RecipeFailed, StageTimeout
from rag_core.rag import Rag
from rag_core.recipes import RECIPES
from rag_core.reflect import reflected
from rag_core.stage import Run, Span
from rag_core.types import Draft, Evidence, Question, Shortfall

__all__ = ["DIRECT", "made"]

DIRECT = "direct"
# Kept back for `direct`: it searches in two seconds, and shows the posts' own words where it cannot write any more.
_KEPT_S, _KEPT = 15.0, 1 / 3  # seconds, but at most this share of the whole
_OUT_OF_TIME = "There was no time to answer the question as was wanted: raise BUDGETS__QUESTION."


async def made(name: str, question: Question, rag: Rag, run: Run, *, careful: bool = False) -> tuple[Draft, Evidence]:
    """A draft and its evidence; where one is `careful` the draft is looked over once more.

    Raises RagError where `direct` does not come to its end either.
    """
    whole = rag.settings.question_s
    run.recipe = name
    if name == DIRECT:
        return await _direct(question, rag, run, whole, careful=careful)
    kept, before = min(_KEPT_S, _KEPT * whole), list(run.shortfalls)
    try:
        with _noted(name, rag, run):
            async with run.within(whole - kept):
                return await _tried(name, question, rag, run, careful=careful)
    except RagError as exc:
        run.recipe, run.shortfalls[:] = DIRECT, [*before, Shortfall("recipe", f"{name}: {exc.reason}")]
    return await _direct(question, rag, run, kept)


@contextmanager
def _noted(name: str, rag: Rag, run: Run) -> Iterator[None]:
    """How long a recipe took and how it ended, for the trace and for the choice of recipes."""
    started, failed = time.perf_counter(), None
    try:
        yield
    except BaseException as exc:
        failed = exc
        raise
    finally:
        error = type(failed).__name__ if failed else None
        run.spans.append(Span(name, round((time.perf_counter() - started) * 1000, 3), {}, error))
        # an index or an archive that is down is no fault of the recipe, nor a model that is not there, nor a reader
        # who does not want to wait
        if not isinstance(failed, ArchiveUnavailable | IndexUnavailable | RecipeFailed | asyncio.CancelledError):
            rag.health.ended(name, well=failed is None, limit=rag.settings.agent.errors)


async def _tried(name: str, question: Question, rag: Rag, run: Run, *, careful: bool) -> tuple[Draft, Evidence]:
    """Raises StageTimeout also where a recipe found nothing because its stages had no time."""
    draft, evidence = await RECIPES[name](question, rag, run)
    if not draft.sentences and run.hurried:
        raise StageTimeout(_OUT_OF_TIME)
    return (await reflected(question, draft, evidence, rag, run) if careful else draft), evidence


async def _direct(
    question: Question, rag: Rag, run: Run, seconds: float, *, careful: bool = False
) -> tuple[Draft, Evidence]:
    async with run.within(seconds):
        draft, evidence = await RECIPES[DIRECT](question, rag, run)
        return (await reflected(question, draft, evidence, rag, run) if careful else draft), evidence
