"""The real bot, `citegram run`, that writes down every second how many tasks its event loop has."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bot.cli import run as run_command
from bot.logs import set_up_logging
from bot.settings import read_settings

_EVERY_S = 1.0


async def _counted(file: Path) -> None:
    while True:
        young = file.with_suffix(".new")
        young.write_text(str(len(asyncio.all_tasks()) - 1), encoding="ascii")
        young.replace(file)  # it is read at any moment
        await asyncio.sleep(_EVERY_S)


def run_counted(file: Path) -> None:
    """Run until told to stop."""
    asyncio.run(_run(file))


async def _run(file: Path) -> None:
    set_up_logging(False)
    counting = asyncio.create_task(_counted(file))
    await run_command.run(argparse.Namespace(), read_settings())
    counting.cancel()
