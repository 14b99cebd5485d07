"""`citegram eval talk FILE`: whether small talk gets a line of its own, and a question behind a greeting its answer."""

from __future__ import annotations

import argparse
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
    parser = kinds.add_parser("talk", help="whether greetings and thanks are answered as such")
    corpus = "texts with `search` (.jsonl); searched are the exports beside it, else the sample channels"
    parser.add_argument("file", type=Path, metavar="FILE", help=corpus)
    options.add_sample_options(parser, "texts")
    options.add_model_options(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    from bot.evaluation.dialogues import compute_talk_metrics, judge_talk, read_dialogues, run_dialogues
    from bot.sandbox.demo import SAMPLE_CHANNELS_FOLDER

    require_writable(args.json_out, "figures", "json")
    rows = draw_sample(read_dialogues(args.file, SAMPLE_CHANNELS_FOLDER), args.limit, args.seed)
    judged = await run_dialogues(rows, judge_talk, settings, Variant(legs=args.legs, rerank=args.rerank))
    metrics = compute_by_language(judged, compute_talk_metrics)
    print(format_table(metrics))
    if args.json_out:
        write_json_report(args.json_out, {
            "command": "talk", "data": args.file.name,
            "settings": {"legs": args.legs, "rerank": args.rerank, "limit": args.limit, "seed": args.seed},
            "metrics": metrics, "rows": len(judged), "failed": [row.id for row in judged if not row.handled],
        })  # fmt: skip
    return 0
