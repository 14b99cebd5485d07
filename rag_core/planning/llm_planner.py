"""LLM planner: a model proposes queries, phrases and filters, which are merged into the plan of the rules.

Prompts begin with the constant part, then the day and the channels; the question comes last. If the model fails, the
plan of the rules is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, Generation, LanguageModel, LlmSession, Prompt
from rag_core.planning.intents import EXACT_INTENTS
from rag_core.planning.known_entities import LANGUAGE_NAMES, KnownEntities, QuestionWords
from rag_core.planning.merge_plans import drop_similar_queries, merge_plans
from rag_core.planning.plan_schema_and_parsing import (
    PLAN_GRAMMAR,
    PLAN_SCHEMA,
    REWRITE_GRAMMAR,
    REWRITE_SCHEMA,
    SHORT_PLAN_GRAMMAR,
    SHORT_PLAN_SCHEMA,
    PlanProposal,
    parse_proposal,
    parse_rewrite,
    parse_short_plan,
)
from rag_core.planning.queries import (
    MAX_QUERY_LENGTH,
    MIN_QUERIES,
    MIN_QUESTION_TERMS,
    build_transliterated_query,
    sanitize_query,
    truncate_query,
)
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.text.language_detection import detect_language
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Kind, Plan, Question
from rag_core.writing.grammar import build_paragraph_grammar
from rag_core.writing.prompt_loading import escape_prompt_text, load_prompt
from rag_core.writing.reply_parsing import clean_reply

_MAX_QUESTION_LENGTH, _MIN_QUESTION_LENGTH = 1000, 50  # characters of the question in the prompt
_MAX_CHANNELS = 8
_TEMPLATE_TOKENS = 16  # tokens of a chat template around each text, at most
_MAX_TITLE_LENGTH = 32  # characters: the limit for a channel in a plan
_CONTEXT_TOO_SMALL = "The context of the model is too small to plan a search in: raise LLM__CONTEXT."


def build_plan_prompt(
    question: Question, around: KnownEntities, most: int = _MAX_QUESTION_LENGTH, *, short: bool = False
) -> Prompt:
    """Build the prompt for a plan, with at most `most` characters of the question."""
    template = load_prompt("plan_short" if short else "plan", "all")
    return Prompt(template.system, _format_question(question, around, most), template.shots)


def build_rewrite_prompt(
    question: Question, around: KnownEntities, queries: Sequence[str], other: str, most: int = _MAX_QUESTION_LENGTH
) -> Prompt:
    """Build the prompt for more queries, the first in the language `other`; it begins like the plan prompt."""
    prompt = build_plan_prompt(question, around, most)
    request = f"More queries, not these: {' | '.join(map(escape_prompt_text, queries))}."
    language = f" The first in {LANGUAGE_NAMES[other]}." if other else ""
    return replace(prompt, ask=f"{prompt.ask}\n{request}{language}")


async def fit_prompt(prompt: Callable[[int], Prompt], tokens: int, seat: LlmSession) -> Prompt:
    """Build the prompt with as much of the question as fits into `tokens`. Raises GenerationFailed."""
    most = _MAX_QUESTION_LENGTH
    while True:
        candidate = await asyncio.to_thread(prompt, most)  # a long question takes 10 ms
        texts = [candidate.system, *(text for shot in candidate.shots for text in shot), candidate.ask]
        room = tokens - _TEMPLATE_TOKENS * (len(texts) + 1)
        if sum(len(text.encode()) for text in texts) <= room:  # a token is at least a byte: no need to count
            return candidate
        over = sum(await seat.count(texts)) - room
        if over <= 0:
            return candidate
        if most == _MIN_QUESTION_LENGTH:
            raise GenerationFailed(_CONTEXT_TOO_SMALL)
        most = max(_MIN_QUESTION_LENGTH, min(most, len(candidate.ask)) - max(over // 2, _MIN_QUESTION_LENGTH))


def _format_question(question: Question, around: KnownEntities, most: int) -> str:
    text = escape_prompt_text(sanitize_query(question.text))[:most]
    languages = ", ".join(sorted(around.languages)) or question.lang
    titles = "; ".join(map(_format_channel, around.spoken_of(QuestionWords(text))[:_MAX_CHANNELS])) or "none"
    return f"Today: {question.asked_at:%Y-%m-%d}. Languages: {languages}. Channels: {titles}.\nQuestion: {text}"


def _format_channel(channel: Channel) -> str:
    title = escape_prompt_text(sanitize_query(channel.title)).replace(";", ",")[:_MAX_TITLE_LENGTH].strip()
    return f"@{channel.username} {title}" if channel.username else title


PLAN_DECODING = DecodingParams(max_tokens=256, repeat_penalty=1.2)
REWRITE_DECODING = DecodingParams(max_tokens=128, repeat_penalty=1.2)
_SETTLED_INTENTS = EXACT_INTENTS | {Kind.POSTED, Kind.COMING, Kind.INTRODUCTION}
_UNREADABLE_REPLY = "The model's {} could not be read: only the rules' queries are searched with."


@dataclass(frozen=True, slots=True)
class _PlannerRequest:
    """What is asked for, decoding parameters, and the grammar, the schema and the parser of the reply."""

    name: str
    decoding: DecodingParams
    grammar: str
    schema: Mapping[str, Any]
    parse: Callable[[str], PlanProposal]


_SHORT_DECODING = replace(PLAN_DECODING, max_tokens=192)
_PLAN_REQUEST = _PlannerRequest("plan", PLAN_DECODING, PLAN_GRAMMAR, PLAN_SCHEMA, parse_proposal)
_SHORT_REQUEST = _PlannerRequest("plan", _SHORT_DECODING, SHORT_PLAN_GRAMMAR, SHORT_PLAN_SCHEMA, parse_short_plan)
_REWRITE_REQUEST = _PlannerRequest(
    "rewrite", REWRITE_DECODING, REWRITE_GRAMMAR, REWRITE_SCHEMA, lambda text: PlanProposal(parse_rewrite(text))
)


def is_worth_planning(by_rules: Plan) -> bool:
    """Whether a model can improve the plan: not for counts and lists of posts, nor for one or two terms."""
    return by_rules.kind not in _SETTLED_INTENTS and len(set(tokenize(by_rules.asked))) >= MIN_QUESTION_TERMS


async def plan_by_model(
    question: Question, by_rules: Plan, around: KnownEntities, planner: LanguageModel, run: Run, *, short: bool = False
) -> Plan:
    """Extend the plan of the rules by a model; a failure or timeout of the model is a shortfall.

    `short`: keywords and filters alone, for small models, and where posts are of both languages one more call for a
    query in the other one.
    The stages `plan` and `rewrite` have budgets of their own, without the wait for the model.
    """
    heard: list[str] = []
    before, request = len(run.shortfalls), _SHORT_REQUEST if short else _PLAN_REQUEST
    asking = _ask_planner(
        request, partial(build_plan_prompt, question, around, short=short), question, planner, run, heard
    )
    # the complete part of a truncated reply is still used
    proposal = await run.attempt(Stage.PLAN, asking, lambda: request.parse("".join(heard)))
    if not proposal.queries:
        return by_rules
    if len(run.shortfalls) > before:
        return await asyncio.to_thread(merge_plans, by_rules, proposal, (), question, around)
    own = by_rules.queries[0]
    fresh = drop_similar_queries(proposal.queries, (own,))
    other = around.other_language(own)
    if any(detect_language(query) == other for query in fresh):
        other = ""
    more: tuple[str, ...] = ()
    if short and other and run.recipe != "mapreduce" and not planner.waiting:
        more = await run.attempt(Stage.REWRITE, translate_query(question, own, other, planner, run), ())
    elif (other or len(fresh) + 1 < MIN_QUERIES) and not short and not planner.waiting:
        asked = partial(build_rewrite_prompt, question, around, (truncate_query(own), *fresh), other)
        rewriting = _ask_planner(_REWRITE_REQUEST, asked, question, planner, run, [])
        more = (await run.attempt(Stage.REWRITE, rewriting, PlanProposal)).queries
    more = _order_by_language(more, other, own)
    return await asyncio.to_thread(merge_plans, by_rules, proposal, more, question, around)


_TRANSLATION_DECODING = DecodingParams(max_tokens=32, temperature=0.0)
_TRANSLATION_GRAMMAR = build_paragraph_grammar(MAX_QUERY_LENGTH)


async def translate_query(
    question: Question, query: str, other: str, planner: LanguageModel, run: Run
) -> tuple[str, ...]:
    """Write a query in the other language, in a call of about 12 tokens; empty where the reply is in the same one.

    Call it in a stage. Raises GenerationFailed.
    """
    template = load_prompt("translate", "all")
    prompt = Prompt(
        template.system, f"In {LANGUAGE_NAMES[other]}: {escape_prompt_text(truncate_query(query))}", template.shots
    )
    asking = run.ask_model(
        planner, question.viewer.user_id, prompt, _TRANSLATION_DECODING, grammar=_TRANSLATION_GRAMMAR
    )
    said = truncate_query(sanitize_query(clean_reply(await asking)))
    return (said,) if said and detect_language(said) == other else ()


def _order_by_language(more: Sequence[str], other: str, own: str) -> tuple[str, ...]:
    """Put the query in the other language first; transliterated names replace it where the model wrote none."""
    if not other:
        return tuple(more)
    there = [query for query in more if detect_language(query) == other]
    spelt = () if there else filter(None, (build_transliterated_query(own),))
    return (*there, *spelt, *(query for query in more if query not in there))


async def _ask_planner(
    request: _PlannerRequest,
    asked: Callable[[int], Prompt],
    question: Question,
    planner: LanguageModel,
    run: Run,
    heard: list[str],
) -> PlanProposal:
    """Ask for a whole reply with queries; its pieces are appended to `heard` as they arrive. Raises GenerationFailed."""
    async with run.open_session(planner, question.viewer.user_id) as session:
        prompt = await fit_prompt(asked, planner.context - request.decoding.max_tokens, session)
        pieces = session.stream(prompt, request.decoding, grammar=request.grammar, schema=request.schema)
        async for piece in pieces:
            if isinstance(piece, Generation):
                figures = piece.figures
                run.note(tokens=figures.tokens, read=figures.evaluated, first_ms=round(figures.first_ms, 1))
                if (proposal := request.parse(piece.text)).queries:
                    return proposal
                raise GenerationFailed(_UNREADABLE_REPLY.format(request.name))
            heard.append(piece)
    raise GenerationFailed("The model ended without a reply: only the rules' queries are searched with.")


async def rewrite_question(
    question: Question, around: KnownEntities, planner: LanguageModel, run: Run
) -> tuple[str, ...]:
    """Write one to three other queries for a question. Raises GenerationFailed, StageTimeout."""
    own = truncate_query(sanitize_query(question.text))
    asked = partial(build_rewrite_prompt, question, around, (own,), around.other_language(own))
    return (await _ask_planner(_REWRITE_REQUEST, asked, question, planner, run, [])).queries
