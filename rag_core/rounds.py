"""What recipes are made of: the plan, one look at the posts, the words of a model, and the end of an answer.

The extract comes first: it says whether the evidence covers the question, and it is the answer where no model is, or
where the model does not come to its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from rag_core.asked import Asked
from rag_core.chronicle import chronicle
from rag_core.compose import compose
from rag_core.conflicts import with_conflicts
from rag_core.copies import gathered
from rag_core.coverage import coverage
from rag_core.doors.archive import channels, posts
from rag_core.errors import RagError
from rag_core.extract import best_pieces, quoted
from rag_core.hyde import hyde
from rag_core.phrases import FRAMED, posted_on
from rag_core.plan import bare
from rag_core.planned import planned
from rag_core.rag import Rag
from rag_core.rerank import rerank
from rag_core.search import search
from rag_core.sentences import LONGEST
from rag_core.stage import Run
from rag_core.types import Draft, Evidence, Hit, Kind, Plan, Question, Sentence, Shortfall, Viewer
from rag_core.write import write

__all__ = ["begun", "concluded", "extracted", "imagined", "looked", "say_what_is_missing", "tell", "told", "weighed"]

# A further sentence must be nearly as good as the first: of the posts cited within this margin 9 in 10
# are the right one (XQuAD); without it 4 in 5.
_MARGIN = 3.5
_DECISIVE = 0.8  # coverage from which the posts' own words are shown although the model found no answer in them
_POOR = 0.5  # coverage below which a second round also looks for what a made-up answer is like

log = logging.getLogger(__name__)


async def begun(question: Question, rag: Rag, run: Run) -> tuple[Plan, Draft | None]:
    """The plan, and the answer where it was counted over all posts instead of being searched for."""
    async with _glimpsed(question, rag, run):
        plan = await run.attempt("plan", planned(question, rag, run), lambda: bare(question))
    # Counting over very many posts may take too long: then the question is searched like any other, and that is said.
    exact = await run.attempt("chronicle", chronicle(question, plan, rag), None)
    if exact is not None:
        await say_what_is_missing(question.viewer, rag, run)
    return plan, exact


async def looked(question: Question, plan: Plan, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """Search once and extract from what was found. Search has no stand-in: an index that is down is said."""
    hits = await search(plan, question, rag, run)
    if rag.reranker:  # which may take seconds
        await tell(question, plan, hits, rag, run)
    best = await run.attempt("rerank", rerank(question, hits, rag, run), hits)
    return await weighed(question, plan, best, rag, run)


async def weighed(question: Question, plan: Plan, hits: Sequence[Hit], rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """The evidence of hits, and the extract from it."""
    evidence = await run.attempt("copies", gathered(hits, question.viewer, rag), lambda: compose(hits))
    async with run.stage("extract"):
        # long posts have many pieces to weigh: not on the event loop
        draft = await asyncio.to_thread(extracted, question, plan, evidence, rag)
        run.note(sources=len(evidence.sources), covered=round(draft.covered, 3), sentences=len(draft.sentences),
                 queries=len(plan.queries), legs=plan.legs, route=", ".join(plan.reasons))  # fmt: skip
    return draft, evidence


async def imagined(question: Question, plan: Plan, draft: Draft, rag: Rag, run: Run) -> Plan:
    """The plan with a made-up post to search for, where the first round found little and there is a model for it."""
    model = rag.planner or rag.writer
    if model is None or rag.dense is None or draft.covered >= _POOR:
        return plan
    return replace(plan, like=await run.attempt("hyde", hyde(question, model, run), ""))


async def told(question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Rag, run: Run) -> Draft:
    """The answer in the model's words; the extract where it fails, without a model, and where a date was asked for.

    A model that finds no answer is believed, unless the evidence covers the question so well that the model must
    have missed it: then the reader sees the posts' own words, which cannot be wrong about what they say.
    """
    model = rag.writer  # may be exchanged meanwhile
    if model is None or not draft.sentences or plan.kind is Kind.WHEN:
        return draft
    if run.on_extract:
        await run.on_extract(draft)
    written = await run.attempt("write", write(question, evidence, rag, run), draft)
    if written.sentences:
        return replace(written, covered=draft.covered)
    if draft.covered < _DECISIVE:
        return Draft((), draft.covered)
    run.shortfalls.append(Shortfall("write", f"{model.name} found no answer: these are the posts' own words."))
    return draft


async def concluded(
    question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Rag, run: Run
) -> tuple[Draft, Evidence]:
    """The end of a recipe: what says otherwise is put beside the answer; a refusal says what was not searched."""
    if not draft.sentences:
        await say_what_is_missing(question.viewer, rag, run)
        return draft, evidence
    return await run.attempt("conflicts", with_conflicts(question, plan, draft, evidence, rag), draft), evidence


async def say_what_is_missing(viewer: Viewer, rag: Rag, run: Run) -> None:
    """An index that is behind (a first start, a rebuild) may not have what was asked for: that is said.

    Only what this viewer may read counts.
    """
    if behind := await posts.count_unindexed(rag.archive, rag.lexical.watermark, viewer.channels):
        run.shortfalls.append(Shortfall("search", f"{behind} changes of posts are not in the index yet."))


def extracted(question: Question, plan: Plan, evidence: Evidence, rag: Rag) -> Draft:
    """The best pieces of the evidence, word for word; none where the evidence does not cover the question."""
    statistics = rag.lexical.statistics(question.viewer.channels)
    asked = Asked.of(plan.asked or question.text, statistics.weight)
    dated = plan.kind is Kind.WHEN
    most, longest = (1, FRAMED) if dated else (rag.settings.answer.sentences, LONGEST)
    pieces = best_pieces(asked, evidence, most, _MARGIN, longest)
    best = pieces[0] if pieces else None
    words = coverage(asked, best, statistics).likely
    cosine = best.source.likeness if best else 0.0
    # where the dense leg was not asked, or did not answer, words decide alone
    model = rag.dense.model if rag.dense and cosine else None
    covered = rag.calibration.likely(words, cosine, model, question.lang)
    if covered < rag.calibration.bar:
        return Draft((), covered)
    shown = (quoted(piece) for piece in pieces)
    return Draft(tuple(_dated(s, question.lang) if dated else s for s in shown), covered)


def _dated(sentence: Sentence, lang: str) -> Sentence:
    return replace(sentence, text=f"{posted_on(sentence.citations[0].date, lang)} {sentence.text}")


@asynccontextmanager
async def _glimpsed(question: Question, rag: Rag, run: Run) -> AsyncIterator[None]:
    """While a model plans: what the rules' plan finds is told. It is given up when the model's plan is there."""
    if rag.planner is None or run.on_extract is None:
        yield
        return
    task = asyncio.create_task(_glimpse(question, rag, replace(run, spans=[], shortfalls=[], on_stage=None)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _glimpse(question: Question, rag: Rag, run: Run) -> None:
    try:
        plan = await asyncio.to_thread(rag.plan, question, await channels.known(rag.archive))
        await tell(question, plan, await search(plan, question, rag, run), rag, run)
    except RagError as exc:  # the recipe meets it as well, and says so to the reader
        log.info("%s: nothing could be shown while the model plans: %s", run.trace_id, exc.reason)


async def tell(question: Question, plan: Plan, hits: Sequence[Hit], rag: Rag, run: Run) -> None:
    """Tell what the hits say already, before what takes longer."""
    if run.on_extract is None:
        return
    draft = await asyncio.to_thread(lambda: extracted(question, plan, compose(hits), rag))
    if draft.sentences:
        await run.on_extract(draft)
