"""Gap check of an answer by a model, and a second search: parts of the question that stay open are searched once more.

The results are merged in where their posts support them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.context.evidence import compose_evidence
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, translate_errors
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt
from rag_core.planning.queries import sanitize_query
from rag_core.retrieval.search import search_passages
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.types import Draft, Evidence, Plan, Question, Sentence
from rag_core.verification.claim_extraction import extract_claims
from rag_core.writing.grammar import LETTERS
from rag_core.writing.prompt_loading import load_prompt, quote_post, quote_question
from rag_core.writing.reply_parsing import parse_json_object
from rag_core.writing.write import write_draft

UNJUDGED_POSTS = 5  # kept without the judge where it fails, and of a second search
_MAX_PARTS, _MAX_ASK_LENGTH = 3, 120  # parts, characters of a question for a missing part
_MAX_CLAIMS = 9  # of an answer: one digit in the grammar
_REPLY_TOKENS = 200
_MAX_QUESTION_LENGTH = 400  # characters
PARTS_GRAMMAR = "\n".join(
    (
        rf'root ::= "{{\"parts\": [" part (", " part){{0,{_MAX_PARTS - 1}}} "]}}"',
        r'part ::= "{\"state\": \"" state "\", \"claims\": [" claims "], \"ask\": \"" ask "\"}"',
        rf"ask ::= [{LETTERS}]{{0,{_MAX_ASK_LENGTH}}}",
        r'claims ::= ([1-9] (", " [1-9]){0,4})?',
        'state ::= "FULLY" | "PARTIALLY" | "NOT"',
    )
)


class QuestionPart(BaseModel):
    """Part of a question; `ask` is a query for the missing information, empty where none is missing.

    `claims` are the numbers of the claims that answer it; None where the model named none.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: Literal["FULLY", "PARTIALLY", "NOT"]
    ask: str = ""
    claims: tuple[int, ...] | None = None


class _PartsReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    parts: list[QuestionPart] = Field(min_length=1)


async def judge_question_parts(
    question: Question, said: Sequence[Sentence], model: LanguageModel, run: Run
) -> tuple[QuestionPart, ...]:
    """Judge an answer part by part, by its claims; call it in a stage.

    A part that no claim answers is not covered, whatever the model says. Raises GenerationFailed, also for an invalid
    reply.
    """
    template = load_prompt("parts", question.lang)
    answer = " ".join(sentence.text for sentence in said)
    claims = [claim.text for claim in extract_claims(answer)] or [sentence.text for sentence in said]
    numbered = "\n".join(f"{n}. {claim}" for n, claim in enumerate(claims[:_MAX_CLAIMS], 1))
    asked = quote_question(question.text[:_MAX_QUESTION_LENGTH])
    prompt = Prompt(template.system, f"{asked}\n{quote_post(numbered)}", template.shots)
    decoding, schema = DecodingParams(_REPLY_TOKENS, temperature=0.0), _PartsReply.model_json_schema()
    reply = await run.ask_model(model, question.viewer.user_id, prompt, decoding, grammar=PARTS_GRAMMAR, schema=schema)
    parts = parse_parts_reply(reply)
    mapped = {n for part in parts for n in part.claims or () if n <= len(claims)}
    missing = sum(bool(part.ask) for part in parts)
    run.note(parts=len(parts), missing=missing, claims=len(claims), mapped=len(mapped))
    return parts


def parse_parts_reply(text: str) -> tuple[QuestionPart, ...]:
    """Parse the judge's reply. Raises GenerationFailed."""
    with translate_errors(GenerationFailed, ValidationError, say="The model's check has no form."):
        reply = _PartsReply.model_validate(parse_json_object(text))
    parts = []
    for one in reply.parts[:_MAX_PARTS]:
        state = "NOT" if one.claims == () else one.state
        ask = "" if state == "FULLY" else sanitize_query(one.ask)[:_MAX_ASK_LENGTH]
        parts.append(one.model_copy(update={"state": state, "ask": ask}))
    return tuple(parts)


async def answer_open_parts(
    open_parts: Sequence[Question], plan: Plan, draft: Draft, evidence: Evidence, rag: Engine, run: Run
) -> tuple[Draft, Evidence]:
    """Search and answer the open parts; sentences that their new posts support are added to the draft."""
    for question in open_parts:
        more = await run.attempt(Stage.FOLLOW, _search_for_part(question, plan, evidence, rag, run), Evidence)
        if not more.sources:
            continue
        added = await run.attempt(Stage.WRITE, write_draft(question, more, rag, run), Draft)
        if added.sentences:
            sentences = limit_answer_length((*draft.sentences, *added.sentences))
            draft = replace(draft, sentences=sentences, doubted=(*draft.doubted, *added.doubted))
            evidence = Evidence((*evidence.sources, *more.sources))
    return draft, evidence


async def _search_for_part(question: Question, plan: Plan, evidence: Evidence, rag: Engine, run: Run) -> Evidence:
    """Search for a part within the filters of `plan`; new posts only, numbered after the known ones."""
    async with run.use_separate_budgets():
        part = await asyncio.to_thread(rag.plan, question, {})  # a long question takes the rules 20 ms
        search = replace(
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
        hits = await search_passages(search, question, rag, run)
    known = {source.passage.key for source in evidence.sources}
    new = compose_evidence([hit for hit in hits if hit.passage.key not in known][:UNJUDGED_POSTS])
    return Evidence(evidence.extend(new.sources).sources[len(evidence.sources) :])


def limit_answer_length(sentences: Sequence[Sentence]) -> tuple[Sentence, ...]:
    """Drop repeated sentences, and those beyond the length limit of an answer."""
    kept: dict[str, Sentence] = {}
    for sentence in sentences:
        if sum(map(len, kept)) + len(sentence.text) <= MAX_ANSWER_LENGTH:
            kept.setdefault(sentence.text, sentence)
    return tuple(kept.values())
