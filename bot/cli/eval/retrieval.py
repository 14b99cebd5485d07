"""`citegram eval retrieval DIR`: recall of the relevant documents, and their rank."""

from __future__ import annotations

import argparse
from typing import Any

from bot.cli.eval import options
from bot.cli.eval.options import Measurement, run_measurement
from bot.evaluation.index import VARIANTS
from bot.evaluation.runs import search_query
from bot.evaluation.scoring import compute_retrieval_metrics
from bot.settings import Settings

_RETRIEVAL_VARIANTS = [
    name for name in VARIANTS if not name.startswith("rounds-")
]  # a second round depends on what was answered


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("retrieval", help="how much is found, and how high")
    options.add_data_options(parser)
    options.add_model_options(parser)
    options.add_variant_options(parser, _RETRIEVAL_VARIANTS)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    measurement = Measurement("retrieval", lambda query: bool(query.relevant), search_query, compute_retrieval_metrics)
    return await run_measurement(args, settings, measurement)
