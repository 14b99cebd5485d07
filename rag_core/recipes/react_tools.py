"""Tools of the recipe `react`: typed input, JSON or a sentence of an error as output, over the asker's channels alone.

A call is {"tool", "input"}. Counts and first mentions are exact, because every post is read.

Posts are named by the numbers they were found under. There is no web search: an answer rests on posts alone.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import math
import operator
import re
import time as time_module
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from functools import partial
from inspect import signature
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model
from simpleeval import InvalidExpression, SimpleEval

from rag_core.context.evidence import gather_evidence
from rag_core.dates import parse_period
from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, ToolFailed, translate_errors
from rag_core.planning.llm_planner import load_known_entities, rewrite_question
from rag_core.planning.plan import build_bare_plan, format_plan, plan_with_spelling_and_aliases
from rag_core.planning.queries import generate_query_variants
from rag_core.retrieval.aggregate import answer_by_aggregation, extract_mention_terms, find_mentions
from rag_core.retrieval.fusion import DENSE, LEXICAL, RetrievalQuery, fuse_rankings
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import search_dense, search_hybrid, search_lexical, search_passages
from rag_core.run import Run, Span, Stage
from rag_core.storage.channels import load_channels
from rag_core.storage.posts import fetch_passages
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import (
    HYBRID,
    Channel,
    Citation,
    Draft,
    Evidence,
    Hit,
    Kind,
    Passage,
    PassageRef,
    Plan,
    Question,
    SearchFilter,
    Shortfall,
    Source,
)
from rag_core.verification import Claim, Label, verify
from rag_core.writing.extract import select_best_pieces

log = logging.getLogger(__name__)

_MAX_NUMBER = 1e30  # no question needs more, and larger integers are slow
_MAX_EXPONENT = 200
# A word is read whole or not at all: read in pieces, a long one would be tried in all ways of cutting it.
_ALLOWED_EXPRESSION = re.compile(r"(?:[0-9+\-*/%()., ]|(?<![0-9.a-z])[a-z]+(?![a-z]))+")
_SIGN_TABLE = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "^": "?"})
_GROUP_SEPARATOR = re.compile(r"(?<=\d)[ ,](?=\d{3}(?!\d))")  # 2 750, 1,000,000
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_AMBIGUOUS_COMMA = re.compile(r"\d,\d{3}(?!\d)")  # in the arguments of a function: 1,000, or 1 and 000
_COMMA_HINT = "in brackets write numbers without commas, and a space after each comma between them."
_CANNOT_CALCULATE = "This cannot be worked out: {}"
_ALLOWED_HINT = "only numbers, + - * / // % **, brackets, abs, max, min, round and sqrt can be used."


def _check_bounds(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:
        raise ToolFailed(_CANNOT_CALCULATE.format("a number is too large."))
    return value


def _raise_to_power(base: Any, exponent: Any) -> Any:
    _check_bounds(base), _check_bounds(exponent)
    if abs(exponent) > _MAX_EXPONENT or (base and abs(exponent * math.log10(abs(base))) > math.log10(_MAX_NUMBER)):
        raise ToolFailed(_CANNOT_CALCULATE.format("a power is too large."))
    return base**exponent


def _bound_operator(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: _check_bounds(work(_check_bounds(one), _check_bounds(other)))


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: _bound_operator(operator.add),
    ast.Sub: _bound_operator(operator.sub),
    ast.Mult: _bound_operator(operator.mul),
    ast.Div: _bound_operator(operator.truediv),
    ast.FloorDiv: _bound_operator(operator.floordiv),
    ast.Mod: _bound_operator(operator.mod),
    ast.Pow: _raise_to_power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "round": lambda value, digits=0: round(_check_bounds(value), max(-30, min(30, int(digits))) if digits else None),
    "sqrt": lambda value: math.sqrt(_check_bounds(value)),
}
_NODES = (ast.Expr, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)


def evaluate_expression(expression: str) -> str:
    """Evaluate an arithmetic expression to twelve digits. Raises ToolFailed."""
    text = expression.translate(_SIGN_TABLE).strip().lower()
    if not re.search(r"[a-z]", text):
        text = _DECIMAL_COMMA.sub(".", _GROUP_SEPARATOR.sub("", text))
    elif _AMBIGUOUS_COMMA.search(text):
        raise ToolFailed(_CANNOT_CALCULATE.format(_COMMA_HINT))
    else:  # in a function call a comma separates arguments
        text = _GROUP_SEPARATOR.sub("", text)
    if not _ALLOWED_EXPRESSION.fullmatch(text):
        raise ToolFailed(_CANNOT_CALCULATE.format(_ALLOWED_HINT))
    evaluator = SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names={})
    evaluator.nodes = {kind: work for kind, work in evaluator.nodes.items() if kind in _NODES}
    wrong = (InvalidExpression, SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError)
    with translate_errors(ToolFailed, *wrong, say=_CANNOT_CALCULATE.format(_ALLOWED_HINT)):
        value = _check_bounds(evaluator.eval(text))
        return f"{value:.12g}" if isinstance(value, float) else str(value)


_MAX_SNIPPET_LENGTH = 160  # characters

SUM_FORMAT = "sum"  # format of a text in a schema: arithmetic only
MAX_POSTS = 99  # of one question: two digits in the grammar

ToolData = dict[str, Any]  # of JSON; days are ISO texts
QueryText = Annotated[str, StringConstraints(min_length=1, max_length=120)]
PostNumber = Annotated[int, Field(ge=1, le=MAX_POSTS)]
# The range of posts; days outside it may be no valid times in every time zone.
PostDay = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2099, 12, 31))]
PostNumbers = Annotated[list[PostNumber], Field(min_length=1, max_length=5)]
NeighbourCount = Annotated[int, Field(ge=0, le=3)]
ChannelName = Annotated[str, StringConstraints(min_length=1, max_length=32)]  # @username or beginning of the title
HitCount = Annotated[int, Field(ge=1, le=50)]
# numbers, + - * / // % **, brackets, abs, max, min, round, sqrt
ExpressionText = Annotated[QueryText, Field(json_schema_extra={"format": SUM_FORMAT})]


@dataclass
class ToolContext:
    """Shared state of the tools for one question: found posts and calculations.

    `exact` is the last aggregated answer, with its citations. Only posts that the viewer may read are added: every
    tool searches only the viewer's channels.
    """

    question: Question
    rag: Engine
    run: Run
    found: list[Hit] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)  # numbers of the posts of each tool call
    exact: Draft | None = None
    reckoned: list[tuple[str, str]] = field(default_factory=list)  # expression, result
    step: int = 0

    def passage(self, number: int) -> Passage:
        """Return the passage of a post number. Raises ToolFailed."""
        if not 1 <= number <= len(self.found):
            raise ToolFailed(f"There is no post {number}: search first, and use the numbers it gives.")
        return self.found[number - 1].passage

    def add_hits(self, hits: Iterable[Hit]) -> list[int]:
        """Add hits and return their numbers; new posts get the next number, up to the maximum."""
        known, numbers = {hit.passage.ref: n for n, hit in enumerate(self.found, 1)}, []
        for hit in hits:
            ref = hit.passage.ref
            if ref not in known and len(self.found) < MAX_POSTS and ref.key.chat_id in self.question.viewer.channels:
                self.found.append(hit)
                known[ref] = len(self.found)
            if ref in known:
                numbers.append(known[ref])
        self.batches.append(numbers)
        return numbers

    async def list_posts(self, hits: Iterable[Hit], *, scored: bool = False) -> ToolData:
        """Add hits and summarize them: number, channel, day, snippet, and the score where it says something."""
        known, summaries, listed = await load_channels(self.rag.archive), [], {hit.passage.ref: hit for hit in hits}
        for number in self.add_hits(listed.values()):
            passage = self.passage(number)
            score = {"score": round(listed[passage.ref].score, 3)} if scored else {}
            channel = known.get(passage.key.chat_id)
            snippet = " ".join(passage.text.split())[:_MAX_SNIPPET_LENGTH]
            summary = {"channel": channel.title if channel else "", "date": f"{passage.date:%Y-%m-%d}"}
            summaries.append({"post": number, **score, **summary, "snippet": snippet})
        return {"posts": summaries}


async def calculate(context: ToolContext, expression: ExpressionText) -> ToolData:
    """Evaluate arithmetic, and record it for the answer."""
    result = evaluate_expression(expression)
    context.reckoned.append((expression, result))
    return {"result": result}


async def normalize_time(context: ToolContext, text: QueryText) -> ToolData:
    """Parse words of time to days from `since` to before `until`; None where open or where they name no time."""
    period = parse_period(text, context.question.asked_at)
    bounds = {"since": period.since, "until": period.until} if period else {"since": None, "until": None}
    return {name: f"{moment:%Y-%m-%d}" if moment else None for name, moment in bounds.items()}


_MAX_POST_LENGTH = 1200  # characters of a fetched post
_NEIGHBOUR_WINDOW = timedelta(days=60)  # before and after a post, for its neighbours
_RECENT_WINDOW_DAYS = (7, 90, 3660)  # tried in turn until enough posts are found


def resolve_day_bounds(
    since: date | None, until: date | None, context: ToolContext
) -> tuple[datetime | None, datetime | None]:
    """Convert inclusive days to a half-open interval of times in the asker's time zone."""
    zone = context.question.asked_at.tzinfo
    after = until + timedelta(days=1) if until else None
    return (
        datetime.combine(since, time(), zone) if since else None,
        datetime.combine(after, time(), zone) if after else None,
    )


async def search_posts(
    context: ToolContext,
    queries: Annotated[list[QueryText], Field(min_length=1, max_length=3)],
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=3)] | None = None,
    since: PostDay | None = None,
    until: PostDay | None = None,
    k: HitCount = 5,
    threshold: Annotated[float, Field(ge=0, le=1)] = 0,
) -> ToolData:
    """Search posts for each query and fuse the rankings by reciprocal rank, best first; the best score is 1."""
    known = await load_channels(context.rag.archive)
    found = set[int]()  # readable channels by @username or beginning of the title
    for name in (name.strip().removeprefix("@").casefold() for name in channels or ()):
        readable = [(chat, known[chat]) for chat in context.question.viewer.channels if chat in known]
        exact = {chat for chat, channel in readable if (channel.username or "").casefold() == name}
        meant = exact or {chat for chat, channel in readable if channel.title.casefold().startswith(name)}
        if not name or not meant:
            raise ToolFailed("There is no channel of this name: give a name that a search showed, or null.")
        found |= meant
    first, end = resolve_day_bounds(since, until, context)
    rankings: list[dict[PassageRef, Hit]] = []
    for query in dict.fromkeys(queries):
        question = replace(context.question, text=query)
        plan: Plan = await asyncio.to_thread(context.rag.plan, question, known)
        if not plan.queries:
            plan = build_bare_plan(question)
        if first or end:
            plan = replace(plan, since=first, until=end, slack=0)
        plan = replace(plan, channels=frozenset(found)) if found else plan
        hits = await search_passages(plan, question, context.rag, context.run)
        rankings.append({hit.passage.ref: hit for hit in hits})
    ranked = list(rankings[0].values())
    if len(rankings) > 1:
        by_place = {place: hit for ranking in rankings for place, hit in ranking.items()}
        ranked = [replace(by_place[place], score=score) for place, score in fuse_rankings([*map(list, rankings)])]
    above = [hit for hit in ranked if hit.score >= threshold]
    return await context.list_posts(above[:k], scored=True)


async def search_leg(leg: str, context: ToolContext, query: QueryText, k: HitCount = 5) -> ToolData:
    """Search with one retriever, or fuse both; scores are those of the retriever. Raises ToolFailed."""
    question, rag = context.question, context.rag
    only = SearchFilter(question.viewer.channels)
    if leg == LEXICAL:
        ranked = await search_lexical(query, only, k, rag)
    elif rag.dense is None and leg == DENSE:
        raise ToolFailed("There is no embedding model here: use bm25_search.")
    elif leg == DENSE:
        ranked, _ = await search_dense(query, only, k, rag.dense)
    else:
        both = RetrievalQuery(query, leg, k, only, question.lang)
        ranked = (await search_hybrid(both, rag, context.run)).ranked[:k]
    passages = await fetch_passages(rag.archive, [place for place, _ in ranked])
    hits = [Hit(passages[place], score, leg) for place, score in ranked if place in passages]
    return await context.list_posts(hits, scored=True)


async def fuse_post_rankings(
    context: ToolContext, rankings: Annotated[list[PostNumbers], Field(min_length=2, max_length=4)]
) -> ToolData:
    """Fuse rankings of found posts by reciprocal rank."""
    fused = fuse_rankings([list(dict.fromkeys(ranking)) for ranking in rankings])
    hits = [Hit(context.passage(number), score, "both") for number, score in fused]
    return await context.list_posts(hits, scored=True)


async def rewrite_query(context: ToolContext, query: QueryText) -> ToolData:
    """Write one to three other queries, by the planner model, else by rules."""
    question, rag = replace(context.question, text=query), context.rag
    queries = generate_query_variants(query)[:3]
    if rag.planner:
        entities = await load_known_entities(question, await load_channels(rag.archive), rag)
        rewriting = rewrite_question(question, entities, rag.planner, context.run)
        queries = await context.run.attempt(Stage.REWRITE, rewriting, queries)
    return {"queries": list(queries)}


async def plan_query(context: ToolContext, query: QueryText) -> ToolData:
    """Plan the search for a question by rules, in the format of the planner model."""
    return format_plan(*await _plan_and_channels(query, context))


async def route_query(context: ToolContext, query: QueryText) -> ToolData:
    """Choose the retrievers and the recipe of a question, with the reasons."""
    plan, _ = await _plan_and_channels(query, context)
    recipe = plan.reasons[-1].partition(":")[0] if plan.reasons else "direct"
    return {"legs": plan.legs, "recipe": recipe, "reasons": list(plan.reasons)}


async def _plan_and_channels(query: str, context: ToolContext) -> tuple[Plan, Mapping[int, Channel]]:
    known = await load_channels(context.rag.archive)
    return await plan_with_spelling_and_aliases(replace(context.question, text=query), known, context.rag), known


async def compose_posts(context: ToolContext, posts: PostNumbers) -> ToolData:
    """Compose the evidence from posts as the writer gets it: copies merged, boilerplate left out."""
    chosen = [context.found[n - 1] for n in dict.fromkeys(posts) if context.passage(n)]
    evidence = await gather_evidence(chosen, context.question.viewer, context.rag)
    numbers = context.add_hits(Hit(s.passage, s.score, s.leg) for s in evidence.sources)
    return {
        "posts": [_format_text(n, context.passage(n)) for n in numbers],
        "left_out": sorted(set(posts) - set(numbers)),
    }


async def read_post_texts(context: ToolContext, posts: PostNumbers) -> ToolData:
    """Read the texts of posts, truncated."""
    return {"posts": [_format_text(n, context.passage(n)) for n in dict.fromkeys(posts)]}


def _format_text(number: int, passage: Passage, text: str | None = None) -> ToolData:
    return {"post": number, "date": f"{passage.date:%Y-%m-%d}", "text": text or passage.text[:_MAX_POST_LENGTH]}


async def list_neighbours(
    context: ToolContext, post: PostNumber, before: NeighbourCount = 2, after: NeighbourCount = 2
) -> ToolData:
    """List the posts before and after one in its channel, oldest first."""
    passage = context.passage(post)
    only = SearchFilter(
        frozenset({passage.key.chat_id}), passage.date - _NEIGHBOUR_WINDOW, passage.date + _NEIGHBOUR_WINDOW
    )
    places = await asyncio.to_thread(context.rag.lexical.all_of, only)
    at = next((n for n, place in enumerate(places) if place.key == passage.key), None)
    neighbours = [] if at is None else [*places[max(0, at - before) : at], *places[at + 1 : at + 1 + after]]
    return await _list_places(neighbours, context)


async def list_newest_posts(
    context: ToolContext,
    about: Annotated[str, StringConstraints(max_length=120)] | None = None,
    limit: Annotated[int, Field(ge=1, le=9)] = 5,
) -> ToolData:
    """List the newest posts, of all or about a topic, newest first."""
    topic, lexical = tokenize(about or ""), context.rag.lexical

    def find_places() -> list[PassageRef]:
        if about:
            return lexical.matching(topic, SearchFilter(context.question.viewer.channels)) if topic else []
        places: list[PassageRef] = []
        for days in _RECENT_WINDOW_DAYS:
            since = context.question.asked_at - timedelta(days=days)
            places = lexical.all_of(SearchFilter(context.question.viewer.channels, since))
            if len(places) >= limit:
                break
        return places

    places = list({place.key: place for place in await asyncio.to_thread(find_places)}.values())
    return await _list_places(places[: -limit - 1 : -1], context)


async def rerank_posts(context: ToolContext, query: QueryText, posts: PostNumbers) -> ToolData:
    """Rank posts by a question: with the reranker, or by words where there is none."""
    terms, statistics = tokenize(query), context.rag.lexical.statistics(context.question.viewer.channels)
    passages = [context.passage(n) for n in dict.fromkeys(posts)]
    scored = [Hit(p, statistics.score(terms, tokenize(f"{p.header}\n{p.text}")), LEXICAL) for p in passages]
    best = tuple(sorted(scored, key=lambda hit: -hit.score))
    async with context.run.stage(Stage.RERANK):
        best = await rerank_hits(replace(context.question, text=query), best, context.rag, context.run)
    return await context.list_posts(best)


async def _list_places(places: Sequence[PassageRef], context: ToolContext) -> ToolData:
    passages = await fetch_passages(context.rag.archive, places)
    return await context.list_posts(Hit(passages[place], 0.0, LEXICAL) for place in places if place in passages)


_TIMELINE_POSTS = 5  # posts of a timeline, including the first and the last


async def find_first_mention(
    context: ToolContext, topic: QueryText, since: PostDay | None = None, until: PostDay | None = None
) -> ToolData:
    """Find the first post that mentions a topic; an empty list where no post does."""
    passages, _ = await _collect_mentions(context, topic, (since, until), Kind.FIRST)
    return await context.list_posts(Hit(passage, 0.0, LEXICAL) for passage in passages[:1])


async def count_mentions(
    context: ToolContext, topic: QueryText, since: PostDay | None = None, until: PostDay | None = None
) -> ToolData:
    """Count the posts that mention a topic, with the first and the last day."""
    passages, count = await _collect_mentions(context, topic, (since, until), Kind.HOW_MANY)
    days = sorted(f"{passage.date:%Y-%m-%d}" for passage in passages)
    return {"count": count, "first": days[0] if days else None, "last": days[-1] if days else None}


async def build_timeline(
    context: ToolContext, topic: QueryText, since: PostDay | None = None, until: PostDay | None = None
) -> ToolData:
    """Sample the posts that mention a topic, in order of date."""
    passages, count = await _collect_mentions(context, topic, (since, until), Kind.TIMELINE)
    return {"count": count, **await context.list_posts(Hit(passage, 0.0, LEXICAL) for passage in passages)}


async def _collect_mentions(
    context: ToolContext, topic: str, days: tuple[date | None, date | None], kind: Kind
) -> tuple[list[Passage], int]:
    """Sample the posts that mention a topic, oldest first, and count them; sets `context.exact` to the exact answer."""
    context.exact = None  # the answer of an earlier call
    since, until = resolve_day_bounds(*days, context)
    question = replace(context.question, text=topic)
    plan = Plan((topic,), kind, topic, asked=topic, since=since, until=until)
    # in a thread: the index may be on a server
    words = await asyncio.to_thread(extract_mention_terms, question, plan, context.rag)
    places = await find_mentions(words, plan, question.viewer, context.rag)
    some = places
    if len(places) > _TIMELINE_POSTS:
        some = [places[n * (len(places) - 1) // (_TIMELINE_POSTS - 1)] for n in range(_TIMELINE_POSTS)]
    passages = await fetch_passages(context.rag.archive, some)
    if places:
        context.exact = await answer_by_aggregation(question, plan, context.rag)
    return [passages[place] for place in some if place in passages], len(places)


_SUMMARY_SENTENCES, _SUMMARY_MARGIN, _MAX_PIECE_LENGTH = 5, 6.0, 240


async def summarize_posts(
    context: ToolContext, posts: PostNumbers, max_length: Annotated[int, Field(ge=60, le=600)] = 500
) -> ToolData:
    """Summarize posts on the question by their own sentences, up to a length; each can be cited."""
    numbers = list(dict.fromkeys(posts))
    evidence = Evidence(tuple(Source(n, context.passage(n), 1.0) for n in numbers))
    about = QueryTerms.of(
        context.question.text, context.rag.lexical.statistics(context.question.viewer.channels).weight
    )
    longest = min(max_length, _MAX_PIECE_LENGTH)
    pieces = await asyncio.to_thread(select_best_pieces, about, evidence, _SUMMARY_SENTENCES, _SUMMARY_MARGIN, longest)
    sentences, left = [], max_length
    for one in pieces:
        text = one.source.passage.text[one.start : one.end]
        if (left := left - len(text)) < 0:
            break
        sentences.append(_format_text(one.source.number, one.source.passage, text))
    return {"sentences": sentences}


async def verify_claim(
    context: ToolContext, claim: Annotated[str, StringConstraints(min_length=1, max_length=300)]
) -> ToolData:
    """Search for a claim and hold it against the posts found; those that decide are added as posts.

    `confidence` is the likelihood that the posts support the claim, 0..1: near 0 where they contradict it.
    """
    rag, run = context.rag, context.run
    lang = detect_language(claim)
    question = replace(context.question, text=claim, lang=lang)
    plan, known = verify.plan_claim_search(question), await load_channels(rag.archive)
    verdict = await verify.verify_claim(Claim(claim, lang), question, plan, known, rag, run)
    found = {hit.passage.key: hit for hit in reversed(await search_passages(plan, question, rag, run))}

    def list_evidence(citations: Sequence[Citation], supports: bool) -> list[ToolData]:
        cited = [(c, number) for c in citations if c.post in found for number in context.add_hits([found[c.post]])]
        return [{"post": n, "supports": supports, "date": f"{c.date:%Y-%m-%d}", "quote": c.quote} for c, n in cited]

    return {
        "verified": verdict.label is Label.SUPPORTED and verdict.likely >= rag.settings.verify.threshold,
        "confidence": round(verdict.likely, 3),
        "evidence": [*list_evidence(verdict.citations, True), *list_evidence(verdict.against, False)],
        "documents_found": len(verdict.assessed),
    }


_MIN_SECONDS = 0.05


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ToolCall(_StrictModel):
    """Tool call: name and input."""

    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """Result of a call: the tool's output, or one sentence where it failed."""

    data: ToolData | None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Tool:
    """Tool: `work` takes the context and the fields of `wants`, the model of the input."""

    name: str
    wants: type[BaseModel]
    work: Callable[..., Awaitable[ToolData]]


def make_tool(name: str, work: Callable[..., Awaitable[ToolData]]) -> Tool:
    """Make a tool of a function: its parameters after the context are the input, its docstring describes it."""
    function = work.func if isinstance(work, partial) else work
    hints = get_type_hints(function, include_extras=True)
    parameters = [*signature(work).parameters.values()][1:]
    fields: dict[str, Any] = {p.name: (hints[p.name], ... if p.default is p.empty else p.default) for p in parameters}
    return Tool(name, create_model(name, __base__=_StrictModel, __doc__=function.__doc__, **fields), work)


async def call_tool(asked: object, tools: Collection[Tool], context: ToolContext) -> ToolOutcome:
    """Call one of these tools; other names are refused in the result. Raises only when cancelled."""
    started = time_module.perf_counter()
    name, data, error, late, seconds = "?", None, None, False, 0.0
    try:
        request = ToolCall.model_validate(asked)
        tool = next((tool for tool in tools if tool.name == request.tool), None)
        if tool is None:
            error = "This tool is not allowed: TOOLS__ALLOWLIST names those that are."
        else:
            name = tool.name
            # its own limit, and at most the recipe's rest, so that the results can still be used
            rest = max(_MIN_SECONDS, context.run.left - context.run.after_models)
            seconds = min(context.run.budgets.tool, rest)
            if context.run.on_stage:
                context.run.on_stage(f"tool.{name}")
            async with asyncio.timeout(seconds):
                with translate_errors(ToolFailed, TypeError, ValueError, RecursionError, say="The input is not JSON."):
                    given = json.dumps(request.input)
                # validated as JSON, in which days are text, and strictly otherwise
                data = await tool.work(context, **dict(tool.wants.model_validate_json(given)))
    except ValidationError as exc:
        # Format the first validation error as one sentence, without any given value or unknown key
        first = exc.errors(include_input=False, include_url=False)[0]
        named = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
        where = ".".join(str(part) for part in named) or "call"
        error = f"The input is not what the tool takes ({where}: {first['msg'][:120]})."
    except TimeoutError:
        late, error = True, f"The tool took longer than {seconds:.3g} s."
    except RagError as exc:
        error = exc.reason
        if isinstance(exc, ArchiveUnavailable | IndexUnavailable):  # an empty result must not pass for "no posts"
            context.run.shortfalls.append(Shortfall("search", error))
    except Exception:  # a bug in a tool must not fail the answer
        log.exception("the tool %s is broken", name)
        error = "The tool failed: its log says why."
    took = round((time_module.perf_counter() - started) * 1000, 3)
    outcome = ToolOutcome(data if error is None else None, error)
    # no texts of readers or posts: `error` is a fixed sentence
    line = {"request_id": context.run.trace_id, "step": context.step, "tool": name,
            "took_ms": took, "ok": outcome.ok, "error": error}  # fmt: skip
    log.info("%s", json.dumps(line))
    counts: dict[str, float | str] = {"step": context.step, "ok": float(outcome.ok), "late": float(late)}
    context.run.spans.append(Span(f"tool.{name}", took, counts, error))
    context.run.show(f"tool.{name}", [json.dumps(outcome.data, ensure_ascii=False)])
    return outcome


TOOLS: tuple[Tool, ...] = (
    make_tool("search", search_posts),
    make_tool("bm25_search", partial(search_leg, LEXICAL)),
    make_tool("dense_search", partial(search_leg, DENSE)),
    make_tool("hybrid_search", partial(search_leg, HYBRID)),
    make_tool("fusion_rank", fuse_post_rankings),
    make_tool("rerank", rerank_posts),
    make_tool("rewrite", rewrite_query),
    make_tool("query_plan", plan_query),
    make_tool("route", route_query),
    make_tool("fetch", read_post_texts),
    make_tool("neighbours", list_neighbours),
    make_tool("newest", list_newest_posts),
    make_tool("first_mention", find_first_mention),
    make_tool("count_mentions", count_mentions),
    make_tool("timeline", build_timeline),
    make_tool("time_normalize", normalize_time),
    make_tool("calculate", calculate),
    make_tool("compose", compose_posts),
    make_tool("summarize", summarize_posts),
    make_tool("verify", verify_claim),
)


def select_allowed_tools(allowlist: str) -> tuple[Tool, ...]:
    """Select the tools that an allowlist names, in the order of `TOOLS`; unknown names are ignored."""
    names = {name.strip().lower() for name in allowlist.split(",")}
    return tuple(tool for tool in TOOLS if tool.name in names or "all" in names)
