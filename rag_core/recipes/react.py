"""Recipe `react`: a model calls tools step by step, at most four times, then writes as in every recipe.

Each step is Thought, then a tool with its input, or Answer, bound by a grammar made of the tools' own inputs, so that
only valid calls can be written. Thoughts help the model to choose; they are dropped, neither shown nor logged nor
kept. Results are cut short in the prompt.

A calculation becomes a sentence only where each of its numbers stands in a found post or in the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, zip_longest
from typing import Any

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, RecipeFailed
from rag_core.llm import DecodingParams, LanguageModel, LlmSession, Prompt, collect_generation
from rag_core.recipes.tool_schemas import MAX_POSTS, SUM_FORMAT
from rag_core.recipes.tools import Tool, ToolContext, ToolOutcome, call_tool, select_allowed_tools
from rag_core.steps import (
    extract_from_hits,
    finish_draft,
    note_unindexed_posts,
    plan_or_answer_exactly,
    write_or_extract,
)
from rag_core.text.sentences import split_sentences
from rag_core.tracing import LlmCosts, Run
from rag_core.types import Citation, Draft, Evidence, Hit, Passage, Plan, Question, Sentence
from rag_core.writing.grammar import LETTERS, parse_json_object
from rag_core.writing.prompts import escape_prompt_text, load_prompt, quote_question

__all__ = [
    "ANSWER",
    "AgentStep",
    "build_calculation_sentence",
    "build_step_grammar",
    "build_step_schema",
    "parse_step",
    "run_react",
]

_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_GROUPED = re.compile(r"(?<=\d)[ ,\u00a0\u202f](?=\d{3}(?!\d))")
_MAX_CITATIONS = 3
_MAX_SENTENCE_LENGTH = 280  # characters


def build_calculation_sentence(desk: ToolContext) -> Sentence | None:
    """The last sum that was worked out, with the posts its numbers are from; None where one is from nowhere."""
    if not desk.reckoned:
        return None
    expression, result = desk.reckoned[-1]
    asked, cited = _extract_numbers(desk.question.text), list[Citation]()
    for number in sorted(_extract_numbers(expression)):
        found = next((c for hit in desk.found if (c := _cite_number(number, hit.passage))), None)
        if found is None and number not in asked:
            return None
        if found is not None and found not in cited:
            cited.append(found)
    text = f"{' '.join(expression.split())} = {result}"
    return (
        Sentence(text, tuple(cited)) if 0 < len(cited) <= _MAX_CITATIONS and len(text) <= _MAX_SENTENCE_LENGTH else None
    )


def _extract_numbers(text: str) -> set[str]:
    return {number.replace(",", ".") for number in _NUMBER.findall(_GROUPED.sub("", text))}


def _cite_number(number: str, passage: Passage) -> Citation | None:
    """The sentence of a passage that has the number."""
    for start, end in split_sentences(passage.text):
        quote = passage.text[start:end]
        if number in _extract_numbers(quote) and len(quote) <= _MAX_SENTENCE_LENGTH:
            at = passage.start + start
            return Citation(passage.key, quote, at, at + len(quote), passage.date)
    return None


ANSWER = "answer"
_MAX_THOUGHT_LENGTH = 120  # characters
_GRAMMAR_RULES = rf"""
thought ::= "\"" char{{1,{_MAX_THOUGHT_LENGTH}}} "\""
char ::= [{LETTERS}]
number ::= [1-9] [0-9]?
numbers ::= "[" number (", " number){{0,4}} "]"
sum ::= [0-9a-z+*/().,% -]
day ::= "\"20" [0-9] [0-9] "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) "\""
"""


@dataclass(frozen=True, slots=True)
class AgentStep:
    """A call of a tool; of `ANSWER` there is nothing more to look for."""

    tool: str
    given: Mapping[str, Any]

    @property
    def call(self) -> dict[str, Any]:
        """As the contract has it."""
        return {"tool": self.tool, "input": dict(self.given)}

    @property
    def said(self) -> str:
        """The call on one line."""
        return json.dumps(self.call, ensure_ascii=False)


def parse_step(text: str) -> AgentStep | None:
    """The move of a step, whatever stands around it; None where there is none."""
    step = parse_json_object(text)
    if step is None or not isinstance(step.get("tool"), str):
        return None
    given = step.get("input")
    return AgentStep(step["tool"], given if isinstance(given, dict) else {})


@cache
def build_step_grammar(tools: tuple[Tool, ...]) -> str:
    """GBNF of one step with these tools."""
    moves = {tool.name.replace("_", ""): _build_tool_rule(tool) for tool in tools}
    lines = [
        'root ::= "{\\"Thought\\": " thought ", " (move | answer) "}"',
        f"move ::= {' | '.join(moves)}" if moves else "move ::= answer",
        f'answer ::= "\\"tool\\": \\"{ANSWER}\\", \\"input\\": {{}}"',
        *(f"{name} ::= {rule}" for name, rule in moves.items()),
    ]
    return "\n".join(lines) + _GRAMMAR_RULES


def _build_tool_rule(tool: Tool) -> str:
    """A call of one tool, all its fields in their order."""
    said = [f'"\\"tool\\": \\"{tool.name}\\", \\"input\\": {{"']
    for n, (name, field) in enumerate(tool.wants.model_json_schema()["properties"].items()):
        said.append(f'"{", " if n else ""}\\"{name}\\": " {_build_value_rule(field)}')
    return " ".join([*said, '"}"'])


def _build_value_rule(field: Mapping[str, Any]) -> str:
    """The rule of one value, from its JSON schema: texts, days, small whole numbers, lists of posts, null."""
    if options := field.get("anyOf"):
        return "(" + " | ".join(_build_value_rule(option) for option in options) + ")"
    if field["type"] == "null":
        return '"null"'
    if field["type"] == "array":
        return "numbers"
    if field["type"] == "integer":
        least, most = field["minimum"], field["maximum"]
        return "number" if most == MAX_POSTS else f"[{least}-{most}]"
    if field.get("format") == "date":
        return "day"
    letter = "sum" if field.get("format") == SUM_FORMAT else "char"
    return f'"\\"" {letter}{{1,{field["maxLength"]}}} "\\""'


def build_step_schema(tools: Sequence[Tool]) -> dict[str, Any]:
    """The same as a JSON schema, for servers without GBNF."""
    calls: dict[str, dict[str, Any]] = {tool.name: tool.wants.model_json_schema() for tool in tools}
    calls[ANSWER] = {"type": "object", "properties": {}, "additionalProperties": False}
    return {"anyOf": [_build_call_schema(name, given) for name, given in calls.items()]}


def _build_call_schema(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"Thought": {"type": "string", "maxLength": _MAX_THOUGHT_LENGTH}, "tool": {"const": name}, "input": given}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


_MAX_STEPS = 4
_STEP_TOKENS, _SPARE_TOKENS = 200, 48  # of a step; beside the counted texts
_MAX_OBSERVATION_LENGTH = 700  # characters of what a tool gave that the model sees
_NO_MODEL = "The recipe react needs a language model: set LLM__MODEL."
_NO_POSTS_FOUND = "The model found no post with its tools."
_UNREADABLE_STEP = "The model's step could not be read."
_EXACT_TOOLS = frozenset({"first_mention", "count_mentions", "timeline"})


async def run_react(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """A draft and the evidence it stands on. Raises RecipeFailed without a model, and where its tools find nothing."""
    model = rag.writer or rag.planner
    if model is None:
        raise RecipeFailed(_NO_MODEL)
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    desk = ToolContext(question, rag, run)
    if await _run_steps(desk, model) in _EXACT_TOOLS and desk.exact is not None:
        await note_unindexed_posts(question.viewer, rag, run)
        return desk.exact, Evidence()
    if not desk.found:
        raise RecipeFailed(_NO_POSTS_FOUND)
    return await _write_from_found_posts(plan, desk)


async def _run_steps(desk: ToolContext, model: LanguageModel) -> str:
    """Step after step, until the model wants to answer, repeats itself or fails; the name of the last tool."""
    tools, seen = select_allowed_tools(desk.rag.settings.tools.allowlist), list[tuple[AgentStep, str]]()
    for desk.step in range(1, _MAX_STEPS + 1):
        move = await desk.run.attempt("step", _request_step(desk, model, tools, seen), None)
        if move is None or move.tool == ANSWER or any(move == before for before, _ in seen):
            break
        async with desk.run.apart():  # a tool has a time of its own
            seen.append((move, _format_observation(await call_tool(move.call, tools, desk))))
    return seen[-1][0].tool if seen else ""


async def _request_step(
    desk: ToolContext, model: LanguageModel, tools: tuple[Tool, ...], seen: list[tuple[AgentStep, str]]
) -> AgentStep | None:
    """What the model does next. To be called in a stage. Raises GenerationFailed."""
    costs = LlmCosts()
    async with desk.run.seated(model, desk.question.viewer.user_id) as seat:
        prompt = await _build_prompt(desk, model, tools, seen, seat)
        costs.call()
        stream = seat.stream(
            prompt,
            DecodingParams(_STEP_TOKENS, 0.0),
            grammar=build_step_grammar(tools),
            schema=build_step_schema(tools),
        )
        end = await collect_generation(stream)
    costs.paid(end.figures)
    desk.run.note(step=desk.step, **costs.noted())
    move = parse_step(end.text)
    if move is None:
        raise GenerationFailed(_UNREADABLE_STEP)
    return move


async def _build_prompt(
    desk: ToolContext,
    model: LanguageModel,
    tools: tuple[Tool, ...],
    seen: list[tuple[AgentStep, str]],
    seat: LlmSession,
) -> Prompt:
    """The question, the time it is now, and the last steps: as many as fit."""
    words = load_prompt("react", desk.question.lang)
    offered = "\n".join(f"{tool.name}: {words.parts[tool.name]}" for tool in tools if tool.name in words.parts)
    system = f"{words.system}\n{offered}\n{ANSWER}: {words.parts[ANSWER]}"
    now = desk.question.asked_at
    head = f"<now>{now:%Y-%m-%d %H:%M %A}</now>\n{quote_question(desk.question.text)}"
    steps = [
        f"<step>\n{escape_prompt_text(move.said)}\n{escape_prompt_text(observed)}\n</step>" for move, observed in seen
    ]
    examples = [text for shot in words.shots for text in shot]
    counts = await seat.count([system, head, *examples, *steps])
    left = model.context - _STEP_TOKENS - _SPARE_TOKENS - sum(counts[: 2 + len(examples)])
    shots = words.shots if left >= sum(counts[2 + len(examples) :]) else ()
    left += 0 if shots else sum(counts[2 : 2 + len(examples)])
    while steps and sum(counts[-len(steps) :]) > left:
        steps.pop(0)
    return Prompt(system, "\n".join([head, *steps]), shots)


def _format_observation(outcome: ToolOutcome) -> str:
    """What a tool gave, in short."""
    said = json.dumps(outcome.data, ensure_ascii=False) if outcome.ok else f"error: {outcome.meta.error}"
    return said[:_MAX_OBSERVATION_LENGTH]


async def _write_from_found_posts(plan: Plan, desk: ToolContext) -> tuple[Draft, Evidence]:
    """From the posts that lie on the desk, as in every recipe."""
    question, rag, run = desk.question, desk.rag, desk.run
    hits = _order_hits_by_tool(desk)
    draft, evidence = await extract_from_hits(question, plan, hits, rag, run)
    written = await write_or_extract(question, plan, draft, evidence, rag, run)
    if written.sentences and (summed := build_calculation_sentence(desk)) is not None:
        written = replace(written, sentences=(summed, *written.sentences))
    return await finish_draft(question, plan, written, evidence, rag, run)


def _order_hits_by_tool(desk: ToolContext) -> tuple[Hit, ...]:
    """The best of each tool first, those of the last tool before those of the others: it knew most."""
    rows = zip_longest(*reversed(desk.batches))
    numbers = dict.fromkeys(n for n in chain.from_iterable(rows) if n is not None)
    return tuple(replace(desk.found[n - 1], score=1 / place) for place, n in enumerate(numbers, 1))
