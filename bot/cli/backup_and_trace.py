"""`citegram backup`, `restore` and `trace`: back the archive up, put a backup back, show how an answer was made."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bot.cli.open_data_folder import choose_folder_with_channels, open_archive
from bot.control.socket_client import hold_folder
from bot.settings import Settings
from bot.views.terminal_text import format_stages
from bot.views.text import dump_json
from rag_core.storage.backups import get_backup_time, make_backup, prune_backups, restore_backup, run_cancellable
from rag_core.storage.questions import fetch_trace


def declare_backup(parser: argparse.ArgumentParser) -> None:
    """Add nothing to the parser of `backup`, which has no arguments."""
    parser.set_defaults(run=_run_backup)


def declare_restore(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `restore`."""
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="the backup (default: the newest that is whole)"
    )
    parser.set_defaults(run=_run_restore)


def declare_trace(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `trace`."""
    parser.add_argument("id", metavar="ID", help="trace_id of an answer")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.set_defaults(run=_run_trace)


async def _run_backup(args: argparse.Namespace, settings: Settings) -> int:
    folder = settings.data.dir
    backup = await run_cancellable(partial(make_backup, folder))
    if settings.data.backups:
        prune_backups(folder, settings.data.backups)
    print(f"{backup} ({_format_size(backup)})")
    return 0


async def _run_restore(args: argparse.Namespace, settings: Settings) -> int:
    folder = settings.data.dir
    async with hold_folder(folder):
        restored = await run_cancellable(lambda stop: restore_backup(folder, args.file, stop))
    print(
        f"The archive is that of {get_backup_time(restored.backup):%Y-%m-%d %H:%M} UTC "
        f"({restored.backup}, {_format_size(restored.backup)})."
    )
    if restored.aside:
        print(f"What was there before is kept as {restored.aside}; delete it when all is well.")
    print("The indexes are built anew at the next start, and the bot tells which times its channels lack posts of.")
    return 0


def _format_size(file: Path) -> str:
    return f"{max(1, file.stat().st_size >> 20)} MB"


async def _run_trace(args: argparse.Namespace, settings: Settings) -> int:
    """Fetch a trace and print it; this only reads, so it also works while the bot runs. Returns the exit code."""
    settings = await choose_folder_with_channels(settings)
    async with open_archive(settings.data.dir) as archive:
        trace = await fetch_trace(archive, args.id)
    if trace is None:
        print(
            f"There is no trace {args.id}: citegram ask --json prints the id of an answer as trace_id; old ones are "
            "forgotten.",
            file=sys.stderr,
        )
        return 1
    if args.json:
        print(dump_json(asdict(trace) | {"ended_at": trace.ended_at.isoformat()}))
        return 0
    print(f"{trace.trace_id}  {trace.recipe}  {trace.ended_at:%Y-%m-%d %H:%M:%S} UTC")
    print("\n".join(format_stages(trace.spans)))
    if trace.without:
        print(f"without: {', '.join(trace.without)}")
    return 0
