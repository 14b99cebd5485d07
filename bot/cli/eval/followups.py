"""`citegram eval followups DIR`: whether the last turn of a dialogue is understood, and answered right."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.evaluation.datasets import draw_sample
from bot.evaluation.index import Variant
from bot.evaluation.runs import compute_by_language
from bot.evaluation.tables import format_table, require_writable, write_json_report
from bot.settings import Settings

__all__ = ["declare", "run"]


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("followups", help="whether follow-up questions are understood")
    corpus = "folder with followups.jsonl and the exports to search, or a folder for each `corpus` that a row names"
    parser.add_argument("folder", type=Path, metavar="DIR", help=corpus)
    options.add_sample_options(parser, "dialogues")
    options.add_model_options(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    from bot.evaluation.dialogues import compute_followup_metrics, judge_followup, read_dialogues, run_dialogues

    require_writable(args.json_out, "figures", "json")
    rows = draw_sample(read_dialogues(args.folder / "followups.jsonl"), args.limit, args.seed)
    judged = await run_dialogues(rows, judge_followup, settings, Variant(legs=args.legs, rerank=args.rerank))
    metrics = compute_by_language(judged, compute_followup_metrics)
    print(format_table(metrics))
    if args.json_out:
        write_json_report(args.json_out, {
            "command": "followups", "data": args.folder.resolve().name,
            "settings": {"legs": args.legs, "rerank": args.rerank, "limit": args.limit, "seed": args.seed},
            "metrics": metrics, "rows": len(judged), "judged": [asdict(row) for row in judged],
        })  # fmt: skip
    return 0
