"""`citegram eval`: measure and calibrate."""

from __future__ import annotations

import argparse

from bot.cli.eval import calibrate, coverage, make
from bot.cli.eval.measurements import (
    declare_answers,
    declare_dates,
    declare_dialogues,
    declare_plans,
    declare_retrieval,
    declare_verify,
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of measurement to the parser of the command."""
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for declare_kind in (
        declare_retrieval,
        declare_answers,
        declare_dialogues,
        declare_dates,
        declare_plans,
        declare_verify,
        calibrate.declare,
        coverage.declare,
        make.declare,
    ):
        declare_kind(kinds)
