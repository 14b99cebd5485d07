"""`citegram eval`: one file for each kind of measure."""

from __future__ import annotations

from typing import Any

from bot.commands import (
    evaluate_answers,
    evaluate_calibrate,
    evaluate_dates,
    evaluate_make,
    evaluate_plans,
    evaluate_retrieval,
    evaluate_verify,
)

__all__ = ["declare"]

_KINDS = (
    evaluate_retrieval,
    evaluate_answers,
    evaluate_dates,
    evaluate_plans,
    evaluate_verify,
    evaluate_calibrate,
    evaluate_make,
)


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "eval", help="measure retrieval, answers, dates, plans and verdicts on your own or public data"
    )
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for kind in _KINDS:
        kind.declare(kinds)
