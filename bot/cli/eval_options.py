"""Evaluation options: command-line arguments and the measuring loop that the `eval` commands share."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from bot.evaluation.datasets import EvaluationQuery, read_dataset
from bot.evaluation.index import (
    RECIPES,
    HasLanguage,
    IndexedDataset,
    Variant,
    build_variant_settings,
    compute_by_language,
    open_indexed_dataset,
    run_interleaved,
)
from bot.evaluation.scoring import (
    Metrics,
    compute_ratios,
    format_report,
    format_rows,
    require_writable,
    write_json_report,
)
from bot.settings import Settings
from rag_core.engine import Engine


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
        type=_parse_recipe,
        default="direct",
        metavar="NAME",
        help=f"how answers are made: {', '.join(RECIPES)} (default: direct)",
    )
    plan = "off: the question as the one query, no filters, both legs (default: on)"
    parser.add_argument("--plan", choices=("on", "off"), default="on", help=plan)
    compare = f"the same questions in several ways, the first being what the others are measured by: {', '.join(known)}"
    parser.add_argument("--compare", type=_make_names_parser(known), metavar="A,B", help=compare)


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


def _parse_recipe(text: str) -> str:
    if text not in RECIPES:
        raise argparse.ArgumentTypeError(f"{text!r} is no recipe: there is {', '.join(RECIPES)}")
    return text


def _make_names_parser(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def parsed(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} cannot be compared: there are {', '.join(known)}")
        if len(names) < 2:
            raise argparse.ArgumentTypeError(f"{text!r} names one thing: two are compared, such as plan-on,plan-off")
        return names

    return parsed


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
    variant = Variant(args.recipe, args.plan, args.legs, args.rerank)
    variants = {name: variant.apply_name(name) for name in args.compare} if args.compare else {"": variant}
    async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), variants.values())) as data:
        rows = await run_interleaved(
            queries, what.ask, {name: data.select_variant(way) for name, way in variants.items()}
        )
    metrics = {name: compute_by_language(given, what.metrics) for name, given in rows.items()}
    print(format_report(what.name, metrics, everything=args.all))
    kinds = {name: what.by_kind(given) for name, given in rows.items()}
    for name, parts in kinds.items():
        if parts and args.all:
            print(f"\n{name}", format_rows(parts), sep="\n")
    if args.json_out:
        compared: dict[str, Any] = {"metrics": metrics if args.compare else metrics[""]}
        if args.compare:
            compared["ratio"] = compute_ratios(metrics)
        if any(kinds.values()):
            compared["by_kind"] = kinds if args.compare else kinds[""]
        about = {"settings": describe_settings(args, data.rag, variant, variants)}
        write_json_report(
            args.json_out, {"command": what.name, "data": dataset.name, **about, **compared, "rows": len(queries)}
        )
    return 0


def describe_settings(
    args: argparse.Namespace, rag: Engine, way: Variant, ways: Mapping[str, Variant]
) -> dict[str, Any]:
    """Build the settings that the figures were measured with; for compared variants, also the changes of each."""
    described: dict[str, Any] = {
        "legs": way.legs or describe_retrievers(rag, way),
        "rerank": way.rerank or ("on" if rag.reranker else "off"),
        "plan": way.plan,
        "recipe": way.recipe,
        "rounds": rag.settings.retrieval.rounds,
        "model": rag.writer.name if rag.writer else None,
        "limit": args.limit,
        "seed": args.seed,
        "bar": rag.calibration.bar,
        "distractors": [file.name for file in args.distractors],
    }
    if len(ways) > 1:
        described["compare"] = {
            name: {k: v for k, v in asdict(variant).items() if v is not None} for name, variant in ways.items()
        }
    return described


def describe_retrievers(rag: Engine, way: Variant) -> str:
    """Name the retrievers and the embedding model."""
    if rag.dense is None or way.legs == "lexical":
        return "lexical"
    return f"{way.legs or 'hybrid'} ({rag.dense.model.name})"
