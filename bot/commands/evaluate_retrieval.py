"""`citegram eval retrieval DIR`: how much of what is relevant is found, and how high."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.commands import evaluate_options as options
from bot.commands.evaluate_questions import Measure, measure
from bot.evaluation.runs import searched
from bot.evaluation.scoring import Ranked, retrieval_metrics
from bot.evaluation.ways import WAYS
from bot.settings import Settings

__all__ = ["declare", "run"]

_WAYS = [name for name in WAYS if not name.startswith("rounds-")]  # a second round is made of what was answered


def declare(kinds: Any) -> None:
    """Describe the command to argparse."""
    parser = kinds.add_parser("retrieval", help="how much is found, and how high")
    options.data(parser)
    options.models(parser)
    options.ways(parser, _WAYS)
    options.figures(parser, plot="how much is found among the first 1 to 20")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, write, draw. Returns the exit code."""
    what = Measure("retrieval", lambda query: bool(query.relevant), searched, retrieval_metrics, _drawn)
    return await measure(args, settings, what)


def _drawn(rows: Mapping[str, Sequence[Ranked]], name: str, line: str, file: Path) -> None:
    from bot.evaluation.plots import Caption, draw_recall

    draw_recall(
        rows, Caption(f"How much is found: {name}", f"Share of what is relevant among the first 1 to 20 · {line}"), file
    )
