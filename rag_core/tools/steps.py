"""One step of a model that uses tools: Thought, then a tool with its input, or Answer; all of it under a grammar.

The grammar is made of the tools' own inputs, so that nothing can be written that is no call. Thoughts help the model
to choose; they are dropped here, neither shown nor logged nor kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from rag_core.replies import LETTERS, object_in
from rag_core.tools.contract import Tool
from rag_core.tools.wires import MOST_POSTS, SUM

__all__ = ["ANSWER", "Move", "move_in", "step_grammar", "step_schema"]

ANSWER = "answer"
_THOUGHT = 120  # characters
_RULES = rf"""
thought ::= "\"" char{{1,{_THOUGHT}}} "\""
char ::= [{LETTERS}]
number ::= [1-9] [0-9]?
numbers ::= "[" number (", " number){{0,4}} "]"
sum ::= [0-9a-z+*/().,% -]
day ::= "\"20" [0-9] [0-9] "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) "\""
"""


@dataclass(frozen=True, slots=True)
class Move:
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


def move_in(text: str) -> Move | None:
    """The move of a step, whatever stands around it; None where there is none."""
    step = object_in(text)
    if step is None or not isinstance(step.get("tool"), str):
        return None
    given = step.get("input")
    return Move(step["tool"], given if isinstance(given, dict) else {})


@cache
def step_grammar(tools: tuple[Tool, ...]) -> str:
    """GBNF of one step with these tools."""
    moves = {tool.name.replace("_", ""): _given(tool) for tool in tools}
    lines = [
        'root ::= "{\\"Thought\\": " thought ", " (move | answer) "}"',
        f"move ::= {' | '.join(moves)}" if moves else "move ::= answer",
        f'answer ::= "\\"tool\\": \\"{ANSWER}\\", \\"input\\": {{}}"',
        *(f"{name} ::= {rule}" for name, rule in moves.items()),
    ]
    return "\n".join(lines) + _RULES


def _given(tool: Tool) -> str:
    """A call of one tool, all its fields in their order."""
    said = [f'"\\"tool\\": \\"{tool.name}\\", \\"input\\": {{"']
    for n, (name, field) in enumerate(tool.wants.model_json_schema()["properties"].items()):
        said.append(f'"{", " if n else ""}\\"{name}\\": " {_value(field)}')
    return " ".join([*said, '"}"'])


def _value(field: Mapping[str, Any]) -> str:
    """The rule of one value, from its JSON schema: texts, days, small whole numbers, lists of posts, null."""
    if options := field.get("anyOf"):
        return "(" + " | ".join(_value(option) for option in options) + ")"
    if field["type"] == "null":
        return '"null"'
    if field["type"] == "array":
        return "numbers"
    if field["type"] == "integer":
        least, most = field["minimum"], field["maximum"]
        return "number" if most == MOST_POSTS else f"[{least}-{most}]"
    if field.get("format") == "date":
        return "day"
    letter = "sum" if field.get("format") == SUM else "char"
    return f'"\\"" {letter}{{1,{field["maxLength"]}}} "\\""'


def step_schema(tools: Sequence[Tool]) -> dict[str, Any]:
    """The same as a JSON schema, for servers without GBNF."""
    calls: dict[str, dict[str, Any]] = {tool.name: tool.wants.model_json_schema() for tool in tools}
    calls[ANSWER] = {"type": "object", "properties": {}, "additionalProperties": False}
    return {"anyOf": [_step(name, given) for name, given in calls.items()]}


def _step(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"Thought": {"type": "string", "maxLength": _THOUGHT}, "tool": {"const": name}, "input": given}
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
