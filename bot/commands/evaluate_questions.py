"""What `eval retrieval` and `eval answers` share: a dataset asked in one way or in several, told, written and drawn."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from bot.evaluation.datasets import Query, read_dataset
from bot.evaluation.index import Indexed, indexed
from bot.evaluation.report import beside, ratios, table, writable, write
from bot.evaluation.runs import InLanguage, by_language, in_turn
from bot.evaluation.scoring import Metrics
from bot.evaluation.ways import Way, opening
from bot.settings import Settings
from rag_core.errors import ImportRefused, SettingsWrong, raised_as
from rag_core.rag import Rag

__all__ = ["Measure", "about", "legs", "measure"]

L = TypeVar("L", bound=InLanguage)
_NO_PLOTS = (
    "A plot needs matplotlib ({}): install it with pip install 'citegram[plots]' ('.[plots]' in a checkout), "
    "or leave out --plot."
)


@dataclass(frozen=True, slots=True)
class Measure(Generic[L]):
    """Which questions are asked, how, what is made of the rows, and how they are drawn.

    `draw` gets the rows of each way, the name of the data, a line about what was asked, and the file.
    """

    name: str
    of: Callable[[Query], bool]
    ask: Callable[[Query, Indexed], Awaitable[L]]
    metrics: Callable[[Sequence[L]], Metrics]
    draw: Callable[[Mapping[str, Sequence[L]], str, str, Path], None]


async def measure(args: argparse.Namespace, settings: Settings, what: Measure[L]) -> int:
    """Ask, print, write, draw. Returns the exit code."""
    writable(args.json_out, "figures", "json")
    writable(args.plot, "plot", "plot")
    if args.plot:  # asked before anything is measured
        with raised_as(SettingsWrong, ImportError, say=_NO_PLOTS):
            import_module("bot.evaluation.plots")
    dataset = read_dataset(args.folder, args.distractors, args.limit, args.seed)
    queries = [query for query in dataset.queries if what.of(query)]
    if args.plot and not queries:
        raise ImportRefused(f"{args.folder} holds no question to draw: leave out --plot, or give other data.")
    own = Way(args.recipe, args.plan, args.legs, args.rerank)
    ways = {name: own.named(name) for name in args.compare} if args.compare else {"": own}
    async with indexed(dataset, opening(settings.rag(), ways.values())) as data:
        rows = await in_turn(queries, what.ask, {name: data.asked(way) for name, way in ways.items()})
    found = {name: by_language(given, what.metrics) for name, given in rows.items()}
    print(beside(found) if args.compare else table(found[""]))
    if args.json_out:
        compared = {"metrics": found, "ratio": ratios(found)} if args.compare else {"metrics": found[""]}
        said = {"settings": about(args, data.rag, own, ways)}
        write(args.json_out, {"command": what.name, "data": dataset.name, **said, **compared, "rows": len(queries)})
    if args.plot:
        line = f"{len(queries):,} questions · {len(dataset.ids):,} posts · {legs(data.rag, own)}"
        what.draw(rows, dataset.name, line, args.plot)
    return 0


def about(args: argparse.Namespace, rag: Rag, way: Way, ways: Mapping[str, Way]) -> dict[str, Any]:
    """The settings that the figures were measured with; with `ways` compared, what is changed in each."""
    said: dict[str, Any] = {
        "legs": way.legs or legs(rag, way), "rerank": way.rerank or ("on" if rag.reranker else "off"), "plan": way.plan,
        "recipe": way.recipe, "rounds": rag.settings.retrieval.rounds, "model": rag.writer.name if rag.writer else None,
        "limit": args.limit, "seed": args.seed, "bar": rag.calibration.bar,
        "distractors": [file.name for file in args.distractors],
    }  # fmt: skip
    if len(ways) > 1:
        said["compare"] = {name: {k: v for k, v in asdict(one).items() if v is not None} for name, one in ways.items()}
    return said


def legs(rag: Rag, way: Way) -> str:
    """Which legs are searched, and with which model."""
    if rag.dense is None or way.legs == "lexical":
        return "lexical"
    return f"{way.legs or 'hybrid'} ({rag.dense.model.name})"
