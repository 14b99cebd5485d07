"""`citegram verify "…"`: check a text against the posts; the viewer may read every channel."""

from __future__ import annotations

import argparse
import json
import sys

from bot.cli.open_index import open_up_to_date_engine
from bot.control.client import hold_folder_or_connect
from bot.control.schemas import format_stages, format_verdicts_text, verify_as_json
from bot.i18n import Translator
from bot.settings import Settings

__all__ = ["declare", "run"]


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("text")
    parser.add_argument("--json", action="store_true", help="the verdicts as one JSON object")
    parser.add_argument("--trace", action="store_true", help="stages, timings and counts after the verdicts")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Verify the text in the running bot or in this process, and print the verdicts. Returns the exit code."""
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            verdicts = await owner.verify(args.text, trace=args.trace)
        else:
            async with open_up_to_date_engine(settings) as rag:
                verdicts = await verify_as_json(rag, args.text, settings.bot.zone, trace=args.trace)
    if verdicts is None:
        print(Translator(settings.bot.language)("none-visible-admin"), file=sys.stderr)
        return 1
    if args.json:
        fields = {name: value for name, value in verdicts.items() if name != "trace" or value}
        print(json.dumps(fields, ensure_ascii=False))
    else:
        text = format_verdicts_text(verdicts, Translator(settings.bot.language), settings.bot.zone)
        print("\n".join([text, *format_stages(verdicts["trace"])]))
    return 0
