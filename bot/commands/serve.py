"""`citegram run`: the bot."""

from __future__ import annotations

import argparse
from typing import Any

from bot.app import run_bot
from bot.settings import Settings

__all__ = ["declare", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("run", help="run the bot (needs BOT__TOKEN)")
    parser.set_defaults(run=run, chatty=True)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until stopped. Returns the exit code."""
    await run_bot(settings)
    return 0
