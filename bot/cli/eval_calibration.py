"""`citegram eval calibrate`: fits the answer threshold and the fusion of the retrievers to a question set."""

from __future__ import annotations

import argparse
from dataclasses import replace

from bot.cli.eval_runner import describe_engine, describe_settings
from bot.evaluation import fitting
from bot.evaluation.data import IndexedDataset, Variant, build_variant_settings, open_indexed_dataset, read_dataset
from bot.evaluation.measures import ask_all
from bot.evaluation.metrics import write_json_report
from bot.settings import Settings
from rag_core.calibration import Calibration
from rag_core.errors import ImportRefused


async def run_calibrate(args: argparse.Namespace, settings: Settings) -> None:
    """Fit the bar for answers and the fusion of the retrievers."""
    dataset = read_dataset(args.folder, args.distractors, args.limit, args.seed)
    if not any(query.answerable for query in dataset.queries):
        raise ImportRefused(f"{args.folder} holds no answerable question: add some, as a bar is fitted to them.")
    variant = Variant(legs=args.legs, rerank=args.rerank)
    async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), [variant])) as opened:
        data = opened.select_variant(variant)
        calibration = await _calibrate_fusions(data)
        data.rag = replace(data.rag, calibration=calibration)
        answers = await ask_all(data)
    fitted = fitting.fit_calibration(answers, args.target, dataset.name)
    bar, sure = fitted.calibration.bar, fitted.calibration.sure
    calibrated = replace(fitted.calibration, fusions=calibration.fusions)
    file = calibrated.save(settings.rag())
    print(f"bar {bar:.3f}, sure from {sure:.3f}, written to {file}")
    for name, (share, low, high) in (
        ("abstained", fitted.abstained),
        ("refused", fitted.refused),
        ("sure_wrong", fitted.wrong),
    ):
        print(f"{name:10} {share:.3f}  (5-fold; 95 % interval {low:.3f} to {high:.3f})")
    metrics = {"bar": bar, "sure": sure, "abstained": fitted.abstained[0],
               "refused": fitted.refused[0]}  # fmt: skip
    settings_used = describe_settings(args, describe_engine(data.rag) | {"bar": bar}, variant, {})
    write_json_report(args.json_out, "calibrate", dataset.name, settings_used, {"all": metrics}, len(answers))


async def _calibrate_fusions(data: IndexedDataset) -> Calibration:
    """Fit the fusion of the retrievers, in a calibration that refuses nothing."""
    calibration = data.rag.calibration.without_bars()
    if data.rag.dense is None:
        return calibration
    fusions = fitting.choose_safest_fusions(await fitting.run_both_retrievers(data))
    for lang, fusion in fusions.items():
        print(f"{lang}: {fusion.kind} with weight {fusion.dense} of the search by meaning")
    return replace(calibration, fusions={**calibration.fusions, data.rag.dense.model.name: fusions})
