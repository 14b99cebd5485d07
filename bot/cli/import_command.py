"""`citegram import PATH`: import an export of Telegram Desktop into the archive and the indexes."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from bot.cli.open_index import catch_up_copies, catch_up_lexical_index, catch_up_vectors, show_progress_bar
from bot.control.client import FolderOwner, hold_folder_or_connect
from bot.settings import Settings
from bot.views.post_phrases import strip_control_characters
from ingest.exports.desktop_export import ImportOptions, ImportReport, import_export
from rag_core.engine import open_engine
from rag_core.storage import Archive
from rag_core.types import Visibility


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("path", type=Path, metavar="PATH", help="result.json or messages.html, or the folder of one")
    which = "the channel of a messages.html, which does not say it: its id, or its @name if the bot knows it"
    parser.add_argument("--chat", metavar="ID", help=which)
    parser.add_argument("--title", help="what to call it, if not as in the export")
    parser.add_argument("--username", help="the channel's public @name: exports do not hold it, and links need it")
    who = "who may read it: public, members or admins (default: public with --username, else admins)"
    parser.add_argument("--visibility", choices=[v.value for v in Visibility], help=who)
    parser.add_argument("--allow-private", action="store_true", help="import personal chats too")
    parser.add_argument("--json", action="store_true", help="end with one line of counts as JSON")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Import the export and update the indexes. Returns the exit code."""
    visibility = Visibility(args.visibility) if args.visibility else None
    name = args.username.lstrip("@") if args.username else None
    options = ImportOptions(name, args.allow_private, visibility, settings.bot.zone, args.chat, args.title)
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            await _import_beside_bot(owner, args, settings, options)
        else:
            async with open_engine(settings.rag(), language=False) as rag:
                report = await _import_with_progress(rag.archive, args.path, options)
                await catch_up_lexical_index(rag)
                _print_report(report, as_json=args.json)
                await catch_up_copies(rag)
                await catch_up_vectors(rag)
    return 0


async def _import_beside_bot(
    owner: FolderOwner, args: argparse.Namespace, settings: Settings, options: ImportOptions
) -> None:
    """Write the archive only: the running bot owns the indexes."""
    archive = await Archive.open(settings.data.dir)
    try:
        report = await _import_with_progress(archive, args.path, options)
    finally:
        await archive.close()
    try:
        with show_progress_bar("index") as moved:
            await owner.wake(moved)
    finally:  # the posts are stored even if the bot ended: it indexes them at its next start
        _print_report(report, as_json=args.json)


async def _import_with_progress(archive: Archive, path: Path, options: ImportOptions) -> ImportReport:
    with show_progress_bar("import", "B") as moved:
        return await import_export(archive, path, options, moved)


def _print_report(report: ImportReport, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report.tally)))
        return
    titles = ", ".join(strip_control_characters(channel.title) for channel in report.channels)
    tally = report.tally
    print(f"{titles}: {tally.new} new, {tally.edited} edited, {tally.unchanged} unchanged, "
          f"{tally.skipped} skipped, {tally.deleted} deleted.")  # fmt: skip
    for note in report.notes:
        print(strip_control_characters(note))
