"""`citegram eval coverage DIR...`: fit the coverage of brief questions, one channel held out at a time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.evaluation.coverage_fit import CoverageRow, collect_coverage, fit_coverage
from bot.evaluation.datasets import read_dataset
from bot.evaluation.index import Variant, build_variant_settings, open_indexed_dataset
from bot.settings import Settings
from rag_core.errors import ImportRefused

_MIN_ROWS = 20


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("coverage", help="fit what decides between sure, probable and no answer")
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="question sets over channels")
    documents = "question sets over documents: they join the fit, not the choice of the bars"
    parser.add_argument("--documents", type=Path, nargs="+", default=[], metavar="DIR", help=documents)
    options.add_model_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Fit, and print the weights, the bars, and how they did on held-out channels. Returns the exit code."""
    variant = Variant(legs=args.legs, rerank=args.rerank)
    sets: list[list[CoverageRow]] = []
    for folders in (args.folders, args.documents):
        rows: list[CoverageRow] = []
        for folder in folders:
            opening = open_indexed_dataset(read_dataset(folder), build_variant_settings(settings.rag(), [variant]))
            async with opening as opened:
                rows += await collect_coverage(opened.select_variant(variant))
        sets.append(rows)
    answerable = [row.as_sure.answerable for row in sets[0]]
    if min(sum(answerable), len(answerable) - sum(answerable)) < _MIN_ROWS:
        raise ImportRefused(f"A fit needs {_MIN_ROWS} brief questions with an answer, and as many without: add more.")
    fitted = fit_coverage(*sets)
    print(f"shift {fitted.shift}, weights {fitted.weights}")
    print(f"probable from {fitted.bar}, sure from {fitted.sure}")
    print(f"on held-out channels: AUC {fitted.auc}, shown right {fitted.shown}, refused {fitted.refused}")
    for degree, (count, share) in fitted.shares.items():
        print(f"{degree.value or 'none':9} {count:4} questions, right {share}")
    return 0
