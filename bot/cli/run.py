"""`citegram run`: run the bot."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from bot.app import run_bot
from bot.files import find_exposed_files
from bot.settings import Settings
from rag_core.os_support import limit_malloc_arenas

__all__ = ["declare", "run"]

log = logging.getLogger(__name__)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.set_defaults(run=run, chatty=True)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until stopped. Returns the exit code."""
    limit_malloc_arenas()
    for sentence in find_exposed_files(Path(".env"), settings.data.dir):
        log.warning("%s", sentence)
    await run_bot(settings)
    return 0
