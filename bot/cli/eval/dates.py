"""`citegram eval dates DIR`: how well expressions of time are parsed, compared with dateparser alone."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.evaluation.datasets import draw_sample
from bot.evaluation.date_accuracy import compute_date_metrics, read_date_rows, read_with_dateparser
from bot.evaluation.runs import compute_by_language
from bot.evaluation.tables import format_report, require_writable, write_json_report
from bot.settings import Settings
from rag_core.dates.parse import parse_period

_DATE_READERS = {"citegram": parse_period, "dateparser": read_with_dateparser}


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("dates", help="how well expressions of time are read, beside dateparser alone")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder or file of expressions of time (.jsonl)")
    options.add_sample_options(parser, "expressions")
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    require_writable(args.json_out, "figures", "json")
    rows = draw_sample(read_date_rows(args.folder), args.limit, args.seed)
    metrics_by_reader = {
        name: compute_by_language(rows, partial(compute_date_metrics, read=read))
        for name, read in _DATE_READERS.items()
    }
    print(format_report("dates", metrics_by_reader, everything=args.all))
    dated = sum(bool(row.readings) for row in rows)
    print(f"\n{dated} expressions of time (right), {len(rows) - dated} that only look like one (false_finds)")
    if args.json_out:
        ours, theirs = metrics_by_reader.values()
        about = {"command": "dates", "data": args.folder.resolve().name,
                "settings": {"limit": args.limit, "seed": args.seed}}  # fmt: skip
        write_json_report(
            args.json_out, {**about, "metrics": ours, "rows": len(rows), "beside": {"dateparser": theirs}}
        )
    return 0
