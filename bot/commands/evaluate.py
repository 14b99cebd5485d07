"""`citegram eval`: retrieval, answers, calibrate."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bot.evaluation.datasets import read_dataset
from bot.evaluation.fusing import both_legs, safest
from bot.evaluation.index import Indexed, indexed
from bot.evaluation.runs import Fitted, ask_all, by_language, fit, search_all
from bot.evaluation.scoring import Metrics, answer_metrics, retrieval_metrics
from bot.settings import Settings
from rag_core.calibration import Calibration
from rag_core.dense import chosen, models_folder
from rag_core.errors import ImportRefused, ModelUnavailable, SettingsWrong, raised_as
from rag_core.models import Role
from rag_core.rag import Rag
from rag_core.settings import RagSettings

__all__ = ["declare", "run"]

Measured = tuple[dict[str, Metrics], int]  # figures by language, and of how many questions they are


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
    legs = "which search legs (default: both, where a model was pulled)"
    parser.add_argument("--legs", choices=("lexical", "dense", "hybrid"), help=legs)
    parser.add_argument("--rerank", choices=("on", "off"), help="with the reranker or without (default: on, if pulled)")
    parser.add_argument("--limit", type=_count, help="only the first so many questions")
    parser.add_argument(
        "--target", type=_share, default=0.07, help="calibrate: share of answerable questions that may be refused"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", dest="json_out", help="write the figures to a file")
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of questions, such as 50")
    return int(text)


def _share(text: str) -> float:
    with suppress(ValueError):
        if 0 < (share := float(text)) < 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1, such as 0.05")


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure and print. Returns the exit code."""
    dataset = read_dataset(args.folder, args.distractors, args.limit)
    if args.what == "calibrate" and not any(query.answerable for query in dataset.queries):
        raise ImportRefused(f"{args.folder} holds no answerable question: a bar cannot be fitted without.")
    measure = {"retrieval": _retrieval, "answers": _answers, "calibrate": _calibrate}[args.what]
    async with indexed(dataset, _reranked(_with_legs(settings.rag(), args.legs), args.rerank)) as data:
        legs = _legs(data.rag)
        metrics, rows = await measure(data, args, settings)
    if args.json_out:
        bar = Calibration.load(settings.rag()).bar
        about = {"legs": args.legs or legs, "rerank": args.rerank, "recipe": "direct", "model": None,
                 "limit": args.limit, "bar": bar, "distractors": [file.name for file in args.distractors]}  # fmt: skip
        _write(args.json_out, {"command": args.what, "data": dataset.name, "settings": about, "metrics": metrics,
                               "rows": rows})  # fmt: skip
    return 0


def _with_legs(settings: RagSettings, legs: str | None) -> RagSettings:
    """The settings for these legs. Raises ModelUnavailable where a leg needs a model that is not here."""
    if legs == "lexical":
        return settings.model_copy(update={"models": settings.models.model_copy(update={"embedder": "none"})})
    if legs and chosen(Role.EMBEDDER, settings.models.embedder, models_folder(settings)) is None:
        raise ModelUnavailable("There is no embedding model here: run citegram models pull offline first.")
    if legs == "dense":
        return settings.model_copy(update={"retrieval": settings.retrieval.model_copy(update={"dense": 1.0})})
    return settings


def _reranked(settings: RagSettings, rerank: str | None) -> RagSettings:
    """The settings with the reranker or without. Raises ModelUnavailable where it is wanted and not here."""
    if rerank == "off":
        return settings.model_copy(update={"models": settings.models.model_copy(update={"reranker": "none"})})
    if rerank and chosen(Role.RERANKER, settings.models.reranker, models_folder(settings)) is None:
        raise ModelUnavailable("There is no reranker here: run citegram models pull offline first.")
    return settings


def _legs(rag: Rag) -> str:
    return f"hybrid ({rag.dense.model.name})" if rag.dense else "lexical"


async def _retrieval(data: Indexed, args: argparse.Namespace, settings: Settings) -> Measured:
    ranked = await search_all(data)
    metrics = by_language(ranked, retrieval_metrics)
    _print(metrics)
    return metrics, len(ranked)


async def _answers(data: Indexed, args: argparse.Namespace, settings: Settings) -> Measured:
    given = await ask_all(data)
    metrics = by_language(given, answer_metrics)
    _print(metrics)
    return metrics, len(given)


async def _calibrate(data: Indexed, args: argparse.Namespace, settings: Settings) -> Measured:
    calibration = replace(data.rag.calibration, bar=0.0)
    if data.rag.dense:
        chosen_here = safest(await both_legs(data))
        calibration = replace(calibration, fusions={**calibration.fusions, data.rag.dense.model.name: chosen_here})
        for lang, fusion in chosen_here.items():
            print(f"{lang}: {fusion.kind} with weight {fusion.dense} of the search by meaning")
    data.rag = replace(data.rag, calibration=calibration)
    given = await ask_all(data)
    fitted = fit(given, args.target, data.dataset.name)
    _tell(fitted, replace(fitted.calibration, fusions=calibration.fusions).save(settings.rag()))
    figures = {"bar": fitted.calibration.bar, "abstained": fitted.abstained[0], "refused": fitted.refused[0]}
    return {"all": dict(figures)}, len(given)


def _write(file: Path, result: dict[str, Any]) -> None:
    with raised_as(SettingsWrong, OSError, say="The figures cannot be written ({}): name another file with --json."):
        file.write_text(json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8")


def _print(metrics: dict[str, Metrics]) -> None:
    names = list(metrics["all"])
    print(f"{'':24}" + "".join(f"{lang:>10}" for lang in metrics))
    for name in names:
        cells = (metrics[lang][name] for lang in metrics)
        print(f"{name:24}" + "".join(f"{'-' if cell is None else f'{cell:.3f}':>10}" for cell in cells))


def _tell(fitted: Fitted, file: Path) -> None:
    print(f"bar {fitted.calibration.bar:.3f}, written to {file}")
    for name, (share, low, high) in (("abstained", fitted.abstained), ("refused", fitted.refused)):
        print(f"{name:10} {share:.3f}  (5-fold; 95 % interval {low:.3f} to {high:.3f})")
