"""`citegram trace ID`: stages, timings and counts of one answer, never its texts."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from bot.control.schemas import format_stages
from bot.settings import Settings
from rag_core.storage import Archive
from rag_core.storage.questions import fetch_trace

__all__ = ["declare", "run"]

_UNKNOWN_TRACE_TEXT = (
    "There is no trace {}: citegram ask --json prints the id of an answer as trace_id; old ones are forgotten."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("id", metavar="ID", help="trace_id of an answer")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Fetch a trace and print it; this only reads, so it also works while the bot runs. Returns the exit code."""
    archive = await Archive.open(settings.data.dir)
    try:
        trace = await fetch_trace(archive, args.id)
    finally:
        await archive.close()
    if trace is None:
        print(_UNKNOWN_TRACE_TEXT.format(args.id), file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(asdict(trace) | {"ended_at": trace.ended_at.isoformat()}, ensure_ascii=False))
        return 0
    print(f"{trace.trace_id}  {trace.recipe}  {trace.ended_at:%Y-%m-%d %H:%M:%S} UTC")
    print("\n".join(format_stages(trace.spans)))
    if trace.without:
        print(f"without: {', '.join(trace.without)}")
    return 0
