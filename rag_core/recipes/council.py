"""`council`, for attribution above all: a judge for every post, a reader for each that passes, one who looks for gaps.

Hybrid search, judge, predictors, final answer, claim judge: parts of the question that stay open are asked for once
more, and what is found is merged in where its posts bear it out.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from rag_core.compose import compose
from rag_core.costs import Costs
from rag_core.doors.llm import LanguageModel
from rag_core.errors import RecipeFailed
from rag_core.judge import judge
from rag_core.parts import parts
from rag_core.rag import Rag
from rag_core.rounds import begun, concluded, tell, weighed
from rag_core.search import search
from rag_core.sentences import MOST_SHOWN
from rag_core.stage import Run
from rag_core.types import Draft, Evidence, Hit, Plan, Question, Sentence, Source
from rag_core.write import write

__all__ = ["council"]

_JUDGED = 20  # posts
_UNJUDGED = 5  # of them kept where the judge gave no answer
_FOLLOWED = 2  # parts of a question that are asked for once more
_WRITING = 2.0  # times as long as a reader takes: the final answer and the check of it must still fit
_NO_MODEL = "The recipe council needs a language model: set LLM__MODEL."


async def council(question: Question, rag: Rag, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on. Raises RecipeFailed without a model, GenerationFailed."""
    model = rag.writer
    if model is None:
        raise RecipeFailed(_NO_MODEL)
    plan, exact = await begun(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    extract, evidence = await weighed(question, plan, await _kept(question, plan, model, rag, run), rag, run)
    if run.on_extract and extract.sentences:
        await run.on_extract(extract)
    draft = await _answered(question, extract, evidence, model, rag, run)
    if draft.sentences and rag.settings.council.follow_up:
        found = await run.attempt("parts", parts(question, draft.sentences, model, run), ())
        left_open = [replace(question, text=part.ask) for part in found if part.ask]
        draft, evidence = await _followed(left_open[:_FOLLOWED], plan, draft, evidence, rag, run)
    return await concluded(question, plan, draft, evidence, rag, run)


async def _kept(question: Question, plan: Plan, model: LanguageModel, rag: Rag, run: Run) -> tuple[Hit, ...]:
    """The posts that the judge finds answer the question: those above a bar that moves with what was found."""
    both_legs = rag.settings.retrieval.model_copy(update={"dense": rag.settings.council.alpha})
    hybrid = replace(rag, settings=rag.settings.model_copy(update={"retrieval": both_legs}))
    hits = (await search(plan, question, hybrid, run))[:_JUDGED]
    await tell(question, plan, hits, rag, run)
    return await run.attempt("judge", _judged(question, hits, model, rag, run), hits[:_UNJUDGED])


async def _judged(question: Question, hits: Sequence[Hit], model: LanguageModel, rag: Rag, run: Run) -> tuple[Hit, ...]:
    """The hits at or above mean - n·σ of their log odds, best first."""
    if not hits:
        return ()
    costs = Costs(calls=len(hits))
    async with run.seated(model, question.viewer.user_id) as seat:
        odds = await judge(question, [hit.passage for hit in hits], seat)
    bar = statistics.fmean(odds) - rag.settings.council.deviations * statistics.pstdev(odds)
    ranked = sorted(zip(hits, odds, strict=True), key=lambda pair: -pair[1])
    kept = tuple(hit for hit, odd in ranked if odd >= bar)
    run.note(**costs.noted(), judged=len(hits), kept=len(kept), bar=round(bar, 3))
    # compose shares room by score: the judge's order must show in it
    return tuple(replace(hit, score=1 / n) for n, hit in enumerate(kept, 1))


async def _answered(
    question: Question, extract: Draft, evidence: Evidence, model: LanguageModel, rag: Rag, run: Run
) -> Draft:
    """The final answer, from the posts in which a reader found one; the readers' words where it cannot be written."""
    readings = await _readings(question, evidence.sources, rag, run)
    told = tuple(source for source in evidence.sources if readings.get(source.number, Draft()).sentences)
    if readings and not told:
        return Draft((), extract.covered)  # every reader says that its post does not answer
    single = tuple(s for source in told for s in readings[source.number].sentences[:1])
    stand_in = Draft(_short(single), model=model.name) if single else extract
    chosen = Evidence(told) if told else evidence
    draft = await run.attempt("write", write(question, chosen, rag, run), stand_in)
    return replace(draft, covered=extract.covered)


async def _readings(question: Question, sources: Sequence[Source], rag: Rag, run: Run) -> dict[int, Draft]:
    """Number of a source -> what is answered from it alone; of as many of the first as there is time for."""
    found: dict[int, Draft] = {}
    shown, run.on_sentence = run.on_sentence, None  # only the final answer is shown while it is written
    slowest = 0.0
    try:
        for source in sources[: rag.settings.council.predictors]:
            if run.left < (1 + _WRITING) * slowest:
                break
            started, before = time.monotonic(), list(run.shortfalls)
            failed = Draft()
            draft = await run.attempt("predict", write(question, Evidence((source,)), rag, run), failed)
            run.shortfalls[:] = before  # what one reader lacked is no lack of the answer
            if draft is not failed:
                found[source.number] = draft
            slowest = max(slowest, time.monotonic() - started)
    finally:
        run.on_sentence = shown
    return found


async def _followed(
    left_open: Sequence[Question], plan: Plan, draft: Draft, evidence: Evidence, rag: Rag, run: Run
) -> tuple[Draft, Evidence]:
    """The draft with what is found for the parts of the question that it leaves open."""
    for question in left_open:
        more = await run.attempt("follow", _looked(question, plan, evidence, rag, run), Evidence)
        if not more.sources:
            continue
        added = await run.attempt("write", write(question, more, rag, run), Draft)
        if added.sentences:
            draft = replace(draft, sentences=_short((*draft.sentences, *added.sentences)))
            evidence = Evidence((*evidence.sources, *more.sources))
    return draft, evidence


async def _looked(question: Question, plan: Plan, evidence: Evidence, rag: Rag, run: Run) -> Evidence:
    """What is found for a part where `plan` looks, numbered after what is known, without it."""
    async with run.apart():
        part = await asyncio.to_thread(rag.plan, question, {})  # a long question takes the rules 20 ms
        hits = await search(_narrowed(part, plan), question, rag, run)
    known = {source.passage.key for source in evidence.sources}
    new = compose([hit for hit in hits if hit.passage.key not in known][:_UNJUDGED])
    after = max((source.number for source in evidence.sources), default=0)
    return Evidence(tuple(replace(source, number=after + source.number) for source in new.sources))


def _narrowed(part: Plan, plan: Plan) -> Plan:
    """The plan of a part, kept to the posts that the whole question asks for."""
    return replace(
        part,
        since=plan.since or part.since,
        until=plan.until or part.until,
        slack=plan.slack,
        channels=part.channels if plan.channels is None else plan.channels,
        authors=plan.authors or part.authors,
        origins=plan.origins or part.origins,
        media=plan.media or part.media,
        files=plan.files or part.files,
    )


def _short(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """The sentences, each once, as many of the first as may be shown together."""
    kept: dict[str, Sentence] = {}
    for sentence in sentences:
        if sum(map(len, kept)) + len(sentence.text) <= MOST_SHOWN:
            kept.setdefault(sentence.text, sentence)
    return tuple(kept.values())
