"""`citegram backup` and `citegram restore`: write the archive to a file, and put a backup back."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from bot.control.client import hold_folder
from bot.settings import Settings
from rag_core.storage.backups import get_backup_time, make_backup, prune_backups, restore_backup, run_cancellable

__all__ = ["declare", "declare_restore"]


def declare(parser: argparse.ArgumentParser) -> None:
    """Add nothing to the parser of `backup`, which has no arguments."""
    parser.set_defaults(run=_run_backup)


def declare_restore(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `restore`."""
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="the backup (default: the newest that is whole)"
    )
    parser.set_defaults(run=_run_restore)


async def _run_backup(args: argparse.Namespace, settings: Settings) -> int:
    """Make a backup and delete the oldest beyond DATA__BACKUPS. Returns the exit code."""
    folder = settings.data.dir
    backup = await run_cancellable(partial(make_backup, folder))
    if settings.data.backups:
        prune_backups(folder, settings.data.backups)
    print(f"{backup} ({_format_size(backup)})")
    return 0


async def _run_restore(args: argparse.Namespace, settings: Settings) -> int:
    """Restore a backup. Returns the exit code."""
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
