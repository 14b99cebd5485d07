"""Recipe `react`: a model calls tools step by step, then writes as in every recipe.

Each step is Thought, then a tool with its input, or Answer, under a grammar built from the tools' input schemas, so
that only valid calls can be generated. Thoughts help the model to choose; they are dropped: not shown, logged or
stored. Results are truncated in the prompt.

Tools take typed input and give JSON, over the asker's channels alone. Posts are named by the numbers they were found
under. Counts are exact, because every post is read. There is no web search: an answer rests on posts alone. A
calculation becomes a sentence only where each of its numbers occurs in a found post or in the question.
"""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import operator
import re
import time as time_module
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from functools import cache
from inspect import signature
from itertools import chain, zip_longest
from typing import Annotated, Any, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model
from simpleeval import InvalidExpression, SimpleEval

from rag_core.engine import Engine
from rag_core.errors import (
    ArchiveUnavailable,
    GenerationFailed,
    IndexUnavailable,
    RagError,
    RecipeFailed,
    ToolFailed,
    translate_errors,
)
from rag_core.llm.protocol import DecodingParams, LanguageModel, LlmSession, Prompt
from rag_core.llm.rates import MAX_REACT_STEPS
from rag_core.planning.plan import build_bare_plan, plan_with_spelling_and_aliases
from rag_core.recipe_steps import Round, answer_exactly, complete_answer, extract_from_hits, require_model
from rag_core.retrieval.aggregate import answer_by_aggregation, extract_mention_terms, find_mentions
from rag_core.retrieval.fusion import LEXICAL, fuse_rankings
from rag_core.retrieval.search import note_unindexed_posts, search_passages
from rag_core.run import Run, Span, Stage
from rag_core.storage.channels import load_channels, load_channels_and_synonyms
from rag_core.storage.posts import fetch_passages
from rag_core.text.numbers import extract_figures
from rag_core.text.sentences import split_sentences
from rag_core.types import (
    Citation,
    Draft,
    Hit,
    Kind,
    Passage,
    PassageRef,
    Plan,
    Question,
    SearchFilter,
    Sentence,
    Shortfall,
)
from rag_core.writing.prompts import LETTERS, escape_prompt_text, load_prompt, parse_json_object, quote_question

log = logging.getLogger(__name__)

SUM_FORMAT = "sum"  # format of a text in a schema: arithmetic only
MAX_POSTS = 99  # of one question: two digits in the grammar
_MAX_SNIPPET_LENGTH, _MAX_POST_LENGTH = 160, 1200  # characters of a listed and of an opened post
_NEIGHBOUR_WINDOW = timedelta(days=60)  # before and after a post, for its neighbours
_MIN_SECONDS = 0.05  # least time of a tool

ToolData = dict[str, Any]  # of JSON; days are ISO texts
QueryText = Annotated[str, StringConstraints(min_length=1, max_length=120)]
PostNumber = Annotated[int, Field(ge=1, le=MAX_POSTS)]
# The range of posts; days outside it may be no valid times in every time zone.
PostDay = Annotated[date, Field(ge=date(1970, 1, 1), le=date(2099, 12, 31))]
ChannelName = Annotated[str, StringConstraints(min_length=1, max_length=32)]  # @username or beginning of the title
ChannelNames = Annotated[list[ChannelName], Field(min_length=1, max_length=3)]
PostCount = Annotated[int, Field(ge=1, le=9)]
ExpressionText = Annotated[QueryText, Field(json_schema_extra={"format": SUM_FORMAT})]


@dataclass
class ToolContext:
    """Shared state of the tools for one question: found posts and calculations.

    `exact` is the last count, with its citations. Only posts that the viewer may read are added: every tool searches
    only the viewer's channels.
    """

    question: Question
    rag: Engine
    run: Run
    found: list[Hit] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)  # numbers of the posts of each tool call
    exact: Draft | None = None
    reckoned: list[tuple[str, str]] = field(default_factory=list)  # expression, result
    step: int = 0

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

    async def list_hits(self, hits: Iterable[Hit]) -> list[ToolData]:
        """Add hits and summarize them: number, channel, day, snippet."""
        known, summaries = await load_channels(self.rag.archive), []
        for number in self.add_hits(hits):
            passage = self.found[number - 1].passage
            channel = known.get(passage.key.chat_id)
            about = {"post": number, "channel": channel.title if channel else "", "date": f"{passage.date:%Y-%m-%d}"}
            summaries.append({**about, "snippet": " ".join(passage.text.split())[:_MAX_SNIPPET_LENGTH]})
        return summaries

    async def read_passages(self, places: Sequence[PassageRef]) -> list[Passage]:
        """Read the passages that are still there, in the order given."""
        passages = await fetch_passages(self.rag.archive, places)
        return [passages[place] for place in places if place in passages]

    async def limit_plan(self, plan: Plan, channels: list[str] | None, since: date | None, until: date | None) -> Plan:
        """Limit a plan to channels by name and to days, both inclusive, in the asker's time zone. Raises ToolFailed."""
        if since or until:
            zone = self.question.asked_at.tzinfo
            first = datetime.combine(since, time(), zone) if since else None
            end = datetime.combine(until + timedelta(days=1), time(), zone) if until else None
            plan = replace(plan, since=first, until=end, slack=0)
        known, found = await load_channels(self.rag.archive), set[int]()
        readable = self.question.viewer.select_readable(known)
        for name in (name.strip().removeprefix("@").casefold() for name in channels or ()):
            exact = {chat for chat, channel in readable.items() if (channel.username or "").casefold() == name}
            meant = exact or {chat for chat, one in readable.items() if one.title.casefold().startswith(name)}
            if not name or not meant:
                raise ToolFailed("There is no channel of this name: give a name that a search showed, or null.")
            found |= meant
        return replace(plan, channels=frozenset(found)) if found else plan


async def search_posts(
    context: ToolContext,
    queries: Annotated[list[QueryText], Field(min_length=1, max_length=3)],
    channels: ChannelNames | None = None,
    since: PostDay | None = None,
    until: PostDay | None = None,
    limit: PostCount = 5,
) -> ToolData:
    """Search posts for each query and fuse the rankings by reciprocal rank, best first."""
    known, synonyms = await load_channels_and_synonyms(context.rag.archive)
    by_place, rankings = dict[PassageRef, Hit](), []
    for query in dict.fromkeys(queries):
        question = replace(context.question, text=query)
        plan = await plan_with_spelling_and_aliases(question, known, synonyms, context.rag)
        plan = await context.limit_plan(plan if plan.queries else build_bare_plan(question), channels, since, until)
        hits = await search_passages(plan, question, context.rag, context.run)
        rankings.append([hit.passage.ref for hit in hits])
        by_place |= {hit.passage.ref: hit for hit in hits}
    fused = [by_place[place] for place, _ in fuse_rankings(rankings)]
    return {"posts": await context.list_hits(fused[:limit])}


async def open_post(context: ToolContext, post: PostNumber, around: Annotated[int, Field(ge=0, le=3)] = 0) -> ToolData:
    """Read the text of a post, truncated, and of so many posts before and after it in its channel, oldest first."""
    if post > len(context.found):
        raise ToolFailed(f"There is no post {post}: search first, and use the numbers it gives.")
    hit = context.found[post - 1]
    passages = [hit.passage]
    if around:
        key, day = hit.passage.key, hit.passage.date
        only = SearchFilter(frozenset({key.chat_id}), day - _NEIGHBOUR_WINDOW, day + _NEIGHBOUR_WINDOW)
        places = await asyncio.to_thread(context.rag.lexical.all_of, only)
        at = next((n for n, place in enumerate(places) if place.key == key), None)
        if at is not None:
            near = [*places[max(0, at - around) : at], *places[at + 1 : at + 1 + around]]
            passages = sorted([hit.passage, *await context.read_passages(near)], key=lambda one: one.date)
    numbers = context.add_hits(Hit(one, hit.score if one is hit.passage else 0.0, hit.leg) for one in passages)
    texts = {n: context.found[n - 1].passage for n in numbers}
    posts = [{"post": n, "date": f"{p.date:%Y-%m-%d}", "text": p.text[:_MAX_POST_LENGTH]} for n, p in texts.items()]
    return {"posts": posts}


async def list_posts(
    context: ToolContext,
    about: QueryText | None = None,
    channels: ChannelNames | None = None,
    since: PostDay | None = None,
    until: PostDay | None = None,
    limit: PostCount = 5,
) -> ToolData:
    """List posts, of all or of those that mention a topic, newest first."""
    if about:
        plan = Plan((about,), Kind.LAST, about, asked=about)
        places = await _find_mentions(context, await context.limit_plan(plan, channels, since, until))
        hits = [Hit(passage, 0.0, LEXICAL) for passage in await context.read_passages(places[:limit])]
    else:
        plan = await context.limit_plan(Plan(("",), Kind.POSTED), channels, since, until)
        newest = await search_passages(plan, context.question, context.rag, context.run)
        hits = list({hit.passage.key: hit for hit in reversed(newest)}.values())[: -limit - 1 : -1]
    return {"posts": await context.list_hits(hits)}


async def count_posts(
    context: ToolContext,
    about: QueryText,
    channels: ChannelNames | None = None,
    since: PostDay | None = None,
    until: PostDay | None = None,
) -> ToolData:
    """Count the posts that mention a topic: the number, and the first and the last of them."""
    context.exact, question = None, replace(context.question, text=about)
    plan = Plan((about,), Kind.HOW_MANY, about, asked=about)
    plan = await context.limit_plan(plan, channels, since, until)
    if places := await _find_mentions(context, plan):
        context.exact = await answer_by_aggregation(question, plan, context.rag)
    ends = await context.read_passages(list(dict.fromkeys((*places[:1], *places[-1:]))))
    return {"count": len(places), "ends": await context.list_hits(Hit(one, 0.0, LEXICAL) for one in ends)}


async def _find_mentions(context: ToolContext, plan: Plan) -> Sequence[PassageRef]:
    question, rag = replace(context.question, text=plan.topic), context.rag
    words = await asyncio.to_thread(extract_mention_terms, question, plan, rag)  # the index may be on a server
    return await find_mentions(words, plan, question.viewer, rag)


_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "\u00a0": " ", "\u202f": " "})
_GROUP_SEPARATOR = re.compile(r"(?<=\d)[ ,](?=\d{3}(?!\d))")  # 2 750, 1,000,000
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_MAX_NUMBER = 1e30  # no question needs more


def evaluate_expression(expression: str) -> str:
    """Evaluate an arithmetic expression to twelve digits. Raises ToolFailed."""
    text = _DECIMAL_COMMA.sub(".", _GROUP_SEPARATOR.sub("", expression.translate(_SIGNS).strip()))
    wrong = (InvalidExpression, SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError)
    hint = "This cannot be worked out: only numbers, + - * / and brackets can be used."
    with translate_errors(ToolFailed, *wrong, say=hint):
        if not re.fullmatch(r"[0-9+\-*/(). ]+", text):
            raise ValueError
        value = SimpleEval(operators=_OPERATORS, functions={}, names={}).eval(text)
        if not isinstance(value, int | float) or not abs(value) <= _MAX_NUMBER:
            raise ValueError
        return f"{value:.12g}" if isinstance(value, float) else str(value)


async def calculate(context: ToolContext, expression: ExpressionText) -> ToolData:
    """Evaluate arithmetic, and record it for the answer."""
    result = evaluate_expression(expression)
    context.reckoned.append((expression, result))
    return {"result": result}


class Tool(NamedTuple):
    """Tool: `work` takes the context and the fields of `wants`, the model of the input."""

    name: str
    wants: type[BaseModel]
    work: Callable[..., Awaitable[ToolData]]


def make_tool(name: str, work: Callable[..., Awaitable[ToolData]]) -> Tool:
    """Make a tool of a function: its parameters after the context are the input, its docstring describes it."""
    hints = get_type_hints(work, include_extras=True)
    parameters = [*signature(work).parameters.values()][1:]
    fields: dict[str, Any] = {p.name: (hints[p.name], ... if p.default is p.empty else p.default) for p in parameters}
    strict = ConfigDict(extra="forbid", frozen=True, strict=True)
    return Tool(name, create_model(name, __config__=strict, __doc__=work.__doc__, **fields), work)


TOOLS: tuple[Tool, ...] = (
    make_tool("search", search_posts),
    make_tool("open", open_post),
    make_tool("list", list_posts),
    make_tool("count", count_posts),
    make_tool("calculate", calculate),
)


async def call_tool(
    name: str, given: ToolData, context: ToolContext, tools: Sequence[Tool] = TOOLS
) -> tuple[ToolData, bool]:
    """Call a tool: what it gives, or {"error": a sentence}; and whether it succeeded. Raises only when cancelled."""
    started, run = time_module.perf_counter(), context.run
    data, error, late, seconds = ToolData(), None, False, 0.0
    tool = next((tool for tool in tools if tool.name == name), None)
    try:
        if tool is None:
            name, error = "?", "There is no such tool."
        else:
            # its own limit, and at most the recipe's rest, so that the results can still be used
            seconds = min(run.budgets.tool, max(_MIN_SECONDS, run.left - run.after_models))
            if run.on_stage:
                run.on_stage(f"tool.{name}")
            async with asyncio.timeout(seconds):
                # validated as JSON, in which days are text, and strictly otherwise
                data = await tool.work(context, **dict(tool.wants.model_validate_json(json.dumps(given))))
    except ValidationError as exc:
        # the first error as one sentence, without any given value or unknown key
        first = exc.errors(include_input=False, include_url=False)[0]
        named = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
        where = ".".join(str(part) for part in named) or "input"
        error = f"The input is not what the tool takes ({where}: {first['msg'][:120]})."
    except TimeoutError:
        late, error = True, f"The tool took longer than {seconds:.3g} s."
    except RagError as exc:
        error = exc.reason
        if isinstance(exc, ArchiveUnavailable | IndexUnavailable):  # an empty result must not pass for "no posts"
            run.shortfalls.append(Shortfall("search", error))
    except Exception:  # a bug in a tool must not fail the answer
        log.exception("the tool %s is broken", name)
        error = "The tool failed: its log says why."
    took = round((time_module.perf_counter() - started) * 1000, 3)
    # no texts of readers or posts: `error` is a fixed sentence
    line = {"request_id": run.trace_id, "step": context.step, "tool": name,
            "took_ms": took, "ok": error is None, "error": error}  # fmt: skip
    log.info("%s", json.dumps(line))
    counts: dict[str, float | str] = {"step": context.step, "ok": float(error is None), "late": float(late)}
    run.spans.append(Span(f"tool.{name}", took, counts, error))
    data = data if error is None else {"error": error}
    run.show(f"tool.{name}", [json.dumps(data, ensure_ascii=False)])
    return data, error is None


_MAX_CITATIONS = 3
_MAX_SENTENCE_LENGTH = 280  # characters


def build_calculation_sentence(context: ToolContext) -> Sentence | None:
    """Build a sentence of the last calculation, citing the posts of its numbers; None where one has no source."""
    if not context.reckoned:
        return None
    expression, result = context.reckoned[-1]
    asked, cited = _list_numbers(context.question.text), dict[Citation, None]()
    for number in sorted(extract_figures(expression)):
        quotes = (
            hit.passage.cite(span)
            for hit in context.found
            for span in split_sentences(hit.passage.text)
            if span[1] - span[0] <= _MAX_SENTENCE_LENGTH and number in _list_numbers(hit.passage.text[slice(*span)])
        )
        if citation := next(quotes, None):
            cited[citation] = None
        elif number not in asked:
            return None
    text = f"{' '.join(expression.split())} = {result}"
    if not 0 < len(cited) <= _MAX_CITATIONS or len(text) > _MAX_SENTENCE_LENGTH:
        return None
    return Sentence(text, tuple(cited))


def _list_numbers(text: str) -> frozenset[str]:
    """List the numbers of a text, also the parts of dates and times of day: 1998 of "01.09.1998"."""
    figures = extract_figures(text)
    dates = (figure.replace(":", ".").split(".") for figure in figures if ":" in figure or figure.count(".") > 1)
    return figures | {part.lstrip("0") or "0" for parts in dates for part in parts}


ANSWER = "answer"
_MAX_THOUGHT_LENGTH = 120  # characters
_GRAMMAR_RULES = rf"""
thought ::= "\"" char{{1,{_MAX_THOUGHT_LENGTH}}} "\""
char ::= [{LETTERS}]
number ::= [1-9] [0-9]?
sum ::= [0-9+*/()., -]
day ::= "\"20" [0-9] [0-9] "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) "\""
"""


def parse_step(text: str) -> dict[str, Any] | None:
    """Parse a step from the model's reply, ignoring text around it: a call of a tool or `ANSWER`, or None."""
    step = parse_json_object(text)
    if step is None or not isinstance(step.get("tool"), str):
        return None
    given = step.get("input")
    return {"tool": step["tool"], "input": given if isinstance(given, dict) else {}}


@cache
def build_step_grammar() -> str:
    """Build the GBNF of one step."""
    moves = {}
    for tool in TOOLS:
        parts = [f'"\\"tool\\": \\"{tool.name}\\", \\"input\\": {{"']
        for n, (name, schema) in enumerate(tool.wants.model_json_schema()["properties"].items()):
            parts.append(f'"{", " if n else ""}\\"{name}\\": " {_build_value_rule(schema)}')
        moves[tool.name] = " ".join([*parts, '"}"'])
    lines = [
        'root ::= "{\\"Thought\\": " thought ", " (move | answer) "}"',
        f"move ::= {' | '.join(moves)}",
        f'answer ::= "\\"tool\\": \\"{ANSWER}\\", \\"input\\": {{}}"',
        *(f"{name} ::= {rule}" for name, rule in moves.items()),
    ]
    return "\n".join(lines) + _GRAMMAR_RULES


def _build_value_rule(field: Mapping[str, Any]) -> str:
    """Build the rule of a value from its JSON schema: texts, days, numbers, lists, null."""
    if options := field.get("anyOf"):
        return "(" + " | ".join(_build_value_rule(option) for option in options) + ")"
    if field["type"] == "null":
        return '"null"'
    if field["type"] == "array":
        item = _build_value_rule(field["items"])
        more = f"{{{field['minItems'] - 1},{field['maxItems'] - 1}}}"
        return f'"[" {item} (", " {item}){more} "]"'
    if field["type"] == "integer":
        least, most = field["minimum"], field["maximum"]
        return "number" if most == MAX_POSTS else f"[{least}-{most}]"
    if field.get("format") == "date":
        return "day"
    letter = "sum" if field.get("format") == SUM_FORMAT else "char"
    return f'"\\"" {letter}{{1,{field["maxLength"]}}} "\\""'


def build_step_schema() -> dict[str, Any]:
    """Build the JSON schema of one step, for servers without GBNF."""
    calls: dict[str, dict[str, Any]] = {tool.name: tool.wants.model_json_schema() for tool in TOOLS}
    calls[ANSWER] = {"type": "object", "properties": {}, "additionalProperties": False}
    steps = []
    for name, given in calls.items():
        thought = {"type": "string", "maxLength": _MAX_THOUGHT_LENGTH}
        fields = {"Thought": thought, "tool": {"const": name}, "input": given}
        steps.append({"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False})
    return {"anyOf": steps}


_STEP_TOKENS, _SPARE_TOKENS = 200, 48  # of a step; reserve beyond the counted texts
_MAX_OBSERVATION_LENGTH = 700  # characters of a tool's result in the prompt
_TakenStep = tuple[dict[str, Any], str]  # a tool call and what it gave


async def run_react(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Run the recipe `react`. Raises RecipeFailed without a model, or where nothing is found.

    Where the last tool counted, its exact answer is returned as it is.
    """
    model = require_model("react", rag.writer or rag.planner)
    if exact := await answer_exactly(question, plan, rag, run):
        return Round(plan, exact)
    context = ToolContext(question, rag, run)
    seen = list[_TakenStep]()
    for context.step in range(1, MAX_REACT_STEPS + 1):
        step = await run.attempt(Stage.STEP, _request_step(context, model, seen), None)
        if step is None or step["tool"] == ANSWER or any(step == before for before, _ in seen):
            break
        async with run.use_separate_budgets():  # a tool has its own time limit
            data, _ = await call_tool(step["tool"], step["input"], context)
        seen.append((step, json.dumps(data, ensure_ascii=False)[:_MAX_OBSERVATION_LENGTH]))
    if seen and seen[-1][0]["tool"] == "count" and context.exact is not None:
        await note_unindexed_posts(question.viewer, rag, run, vectors=False)
        return Round(plan, context.exact)
    if not context.found:
        raise RecipeFailed("The model found no post with its tools.")
    # Interleave the hits of all tools by rank, the last tool first: it was called with the most information
    rows = zip_longest(*reversed(context.batches))
    numbers = dict.fromkeys(n for n in chain.from_iterable(rows) if n is not None)
    hits = tuple(replace(context.found[n - 1], score=1 / place) for place, n in enumerate(numbers, 1))
    written = await complete_answer(question, await extract_from_hits(question, plan, hits, rag, run), rag, run)
    if written.draft.sentences and (calculation := build_calculation_sentence(context)) is not None:
        sentences = (calculation, *written.draft.sentences)
        written = replace(written, draft=replace(written.draft, sentences=sentences))
    return written


async def _request_step(context: ToolContext, model: LanguageModel, seen: list[_TakenStep]) -> dict[str, Any] | None:
    """Ask for the next step with the tools, the current time, the question, and as many of the last steps as fit."""
    template = load_prompt("react", context.question.lang)
    offered = "\n".join(f"{tool.name}: {template.parts[tool.name]}" for tool in TOOLS)
    system = f"{template.system}\n{offered}\n{ANSWER}: {template.parts[ANSWER]}"
    head = f"<now>{context.question.asked_at:%Y-%m-%d %H:%M %A}</now>\n{quote_question(context.question.text)}"
    texts = [(json.dumps(step, ensure_ascii=False), observed) for step, observed in seen]
    steps = [f"<step>\n{escape_prompt_text(call)}\n{escape_prompt_text(observed)}\n</step>" for call, observed in texts]

    async def build_prompt(session: LlmSession) -> Prompt:
        examples = [text for shot in template.shots for text in shot]
        counts = await session.count([system, head, *examples, *steps])
        left = model.context - _STEP_TOKENS - _SPARE_TOKENS - sum(counts[:2])
        # what does not fit is left out from the front: the examples first, then the oldest steps
        pieces = [sum(counts[2 : 2 + len(examples)]), *counts[2 + len(examples) :]]
        out = next(n for n in range(len(pieces) + 1) if sum(pieces[n:]) <= left or n == len(pieces))
        return Prompt(system, "\n".join([head, *steps[max(0, out - 1) :]]), () if out else template.shots)

    grammar, schema = build_step_grammar(), build_step_schema()
    decoding, reader = DecodingParams(_STEP_TOKENS, 0.0), context.question.viewer.user_id
    reply = await context.run.ask_model(model, reader, build_prompt, decoding, grammar=grammar, schema=schema)
    context.run.note(step=context.step)
    if (step := parse_step(reply)) is None:
        raise GenerationFailed("The model's step could not be read.")
    return step
