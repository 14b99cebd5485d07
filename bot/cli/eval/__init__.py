"""`citegram eval`: measure and calibrate, one module for each kind of measurement."""

from __future__ import annotations

import argparse

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


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of measurement to the parser of the command."""
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for kind in _EVALUATIONS:
        kind.declare(kinds)
