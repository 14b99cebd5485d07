"""Tools of the recipe `react`: typed input, {"ok", "data", "meta"} as output, limited to the asker's channels.

A call is {"tool", "input"}; the result is {"ok", "data", "meta": {"took_ms", "error"}}, also for any failure, within
the tool's time limit. Counts and first mentions are exact, because every post is read. Arithmetic is done by
simpleeval, with its language restricted to numbers and its powers bounded before they are computed.

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
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from pydantic import ValidationError
from simpleeval import InvalidExpression, SimpleEval

from rag_core.dates.parse import parse_period
from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, translate_errors
from rag_core.planning.rule_planner import build_bare_plan
from rag_core.recipes.tool_schemas import (
    MAX_POSTS,
    CalculationInput,
    MentionsInput,
    NeighboursInput,
    NewestInput,
    PostsInput,
    RerankInput,
    SearchInput,
    TimeInput,
    ToolSchema,
    VerifyInput,
)
from rag_core.retrieval.aggregate import answer_by_aggregation, extract_mention_terms, find_mentions
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import LEXICAL, fetch_passages, search_passages
from rag_core.storage import channels
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import detect_language, tokenize
from rag_core.tracing import Run, Span, Stage
from rag_core.types import (
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
from rag_core.verification.entailment import assess_text
from rag_core.verification.types import Label
from rag_core.writing.extract import select_best_pieces

_MAX_SNIPPET_LENGTH = 160  # characters

ToolData = dict[str, Any]  # of JSON; days are ISO texts


class ToolFailed(RagError):
    """Tool cannot do what it was asked; the sentence is for the model."""


@dataclass
class ToolContext:
    """Shared state of the tools for one question: found posts, calculations and trace lines.

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
    lines: list[dict[str, Any]] = field(default_factory=list)  # trace lines

    def passage(self, number: int) -> Passage:
        """Return the passage of a post number. Raises ToolFailed."""
        if not 1 <= number <= len(self.found):
            raise ToolFailed(f"There is no post {number}: search first, and use the numbers it gives.")
        return self.found[number - 1].passage

    def lay(self, hits: Iterable[Hit]) -> list[int]:
        """Add hits and return their numbers; new posts get the next number, up to the maximum."""
        numbers = []
        for hit in hits:
            places = [(known.passage.key, known.passage.start) for known in self.found]
            place = (hit.passage.key, hit.passage.start)
            at = places.index(place) if place in places else None
            if at is None and len(self.found) < MAX_POSTS and hit.passage.key.chat_id in self.question.viewer.channels:
                at = len(self.found)
                self.found.append(hit)
            elif at is not None and hit.score > self.found[at].score:
                self.found[at] = replace(self.found[at], score=hit.score)
            if at is not None:
                numbers.append(at + 1)
        self.batches.append(numbers)
        return numbers

    async def list_posts(self, hits: Iterable[Hit]) -> ToolData:
        """Add hits and summarize them: number, channel, day and snippet."""
        known, summaries = await channels.load_channels(self.rag.archive), []
        for number in self.lay(hits):
            passage = self.passage(number)
            channel = known.get(passage.key.chat_id)
            snippet = " ".join(passage.text.split())[:_MAX_SNIPPET_LENGTH]
            summary = {"channel": channel.title if channel else "", "date": f"{passage.date:%Y-%m-%d}"}
            summaries.append({"post": number, **summary, "snippet": snippet})
        return {"posts": summaries}


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


async def calculate(asked: CalculationInput, context: ToolContext) -> ToolData:
    """Evaluate arithmetic, and record it for the answer."""
    result = evaluate_expression(asked.expression)
    context.reckoned.append((asked.expression, result))
    return {"result": result}


async def normalize_time(asked: TimeInput, context: ToolContext) -> ToolData:
    """Parse words of time to days from `since` to before `until`; None where open or where they name no time."""
    period = parse_period(asked.text, context.question.asked_at)
    bounds = {"since": period.since, "until": period.until} if period else {"since": None, "until": None}
    return {name: f"{moment:%Y-%m-%d}" if moment else None for name, moment in bounds.items()}


_MAX_FOUND_POSTS = 5  # posts returned by a search
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


async def search_posts(asked: SearchInput, context: ToolContext) -> ToolData:
    """Search posts that answer a question, best first."""
    question = replace(context.question, text=asked.query)
    known = await channels.load_channels(context.rag.archive)
    plan: Plan = await asyncio.to_thread(context.rag.plan, question, known)
    if not plan.queries:
        plan = build_bare_plan(question)
    since, until = resolve_day_bounds(asked.since, asked.until, context)
    if since or until:
        plan = replace(plan, since=since, until=until, slack=0)
    hits = await search_passages(plan, question, context.rag, context.run)
    return await context.list_posts(hits[:_MAX_FOUND_POSTS])


async def read_post_texts(asked: PostsInput, context: ToolContext) -> ToolData:
    """Read the texts of posts, truncated."""
    passages = [(number, context.passage(number)) for number in dict.fromkeys(asked.posts)]
    return {"posts": [_format_text(n, p, p.text[:_MAX_POST_LENGTH]) for n, p in passages]}


def _format_text(number: int, passage: Passage, text: str) -> ToolData:
    return {"post": number, "date": f"{passage.date:%Y-%m-%d}", "text": text}


async def list_neighbours(asked: NeighboursInput, context: ToolContext) -> ToolData:
    """List the posts before and after one in its channel, oldest first."""
    passage = context.passage(asked.post)
    only = SearchFilter(
        frozenset({passage.key.chat_id}), passage.date - _NEIGHBOUR_WINDOW, passage.date + _NEIGHBOUR_WINDOW
    )
    places = await asyncio.to_thread(context.rag.lexical.all_of, only)
    at = next((n for n, place in enumerate(places) if place.key == passage.key), None)
    neighbours = [] if at is None else [*places[max(0, at - asked.before) : at], *places[at + 1 : at + 1 + asked.after]]
    return await _list_places(neighbours, context)


async def list_newest_posts(asked: NewestInput, context: ToolContext) -> ToolData:
    """List the newest posts, of all or about a topic, newest first."""
    topic, lexical = tokenize(asked.about or ""), context.rag.lexical

    def find_places() -> list[PassageRef]:
        if asked.about:
            return lexical.matching(topic, SearchFilter(context.question.viewer.channels)) if topic else []
        places: list[PassageRef] = []
        for days in _RECENT_WINDOW_DAYS:
            since = context.question.asked_at - timedelta(days=days)
            places = lexical.all_of(SearchFilter(context.question.viewer.channels, since))
            if len(places) >= asked.limit:
                break
        return places

    places = list({place.key: place for place in await asyncio.to_thread(find_places)}.values())
    return await _list_places(places[: -asked.limit - 1 : -1], context)


async def rerank_posts(asked: RerankInput, context: ToolContext) -> ToolData:
    """Rank posts by a question: with the reranker, or by words where there is none."""
    query, statistics = tokenize(asked.query), context.rag.lexical.statistics(context.question.viewer.channels)
    passages = [context.passage(n) for n in dict.fromkeys(asked.posts)]
    scored = [Hit(p, statistics.score(query, tokenize(f"{p.header}\n{p.text}")), LEXICAL) for p in passages]
    best = tuple(sorted(scored, key=lambda hit: -hit.score))
    async with context.run.stage(Stage.RERANK):
        best = await rerank_hits(replace(context.question, text=asked.query), best, context.rag, context.run)
    return await context.list_posts(best)


async def _list_places(places: Sequence[PassageRef], context: ToolContext) -> ToolData:
    passages = await fetch_passages(places, context.rag)
    return await context.list_posts(Hit(passages[place], 0.0, LEXICAL) for place in places if place in passages)


_TIMELINE_POSTS = 5  # posts of a timeline, including the first and the last


async def find_first_mention(asked: MentionsInput, context: ToolContext) -> ToolData:
    """Find the first post that mentions a topic; an empty list where no post does."""
    passages, _ = await _collect_mentions(asked, Kind.FIRST, context)
    return await context.list_posts(Hit(passage, 0.0, LEXICAL) for passage in passages[:1])


async def count_mentions(asked: MentionsInput, context: ToolContext) -> ToolData:
    """Count the posts that mention a topic, with the first and the last day."""
    passages, count = await _collect_mentions(asked, Kind.HOW_MANY, context)
    days = sorted(f"{passage.date:%Y-%m-%d}" for passage in passages)
    return {"count": count, "first": days[0] if days else None, "last": days[-1] if days else None}


async def build_timeline(asked: MentionsInput, context: ToolContext) -> ToolData:
    """Sample the posts that mention a topic, in order of date."""
    passages, count = await _collect_mentions(asked, Kind.TIMELINE, context)
    return {"count": count, **await context.list_posts(Hit(passage, 0.0, LEXICAL) for passage in passages)}


async def _collect_mentions(asked: MentionsInput, kind: Kind, context: ToolContext) -> tuple[list[Passage], int]:
    """Sample the posts that mention a topic, oldest first, and count them; sets `context.exact` to the exact answer."""
    context.exact = None  # the answer of an earlier call
    since, until = resolve_day_bounds(asked.since, asked.until, context)
    question = replace(context.question, text=asked.topic)
    plan = Plan((asked.topic,), kind, asked.topic, asked=asked.topic, since=since, until=until)
    # in a thread: the index may be on a server
    words = await asyncio.to_thread(extract_mention_terms, question, plan, context.rag)
    places = await find_mentions(words, plan, question.viewer, context.rag)
    some = places
    if len(places) > _TIMELINE_POSTS:
        some = [places[n * (len(places) - 1) // (_TIMELINE_POSTS - 1)] for n in range(_TIMELINE_POSTS)]
    passages = await fetch_passages(some, context.rag)
    if places:
        context.exact = await answer_by_aggregation(question, plan, context.rag)
    return [passages[place] for place in some if place in passages], len(places)


_SUMMARY_SENTENCES, _SUMMARY_MARGIN, _MAX_SUMMARY_LENGTH = 3, 6.0, 240
_MAX_DECIDING_POSTS = 3  # posts named with a verdict


async def summarize_posts(asked: PostsInput, context: ToolContext) -> ToolData:
    """Summarize posts on the question by a few of their own sentences, which can all be cited."""
    numbers = list(dict.fromkeys(asked.posts))
    evidence = Evidence(tuple(Source(n, context.passage(n), 1.0) for n in numbers))
    about = QueryTerms.of(
        context.question.text, context.rag.lexical.statistics(context.question.viewer.channels).weight
    )
    pieces = await asyncio.to_thread(
        select_best_pieces, about, evidence, _SUMMARY_SENTENCES, _SUMMARY_MARGIN, _MAX_SUMMARY_LENGTH
    )
    quotes = [(one.source, one.source.passage.text[one.start : one.end]) for one in pieces]
    return {"sentences": [_format_text(source.number, source.passage, text) for source, text in quotes]}


async def verify_claim(asked: VerifyInput, context: ToolContext) -> ToolData:
    """Verify a claim against the posts found so far: a supporting post outweighs contradicting ones.

    `confidence` is the likelihood that they support the claim, 0..1: near 0 where they contradict it.
    """
    lang = detect_language(asked.claim)
    assessed = await asyncio.to_thread(
        lambda: [assess_text(asked.claim, hit.passage.text, lang) for hit in context.found]
    )
    for label in (Label.SUPPORTED, Label.CONTRADICTED):
        deciding = [(one.likely, n) for n, one in enumerate(assessed, 1) if one.label is label]
        if deciding:
            surest = (max if label is Label.SUPPORTED else min)(deciding)[0]
            numbers = [n for _, n in deciding][:_MAX_DECIDING_POSTS]
            return {"label": label.value, "confidence": round(surest, 3), "posts": numbers}
    likely = max((one.likely for one in assessed), default=0.0)
    return {"label": Label.NOT_FOUND.value, "confidence": round(likely, 3), "posts": []}


_MIN_SECONDS = 0.05

log = logging.getLogger(__name__)


class ToolCall(ToolSchema):
    """Tool call: name and input."""

    tool: str
    input: dict[str, Any]


class ToolMeta(ToolSchema):
    """Duration of a call in milliseconds, and one sentence where it failed."""

    took_ms: float
    error: str | None = None


class ToolOutcome(ToolSchema):
    """Result of a call; `data` is the tool's output, None where it failed."""

    ok: bool
    data: ToolData | None
    meta: ToolMeta


class ToolTraceLine(ToolSchema):
    """Trace line of a call. No texts of readers or posts: `error` is a fixed sentence."""

    request_id: str
    step: int
    tool: str
    took_ms: float
    ok: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """Tool: `work` takes the input and the context."""

    name: str
    wants: type[ToolSchema]
    work: Callable[[Any, ToolContext], Awaitable[ToolData]]


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
            rest = max(_MIN_SECONDS, context.run.left - context.run.after)
            seconds = min(context.rag.settings.tools.seconds, rest)
            async with asyncio.timeout(seconds):
                with translate_errors(ToolFailed, TypeError, ValueError, RecursionError, say="The input is not JSON."):
                    given = json.dumps(request.input)
                # validated as JSON, in which days are text, and strictly otherwise
                data = await tool.work(tool.wants.model_validate_json(given), context)
    except ValidationError as exc:
        # Format the first validation error as one sentence, without any given value or unknown key
        first = exc.errors(include_input=False, include_url=False)[0]
        named = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
        where = ".".join(str(part) for part in named) or "call"
        error = f"The input is not what the tool takes ({where}: {first['msg'][:120]})."
    except TimeoutError:
        late, error = True, f"The tool took longer than {seconds:.3g} s: raise TOOLS__SECONDS."
    except RagError as exc:
        error = exc.reason
        if isinstance(exc, ArchiveUnavailable | IndexUnavailable):  # an empty result must not pass for "no posts"
            context.run.shortfalls.append(Shortfall("search", error))
    except Exception:  # a bug in a tool must not fail the answer
        log.exception("the tool %s is broken", name)
        error = "The tool failed: its log says why."
    took = round((time_module.perf_counter() - started) * 1000, 3)
    outcome = ToolOutcome(
        ok=error is None, data=data if error is None else None, meta=ToolMeta(took_ms=took, error=error)
    )
    _trace_call(name, outcome, context, late=late)
    return outcome


def _trace_call(name: str, outcome: ToolOutcome, context: ToolContext, *, late: bool) -> None:
    """Log a call as a JSON line, and add a span to the run."""
    meta = outcome.meta
    line = ToolTraceLine(
        request_id=context.run.trace_id,
        step=context.step,
        tool=name,
        took_ms=meta.took_ms,
        ok=outcome.ok,
        error=meta.error,
    )
    log.info("%s", line.model_dump_json())
    context.lines.append(line.model_dump())
    counts: dict[str, float | str] = {"step": context.step, "ok": float(outcome.ok), "late": float(late)}
    context.run.spans.append(Span(f"tool.{name}", meta.took_ms, counts, meta.error))


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


def select_allowed_tools(allowlist: str) -> tuple[Tool, ...]:
    """Select the tools that an allowlist names, in the order of `TOOLS`; unknown names are ignored."""
    names = {name.strip().lower() for name in allowlist.split(",")}
    return tuple(tool for tool in TOOLS if tool.name in names or "all" in names)
