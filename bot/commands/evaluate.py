"""`citegram eval`: retrieval, answers, calibrate."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.evaluation.datasets import read_dataset
from bot.evaluation.index import indexed
from bot.evaluation.runs import Fitted, ask_all, fit, measured, search_all
from bot.evaluation.scoring import Judged
from bot.settings import Settings
from rag_core.errors import SettingsWrong

__all__ = ["declare", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("eval", help="measure retrieval and answers on your own or public data")
    parser.add_argument("what", choices=("retrieval", "answers", "calibrate"))
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder with queries.jsonl and corpus.jsonl or an export"
    )
    parser.add_argument(
        "--distractors", type=Path, nargs="+", default=[], metavar="FILE", help="posts added to the corpus"
    )
    parser.add_argument("--legs", choices=("lexical",), default="lexical", help="which search legs (only lexical yet)")
    parser.add_argument("--limit", type=int, help="only the first so many questions")
    parser.add_argument(
        "--target", type=float, default=0.07, help="calibrate: share of answerable questions that may be refused"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", dest="json_out", help="write the figures to a file")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure and print. Returns the exit code."""
    if not 0 < args.target < 1:
        raise SettingsWrong("--target is a share between 0 and 1, such as 0.05.")
    dataset = read_dataset(args.folder, args.distractors, args.limit)
    async with indexed(dataset, settings.rag()) as data:
        if args.what == "calibrate":
            data.rag = replace(data.rag, calibration=replace(data.rag.calibration, bar=0.0))
        rows = await (search_all(data) if args.what == "retrieval" else ask_all(data))
        bar = data.rag.calibration.bar
    metrics = measured(rows)
    if args.what == "calibrate":
        fitted = fit([row for row in rows if isinstance(row, Judged)], args.target, dataset.name)
        file = fitted.calibration.save(settings.rag())
        metrics = {
            "all": {"bar": fitted.calibration.bar, "abstained": fitted.abstained[0], "refused": fitted.refused[0]}
        }
        _tell(fitted, file)
        bar = fitted.calibration.bar
    else:
        _print(metrics)
    if args.json_out:
        about = {"legs": args.legs, "recipe": "direct", "model": None, "limit": args.limit, "bar": bar,
                 "distractors": [file.name for file in args.distractors]}  # fmt: skip
        result = {"command": args.what, "data": dataset.name, "settings": about, "metrics": metrics, "rows": len(rows)}
        args.json_out.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")
    return 0


def _print(metrics: dict[str, dict[str, float | None]]) -> None:
    names = list(metrics["all"])
    print(f"{'':24}" + "".join(f"{lang:>10}" for lang in metrics))
    for name in names:
        cells = (metrics[lang][name] for lang in metrics)
        print(f"{name:24}" + "".join(f"{'-' if cell is None else f'{cell:.3f}':>10}" for cell in cells))


def _tell(fitted: Fitted, file: Path) -> None:
    print(f"bar {fitted.calibration.bar:.3f}, written to {file}")
    for name, (share, low, high) in (("abstained", fitted.abstained), ("refused", fitted.refused)):
        print(f"{name:10} {share:.3f}  (5-fold; 95 % interval {low:.3f} to {high:.3f})")
