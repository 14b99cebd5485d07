"""`citegram eval verify FILE|DIR`: how good the verdicts on claims are, beside two baselines and by trap."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.evaluation.datasets import CLAIMS_FILE_NAME, ClaimRow, draw_sample, read_claims, read_dataset
from bot.evaluation.index import Variant, build_variant_settings, open_indexed_dataset
from bot.evaluation.runs import compute_by_language
from bot.evaluation.tables import MetricsByLanguage, format_report, require_writable, write_json_report
from bot.evaluation.verify import (
    VERIFICATION_LAYERS,
    JudgedClaim,
    compute_label_metrics,
    judge_claim_pairs,
    verify_in_corpus,
)
from bot.settings import Settings
from rag_core.errors import ImportRefused


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("verify", help="how good the verdicts on claims are, beside two baselines")
    parser.add_argument(
        "folder", type=Path, metavar="FILE|DIR",
        help="claims with their evidence (.jsonl), or a folder with claims.jsonl and the posts to look them up in",
    )  # fmt: skip
    options.add_sample_options(parser, "claims")
    options.add_model_options(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    require_writable(args.json_out, "figures", "json")
    rows = list(draw_sample(read_claims(args.folder), args.limit, args.seed))
    given = all(row.evidence for row in rows)
    corpus = args.folder.is_dir() and (not given or (args.folder / "corpus.jsonl").exists())
    if not corpus and not given:
        raise ImportRefused(f"{args.folder} holds claims without evidence: name a folder with the posts too.")
    judged = await _verify_from_corpus(args, settings, rows) if corpus else judge_claim_pairs(rows)
    layers = {
        name: compute_by_language(judged, partial(compute_label_metrics, layer=name)) for name in VERIFICATION_LAYERS
    }
    print(format_report("verify", layers, everything=args.all, main="all"))
    if args.json_out:
        write_json_report(args.json_out, _build_result(args, layers, len(judged), corpus=corpus))
    return 0


async def _verify_from_corpus(args: argparse.Namespace, settings: Settings, rows: list[ClaimRow]) -> list[JudgedClaim]:
    dataset = read_dataset(args.folder, asked=(CLAIMS_FILE_NAME,))
    variant = Variant(legs=args.legs, rerank=args.rerank)
    async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), [variant])) as opened:
        return await verify_in_corpus(rows, dataset.queries, opened.select_variant(variant))


def _build_result(
    args: argparse.Namespace, layers: Mapping[str, MetricsByLanguage], rows: int, *, corpus: bool
) -> dict[str, Any]:
    settings_used = {"limit": args.limit, "seed": args.seed, "legs": args.legs, "rerank": args.rerank,
            "evidence": "looked up" if corpus else "given"}  # fmt: skip
    return {
        "command": "verify", "data": args.folder.resolve().name, "settings": settings_used, "metrics": layers["all"],
        "layers": layers, "rows": rows,
    }  # fmt: skip
