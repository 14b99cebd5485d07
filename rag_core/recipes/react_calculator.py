"""Arithmetic evaluator: simpleeval with its language restricted to numbers, and powers bounded before computed."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from rag_core.errors import ToolFailed, translate_errors

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
