"""Recipe `council`, for attribution: an LLM judge for every post, an answer from each kept post, a check of gaps.

Hybrid search, judge, predictors, final answer, judge of the parts: parts of the question that stay open are searched
once more (agent.py).
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from rag_core.engine import Engine
from rag_core.errors import RecipeFailed
from rag_core.llm.protocol import LanguageModel
from rag_core.llm.rates import COUNCIL_POSTS, COUNCIL_PREDICTIONS
from rag_core.recipe_steps import (
    Round,
    extract_from_hits,
    finish_draft,
    keep_extract,
    plan_or_answer_exactly,
    report_extract,
)
from rag_core.recipes.agent import (
    UNJUDGED_POSTS,
    answer_open_parts,
    judge_question_parts,
    limit_answer_length,
)
from rag_core.retrieval.search import format_hit, search_passages
from rag_core.run import LlmCosts, Run, Stage
from rag_core.types import Draft, Evidence, Hit, Question, Source
from rag_core.verification.judge import judge_relevance
from rag_core.writing.write import write_draft

_MAX_FOLLOW_UPS = 2  # parts of a question that are searched once more
_WRITING_TIME_FACTOR = 2.0  # time of the final answer and its check, as a multiple of the slowest predictor's


async def run_council(question: Question, rag: Engine, run: Run) -> Round:
    """Run the recipe `council`. Raises RecipeFailed without a model, GenerationFailed."""
    model = rag.writer
    if model is None:
        raise RecipeFailed("The recipe council needs a language model: set LLM__MODEL.")
    plan, exact = await plan_or_answer_exactly(question, rag, run, by_model=True)
    if exact is not None:
        return Round(plan, exact)
    # both retrievers, and the posts above the judge's threshold, which depends on all scores
    hybrid = replace(rag, dense_weight=rag.settings.council.alpha)
    hits = (await search_passages(plan, question, hybrid, run))[:COUNCIL_POSTS]
    await report_extract(question, plan, hits, rag, run)
    judging = _judge_hits(question, hits, model, rag, run)
    kept = await run.attempt(Stage.JUDGE, judging, hits[:UNJUDGED_POSTS])
    extracted = await extract_from_hits(question, plan, kept, rag, run)
    if run.on_extract and extracted.draft.sentences:
        await run.on_extract(extracted.draft)
    draft = await _write_final_answer(question, extracted, model, rag, run)
    written = replace(extracted, draft=draft)
    if draft.sentences and rag.follow_up:
        parts = await run.attempt(Stage.PARTS, judge_question_parts(question, draft.sentences, model, run), ())
        open_parts = [replace(question, text=part.ask) for part in parts if part.ask]
        written = await answer_open_parts(open_parts[:_MAX_FOLLOW_UPS], written, rag, run)
    return await finish_draft(question, written, rag, run)


async def _judge_hits(
    question: Question, hits: Sequence[Hit], model: LanguageModel, rag: Engine, run: Run
) -> tuple[Hit, ...]:
    """Keep the hits at or above mean - n·σ of their log odds, best first."""
    if not hits:
        return ()
    costs, size = LlmCosts(calls=len(hits)), math.ceil(len(hits) / rag.settings.llm.parallel)

    async def judge(part: Sequence[Hit]) -> list[float]:
        async with run.open_session(model, question.viewer.user_id) as session:
            return await judge_relevance(question, [hit.passage for hit in part], session)

    # a server judges LLM__PARALLEL posts at once; a local model reads the common prompt once, and each post after it
    parts = await asyncio.gather(*(judge(hits[at : at + size]) for at in range(0, len(hits), size)))
    odds = [odd for part in parts for odd in part]
    bar = statistics.fmean(odds) - rag.settings.council.deviations * statistics.pstdev(odds)
    ranked = sorted(zip(hits, odds, strict=True), key=lambda pair: -pair[1])
    kept = tuple(hit for hit, odd in ranked if odd >= bar)
    run.note(**costs.to_counts(), judged=len(hits), kept=len(kept), bar=round(bar, 3))
    run.show("judge", (f"{odd:+.2f} {format_hit(hit)}" for hit, odd in ranked))
    # evidence is trimmed by score: scores must follow the judge's order
    return tuple(replace(hit, score=1 / n) for n, hit in enumerate(kept, 1))


async def _write_final_answer(
    question: Question, extracted: Round, model: LanguageModel, rag: Engine, run: Run
) -> Draft:
    extract, evidence = extracted.draft, extracted.evidence
    predictions = await _predict_from_each_source(question, evidence.sources, rag, run)
    answering = tuple(source for source in evidence.sources if predictions.get(source.number, Draft()).sentences)
    if predictions and not answering:
        return keep_extract(extract, model.name, run)  # no predictor found an answer in its post
    sentences = tuple(s for source in answering for s in predictions[source.number].sentences[:1])
    fallback = Draft(limit_answer_length(sentences), model=model.name) if sentences else extract
    chosen = Evidence(answering) if answering else evidence
    draft = await run.attempt(Stage.WRITE, write_draft(question, chosen, rag, run), fallback)
    if not draft.sentences:
        return keep_extract(extract, model.name, run)
    return replace(draft, covered=extract.covered).graded_by(extract)


async def _predict_from_each_source(
    question: Question, sources: Sequence[Source], rag: Engine, run: Run
) -> dict[int, Draft]:
    """Answer from each source alone, by its number; for as many of the first sources as there is time.

    A server answers from LLM__PARALLEL sources at once.
    """
    llm, before = rag.settings.llm, list(run.shortfalls)
    most = len(sources) if llm.url or llm.gpu_layers else COUNCIL_PREDICTIONS
    predictions: dict[int, Draft] = {}
    on_sentence, run.on_sentence = run.on_sentence, None  # only the final answer is streamed
    slowest = 0.0
    try:
        for at in range(0, most, llm.parallel):
            if run.left < (1 + _WRITING_TIME_FACTOR) * slowest:
                break
            started, failed, batch = time.monotonic(), Draft(), sources[at : min(most, at + llm.parallel)]
            writing = (write_draft(question, Evidence((source,)), rag, run) for source in batch)
            drafts = await asyncio.gather(*(run.attempt(Stage.PREDICT, work, failed) for work in writing))
            predictions |= {s.number: draft for s, draft in zip(batch, drafts, strict=True) if draft is not failed}
            slowest = max(slowest, time.monotonic() - started)
    finally:
        run.on_sentence = on_sentence
        run.shortfalls[:] = before  # a predictor's shortfall is none of the answer
    return predictions
