import time
from contextlib import suppress

import pytest

from rag_core.errors import ToolFailed
from rag_core.recipes.react import evaluate_expression

MOST_S = 0.05
RIGHT = {
    "2+2": "4", "2 750 * 12": "33000", "1,000,000 / 4": "250000", "2,5*2": "5", "0.1+0.2": "0.3",
    "(3 + 4) × 2 − 1": "13", "10 ÷ 4": "2.5", "-3": "-3", "10/3": "3.33333333333",
}  # fmt: skip
ATTACKS = (
    "9**9**9", "2**100000", "1e999", "1/0", "0/0", "7//2", "7%2", "9*" * 59 + "9", "factorial(99999)", "sqrt(4)",
    "max(1,2)", "abs.__globals__", "().__class__.__bases__[0].__subclasses__()", "(1).__class__", "1 .real",
    "__import__('os')", "open('/etc/passwd')", "lambda: 1", "[x for x in range(10**9)]", "'a'*10**9", "1<2", "x=1",
    "x:=1", "{1:2}", "1;2", "1<<99999999", "1|2", "~1", "not 1", "٣+٤", "９+９", "²", "1_0+1_0", "0x" + "f" * 100,
    "(" * 60 + "1" + ")" * 60 + "**", "(" * 119, "-" * 118 + "x", "9" * 119 + "*", "1e", "+", "()", "nan", "1j", "True",
    "\x00", "1\n2", "1+\u202e1", "", "3(4)", "(1)(2)",
)  # fmt: skip


@pytest.mark.parametrize("expression", RIGHT)
def test_sums_are_right(expression):
    assert evaluate_expression(expression) == RIGHT[expression]


@pytest.mark.parametrize("expression", ATTACKS)
def test_an_attack_ends_at_once_in_a_sentence(expression):
    started = time.process_time()
    with pytest.raises(ToolFailed, match="cannot be worked out"):
        evaluate_expression(expression)
    assert time.process_time() - started < MOST_S


@pytest.mark.parametrize("expression", ["-" * 118 + "1", "(" * 59 + "1" + ")" * 59, "1+" * 59 + "1", "9*" * 25 + "1"])
def test_what_is_deep_or_long_ends_at_once_either_way(expression):
    started = time.process_time()
    with suppress(ToolFailed):
        assert len(evaluate_expression(expression)) < 40
    assert time.process_time() - started < MOST_S
