"""`citegram eval calibrate|ranking`: fit to question sets.

`calibrate` fits the answer threshold and the fusion of the retrievers, `ranking` the order of hits, one channel held
out at a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

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


_MIN_ROWS = 20
R = TypeVar("R")


async def _collect_rows(
    args: argparse.Namespace, settings: Settings, rerank: str | None, collect: Callable[..., Awaitable[list[R]]]
) -> tuple[list[R], list[R]]:
    """Collect the rows of the question sets over channels, and of those over documents."""
    variant = Variant(legs=args.legs, rerank=rerank)
    sets: tuple[list[R], list[R]] = [], []
    for rows, folders, documents in zip(sets, (args.folders, args.documents), (False, True), strict=True):
        for folder in folders:
            opening = open_indexed_dataset(read_dataset(folder), build_variant_settings(settings.rag(), [variant]))
            async with opening as opened:
                rows += await collect(opened.select_variant(variant), documents=documents)
    return sets


async def run_ranking(args: argparse.Namespace, settings: Settings) -> None:
    """Fit the order of hits."""
    sets = await _collect_rows(args, settings, "off", fitting.collect_ranking)
    if len(sets[0]) < _MIN_ROWS or len({row.channel for row in sets[0]}) == 1:
        raise ImportRefused(f"A fit needs {_MIN_ROWS} questions with a relevant post, over two channels: add more.")
    fitted = fitting.fit_ranking(*sets)
    print("weights " + ", ".join(f"{name} {value:g}" for name, value in fitted.weights._asdict().items()))
    print(f"{'recall at':24}" + " ".join(f"{depth:>6}" for depth in fitting.DEPTHS))
    for name, recalls in (
        ("fused only", fitted.fused),
        ("weights in use", fitted.used),
        ("fitted, held-out channel", fitted.held_out),
    ):
        print(f"{name:24}" + " ".join(f"{recall:6.3f}" for recall in recalls))
