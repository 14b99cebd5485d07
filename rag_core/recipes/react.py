"""Recipe `react`: a model calls tools step by step, then writes as in every recipe.

Each step is Thought, then a tool with its input, or Answer, under a grammar built from the tools' input schemas, so
that only valid calls can be generated. Thoughts help the model to choose; they are dropped: not shown, logged or
stored. Results are truncated in the prompt.

A calculation becomes a sentence only where each of its numbers occurs in a found post or in the question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import chain, zip_longest
from typing import Any

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, RecipeFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, LlmSession, Prompt
from rag_core.llm.rates import MAX_REACT_STEPS
from rag_core.recipe_steps import Round, answer_exactly, complete_answer, extract_from_hits, require_model
from rag_core.recipes.react_tools import MAX_POSTS, SUM_FORMAT, TOOLS, ToolContext, call_tool
from rag_core.retrieval.search import note_unindexed_posts
from rag_core.run import Run, Stage
from rag_core.text.numbers import extract_figures
from rag_core.text.sentences import split_sentences
from rag_core.types import Citation, Passage, Plan, Question, Sentence
from rag_core.writing.prompts import LETTERS, escape_prompt_text, load_prompt, parse_json_object, quote_question

_MAX_CITATIONS = 3
_MAX_SENTENCE_LENGTH = 280  # characters


def build_calculation_sentence(context: ToolContext) -> Sentence | None:
    """Build a sentence of the last calculation, citing the posts of its numbers; None where one has no source."""
    if not context.reckoned:
        return None
    expression, result = context.reckoned[-1]
    asked, cited = _list_numbers(context.question.text), dict[Citation, None]()
    for number in sorted(extract_figures(expression)):
        citation = next((c for hit in context.found if (c := _cite_number(number, hit.passage))), None)
        if citation is not None:
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


def _cite_number(number: str, passage: Passage) -> Citation | None:
    for span in split_sentences(passage.text):
        quote = passage.text[slice(*span)]
        if number in _list_numbers(quote) and len(quote) <= _MAX_SENTENCE_LENGTH:
            return passage.cite(span)
    return None


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
    """Parse a step from the model's reply, ignoring text around it: a call as `call_tool` takes it, or of `ANSWER`.

    None where there is none.
    """
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
        for n, (name, field) in enumerate(tool.wants.model_json_schema()["properties"].items()):
            parts.append(f'"{", " if n else ""}\\"{name}\\": " {_build_value_rule(field)}')
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
        await note_unindexed_posts(question.viewer, rag, run)
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
