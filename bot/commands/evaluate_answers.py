"""`citegram eval answers DIR`: which questions are answered rightly, wrongly, or not."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.commands import evaluate_options as options
from bot.commands.evaluate_questions import Measure, measure
from bot.evaluation.runs import answered
from bot.evaluation.scoring import Judged, answer_metrics
from bot.evaluation.ways import WAYS
from bot.settings import Settings

__all__ = ["declare", "run"]


def declare(kinds: Any) -> None:
    """Describe the command to argparse."""
    parser = kinds.add_parser("answers", help="how many questions are answered rightly, wrongly, or refused")
    options.data(parser)
    options.models(parser)
    options.ways(parser, WAYS)
    options.figures(parser, plot="right, wrong and abstained")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, write, draw. Returns the exit code."""
    return await measure(args, settings, Measure("answers", lambda query: True, answered, answer_metrics, _drawn))


def _drawn(rows: Mapping[str, Sequence[Judged]], name: str, line: str, file: Path) -> None:
    from bot.evaluation.plots import Caption, draw_outcomes

    draw_outcomes(rows, Caption(f"What became of the questions: {name}", line), file)
