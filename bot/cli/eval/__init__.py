"""`citegram eval`: measure and calibrate, a module for each subject."""

from __future__ import annotations

import argparse

from bot.cli.eval import answers, calibrate, coverage, dates, dialogues, make, plans, retrieval, verify

__all__ = ["declare"]

_EVALUATIONS = (
    retrieval,
    answers,
    dialogues,
    dates,
    plans,
    verify,
    calibrate,
    coverage,
    make,
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of measurement to the parser of the command."""
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for kind in _EVALUATIONS:
        kind.declare(kinds)
