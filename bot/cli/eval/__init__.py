"""`citegram eval`: measure and calibrate, one module for each kind of measurement."""

from __future__ import annotations

from typing import Any

from bot.cli.eval import answers, calibrate, dates, followups, make, plans, retrieval, talk, verify

__all__ = ["declare"]

_EVALUATIONS = (
    retrieval,
    answers,
    talk,
    followups,
    dates,
    plans,
    verify,
    calibrate,
    make,
)


def declare(commands: Any) -> None:
    """Add the subcommand and its kinds of measurement to the parser."""
    parser = commands.add_parser(
        "eval", help="measure retrieval, answers, dates, plans and verdicts on your own or public data"
    )
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for kind in _EVALUATIONS:
        kind.declare(kinds)
