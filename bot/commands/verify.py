"""`citegram verify "…"`: do the posts say so? On the terminal this viewer sees all channels."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from bot.beside.client import alone_or_beside
from bot.beside.told import staged
from bot.beside.verified import spelt, verified
from bot.commands.indexed import opened
from bot.settings import Settings
from bot.words import Words

__all__ = ["declare", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("verify", help="hold a text against the posts, as somebody who may read every channel")
    parser.add_argument("text")
    parser.add_argument("--json", action="store_true", help="the verdicts as one JSON object")
    parser.add_argument("--trace", action="store_true", help="stages, timings and counts after the verdicts")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Verify, here or in the bot that runs here, and print. Returns the exit code."""
    async with alone_or_beside(settings.data.dir) as owner:
        if owner:
            found = await owner.verify(args.text, trace=args.trace)
        else:
            async with opened(settings) as rag:
                found = await verified(rag, args.text, settings.bot.zone, trace=args.trace)
    if found is None:
        print(Words(settings.bot.language)("none-visible-admin"), file=sys.stderr)
        return 1
    if args.json:
        shown = {name: value for name, value in found.items() if name != "trace" or value}
        print(json.dumps(shown, ensure_ascii=False))
    else:
        said = spelt(found, Words(settings.bot.language), settings.bot.zone)
        print("\n".join([said, *staged(found["trace"])]))
    return 0
