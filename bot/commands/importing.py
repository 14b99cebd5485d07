"""`citegram import PATH`: an export of Telegram Desktop into the archive and the indexes."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bot.commands.indexed import caught_up, embedded
from bot.render import plain
from bot.settings import Settings
from ingest.desktop_export import ImportOptions, ImportReport, import_export
from rag_core.rag import open_rag
from rag_core.types import Visibility

__all__ = ["declare", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("import", help="import an export of Telegram Desktop (result.json)")
    parser.add_argument("path", type=Path, metavar="PATH", help="result.json, or the folder that holds it")
    parser.add_argument("--username", help="the channel's public @name: exports do not hold it, and links need it")
    who = "who may read it: public, members or admins (default: public with --username, else admins)"
    parser.add_argument("--visibility", choices=[v.value for v in Visibility], help=who)
    parser.add_argument("--allow-private", action="store_true", help="import personal chats too")
    parser.add_argument("--json", action="store_true", help="end with one line of counts as JSON")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Import and index. Returns the exit code."""
    visibility = Visibility(args.visibility) if args.visibility else None
    name = args.username.lstrip("@") if args.username else None
    options = ImportOptions(name, args.allow_private, visibility, settings.bot.zone)
    async with open_rag(settings.rag()) as rag:
        with tqdm(desc="import", unit="B", unit_scale=True, delay=1, leave=False) as bar:

            def moved(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            report = await import_export(rag.archive, args.path, options, moved)
        await caught_up(settings, rag.archive, rag.lexical)
        _tell(report, as_json=args.json)
        await embedded(rag)
    return 0


def _tell(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report.tally)))
        return
    titles = ", ".join(plain(channel.title) for channel in report.channels)
    tally = report.tally
    print(f"{titles}: {tally.new} new, {tally.edited} edited, {tally.unchanged} unchanged, "
          f"{tally.skipped} skipped, {tally.deleted} deleted.")  # fmt: skip
    for note in report.notes:
        print(plain(note))
