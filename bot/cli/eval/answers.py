"""`citegram eval answers DIR`: which questions are answered right, answered wrong, or refused."""

from __future__ import annotations

import argparse
from typing import Any

from bot.cli.eval import options
from bot.cli.eval.options import Measurement, run_measurement
from bot.evaluation.index import VARIANTS
from bot.evaluation.runs import answer_query
from bot.evaluation.scoring import compute_answer_metrics, compute_metrics_by_kind
from bot.settings import Settings


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("answers", help="how many questions are answered rightly, wrongly, or refused")
    options.add_data_options(parser)
    options.add_model_options(parser)
    options.add_variant_options(parser, VARIANTS)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    measurement = Measurement(
        "answers", lambda query: True, answer_query, compute_answer_metrics, compute_metrics_by_kind
    )
    return await run_measurement(args, settings, measurement)
