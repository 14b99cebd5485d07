"""Evaluation runner: the measuring loop and the command-line options that the `eval` commands share.

Variants are measured in processes of their own: the same questions in lockstep, so that memory differs and other load
does not. Each process indexes the dataset and opens its models; then one question after the other is asked of all, and
each process is the first equally often.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from bot.evaluation.answer_metrics import Metrics
from bot.evaluation.datasets import Dataset, EvaluationQuery, read_dataset
from bot.evaluation.evaluation_report import (
    RECIPE_FIGURES,
    compute_difference_intervals,
    compute_ratios,
    format_difference_intervals,
    format_recipes,
    format_report,
    format_rows,
    require_writable,
    write_json_report,
)
from bot.evaluation.indexed_dataset import (
    HasLanguage,
    IndexedDataset,
    Variant,
    build_variant_settings,
    compute_by_language,
    open_indexed_dataset,
    run_interleaved,
)
from bot.evaluation.recorded_replies import Recording
from bot.settings import Settings
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.recipes import RECIPES
from rag_core.settings import RagSettings
from rag_core.storage.user_data import AUTO_RECIPE


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the questions and the corpus."""
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder with queries.jsonl and corpus.jsonl or an export"
    )
    parser.add_argument(
        "--distractors", type=Path, nargs="+", default=[], metavar="FILE", help="posts added to the corpus"
    )
    add_sample_options(parser, "questions")


def add_sample_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the options for the size of the sample and its random seed."""
    parser.add_argument("--limit", type=_parse_count, metavar="N", help=f"only so many {what}: the first")
    parser.add_argument(
        "--seed", type=_parse_seed, metavar="N", help=f"with --limit: {what} drawn by this number instead"
    )


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the retrievers and the reranker."""
    legs = "which search legs (default: both, where a model was pulled)"
    parser.add_argument("--legs", choices=("lexical", "dense", "hybrid"), help=legs)
    parser.add_argument("--rerank", choices=("on", "off"), help="with the reranker or without (default: on, if pulled)")


def add_variant_options(parser: argparse.ArgumentParser, known: Collection[str]) -> None:
    """Add the options for the recipe, the plan, and the variants to compare."""
    parser.add_argument(
        "--recipe",
        type=parse_recipes,
        default=("direct",),
        metavar="NAME",
        help=f"how answers are made: {', '.join(RECIPES)}, auto as for readers, several with commas, or all "
        "(default: direct)",
    )
    plan = "off: the question as the one query, no filters, both legs (default: on)"
    parser.add_argument("--plan", choices=("on", "off"), default="on", help=plan)
    compare = f"the same questions in several ways, the first being what the others are measured by: {', '.join(known)}"
    parser.add_argument("--compare", type=partial(_parse_compared, known=known), metavar="A,B", help=compare)


def add_output_options(parser: argparse.ArgumentParser, *, figures: bool = True) -> None:
    """Add the options for the output. `figures`: more are measured than those that are printed without --all."""
    if figures:
        parser.add_argument("--all", action="store_true", help="print every figure (default: the three that say most)")
    parser.add_argument("--json", type=Path, metavar="OUT", dest="json_out", help="write every figure to a file")


def parse_share(text: str) -> float:
    """Parse a share between 0 and 1. Raises ArgumentTypeError."""
    with suppress(ValueError):
        if 0 < (share := float(text)) < 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1, such as 0.05")


def _parse_count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0, such as 50")
    return int(text)


def _parse_seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, such as 42")
    return int(text)


def parse_recipes(text: str) -> tuple[str, ...]:
    """Parse the names of recipes, with commas between them, or all. Raises ArgumentTypeError."""
    names = tuple(RECIPES) if text == "all" else tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in {*RECIPES, AUTO_RECIPE}:
            raise argparse.ArgumentTypeError(f"{name!r} is no recipe: there is {', '.join(RECIPES)}, auto, and all")
    return names


def add_recording_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to record what models reply, and to repeat a measurement from a recording."""
    recorded = parser.add_mutually_exclusive_group()
    record = "write the model's replies to a file, so that the measurement can be repeated without the model"
    recorded.add_argument("--record", type=Path, metavar="FILE", help=record)
    recorded.add_argument("--replay", type=Path, metavar="FILE", help="take the replies from such a file: no model")


def open_recording(args: argparse.Namespace) -> Recording | None:
    """Open the recording that was asked for. Raises ImportRefused, SettingsWrong."""
    require_writable(args.record, "recording", "record")
    file = args.record or args.replay
    return Recording(file, replaying=bool(args.replay)) if file else None


def _parse_compared(text: str, known: Collection[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} cannot be compared: there are {', '.join(known)}")
    if len(names) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} names one thing: two are compared, such as plan-on,plan-off")
    return names


L = TypeVar("L", bound=HasLanguage)


@dataclass(frozen=True, slots=True)
class Measurement(Generic[L]):
    """A measurement: filter of the questions, how one is asked, and the metrics of the rows, and of parts of them."""

    name: str
    of: Callable[[EvaluationQuery], bool]
    ask: Callable[[EvaluationQuery, IndexedDataset], Awaitable[L]]
    metrics: Callable[[Sequence[L]], Metrics]
    by_kind: Callable[[Sequence[L]], Mapping[str, Metrics]] = lambda rows: {}


async def run_measurement(args: argparse.Namespace, settings: Settings, what: Measurement[L]) -> int:
    """Ask the questions, print the metrics, and write the JSON report. Returns the exit code."""
    require_writable(args.json_out, "figures", "json")
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
        print(format_report(what.name, metrics, everything=args.all))
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
    return 0


def describe_engine(rag: Engine) -> dict[str, Any]:
    """Describe what the figures were measured with."""
    return {
        "legs": f"hybrid ({rag.dense.model.name})" if rag.dense else "lexical",
        "rerank": "on" if rag.reranker else "off",
        "rounds": rag.settings.retrieval.rounds,
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
