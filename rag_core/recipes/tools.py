"""Tools of the recipe `react`: typed input, {"ok", "data", "meta"} as output, limited to the asker's channels.

A call is {"tool", "input"}; the result is {"ok", "data", "meta": {"took_ms", "error"}}, whatever goes wrong, within
the time a tool may take. Counts and first mentions are exact, because every post is read. Arithmetic is done by
simpleeval, with its language cut down to numbers and its powers bounded before they are computed.

There is no web search, because an answer stands on posts alone. To plug one in, add
`Tool("web_search", WebSearchInput, work, outside=True)` to `TOOLS`, whose `work` returns `WebSearchOutput`, and name
it in TOOLS__ALLOWLIST: "all" does not include outside tools. Its results never become evidence and cannot be cited.
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
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from simpleeval import InvalidExpression, SimpleEval

from rag_core.dates import parse_period
from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, translate_errors
from rag_core.index.bm25 import PassageRef, SearchFilter
from rag_core.planning import build_bare_plan
from rag_core.recipes.tool_schemas import (
    MAX_POSTS,
    CalculationInput,
    CalculationOutput,
    DateBoundsOutput,
    MentionCountOutput,
    MentionsInput,
    NeighboursInput,
    NewestInput,
    PostListOutput,
    PostsInput,
    PostSummary,
    PostText,
    PostTextsOutput,
    RerankInput,
    SearchInput,
    SummaryOutput,
    TimeInput,
    TimelineOutput,
    ToolSchema,
    VerifyInput,
    VerifyOutput,
)
from rag_core.retrieval.aggregate import answer_by_aggregation, extract_mention_terms, find_mentions
from rag_core.retrieval.rerank import rerank_hits as reranked
from rag_core.retrieval.search import LEXICAL, fetch_passages
from rag_core.retrieval.search import fetch_passages as read
from rag_core.retrieval.search import search_passages as look
from rag_core.storage import channels
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import detect_language, tokenize
from rag_core.tracing import Run, Span
from rag_core.types import Draft, Evidence, Hit, Kind, Passage, Plan, Question, Shortfall, Source
from rag_core.verification import Label
from rag_core.verification.entailment import assess_text
from rag_core.writing.extract import select_best_pieces

__all__ = [
    "TOOLS",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolFailed",
    "ToolMeta",
    "ToolOutcome",
    "ToolTraceLine",
    "build_timeline",
    "calculate",
    "call_tool",
    "count_mentions",
    "evaluate_expression",
    "find_first_mention",
    "list_neighbours",
    "list_newest_posts",
    "normalize_time",
    "read_post_texts",
    "rerank_posts",
    "resolve_day_bounds",
    "search_posts",
    "select_allowed_tools",
    "summarize_posts",
    "verify_claim",
]

_MAX_SNIPPET_LENGTH = 160  # characters


class ToolFailed(RagError):
    """A tool cannot do what it was asked; the sentence is for the model."""


@dataclass
class ToolContext:
    """Not frozen: posts gather here. `exact`: the last answer that was counted, not searched, cited already.

    Only posts that the asker may read ever lie here: every tool looks in the viewer's channels alone.
    """

    question: Question
    rag: Engine
    run: Run
    found: list[Hit] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)  # their numbers, as each tool brought them
    exact: Draft | None = None
    reckoned: list[tuple[str, str]] = field(default_factory=list)  # expression, result
    step: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)  # of the trace

    def passage(self, number: int) -> Passage:
        """The post of a number. Raises ToolFailed."""
        if not 1 <= number <= len(self.found):
            raise ToolFailed(f"There is no post {number}: search first, and use the numbers it gives.")
        return self.found[number - 1].passage

    def lay(self, hits: Iterable[Hit]) -> list[int]:
        """The numbers of these hits; those that are new get the next ones, as long as there are any."""
        numbers = []
        for hit in hits:
            at = next((n for n, known in enumerate(self.found) if _is_same_hit(known, hit)), None)
            if at is None and len(self.found) < MAX_POSTS and hit.passage.key.chat_id in self.question.viewer.channels:
                at = len(self.found)
                self.found.append(hit)
            elif at is not None and hit.score > self.found[at].score:
                self.found[at] = replace(self.found[at], score=hit.score)
            if at is not None:
                numbers.append(at + 1)
        self.batches.append(numbers)
        return numbers

    async def short(self, numbers: Iterable[int]) -> list[PostSummary]:
        """Posts in short."""
        known = await channels.load_channels(self.rag.archive)
        shown = []
        for number in numbers:
            passage = self.passage(number)
            channel = known.get(passage.key.chat_id)
            text = " ".join(passage.text.split())[:_MAX_SNIPPET_LENGTH]
            shown.append(
                PostSummary(
                    post=number, channel=channel.title if channel else "", date=passage.date.date(), snippet=text
                )
            )
        return shown


def _is_same_hit(one: Hit, other: Hit) -> bool:
    return (one.passage.key, one.passage.start) == (other.passage.key, other.passage.start)


_MAX_NUMBER = 1e30  # beyond it nobody counts, and whole numbers grow slow
_MAX_EXPONENT = 200
# A word is read whole or not at all: read in pieces, a long one would be tried in all ways of cutting it.
_ALLOWED_EXPRESSION = re.compile(r"(?:[0-9+\-*/%()., ]|(?<![0-9.a-z])[a-z]+(?![a-z]))+")
_SIGN_TABLE = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "^": "?"})
_GROUP_SEPARATOR = re.compile(r"(?<=\d)[ ,](?=\d{3}(?!\d))")  # 2 750, 1,000,000
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_AMBIGUOUS_COMMA = re.compile(r"\d,\d{3}(?!\d)")  # in brackets of a function: 1,000 or 1 and 000
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


def _round_number(value: Any, digits: Any = 0) -> Any:
    return round(_check_bounds(value), max(-30, min(30, int(digits)))) if digits else round(_check_bounds(value))


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
    "round": _round_number,
    "sqrt": lambda value: math.sqrt(_check_bounds(value)),
}
_NODES = (ast.Expr, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)


def evaluate_expression(expression: str) -> str:
    """The result to twelve digits. Raises ToolFailed."""
    text = expression.translate(_SIGN_TABLE).strip().lower()
    if not re.search(r"[a-z]", text):
        text = _DECIMAL_COMMA.sub(".", _GROUP_SEPARATOR.sub("", text))
    elif _AMBIGUOUS_COMMA.search(text):
        raise ToolFailed(_CANNOT_CALCULATE.format(_COMMA_HINT))
    else:  # between the arguments of a function a comma is no decimal one
        text = _GROUP_SEPARATOR.sub("", text)
    if not _ALLOWED_EXPRESSION.fullmatch(text):
        raise ToolFailed(_CANNOT_CALCULATE.format(_ALLOWED_HINT))
    evaluator = SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names={})
    evaluator.nodes = {kind: work for kind, work in evaluator.nodes.items() if kind in _NODES}
    wrong = (InvalidExpression, SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError)
    with translate_errors(ToolFailed, *wrong, say=_CANNOT_CALCULATE.format(_ALLOWED_HINT)):
        value = _check_bounds(evaluator.eval(text))
        return f"{value:.12g}" if isinstance(value, float) else str(value)


async def calculate(asked: CalculationInput, desk: ToolContext) -> CalculationOutput:
    """Arithmetic, safely."""
    result = evaluate_expression(asked.expression)
    desk.reckoned.append((asked.expression, result))
    return CalculationOutput(result=result)


async def normalize_time(asked: TimeInput, desk: ToolContext) -> DateBoundsOutput:
    """The days that words of time mean, seen from when the question was asked."""
    found = parse_period(asked.text, desk.question.asked_at)
    if found is None:
        return DateBoundsOutput()
    return DateBoundsOutput(
        since=found.since.date() if found.since else None, until=found.until.date() if found.until else None
    )


_MAX_FOUND_POSTS = 5  # posts that a search shows
_MAX_POST_LENGTH = 1200  # characters of a fetched post
_NEIGHBOUR_WINDOW = timedelta(days=60)  # in which neighbours of a post are looked for
_RECENT_WINDOW_DAYS = (7, 90, 3660)  # days back, until enough posts are found


def resolve_day_bounds(
    since: date | None, until: date | None, desk: ToolContext
) -> tuple[datetime | None, datetime | None]:
    """Days, both inclusive, as moments in the asker's time zone; the second exclusive."""
    zone = desk.question.asked_at.tzinfo
    after = until + timedelta(days=1) if until else None
    return (
        datetime.combine(since, time(), zone) if since else None,
        datetime.combine(after, time(), zone) if after else None,
    )


async def search_posts(asked: SearchInput, desk: ToolContext) -> PostListOutput:
    """Posts that answer a question, best first."""
    question = replace(desk.question, text=asked.query)
    known = await channels.load_channels(desk.rag.archive)
    plan: Plan = await asyncio.to_thread(desk.rag.plan, question, known)
    if not plan.queries:
        plan = build_bare_plan(question)
    since, until = resolve_day_bounds(asked.since, asked.until, desk)
    if since or until:
        plan = replace(plan, since=since, until=until, slack=0)
    hits = await look(plan, question, desk.rag, desk.run)
    return PostListOutput(posts=await desk.short(desk.lay(hits[:_MAX_FOUND_POSTS])))


async def read_post_texts(asked: PostsInput, desk: ToolContext) -> PostTextsOutput:
    """The texts of posts."""
    passages = [(number, desk.passage(number)) for number in dict.fromkeys(asked.posts)]
    return PostTextsOutput(
        posts=[PostText(post=n, date=p.date.date(), text=p.text[:_MAX_POST_LENGTH]) for n, p in passages]
    )


async def list_neighbours(asked: NeighboursInput, desk: ToolContext) -> PostListOutput:
    """The posts before and after one in its channel, oldest first."""
    passage = desk.passage(asked.post)
    only = SearchFilter(
        frozenset({passage.key.chat_id}), passage.date - _NEIGHBOUR_WINDOW, passage.date + _NEIGHBOUR_WINDOW
    )
    places = await asyncio.to_thread(desk.rag.lexical.all_of, only)
    at = next((n for n, place in enumerate(places) if place.key == passage.key), None)
    near = [] if at is None else [*places[max(0, at - asked.before) : at], *places[at + 1 : at + 1 + asked.after]]
    return await _list_places(near, desk)


async def list_newest_posts(asked: NewestInput, desk: ToolContext) -> PostListOutput:
    """The newest posts, newest first."""
    topic, lexical = tokenize(asked.about or ""), desk.rag.lexical

    def found() -> list[PassageRef]:
        if asked.about:
            return lexical.matching(topic, SearchFilter(desk.question.viewer.channels)) if topic else []
        places: list[PassageRef] = []
        for days in _RECENT_WINDOW_DAYS:
            since = desk.question.asked_at - timedelta(days=days)
            places = lexical.all_of(SearchFilter(desk.question.viewer.channels, since))
            if len(places) >= asked.limit:
                break
        return places

    places = list({place.key: place for place in await asyncio.to_thread(found)}.values())
    return await _list_places(places[: -asked.limit - 1 : -1], desk)


async def rerank_posts(asked: RerankInput, desk: ToolContext) -> PostListOutput:
    """Posts in the order in which they answer a question: by the reranker, by their words where there is none."""
    hits = tuple(Hit(desk.passage(n), 0.0, LEXICAL) for n in dict.fromkeys(asked.posts))
    query, statistics = tokenize(asked.query), desk.rag.lexical.statistics(desk.question.viewer.channels)
    scored = [replace(h, score=statistics.score(query, tokenize(_join_passage_text(h.passage)))) for h in hits]
    best = tuple(sorted(scored, key=lambda hit: -hit.score))
    async with desk.run.stage("rerank"):
        best = await reranked(replace(desk.question, text=asked.query), best, desk.rag, desk.run)
    return PostListOutput(posts=await desk.short(desk.lay(best)))


def _join_passage_text(passage: Passage) -> str:
    return f"{passage.header}\n{passage.text}"


async def _list_places(places: Sequence[PassageRef], desk: ToolContext) -> PostListOutput:
    passages = await read(places, desk.rag)
    hits = [Hit(passages[place], 0.0, LEXICAL) for place in places if place in passages]
    return PostListOutput(posts=await desk.short(desk.lay(hits)))


_TIMELINE_POSTS = 5  # posts of a timeline, the first and the last among them


async def find_first_mention(asked: MentionsInput, desk: ToolContext) -> PostListOutput:
    """The first post that mentions something; none where no post does."""
    found, _ = await _collect_mentions(asked, Kind.FIRST, desk)
    return PostListOutput(posts=await desk.short(_add_passages(found[:1], desk)))


async def count_mentions(asked: MentionsInput, desk: ToolContext) -> MentionCountOutput:
    """How many posts mention something."""
    ends, count = await _collect_mentions(asked, Kind.HOW_MANY, desk)
    days = sorted(passage.date.date() for passage in ends)
    return MentionCountOutput(count=count, first=days[0] if days else None, last=days[-1] if days else None)


async def build_timeline(asked: MentionsInput, desk: ToolContext) -> TimelineOutput:
    """A few of the posts that mention something, in the order of their dates."""
    found, count = await _collect_mentions(asked, Kind.TIMELINE, desk)
    return TimelineOutput(count=count, posts=await desk.short(_add_passages(found, desk)))


async def _collect_mentions(asked: MentionsInput, kind: Kind, desk: ToolContext) -> tuple[list[Passage], int]:
    """A few of the posts, oldest first, and how many there are; the answer that says so is left on the desk."""
    desk.exact = None  # of what was counted before
    since, until = resolve_day_bounds(asked.since, asked.until, desk)
    question = replace(desk.question, text=asked.topic)
    plan = Plan((asked.topic,), kind, asked.topic, asked=asked.topic, since=since, until=until)
    words = await asyncio.to_thread(
        extract_mention_terms, question, plan, desk.rag
    )  # an index on a server is waited for
    places = await find_mentions(words, plan, question.viewer, desk.rag)
    some = places
    if len(places) > _TIMELINE_POSTS:
        some = [places[n * (len(places) - 1) // (_TIMELINE_POSTS - 1)] for n in range(_TIMELINE_POSTS)]
    passages = await fetch_passages(some, desk.rag)
    if places:
        desk.exact = await answer_by_aggregation(question, plan, desk.rag)
    return [passages[place] for place in some if place in passages], len(places)


def _add_passages(passages: list[Passage], desk: ToolContext) -> list[int]:
    return desk.lay(Hit(passage, 0.0, LEXICAL) for passage in passages)


_SUMMARY_SENTENCES, _SUMMARY_MARGIN, _MAX_SUMMARY_LENGTH = 3, 6.0, 240
_MAX_DECIDING_POSTS = 3  # posts named with a verdict


async def summarize_posts(asked: PostsInput, desk: ToolContext) -> SummaryOutput:
    """What posts say of the question, in a few of their own sentences: nothing is made up, so all can be cited."""
    numbers = list(dict.fromkeys(asked.posts))
    evidence = Evidence(tuple(Source(n, desk.passage(n), 1.0) for n in numbers))
    about = QueryTerms.of(desk.question.text, desk.rag.lexical.statistics(desk.question.viewer.channels).weight)
    pieces = await asyncio.to_thread(
        select_best_pieces, about, evidence, _SUMMARY_SENTENCES, _SUMMARY_MARGIN, _MAX_SUMMARY_LENGTH
    )
    said = [(piece.source, piece.source.passage.text[piece.start : piece.end]) for piece in pieces]
    return SummaryOutput(sentences=[PostText(post=s.number, date=s.passage.date.date(), text=text) for s, text in said])


async def verify_claim(asked: VerifyInput, desk: ToolContext) -> VerifyOutput:
    """Whether the posts found so far say a claim: one that bears it out outweighs those that say otherwise."""
    lang = detect_language(asked.claim)
    found = await asyncio.to_thread(lambda: [assess_text(asked.claim, hit.passage.text, lang) for hit in desk.found])
    for label in (Label.SUPPORTED, Label.CONTRADICTED):
        deciding = [(one.likely, n) for n, one in enumerate(found, 1) if one.label is label]
        if deciding:
            surest = (max if label is Label.SUPPORTED else min)(deciding)[0]
            numbers = [n for _, n in deciding][:_MAX_DECIDING_POSTS]
            return VerifyOutput(label=label.value, confidence=round(surest, 3), posts=numbers)
    return VerifyOutput(
        label=Label.NOT_FOUND.value, confidence=round(max((one.likely for one in found), default=0.0), 3), posts=[]
    )


_MIN_SECONDS = 0.05

log = logging.getLogger(__name__)


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ToolCall(_StrictModel):
    """What is asked of a tool."""

    tool: str
    input: dict[str, Any]


class ToolMeta(_StrictModel):
    """How long it took, in milliseconds, and one sentence where it failed."""

    took_ms: float
    error: str | None = None


class ToolOutcome(_StrictModel):
    """What came of it; `data` is the tool's output, None where it failed."""

    ok: bool
    data: dict[str, Any] | None
    meta: ToolMeta


class ToolTraceLine(_StrictModel):
    """The line of the trace. No texts: `error` is a sentence of ours."""

    request_id: str
    step: int
    tool: str
    took_ms: float
    ok: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that can be called: `work` takes the input and the desk. `outside`: only when allowed by name."""

    name: str
    wants: type[ToolSchema]
    work: Callable[[Any, ToolContext], Awaitable[ToolSchema]]
    outside: bool = False


async def call_tool(asked: object, tools: Collection[Tool], desk: ToolContext) -> ToolOutcome:
    """Call one of these tools; of others it is said that they are not allowed. Never raises but when cancelled."""
    started = time_module.perf_counter()
    name, data, error, late, seconds = "?", None, None, False, 0.0
    try:
        request = ToolCall.model_validate(asked)
        tool = next((tool for tool in tools if tool.name == request.tool), None)
        if tool is None:
            error = "This tool is not allowed: TOOLS__ALLOWLIST names those that are."
        else:
            name = tool.name
            seconds = _compute_time_limit(desk)
            async with asyncio.timeout(seconds):
                data = await _run_tool(tool, request, desk)
    except ValidationError as exc:
        error = _format_validation_error(exc)
    except TimeoutError:
        late, error = True, f"The tool took longer than {seconds:.3g} s: raise TOOLS__SECONDS."
    except RagError as exc:
        error = exc.reason
        if isinstance(exc, ArchiveUnavailable | IndexUnavailable):  # then "it is not there" would be a claim
            desk.run.shortfalls.append(Shortfall("search", error))
    except Exception:  # the contract: a tool that is broken must not take the answer with it
        log.exception("the tool %s is broken", name)
        error = "The tool failed: its log says why."
    took = round((time_module.perf_counter() - started) * 1000, 3)
    outcome = ToolOutcome(
        ok=error is None, data=data if error is None else None, meta=ToolMeta(took_ms=took, error=error)
    )
    _trace_call(name, outcome, desk, late=late)
    return outcome


def _compute_time_limit(desk: ToolContext) -> float:
    """What a tool may take: its own time, and no more than its recipe has, so that what was found is still used."""
    return min(desk.rag.settings.tools.seconds, max(_MIN_SECONDS, desk.run.left - desk.run.after))


async def _run_tool(tool: Tool, request: ToolCall, desk: ToolContext) -> dict[str, Any]:
    with translate_errors(ToolFailed, TypeError, ValueError, RecursionError, say="The input is not JSON."):
        given = json.dumps(request.input)
    # read as JSON, where days are text, and strictly otherwise
    return (await tool.work(tool.wants.model_validate_json(given), desk)).model_dump(mode="json")


def _format_validation_error(exc: ValidationError) -> str:
    """One sentence on the first thing that is wrong; nothing is repeated that was given, nor a key of its own."""
    first = exc.errors(include_input=False, include_url=False)[0]
    named = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    where = ".".join(str(part) for part in named) or "call"
    return f"The input is not what the tool takes ({where}: {first['msg'][:120]})."


def _trace_call(name: str, outcome: ToolOutcome, desk: ToolContext, *, late: bool) -> None:
    """A JSON line in the log, and a span of the run."""
    meta = outcome.meta
    line = ToolTraceLine(request_id=desk.run.trace_id, step=desk.step, tool=name, took_ms=meta.took_ms, ok=outcome.ok,
                error=meta.error)  # fmt: skip
    log.info("%s", line.model_dump_json())
    desk.lines.append(line.model_dump())
    counts: dict[str, float | str] = {"step": desk.step, "ok": float(outcome.ok), "late": float(late)}
    desk.run.spans.append(Span(f"tool.{name}", meta.took_ms, counts, meta.error))


TOOLS: tuple[Tool, ...] = (
    Tool("search", SearchInput, search_posts),
    Tool("fetch", PostsInput, read_post_texts),
    Tool("neighbours", NeighboursInput, list_neighbours),
    Tool("newest", NewestInput, list_newest_posts),
    Tool("first_mention", MentionsInput, find_first_mention),
    Tool("count_mentions", MentionsInput, count_mentions),
    Tool("timeline", MentionsInput, build_timeline),
    Tool("time_normalize", TimeInput, normalize_time),
    Tool("calculate", CalculationInput, calculate),
    Tool("summarize", PostsInput, summarize_posts),
    Tool("rerank", RerankInput, rerank_posts),
    Tool("verify", VerifyInput, verify_claim),
)
_ALL_TOOLS = "all"


def select_allowed_tools(allowlist: str, tools: Iterable[Tool] = TOOLS) -> tuple[Tool, ...]:
    """The tools that a list of names allows, in the order of the table; names of no tool allow nothing."""
    names = {name.strip().lower() for name in allowlist.split(",")}
    return tuple(tool for tool in tools if tool.name in names or (_ALL_TOOLS in names and not tool.outside))
