"""`citegram eval talk FILE` and `eval followups DIR`: small talk, and the last turn of a dialogue."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.evaluation.datasets import draw_sample
from bot.evaluation.index import Variant
from bot.evaluation.runs import compute_by_language
from bot.evaluation.tables import format_report, require_writable, write_json_report
from bot.settings import Settings


def declare(kinds: Any) -> None:
    """Add both subcommands to the parser."""
    talk = kinds.add_parser("talk", help="whether greetings and thanks are answered as such")
    rows = "texts with `search` (.jsonl); searched are the exports beside it, else the sample channels"
    talk.add_argument("file", type=Path, metavar="FILE", help=rows)
    followups = kinds.add_parser("followups", help="whether follow-up questions are understood")
    folder = "folder with followups.jsonl and the exports to search, or a folder for each `corpus` that a row names"
    followups.add_argument("file", type=Path, metavar="DIR", help=folder)
    for parser, what in ((talk, "texts"), (followups, "dialogues")):
        options.add_sample_options(parser, what)
        options.add_model_options(parser)
        options.add_output_options(parser)
        parser.set_defaults(run=_run, dialogues=parser.prog.rpartition(" ")[2])


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    from bot.evaluation import dialogues
    from bot.sandbox.demo import SAMPLE_CHANNELS_FOLDER

    require_writable(args.json_out, "figures", "json")
    variant, judged_fields = Variant(legs=args.legs, rerank=args.rerank), dict[str, Any]()
    if args.dialogues == "talk":
        rows = draw_sample(dialogues.read_dialogues(args.file, SAMPLE_CHANNELS_FOLDER), args.limit, args.seed)
        talks = await dialogues.run_dialogues(rows, dialogues.judge_talk, settings, variant)
        metrics = compute_by_language(talks, dialogues.compute_talk_metrics)
        judged_fields["failed"] = [row.id for row in talks if not row.handled]
    else:
        rows = draw_sample(dialogues.read_dialogues(args.file / "followups.jsonl"), args.limit, args.seed)
        judged = await dialogues.run_dialogues(rows, dialogues.judge_followup, settings, variant)
        metrics = compute_by_language(judged, dialogues.compute_followup_metrics)
        judged_fields["judged"] = [asdict(row) for row in judged]
    print(format_report(args.dialogues, {"": metrics}, everything=args.all))
    if args.json_out:
        settings_used = {"legs": args.legs, "rerank": args.rerank, "limit": args.limit, "seed": args.seed}
        about = {"command": args.dialogues, "data": args.file.resolve().name, "settings": settings_used}
        write_json_report(args.json_out, {**about, "metrics": metrics, "rows": len(rows), **judged_fields})
    return 0
