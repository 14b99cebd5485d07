"""`citegram backup` and `citegram restore`: the archive to a file, and a file to the archive."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from bot.beside.client import alone
from bot.settings import Settings
from rag_core.doors.archive.backup import make, prune, put_back
from rag_core.doors.archive.snapshots import in_thread, made_at

__all__ = ["declare"]


def declare(commands: Any) -> None:
    """Describe the two commands to argparse."""
    backup = commands.add_parser("backup", help="make a backup of the archive now, also while the bot runs")
    backup.set_defaults(run=_backup)
    restore = commands.add_parser("restore", help="put a backup of the archive back; the bot must be stopped")
    restore.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="the backup (default: the newest that is whole)"
    )
    restore.set_defaults(run=_restore)


async def _backup(args: argparse.Namespace, settings: Settings) -> int:
    """Make one and keep as many as the setting says. Returns the exit code."""
    folder = settings.data.dir
    made = await in_thread(partial(make, folder))
    if settings.data.backups:
        prune(folder, settings.data.backups)
    print(f"{made} ({_size(made)})")
    return 0


async def _restore(args: argparse.Namespace, settings: Settings) -> int:
    """Put one back. Returns the exit code."""
    folder = settings.data.dir
    async with alone(folder):
        done = await in_thread(lambda stop: put_back(folder, args.file, stop))
    print(f"The archive is that of {made_at(done.backup):%Y-%m-%d %H:%M} UTC ({done.backup}, {_size(done.backup)}).")
    if done.aside:
        print(f"What was there before is kept as {done.aside}; delete it when all is well.")
    print("The indexes are built anew at the next start, and the bot tells which times its channels lack posts of.")
    return 0


def _size(file: Path) -> str:
    return f"{max(1, file.stat().st_size >> 20)} MB"
