"""The map: a question goes in, a cited answer comes out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rag_core.choice import Choice, choose
from rag_core.cite import cite, standing
from rag_core.doors.archive import channels
from rag_core.doors.llm import OnPlace
from rag_core.followed import followed
from rag_core.made import DIRECT, made
from rag_core.memory import kept
from rag_core.rag import Rag
from rag_core.recipes.tail import tail
from rag_core.stage import Run
from rag_core.types import Answer, Channel, Draft, Evidence, Question, Sentence, Source

__all__ = ["answer"]

MOST_NEAREST = 3  # posts offered with a refusal


async def answer(
    question: Question,
    rag: Rag,
    *,
    on_sentence: Callable[[Sentence], None] | None = None,
    on_place: OnPlace | None = None,
    on_extract: Callable[[Answer], None] | None = None,
    on_stage: Callable[[str], None] | None = None,
) -> Answer:
    """Answer from what this asker may read, or refuse. Raises RagError when that cannot be known.

    `on_sentence` is told each sentence of a model as soon as it stands; the answer may still be another one.
    `on_place` is told how many questions are before this one. `on_extract` is told an answer in the posts' own words
    before a model is waited for, perhaps more than once; `on_stage` the name of each stage that begins.
    """
    run = Run(
        rag.settings.budgets,
        DIRECT,
        shortfalls=list(rag.without),
        on_sentence=on_sentence,
        on_place=on_place,
        on_extract=partial(_tell, on_extract, question, rag) if on_extract else None,
        on_stage=on_stage,
    )
    try:
        asked, question = question, await followed(question, rag, run)
        chosen = await _chosen(question, rag, run)
        draft, evidence = await made(chosen.recipe, question, rag, run, careful=chosen.careful)
        sentences = await tail(draft, evidence, question, rag, run)
        found = await _standing(evidence, question, rag, run)
        given = Answer(
            sentences=sentences,
            confidence=draft.covered,
            recipe=run.recipe,
            model=draft.model if sentences else None,
            shortfalls=tuple(dict.fromkeys(run.shortfalls)),  # a second round may lack the same
            trace_id=run.trace_id,
            nearest=() if sentences else tuple(source.passage for source in found[:MOST_NEAREST]),
            channels=await _readable(question, rag),
            copies={s.passage.key: s.passage.copies for s in evidence.sources if s.passage.copies},
            found=found,
            understood=question.text if question.text != asked.text else "",
        )
        await run.attempt("memory", kept(question, given, rag), None)  # never a source: only follow-ups look there
        return given
    finally:
        rag.traced(run)


async def _tell(told: Callable[[Answer], None], question: Question, rag: Rag, draft: Draft) -> None:
    """Tell what an answer would be without a model, if its posts still stand."""
    sentences = await cite(draft, question.viewer, rag)
    if sentences:
        told(Answer(sentences, draft.covered, DIRECT, channels=await _readable(question, rag)))


async def _standing(evidence: Evidence, question: Question, rag: Rag, run: Run) -> tuple[Source, ...]:
    """What was found and still stands."""
    passages = [source.passage for source in evidence.sources]
    here = set(await run.require("nearest", standing(passages, question.viewer, rag)) if passages else ())
    return tuple(source for source in evidence.sources if source.passage in here)


async def _readable(question: Question, rag: Rag) -> dict[int, Channel]:
    known = await channels.known(rag.archive)
    return {chat: channel for chat, channel in known.items() if chat in question.viewer.channels}


async def _chosen(question: Question, rag: Rag, run: Run) -> Choice:
    """Which recipe answers, and a line in the trace that says why."""

    async def noted() -> Choice:
        found = await choose(question, rag)
        run.note(recipe=found.recipe, why=found.why)
        return found

    return await run.attempt("choose", noted(), Choice(DIRECT, "no choice"))
