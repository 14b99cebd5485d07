"""Evaluation runner: the measuring loop of `citegram eval answers` and `retrieval`.

Variants are measured in processes of their own: the same questions in lockstep, so that memory differs and other load
does not. Each process indexes the dataset and opens its models; then one question after the other is asked of all, and
each process is the first equally often.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from bot.evaluation import fitting
from bot.evaluation.data import (
    Dataset,
    EvaluationQuery,
    IndexedDataset,
    Variant,
    build_variant_settings,
    open_indexed_dataset,
    read_dataset,
)
from bot.evaluation.measures import ask_all, run_interleaved
from bot.evaluation.metrics import (
    RECIPE_FIGURES,
    HasLanguage,
    Metrics,
    compute_by_language,
    compute_difference_intervals,
    compute_ratios,
    format_difference_intervals,
    format_recipes,
    format_report,
    format_rows,
    require_writable,
    write_json_report,
)
from bot.evaluation.recorded_replies import Recording
from bot.settings import Settings
from rag_core.engine import Engine
from rag_core.errors import ImportRefused, RagError
from rag_core.settings import RagSettings


def open_recording(args: argparse.Namespace) -> Recording | None:
    """Open the recording that was asked for. Raises ImportRefused, SettingsWrong."""
    require_writable(args.record, "recording", "record")
    file = args.record or args.replay
    return Recording(file, replaying=bool(args.replay)) if file else None


L = TypeVar("L", bound=HasLanguage)


@dataclass(frozen=True, slots=True)
class Measurement(Generic[L]):
    """A measurement: filter of the questions, how one is asked, and the metrics of the rows, and of parts of them."""

    name: str
    of: Callable[[EvaluationQuery], bool]
    ask: Callable[[EvaluationQuery, IndexedDataset], Awaitable[L]]
    metrics: Callable[[Sequence[L]], Metrics]
    by_kind: Callable[[Sequence[L]], Mapping[str, Metrics]] = lambda rows: {}


async def run_measurement(args: argparse.Namespace, settings: Settings, what: Measurement[L]) -> None:
    """Ask the questions, print the metrics, and write the JSON report."""
    dataset = read_dataset(args.folder, args.distractors, args.limit, args.seed)
    queries = [query for query in dataset.queries if what.of(query)]
    variant = Variant(args.recipe[0], args.plan, args.legs, args.rerank)
    compared_names: tuple[str, ...] = args.compare or (args.recipe if len(args.recipe) > 1 else ())
    variants = {name: variant.apply_name(name) for name in compared_names} or {"": variant}
    recording = open_recording(args) if "record" in args else None
    rag_settings = settings.rag()
    if len({way.recipe for way in variants.values()}) > 1 and not recording:
        rows, about = await _run_in_processes(queries, what.ask, variants, dataset, rag_settings)
    else:
        opening = open_indexed_dataset(dataset, build_variant_settings(rag_settings, variants.values()), recording)
        async with opening as data:
            ways = {name: data.select_variant(way) for name, way in variants.items()}
            rows, about = await run_interleaved(queries, what.ask, ways), describe_engine(data.rag)
    metrics = {name: compute_by_language(given, what.metrics) for name, given in rows.items()}
    if what.name == "answers" and len(args.recipe) > 1:
        print(format_recipes(metrics, RECIPE_FIGURES))
    else:
        print(format_report(what.name, metrics, len(queries), everything=args.all))
    if intervals := compute_difference_intervals(rows, what.metrics):
        print("", format_difference_intervals(what.name, intervals, next(iter(rows))), sep="\n")
    kinds = {name: what.by_kind(given) for name, given in rows.items()}
    for name, parts in kinds.items():
        if parts and args.all:
            print(f"\n{name}", format_rows(parts), sep="\n")
    more: dict[str, Any] = {"ratio": compute_ratios(metrics), "difference": intervals} if compared_names else {}
    if any(kinds.values()):
        more["by_kind"] = kinds if compared_names else kinds[""]
    settings_used = describe_settings(args, about, variant, variants)
    shown = metrics if compared_names else metrics[""]
    write_json_report(args.json_out, what.name, dataset.name, settings_used, shown, len(queries), **more)


def describe_engine(rag: Engine) -> dict[str, Any]:
    """Describe what the figures were measured with."""
    return {
        "legs": f"hybrid ({rag.dense.model.name})" if rag.dense else "lexical",
        "rerank": "on" if rag.reranker else "off",
        "rounds": rag.rounds,
        "model": rag.writer.name if rag.writer else None,
        "bar": rag.calibration.bar,
    }


def describe_settings(
    args: argparse.Namespace, engine: Mapping[str, Any], way: Variant, ways: Mapping[str, Variant]
) -> dict[str, Any]:
    """Build the settings that the figures were measured with; for compared variants, also the changes of each."""
    described: dict[str, Any] = {
        **engine,
        "legs": way.legs or engine["legs"],
        "rerank": way.rerank or engine["rerank"],
        "plan": way.plan,
        "recipe": way.recipe,
        "limit": args.limit,
        "seed": args.seed,
        "distractors": [file.name for file in args.distractors],
    }
    if len(ways) > 1:
        described["compare"] = {
            name: {k: v for k, v in asdict(variant).items() if v is not None} for name, variant in ways.items()
        }
    return described


R = TypeVar("R")
AskQuestion = Callable[[EvaluationQuery, IndexedDataset], Awaitable[R]]
_EXIT_S = 10.0  # for a process to end by itself


async def _run_in_processes(
    queries: Sequence[EvaluationQuery], ask: AskQuestion[R], variants: Mapping[str, Variant], dataset: Dataset,
    settings: RagSettings,
) -> tuple[dict[str, list[R]], dict[str, Any]]:  # fmt: skip
    """Ask every question in each variant; also returns the description of the first engine. Raises RagError."""
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes, about = [], list[dict[str, Any]]()

    async def ask_process(query: EvaluationQuery, name: str) -> Any:
        pipes[name].send(query)
        return await asyncio.to_thread(_receive, name, pipes[name])

    try:
        for name, variant in variants.items():
            pipes[name], theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, ask, variant, dataset, settings))
            process.start()
            processes.append(process)
            theirs.close()
            about.append(await asyncio.to_thread(_receive, name, pipes[name]))
        return await run_interleaved(queries, ask_process, {name: name for name in variants}), about[0]
    finally:
        for pipe in pipes.values():
            pipe.close()
        for process in processes:
            await asyncio.to_thread(process.join, _EXIT_S)
            process.kill()


def _receive(name: str, pipe: Connection) -> Any:
    try:
        received = pipe.recv()
    except EOFError:
        raise RagError(
            f"The process of {name} ended: there may be too little memory for all at once, so name fewer recipes."
        ) from None
    if isinstance(received, Exception):
        raise received
    return received


def _serve(pipe: Connection, ask: AskQuestion[R], variant: Variant, dataset: Dataset, settings: RagSettings) -> None:
    """Index the dataset and answer the questions that come, until the pipe is closed."""

    async def serve() -> None:
        async with open_indexed_dataset(dataset, build_variant_settings(settings, [variant])) as opened:
            data = opened.select_variant(variant)
            pipe.send(describe_engine(data.rag))
            while True:
                try:
                    query = await asyncio.to_thread(pipe.recv)
                except EOFError:
                    return
                pipe.send(await ask(query, data))

    try:
        asyncio.run(serve())
    except BrokenPipeError:
        pass
    except RagError as exc:
        pipe.send(RagError(exc.reason))


async def run_calibrate(args: argparse.Namespace, settings: Settings) -> None:
    """Fit the bar for answers and the fusion of the retrievers."""
    dataset = read_dataset(args.folder, args.distractors, args.limit, args.seed)
    if not any(query.answerable for query in dataset.queries):
        raise ImportRefused(f"{args.folder} holds no answerable question: add some, as a bar is fitted to them.")
    variant = Variant(legs=args.legs, rerank=args.rerank)
    async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), [variant])) as opened:
        data = opened.select_variant(variant)
        calibration = data.rag.calibration.without_bars()
        if dense := data.rag.dense:
            fusions = fitting.choose_safest_fusions(await fitting.run_both_retrievers(data))
            for lang, fusion in fusions.items():
                print(f"{lang}: {fusion.kind} with weight {fusion.dense} of the search by meaning")
            calibration = replace(calibration, fusions={**calibration.fusions, dense.model.name: fusions})
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
