"""`citegram eval dates DIR`: how well expressions of time are read, with dateparser alone beside it."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from bot.commands import evaluate_options as options
from bot.evaluation.datasets import drawn
from bot.evaluation.dates import date_metrics, read_rows
from bot.evaluation.peers import dateparser_alone
from bot.evaluation.report import beside, writable, write
from bot.evaluation.runs import by_language
from bot.settings import Settings
from rag_core.when import period

__all__ = ["declare", "run"]

_READERS = {"citegram": period, "dateparser": dateparser_alone}


def declare(kinds: Any) -> None:
    """Describe the command to argparse."""
    parser = kinds.add_parser("dates", help="how well expressions of time are read, beside dateparser alone")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder or file of expressions of time (.jsonl)")
    options.among(parser, "expressions")
    options.figures(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, write. Returns the exit code."""
    writable(args.json_out, "figures", "json")
    rows = drawn(read_rows(args.folder), args.limit, args.seed)
    found = {name: by_language(rows, partial(date_metrics, read=read)) for name, read in _READERS.items()}
    print(beside(found))
    dated = sum(bool(row.readings) for row in rows)
    print(f"\n{dated} expressions of time (right), {len(rows) - dated} that only look like one (false_finds)")
    if args.json_out:
        ours, theirs = found.values()
        said = {"command": "dates", "data": args.folder.resolve().name,
                "settings": {"limit": args.limit, "seed": args.seed}}  # fmt: skip
        write(args.json_out, {**said, "metrics": ours, "rows": len(rows), "beside": {"dateparser": theirs}})
    return 0
