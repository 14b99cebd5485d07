"""`citegram models list|pull`: which models there are, which are here, and how to get them."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bot.settings import Settings
from rag_core.dense import models_folder
from rag_core.doors.hub import HUB
from rag_core.doors.model_folder import here, size_of
from rag_core.doors.pull import pull
from rag_core.models import MODELS, ModelRow, Tier, rows_of

__all__ = ["declare", "listed", "pulled", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("models", help="list the models, or pull one or a whole tier")
    what = parser.add_subparsers(dest="what", required=True, metavar="list|pull")
    what.add_parser("list", help="every model: tier, role, languages, size, licence, and whether it is here")
    pull_parser = what.add_parser("pull", help="download a model, or all of a tier; what is here already is left alone")
    names = [*(tier.value for tier in Tier), *(row.name for row in MODELS)]
    pull_parser.add_argument("name", choices=names, metavar="NAME_OR_TIER", help=", ".join(names))
    origin = "address of the hub or a mirror of it, or a folder that has the files (default: MODELS__HUB)"
    pull_parser.add_argument("--from", dest="hub", metavar="URL_OR_DIR", help=origin)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """List or pull. Returns the exit code."""
    models = models_folder(settings.rag())
    if args.what == "list":
        for line in await asyncio.to_thread(listed, models):
            print(line)
    else:
        await pulled(rows_of(args.name), models, args.hub or settings.models.hub)
    return 0


def listed(models: Path) -> list[str]:
    """One line for each model, and what the columns do not say."""
    rows = [_cells(row, models / row.name) for row in MODELS]
    widths = [max(len(cells[n]) for cells in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]
    return [
        *lines,
        "",
        "Sizes with ~ are as published; the sha256 of those files is taken from the hub at the first pull and kept.",
        f"The tier {Tier.NONE} needs no model: search by words, answers word for word. Models live in {models}.",
    ]


def _cells(row: ModelRow, folder: Path) -> tuple[str, ...]:
    size = f"{'' if row.checked else '~'}{row.bytes / 1e6:,.0f} MB"
    state = f"here ({size_of(folder) / 1e6:,.0f} MB)" if here(row, folder) else "-"
    return row.tier, row.name, row.role, " ".join(sorted(row.languages)), size, row.licence, row.where, state


async def pulled(rows: tuple[ModelRow, ...], models: Path, hub: str = HUB) -> None:
    """Pull the models into folders below `models` with a progress bar. Raises ModelUnavailable at the first failure."""
    if not rows:
        print(f"The tier {Tier.NONE} needs no model.")
    for row in rows:
        with tqdm(desc=row.name, total=row.bytes, unit="B", unit_scale=True, delay=1, leave=False) as bar:

            def moved(done: int, total: int, bar: Any = bar) -> None:
                bar.total = total
                bar.update(done - bar.n)

            folder = await pull(row, models, hub=hub, progress=moved)
        print(f"{row.name}: {folder} ({size_of(folder) / 1e6:,.0f} MB)")
