"""`citegram models list|pull|use`: which models there are, which are here, how to get them, and which is used."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bot.beside.client import alone_or_beside
from bot.settings import Settings
from rag_core.dense import models_folder
from rag_core.doors.archive import Archive, choices
from rag_core.doors.archive.snapshots import FILE
from rag_core.doors.hub import HUB
from rag_core.doors.model_folder import here, size_of
from rag_core.doors.pull import pull
from rag_core.language import USES, is_path
from rag_core.models import MODELS, ModelRow, Tier, rows_of
from rag_core.using import Used, in_use, keep

__all__ = ["declare", "listed", "pulled", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("models", help="list the models, or pull one or a whole tier")
    what = parser.add_subparsers(dest="what", required=True, metavar="list|pull|use")
    what.add_parser("list", help="every model: tier, role, languages, size, licence, and whether it is here")
    pull_parser = what.add_parser("pull", help="download a model, or all of a tier; what is here already is left alone")
    names = [*(tier.value for tier in Tier), *(row.name for row in MODELS)]
    pull_parser.add_argument("name", choices=names, metavar="NAME_OR_TIER", help=", ".join(names))
    origin = "address of the hub or a mirror of it, or a folder that has the files (default: MODELS__HUB)"
    pull_parser.add_argument("--from", dest="hub", metavar="URL_OR_DIR", help=origin)
    as_it_comes = "take files of which the hub names no checksum as well (default: refuse them)"
    pull_parser.add_argument("--unverified", action="store_true", help=as_it_comes)
    use = what.add_parser("use", help="use another model from now on; a bot that runs changes over at once")
    use.add_argument("name", metavar="NAME|PATH", help="a pulled model, a .gguf file, auto, none, or same")
    use.add_argument("--for", dest="wanted", choices=tuple(USES), default="", help="for what (default: what it is for)")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """List, pull or use. Returns the exit code."""
    models = models_folder(settings.rag())
    if args.what == "list":
        used = in_use(settings.rag(), await _choices(settings))
        for line in await asyncio.to_thread(listed, models, used):
            print(line)
    elif args.what == "use":
        print(_said(await _used(args, settings)))
    else:
        await pulled(rows_of(args.name), models, args.hub or settings.models.hub, unverified=args.unverified)
    return 0


async def _used(args: argparse.Namespace, settings: Settings) -> Used:
    given = str(Path(args.name).expanduser().absolute()) if is_path(args.name) else args.name
    async with alone_or_beside(settings.data.dir) as owner:
        if owner:
            return await owner.use(given, args.wanted)
        archive = await Archive.open(settings.data.dir)
        try:
            return await keep(settings.rag(), archive, given, args.wanted)
        finally:
            await archive.close()


def _said(used: Used) -> str:
    if used.now:
        return f"The bot uses {used.name} as {used.use} now."
    if used.use == "embedder":
        return (
            f"{used.name} is the embedder from the next start on: the bot then makes all vectors anew, beside the old "
            "ones, and citegram reindex does it at once."
        )
    return f"{used.name} is the {used.use} from the next start on."


async def _choices(settings: Settings) -> dict[str, str]:
    """What was chosen; nothing where there is no archive yet, for a list makes none."""
    if not (settings.data.dir / FILE).exists():
        return {}
    archive = await Archive.open(settings.data.dir)
    try:
        return await choices.remembered(archive)
    finally:
        await archive.close()


def listed(models: Path, used: Mapping[str, str]) -> list[str]:
    """One line for each model, and what the columns do not say. `used` are the names by their use."""
    rows = [_cells(row, models / row.name, used) for row in MODELS]
    names = {row.name for row in MODELS}
    widths = [max(len(cells[n]) for cells in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]
    return [
        *lines,
        "",
        "Sizes and memory with ~ are as published, and nobody could check them here; the sha256 of those files",
        "is taken from the hub at the first pull and kept. Memory is a writer's with 4,096 tokens of context.",
        *(f"The {use} is {name}." for use, name in used.items() if name not in names),
        f"The tier {Tier.NONE} needs no model: search by words, answers word for word. Models live in {models}.",
    ]


def _cells(row: ModelRow, folder: Path, used: Mapping[str, str]) -> tuple[str, ...]:
    sure = "" if row.checked else "~"
    size, memory = f"{sure}{row.bytes / 1e6:,.0f} MB", f"{sure}{row.memory / 1e9:.1f} GB" if row.memory else "-"
    state = f"here ({size_of(folder) / 1e6:,.0f} MB)" if here(row, folder) else "-"
    uses = [use for use, name in used.items() if name == row.name]
    state += f", in use as {' and '.join(uses)}" if uses else ""
    return row.tier, row.name, row.role, " ".join(sorted(row.languages)), size, memory, row.licence, row.where, state


async def pulled(rows: tuple[ModelRow, ...], models: Path, hub: str = HUB, *, unverified: bool = False) -> None:
    """Pull the models into folders below `models` with a progress bar. Raises ModelUnavailable at the first failure."""
    if not rows:
        print(f"The tier {Tier.NONE} needs no model.")
    for row in rows:
        with tqdm(desc=row.name, total=row.bytes, unit="B", unit_scale=True, delay=1, leave=False) as bar:

            def moved(done: int, total: int, bar: Any = bar) -> None:
                bar.total = total
                bar.update(done - bar.n)

            folder = await pull(row, models, hub=hub, unverified=unverified, progress=moved)
        print(f"{row.name}: {folder} ({size_of(folder) / 1e6:,.0f} MB)")
