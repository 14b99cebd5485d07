"""`citegram eval verify FILE|DIR`: how good the verdicts are, layer by layer."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bot.commands import evaluate_options as options
from bot.evaluation.claims import CLAIMS, Row, read_claims
from bot.evaluation.datasets import drawn, read_dataset
from bot.evaluation.index import indexed
from bot.evaluation.report import ByLanguage, beside, writable, write
from bot.evaluation.runs import by_language
from bot.evaluation.verifying import LAYERS, Told, label_metrics, looked_up, on_pairs
from bot.evaluation.ways import Way, opening
from bot.settings import Settings
from rag_core.errors import ImportRefused

__all__ = ["declare", "run"]


def declare(kinds: Any) -> None:
    """Describe the command to argparse."""
    parser = kinds.add_parser("verify", help="how good the verdicts on claims are, layer by layer")
    parser.add_argument(
        "folder", type=Path, metavar="FILE|DIR",
        help="claims with their evidence (.jsonl), or a folder with claims.jsonl and the corpus to look them up in",
    )  # fmt: skip
    options.among(parser, "claims")
    options.models(parser)
    options.figures(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, write. Returns the exit code."""
    writable(args.json_out, "figures", "json")
    rows = list(drawn(read_claims(args.folder), args.limit, args.seed))
    corpus = args.folder.is_dir() and (args.folder / "corpus.jsonl").exists()
    if not corpus and not all(row.evidence for row in rows):
        raise ImportRefused(f"{args.folder} holds claims without evidence: add corpus.jsonl to look them up in.")
    told = await _from_corpus(args, settings, rows) if corpus else on_pairs(rows)
    layers = {name: by_language(told, partial(label_metrics, layer=name)) for name in LAYERS}
    print(beside(layers))
    if args.json_out:
        write(args.json_out, _written(args, layers, len(told), corpus=corpus))
    return 0


async def _from_corpus(args: argparse.Namespace, settings: Settings, rows: list[Row]) -> list[Told]:
    dataset = read_dataset(args.folder, asked=(CLAIMS,))
    way = Way(legs=args.legs, rerank=args.rerank)
    async with indexed(dataset, opening(settings.rag(), [way])) as opened:
        return await looked_up(rows, dataset.queries, opened.asked(way))


def _written(args: argparse.Namespace, layers: Mapping[str, ByLanguage], rows: int, *, corpus: bool) -> dict[str, Any]:
    said = {"limit": args.limit, "seed": args.seed, "legs": args.legs, "rerank": args.rerank,
            "evidence": "looked up" if corpus else "given"}  # fmt: skip
    return {
        "command": "verify", "data": args.folder.resolve().name, "settings": said, "metrics": layers["all"],
        "layers": layers, "rows": rows,
    }  # fmt: skip
