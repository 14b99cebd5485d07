"""Recipe `council`, for attribution: an LLM judge for every post, an answer from each kept post, a check of gaps.

Hybrid search, judge, predictors, final answer, judge of the parts: parts of the question that stay open are searched
once more.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, translate_errors
from rag_core.evidence import compose_evidence
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.llm.rates import COUNCIL_POSTS, COUNCIL_PREDICTIONS
from rag_core.planning.plan import plan_with_spelling_and_aliases
from rag_core.planning.queries import sanitize_query
from rag_core.recipe_steps import (
    Round,
    answer_exactly,
    extract_from_hits,
    finish_draft,
    keep_extract,
    report_extract,
    require_model,
)
from rag_core.retrieval.search import format_hit, search_passages
from rag_core.run import LlmCosts, Run, Stage
from rag_core.storage.channels import load_channels_and_synonyms
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.types import Draft, Evidence, Hit, Plan, Question, Sentence, Source
from rag_core.verification.judge import judge_relevance
from rag_core.writing.prompts import LETTERS, load_prompt, parse_json_object, quote_post, quote_question
from rag_core.writing.write import write_draft

_UNJUDGED_POSTS = 5  # kept without the judge where it fails, and of a second search
_MAX_FOLLOW_UPS = 2  # parts of a question that are searched once more
_WRITING_TIME_FACTOR = 2.0  # time of the final answer and its check, as a multiple of the slowest predictor's
_MAX_PARTS, _MAX_ASK_LENGTH = 3, 120  # parts, characters of a question for a missing part
_MAX_CLAIMS = 9  # of an answer: one digit in the grammar
_REPLY_TOKENS = 200
_MAX_QUESTION_LENGTH = 400  # characters
PARTS_GRAMMAR = rf"""
root ::= "{{\"parts\": [" part (", " part){{0,{_MAX_PARTS - 1}}} "]}}"
part ::= "{{\"state\": \"" state "\", \"claims\": [" claims "], \"ask\": \"" ask "\"}}"
ask ::= [{LETTERS}]{{0,{_MAX_ASK_LENGTH}}}
claims ::= ([1-9] (", " [1-9]){{0,4}})?
state ::= "FULLY" | "PARTIALLY" | "NOT"
"""


async def run_council(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Run the recipe `council`. Raises RecipeFailed without a model, GenerationFailed."""
    model = require_model("council", rag.writer)
    if exact := await answer_exactly(question, plan, rag, run):
        return Round(plan, exact)
    # both retrievers, and the posts above the judge's threshold, which depends on all scores
    hybrid = replace(rag, dense_weight=rag.settings.council.alpha)
    hits = (await search_passages(plan, question, hybrid, run))[:COUNCIL_POSTS]
    await report_extract(question, plan, hits, rag, run)
    kept = await run.attempt(Stage.JUDGE, _judge_hits(question, hits, model, rag, run), hits[:_UNJUDGED_POSTS])
    extracted = await extract_from_hits(question, plan, kept, rag, run)
    if run.on_extract and extracted.draft.sentences:
        await run.on_extract(extracted.draft)
    draft = await _write_answer(question, extracted, model, rag, run)
    evidence = extracted.evidence
    open_parts = tuple[str, ...]()
    if draft.sentences:
        open_parts = await run.attempt(Stage.PARTS, list_open_parts(question, draft.sentences, model, run), ())
    for text in open_parts[:_MAX_FOLLOW_UPS]:
        part = replace(question, text=text)

        async def search_part(part: Question = part, evidence: Evidence = evidence) -> Evidence:
            """Search within the filters of the plan; new posts only, numbered after the known ones."""
            async with run.use_separate_budgets():
                _, synonyms = await load_channels_and_synonyms(rag.archive)
                own = await plan_with_spelling_and_aliases(part, {}, synonyms, rag)
                search = replace(
                    own,
                    since=plan.since or own.since,
                    until=plan.until or own.until,
                    slack=plan.slack,
                    channels=own.channels if plan.channels is None else plan.channels,
                    authors=plan.authors or own.authors,
                    origins=plan.origins or own.origins,
                    media=plan.media or own.media,
                    files=plan.files or own.files,
                )
                found = await search_passages(search, part, rag, run)
            known = {source.passage.key for source in evidence.sources}
            new = compose_evidence([hit for hit in found if hit.passage.key not in known][:_UNJUDGED_POSTS])
            return Evidence(evidence.extend(new.sources).sources[len(evidence.sources) :])

        more = await run.attempt(Stage.FURTHER, search_part(), Evidence)
        added = await run.attempt(Stage.WRITE, write_draft(part, more, rag, run), Draft) if more.sources else Draft()
        if added.sentences:
            sentences = limit_answer_length((*draft.sentences, *added.sentences))
            draft = replace(draft, sentences=sentences, doubted=(*draft.doubted, *added.doubted))
            evidence = Evidence((*evidence.sources, *more.sources))
    return await finish_draft(question, Round(plan, draft, evidence), rag, run)


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


async def _write_answer(question: Question, extracted: Round, model: LanguageModel, rag: Engine, run: Run) -> Draft:
    """Answer from each source alone, then from those that answer; the extract where none does."""
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
    return replace(draft, likely=extract.likely).graded_by(extract)


async def _predict_from_each_source(
    question: Question, sources: Sequence[Source], rag: Engine, run: Run
) -> dict[int, Draft]:
    """Answer from each source alone, by its number; for as many of the first sources as there is time."""
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


class _QuestionPart(BaseModel):
    """Part of a question; `claims`: the sentences that answer it; `ask`: a question for what is missing."""

    state: Literal["FULLY", "PARTIALLY", "NOT"]
    ask: str = ""
    claims: tuple[int, ...] | None = None


class _PartsReply(BaseModel):
    parts: list[_QuestionPart] = Field(min_length=1)


async def list_open_parts(
    question: Question, said: Sequence[Sentence], model: LanguageModel, run: Run
) -> tuple[str, ...]:
    """Ask a model which parts of the question an answer leaves open: a question for each. Call it in a stage.

    A part that no sentence answers is open, whatever the model says. Raises GenerationFailed, also for an invalid
    reply.
    """
    template = load_prompt("parts", question.lang)
    numbered = "\n".join(f"{n}. {sentence.text}" for n, sentence in enumerate(said[:_MAX_CLAIMS], 1))
    asked = quote_question(question.text[:_MAX_QUESTION_LENGTH])
    prompt = Prompt(template.system, f"{asked}\n{quote_post(numbered)}", template.shots)
    decoding, schema = DecodingParams(_REPLY_TOKENS, temperature=0.0), _PartsReply.model_json_schema()
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=PARTS_GRAMMAR, schema=schema)
    missing = parse_parts_reply(reply)
    run.note(missing=len(missing))
    return missing


def parse_parts_reply(text: str) -> tuple[str, ...]:
    """Parse the reply to the questions for what is missing. Raises GenerationFailed."""
    with translate_errors(GenerationFailed, ValidationError, say="The model's check has no form."):
        reply = _PartsReply.model_validate(parse_json_object(text))
    asks = [one.ask for one in reply.parts[:_MAX_PARTS] if one.state != "FULLY" or one.claims == ()]
    return tuple(query for ask in asks if (query := sanitize_query(ask)[:_MAX_ASK_LENGTH]))


def limit_answer_length(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Drop repeated sentences, and those beyond the length limit of an answer."""
    kept: dict[str, Sentence] = {}
    for sentence in sentences:
        if sum(map(len, kept)) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            kept.setdefault(sentence.text, sentence)
    return tuple(kept.values())
