"""`citegram eval calibrate DIR`: fit the answer threshold and the fusion of the retrievers to a question set."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.cli.eval.options import describe_settings
from bot.evaluation.datasets import draw_sample, read_claims, read_dataset
from bot.evaluation.index import IndexedDataset, Variant, build_variant_settings, open_indexed_dataset
from bot.evaluation.runs import FittedCalibration, ask_all, fit_calibration
from bot.evaluation.tables import require_writable, write_json_report
from bot.evaluation.threshold_fitting import choose_safest_fusions, fit_claim_bar, run_both_retrievers
from bot.settings import Settings
from rag_core.context.calibration import Calibration
from rag_core.errors import ImportRefused


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("calibrate", help="fit the bar for answers, and how the legs are joined")
    options.add_data_options(parser)
    options.add_model_options(parser)
    parser.add_argument(
        "--target",
        type=options.parse_share,
        default=0.07,
        help="share of answerable questions that may be refused (default: %(default)s)",
    )
    promise = "fit the bar for claims instead, on a file or folder of claims with their evidence"
    parser.add_argument("--verify", action="store_true", help=promise)
    parser.add_argument(
        "--unsupported",
        type=options.parse_share,
        default=0.05,
        help="with --verify: share of false claims that may pass (default: %(default)s)",
    )
    options.add_output_options(parser, figures=False)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Fit the thresholds, print them, and save the calibration beside the archive. Returns the exit code."""
    require_writable(args.json_out, "figures", "json")
    if args.verify:
        return _calibrate_claims(args, settings)
    dataset = read_dataset(args.folder, args.distractors, args.limit, args.seed)
    if not any(query.answerable for query in dataset.queries):
        raise ImportRefused(f"{args.folder} holds no answerable question: add some, as a bar is fitted to them.")
    variant = Variant(legs=args.legs, rerank=args.rerank)
    async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), [variant])) as opened:
        data = opened.select_variant(variant)
        calibration = await _calibrate_fusions(data)
        data.rag = replace(data.rag, calibration=calibration)
        answers = await ask_all(data)
    fitted = fit_calibration(answers, args.target, dataset.name)
    calibrated = replace(fitted.calibration, fusions=calibration.fusions, claims=calibration.claims)
    _print_calibration(fitted, calibrated.save(settings.rag()))
    if args.json_out:
        metrics = {
            "bar": calibrated.bar,
            "sure": calibrated.sure,
            "abstained": fitted.abstained[0],
            "refused": fitted.refused[0],
        }
        settings_used = describe_settings(args, replace(data.rag, calibration=calibrated), variant, {})
        write_json_report(args.json_out, {"command": "calibrate", "data": dataset.name, "settings": settings_used,
                              "metrics": {"all": metrics}, "rows": len(answers)})  # fmt: skip
    return 0


def _calibrate_claims(args: argparse.Namespace, settings: Settings) -> int:
    """Fit the threshold for claims and save it with the other fitted values."""
    rows = draw_sample(read_claims(args.folder), args.limit, args.seed)
    threshold = fit_claim_bar(rows, args.unsupported, args.folder.resolve().name)
    rag = settings.rag()
    fitted = rag.model_copy(update={"answer": rag.answer.model_copy(update={"coverage": None})})  # as stored
    file = replace(Calibration.load(fitted), claims=threshold).save(rag)
    print(f"bar for claims {threshold.bar:.3f}, written to {file}")
    print(
        f"of false claims {threshold.passed:.3f} pass (promised: at most {threshold.target:g}), "
        f"of true ones {threshold.kept:.3f}"
    )
    if args.json_out:
        settings_used = {"target": threshold.target, "limit": args.limit, "seed": args.seed}
        metrics = {"bar": threshold.bar, "passed": threshold.passed, "kept": threshold.kept}
        write_json_report(args.json_out, {"command": "calibrate", "data": threshold.data, "settings": settings_used,
                              "metrics": {"all": metrics}, "rows": len(rows)})  # fmt: skip
    return 0


async def _calibrate_fusions(data: IndexedDataset) -> Calibration:
    """Fit the fusion of the retrievers, in a calibration that refuses nothing."""
    calibration = replace(data.rag.calibration, bar=0.0, sure=0.0)
    if data.rag.dense is None:
        return calibration
    fusions = choose_safest_fusions(await run_both_retrievers(data))
    for lang, fusion in fusions.items():
        print(f"{lang}: {fusion.kind} with weight {fusion.dense} of the search by meaning")
    return replace(calibration, fusions={**calibration.fusions, data.rag.dense.model.name: fusions})


def _print_calibration(fitted: FittedCalibration, file: Path) -> None:
    print(f"bar {fitted.calibration.bar:.3f}, sure from {fitted.calibration.sure:.3f}, written to {file}")
    for name, (share, low, high) in (
        ("abstained", fitted.abstained),
        ("refused", fitted.refused),
        ("sure_wrong", fitted.wrong),
    ):
        print(f"{name:10} {share:.3f}  (5-fold; 95 % interval {low:.3f} to {high:.3f})")
