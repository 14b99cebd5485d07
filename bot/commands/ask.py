"""`citegram ask "…"`: one question on the terminal; this viewer sees all channels."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from bot.beside.client import alone_or_beside
from bot.beside.told import Told, told, traced, written
from bot.commands.indexed import opened
from bot.settings import Settings
from bot.traces import tracing
from bot.words import Words
from rag_core.recipes import RECIPES

__all__ = ["declare", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("ask", help="ask one question, as somebody who may read every channel")
    parser.add_argument("question")
    parser.add_argument("--recipe", choices=("auto", *RECIPES), default="auto", help="how the answer is made")
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")
    parser.add_argument("--trace", action="store_true", help="stages, timings and counts after the answer")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ask, here or in the bot that runs here, and print. Returns the exit code."""
    async with alone_or_beside(settings.data.dir) as owner:
        if owner:
            found = await owner.ask(args.question, trace=args.trace, recipe=args.recipe)
        else:
            async with opened(settings) as rag, tracing(rag):
                found = await told(rag, args.question, settings.bot.zone, trace=args.trace, recipe=args.recipe)
    if found is None:
        print(Words(settings.bot.language)("none-visible-admin"), file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(_object(found), ensure_ascii=False))
    else:
        print("\n".join([written(found, Words(settings.bot.language), settings.bot.zone), *traced(found)]))
    return 0


def _object(found: Told) -> dict[str, Any]:
    return found["answer"] | ({"trace": found["trace"]} if found["trace"] else {})
