"""`direct`: plan by rules, search, compose, write by extraction. Also what every other recipe falls back to."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from rag_core.asked import Asked
from rag_core.chronicle import chronicle
from rag_core.compose import compose
from rag_core.copies import gathered
from rag_core.coverage import coverage
from rag_core.doors.archive import posts
from rag_core.doors.lexical import Filter
from rag_core.extract import best_pieces, quoted
from rag_core.phrases import FRAMED, posted_on
from rag_core.plan import plan_by_rules
from rag_core.rag import Rag
from rag_core.rerank import rerank
from rag_core.search import search
from rag_core.sentences import LONGEST
from rag_core.stage import Run
from rag_core.types import Draft, Evidence, Kind, Plan, Question, Sentence, Shortfall

__all__ = ["direct"]

# A further sentence must be nearly as good as the first: of the posts cited within this margin 9 in 10
# are the right one (XQuAD); without it 4 in 5.
_MARGIN = 3.5


async def direct(question: Question, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on; a draft without sentences is a refusal."""
    plan = plan_by_rules(question)
    # Counting over very many posts may take too long: then the question is searched like any other, and that is said.
    told = await run.attempt("chronicle", chronicle(question, plan, rag), None)
    if told is not None:
        await _say_what_is_missing(rag, run)
        return told, Evidence()
    # Search has no stand-in: an index that is down is said, it is not "nothing found".
    hits = await search(plan, question, rag, run)
    best = await run.attempt("rerank", rerank(question, hits, rag, run), hits)
    evidence = await run.attempt("copies", gathered(best, question.viewer, rag), lambda: compose(best))
    async with run.stage("write"):
        # long posts have many pieces to weigh: not on the event loop
        draft = await asyncio.to_thread(extracted, question, plan, evidence, rag)
        run.note(sources=len(evidence.sources), covered=round(draft.covered, 3), sentences=len(draft.sentences))
    if not draft.sentences:
        await _say_what_is_missing(rag, run)
    return draft, evidence


async def _say_what_is_missing(rag: Rag, run: Run) -> None:
    """An index that is behind (a first start, a rebuild) may not have what was asked for: that is said."""
    if behind := await posts.last_seq(rag.archive) - rag.lexical.watermark:
        run.shortfalls.append(Shortfall("search", f"{behind} changes of posts are not in the index yet."))


def extracted(question: Question, plan: Plan, evidence: Evidence, rag: Rag) -> Draft:
    """The best pieces of the evidence, word for word; none where the evidence does not cover the question."""
    asked = Asked.of(question.text, rag.lexical.weight)
    dated = plan.kind is Kind.WHEN
    most, longest = (1, FRAMED) if dated else (rag.settings.answer.sentences, LONGEST)
    pieces = best_pieces(asked, evidence, most, _MARGIN, longest)
    best = pieces[0] if pieces else None
    words = coverage(asked, best, rag.lexical, Filter(question.viewer.channels)).likely
    cosine = best.source.likeness if best else 0.0
    covered = rag.calibration.likely(words, cosine, rag.dense.model if rag.dense else None, question.lang)
    if covered < rag.calibration.bar:
        return Draft((), covered)
    shown = (quoted(piece) for piece in pieces)
    return Draft(tuple(_dated(s, question.lang) if dated else s for s in shown), covered)


def _dated(sentence: Sentence, lang: str) -> Sentence:
    return replace(sentence, text=f"{posted_on(sentence.citations[0].date, lang)} {sentence.text}")
