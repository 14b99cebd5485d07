"""Tools that work things out: time_normalize, calculate.

Arithmetic is done by simpleeval, with its language cut down to numbers and its powers bounded before they are taken.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from rag_core.errors import raised_as
from rag_core.tools.desk import Desk, ToolFailed
from rag_core.tools.wires import Bounds, Expression, Reckoned, Spoken
from rag_core.when import period

__all__ = ["calculate", "reckoned", "time_normalize"]

_LARGEST = 1e30  # beyond it nobody counts, and whole numbers grow slow
_MOST_POWER = 200
_WRITTEN = re.compile(r"(?:[0-9+\-*/%()., ]|(?<![0-9.])[a-z]+)+")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "\u00a0": " ", "\u202f": " ", "^": "?"})
_GROUPED = re.compile(r"(?<=\d)[ ,](?=\d{3}(?!\d))")  # 2 750, 1,000,000
_DECIMAL = re.compile(r"(?<=\d),(?=\d)")
_EITHER = re.compile(r"\d,\d{3}(?!\d)")  # in brackets of a function: 1,000 or 1 and 000
_COMMA = "in brackets write numbers without commas, and a space after each comma between them."
_CANNOT = "This cannot be worked out: {}"
_ONLY = "only numbers, + - * / // % **, brackets, abs, max, min, round and sqrt can be used."


def _bounded(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ToolFailed(_CANNOT.format("a number is too large."))
    return value


def _power(base: Any, exponent: Any) -> Any:
    _bounded(base), _bounded(exponent)
    if abs(exponent) > _MOST_POWER or (base and abs(exponent * math.log10(abs(base))) > math.log10(_LARGEST)):
        raise ToolFailed(_CANNOT.format("a power is too large."))
    return base**exponent


def _of_two(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: _bounded(work(_bounded(one), _bounded(other)))


def _rounded(value: Any, digits: Any = 0) -> Any:
    return round(_bounded(value), max(-30, min(30, int(digits)))) if digits else round(_bounded(value))


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: _of_two(operator.add),
    ast.Sub: _of_two(operator.sub),
    ast.Mult: _of_two(operator.mul),
    ast.Div: _of_two(operator.truediv),
    ast.FloorDiv: _of_two(operator.floordiv),
    ast.Mod: _of_two(operator.mod),
    ast.Pow: _power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "round": _rounded,
    "sqrt": lambda value: math.sqrt(_bounded(value)),
}
_NODES = (ast.Expr, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)


def reckoned(expression: str) -> str:
    """The result to twelve digits. Raises ToolFailed."""
    text = expression.translate(_SIGNS).strip().lower()
    if not re.search(r"[a-z]", text):
        text = _DECIMAL.sub(".", _GROUPED.sub("", text))
    elif _EITHER.search(text):
        raise ToolFailed(_CANNOT.format(_COMMA))
    else:  # between the arguments of a function a comma is no decimal one
        text = _GROUPED.sub("", text)
    if not _WRITTEN.fullmatch(text):
        raise ToolFailed(_CANNOT.format(_ONLY))
    evaluator = SimpleEval(operators=_OPERATORS, functions=_FUNCTIONS, names={})
    evaluator.nodes = {kind: work for kind, work in evaluator.nodes.items() if kind in _NODES}
    wrong = (InvalidExpression, SyntaxError, ArithmeticError, ValueError, TypeError, RecursionError, MemoryError)
    with raised_as(ToolFailed, *wrong, say=_CANNOT.format(_ONLY)):
        value = _bounded(evaluator.eval(text))
        return f"{value:.12g}" if isinstance(value, float) else str(value)


async def calculate(asked: Expression, desk: Desk) -> Reckoned:
    """Arithmetic, safely."""
    result = reckoned(asked.expression)
    desk.reckoned.append((asked.expression, result))
    return Reckoned(result=result)


async def time_normalize(asked: Spoken, desk: Desk) -> Bounds:
    """The days that words of time mean, seen from when the question was asked."""
    found = period(asked.text, desk.question.asked_at)
    if found is None:
        return Bounds()
    return Bounds(since=found.since.date() if found.since else None, until=found.until.date() if found.until else None)
