"""Recipe `council`, for attribution: an LLM judge for every post, an answer from each kept post, a check of gaps.

Hybrid search, judge, predictors, final answer, claim judge: parts of the question that stay open are searched for
once more, and what is found is merged in where its posts support it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.context.evidence import compose_evidence
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, RecipeFailed, translate_errors
from rag_core.llm import DecodingParams, LanguageModel, Prompt, collect_generation
from rag_core.planning.queries import sanitize_query
from rag_core.retrieval.search import search_passages
from rag_core.steps import extract_from_hits, finish_draft, plan_or_answer_exactly, report_extract
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.tracing import LlmCosts, Run
from rag_core.types import Draft, Evidence, Hit, Plan, Question, Sentence, Source
from rag_core.verification.judge import judge_relevance
from rag_core.writing.grammar import LETTERS, parse_json_object
from rag_core.writing.prompts import load_prompt, quote_post, quote_question
from rag_core.writing.write import write_draft

__all__ = ["PARTS_GRAMMAR", "PartCoverage", "QuestionPart", "judge_question_parts", "parse_parts_reply", "run_council"]

_MAX_PARTS, _MAX_ASK_LENGTH = 3, 120  # parts, characters of a question for what is missing
_REPLY_TOKENS = 200
_MAX_QUESTION_LENGTH = 400  # characters
PARTS_GRAMMAR = "\n".join(
    (
        rf'root ::= "{{\"parts\": [" part (", " part){{0,{_MAX_PARTS - 1}}} "]}}"',
        rf'part ::= "{{\"state\": \"" state "\", \"ask\": \"" [{LETTERS}]{{0,{_MAX_ASK_LENGTH}}} "\"}}"',
        'state ::= "FULLY" | "PARTIALLY" | "NOT"',
    )
)


class PartCoverage(StrEnum):
    """How far a part of a question is answered."""

    FULLY = "FULLY"
    PARTIALLY = "PARTIALLY"
    NOT = "NOT"


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """A part of a question; `ask` would find what is missing, and is empty where nothing is."""

    covered: PartCoverage
    ask: str = ""


class _PartReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    state: PartCoverage
    ask: str = ""


class _PartsReply(BaseModel):
    """The reply as it must be."""

    model_config = ConfigDict(extra="ignore")

    parts: list[_PartReply] = Field(min_length=1)


async def judge_question_parts(
    question: Question, said: Sequence[Sentence], model: LanguageModel, run: Run
) -> tuple[QuestionPart, ...]:
    """Judge an answer part by part. To be called in a stage. Raises GenerationFailed, also for nonsense."""
    told = load_prompt("parts", question.lang)
    answer = " ".join(sentence.text for sentence in said)
    prompt = Prompt(
        told.system, f"{quote_question(question.text[:_MAX_QUESTION_LENGTH])}\n{quote_post(answer)}", told.shots
    )
    costs = LlmCosts()
    async with run.seated(model, question.viewer.user_id) as seat:
        costs.call()
        stream = seat.stream(
            prompt,
            DecodingParams(_REPLY_TOKENS, temperature=0.0),
            grammar=PARTS_GRAMMAR,
            schema=_PartsReply.model_json_schema(),
        )
        end = await collect_generation(stream)
    costs.paid(end.figures)
    found = parse_parts_reply(end.text)
    run.note(**costs.noted(), parts=len(found), missing=sum(bool(part.ask) for part in found))
    return found


def parse_parts_reply(text: str) -> tuple[QuestionPart, ...]:
    """The reply. Raises GenerationFailed."""
    with translate_errors(GenerationFailed, ValidationError, say="The model's check has no form."):
        wire = _PartsReply.model_validate(parse_json_object(text))
    return tuple(_build_part(one) for one in wire.parts[:_MAX_PARTS])


def _build_part(one: _PartReply) -> QuestionPart:
    return QuestionPart(one.state, "" if one.state is PartCoverage.FULLY else sanitize_query(one.ask)[:_MAX_ASK_LENGTH])


_MAX_JUDGED_POSTS = 20  # posts
_UNJUDGED_POSTS = 5  # of them kept where the judge gave no answer
_MAX_FOLLOW_UPS = 2  # parts of a question that are asked for once more
_WRITING_TIME_FACTOR = 2.0  # times as long as a reader takes: the final answer and the check of it must still fit
_NO_MODEL = "The recipe council needs a language model: set LLM__MODEL."


async def run_council(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on. Raises RecipeFailed without a model, GenerationFailed."""
    model = rag.writer
    if model is None:
        raise RecipeFailed(_NO_MODEL)
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    extract, evidence = await extract_from_hits(
        question, plan, await _select_hits(question, plan, model, rag, run), rag, run
    )
    if run.on_extract and extract.sentences:
        await run.on_extract(extract)
    draft = await _write_final_answer(question, extract, evidence, model, rag, run)
    if draft.sentences and rag.settings.council.follow_up:
        found = await run.attempt("parts", judge_question_parts(question, draft.sentences, model, run), ())
        left_open = [replace(question, text=part.ask) for part in found if part.ask]
        draft, evidence = await _answer_open_parts(left_open[:_MAX_FOLLOW_UPS], plan, draft, evidence, rag, run)
    return await finish_draft(question, plan, draft, evidence, rag, run)


async def _select_hits(question: Question, plan: Plan, model: LanguageModel, rag: Engine, run: Run) -> tuple[Hit, ...]:
    """The posts that the judge finds answer the question: those above a bar that moves with what was found."""
    both_legs = rag.settings.retrieval.model_copy(update={"dense": rag.settings.council.alpha})
    hybrid = replace(rag, settings=rag.settings.model_copy(update={"retrieval": both_legs}))
    hits = (await search_passages(plan, question, hybrid, run))[:_MAX_JUDGED_POSTS]
    await report_extract(question, plan, hits, rag, run)
    return await run.attempt("judge", _judge_hits(question, hits, model, rag, run), hits[:_UNJUDGED_POSTS])


async def _judge_hits(
    question: Question, hits: Sequence[Hit], model: LanguageModel, rag: Engine, run: Run
) -> tuple[Hit, ...]:
    """The hits at or above mean - n·σ of their log odds, best first."""
    if not hits:
        return ()
    costs = LlmCosts(calls=len(hits))
    async with run.seated(model, question.viewer.user_id) as seat:
        odds = await judge_relevance(question, [hit.passage for hit in hits], seat)
    bar = statistics.fmean(odds) - rag.settings.council.deviations * statistics.pstdev(odds)
    ranked = sorted(zip(hits, odds, strict=True), key=lambda pair: -pair[1])
    kept = tuple(hit for hit, odd in ranked if odd >= bar)
    run.note(**costs.noted(), judged=len(hits), kept=len(kept), bar=round(bar, 3))
    # compose shares room by score: the judge's order must show in it
    return tuple(replace(hit, score=1 / n) for n, hit in enumerate(kept, 1))


async def _write_final_answer(
    question: Question, extract: Draft, evidence: Evidence, model: LanguageModel, rag: Engine, run: Run
) -> Draft:
    """The final answer, from the posts in which a reader found one; the readers' words where it cannot be written."""
    readings = await _predict_from_each_source(question, evidence.sources, rag, run)
    told = tuple(source for source in evidence.sources if readings.get(source.number, Draft()).sentences)
    if readings and not told:
        return Draft((), extract.covered)  # every reader says that its post does not answer
    single = tuple(s for source in told for s in readings[source.number].sentences[:1])
    stand_in = Draft(_limit_answer_length(single), model=model.name) if single else extract
    chosen = Evidence(told) if told else evidence
    draft = await run.attempt("write", write_draft(question, chosen, rag, run), stand_in)
    return replace(draft, covered=extract.covered)


async def _predict_from_each_source(
    question: Question, sources: Sequence[Source], rag: Engine, run: Run
) -> dict[int, Draft]:
    """Number of a source -> what is answered from it alone; of as many of the first as there is time for."""
    found: dict[int, Draft] = {}
    shown, run.on_sentence = run.on_sentence, None  # only the final answer is shown while it is written
    slowest = 0.0
    try:
        for source in sources[: rag.settings.council.predictors]:
            if run.left < (1 + _WRITING_TIME_FACTOR) * slowest:
                break
            started, before = time.monotonic(), list(run.shortfalls)
            failed = Draft()
            draft = await run.attempt("predict", write_draft(question, Evidence((source,)), rag, run), failed)
            run.shortfalls[:] = before  # what one reader lacked is no lack of the answer
            if draft is not failed:
                found[source.number] = draft
            slowest = max(slowest, time.monotonic() - started)
    finally:
        run.on_sentence = shown
    return found


async def _answer_open_parts(
    left_open: Sequence[Question], plan: Plan, draft: Draft, evidence: Evidence, rag: Engine, run: Run
) -> tuple[Draft, Evidence]:
    """The draft with what is found for the parts of the question that it leaves open."""
    for question in left_open:
        more = await run.attempt("follow", _search_for_part(question, plan, evidence, rag, run), Evidence)
        if not more.sources:
            continue
        added = await run.attempt("write", write_draft(question, more, rag, run), Draft)
        if added.sentences:
            draft = replace(draft, sentences=_limit_answer_length((*draft.sentences, *added.sentences)))
            evidence = Evidence((*evidence.sources, *more.sources))
    return draft, evidence


async def _search_for_part(question: Question, plan: Plan, evidence: Evidence, rag: Engine, run: Run) -> Evidence:
    """What is found for a part where `plan` looks, numbered after what is known, without it."""
    async with run.apart():
        part = await asyncio.to_thread(rag.plan, question, {})  # a long question takes the rules 20 ms
        hits = await search_passages(_narrow_plan(part, plan), question, rag, run)
    known = {source.passage.key for source in evidence.sources}
    new = compose_evidence([hit for hit in hits if hit.passage.key not in known][:_UNJUDGED_POSTS])
    after = max((source.number for source in evidence.sources), default=0)
    return Evidence(tuple(replace(source, number=after + source.number) for source in new.sources))


def _narrow_plan(part: Plan, plan: Plan) -> Plan:
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


def _limit_answer_length(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """The sentences, each once, as many of the first as may be shown together."""
    kept: dict[str, Sentence] = {}
    for sentence in sentences:
        if sum(map(len, kept)) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            kept.setdefault(sentence.text, sentence)
    return tuple(kept.values())
