"""`citegram models list|pull|use`: show, download and select models."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bot.cli.open_data_folder import open_archive
from bot.cli.progress_bar import show_progress_bar
from bot.control.socket_client import hold_folder_or_connect
from bot.settings import Settings
from rag_core.models.active_models import (
    MODEL_USES,
    ModelSwitch,
    choose_model_for_next_start,
    find_live_model,
    get_models_folder,
    is_gguf_path,
    list_models_in_use,
)
from rag_core.models.catalog import MODELS, ModelSpec, ModelTier, find_models
from rag_core.models.download import pull_model
from rag_core.models.embedder_offer import find_embedder_offer
from rag_core.models.model_files import is_model_present, measure_folder_size
from rag_core.storage.backups import ARCHIVE_FILE
from rag_core.storage.chat_and_admin_settings import load_choices


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="list|pull|use")
    list_parser = what.add_parser("list", help="every model: what it is for, how large it is, whether it is here")
    list_parser.add_argument("--all", action="store_true", help="also memory, licence and source")
    pull_parser = what.add_parser("pull", help="download a model, or all of a tier; what is here already is left alone")
    names = [*(tier.value for tier in ModelTier), *(row.name for row in MODELS)]
    pull_parser.add_argument("name", choices=names, metavar="NAME_OR_TIER", help=", ".join(names))
    origin = "address of the hub or a mirror of it, or a folder that has the files (default: MODELS__HUB)"
    pull_parser.add_argument("--from", dest="hub", metavar="URL_OR_DIR", help=origin)
    as_it_comes = "take files of which the hub names no checksum as well (default: refuse them)"
    pull_parser.add_argument("--unverified", action="store_true", help=as_it_comes)
    use = what.add_parser("use", help="use another model from now on; a bot that runs changes over at once")
    use.add_argument("name", metavar="NAME|PATH", help="a pulled model, a .gguf file, auto, none, or same")
    use.add_argument(
        "--for", dest="wanted", choices=tuple(MODEL_USES), default="", help="for what (default: what it is for)"
    )
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """List, pull or use models. Returns the exit code."""
    models = get_models_folder(settings.rag())
    if args.what == "list":
        choices, live, offer = dict[str, str](), "", None
        if (settings.data.dir / ARCHIVE_FILE).exists():  # listing must not create one
            async with open_archive(settings.data.dir) as archive:
                choices, live = await load_choices(archive), await find_live_model(settings.rag(), archive)
                offer = await find_embedder_offer(settings.rag(), archive)
        used = list_models_in_use(settings.rag(), choices, live)
        for line in await asyncio.to_thread(partial(format_model_list, models, used, everything=args.all)):
            print(line)
        if offer:
            print(f"\n{offer}")
    elif args.what == "use":
        print(_describe_use(await _use_model(args, settings)))
    else:
        rows = find_models(args.name)
        hub = args.hub or settings.models.hub
        if not rows:
            print(f"The tier {ModelTier.NONE} needs no model.")
        for row in rows:
            with show_progress_bar(row.name, "B") as moved:
                folder = await pull_model(row, models, hub=hub, unverified=args.unverified, progress=moved)
            print(f"{row.name}: {folder} ({measure_folder_size(folder) / 1e6:,.0f} MB)")
    return 0


async def _use_model(args: argparse.Namespace, settings: Settings) -> ModelSwitch:
    name = str(Path(args.name).expanduser().absolute()) if is_gguf_path(args.name) else args.name
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            return await owner.use(name, args.wanted)
        async with open_archive(settings.data.dir) as archive:
            return await choose_model_for_next_start(settings.rag(), archive, name, args.wanted)


def _describe_use(switch: ModelSwitch) -> str:
    if switch.now:
        return f"The bot uses {switch.name} as {switch.use} now."
    if switch.beside:
        return f"The bot embeds all posts with {switch.name}, then changes over; until then the old one answers."
    if switch.use == "embedder":
        return (
            f"{switch.name} is the embedder from the next start on: the bot then makes all vectors anew, beside the "
            "old ones, and citegram reindex does it at once."
        )
    return f"{switch.name} is the {switch.use} from the next start on."


def format_model_list(models: Path, used: Mapping[str, str], *, everything: bool = False) -> list[str]:
    """Format one line for each model, in 100 columns; `everything`: with memory, licence and source.

    `used` maps each use to a model name.
    """
    heads = ("tier", "model", "for", "languages", "size", "here", *(("memory", "licence", "from") * everything))
    rows = [heads, *(_format_cells(row, models / row.name, used)[: len(heads)] for row in MODELS)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]
    names = {row.name for row in MODELS}
    return [
        *lines,
        "",
        "~ as published; the checksum of these files is taken at the first pull and kept.",
        *(["Memory is a writer's with 4,096 tokens of context."] if everything else []),
        *(f"The {use} is {name}." for use, name in used.items() if name not in names),
        "Without a model: search by words, answers word for word.",
        f"Folder of the models: {models}",
    ]


def _format_cells(row: ModelSpec, folder: Path, used: Mapping[str, str]) -> tuple[str, ...]:
    sure = "" if row.checked else "~"
    size, memory = f"{sure}{row.bytes / 1e6:,.0f} MB", f"{sure}{row.memory / 1e9:.1f} GB" if row.memory else ""
    uses = " and ".join(use for use, name in used.items() if name == row.name)
    here = f"{measure_folder_size(folder) / 1e6:,.0f} MB" if is_model_present(row, folder) else "no"
    here += f", in use as {uses}" if uses and uses != row.role else ", in use" if uses else ""
    return row.tier, row.name, row.role, " ".join(sorted(row.languages)), size, here, memory, row.licence, row.where
