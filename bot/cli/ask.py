"""`citegram ask "…"`: ask one question on the terminal; the viewer may read every channel."""

from __future__ import annotations

import argparse
import json
import sys

from bot.cli.open_index import open_up_to_date_engine
from bot.control.client import hold_folder_or_connect
from bot.control.schemas import answer_as_json, format_answer_text, format_answer_trace
from bot.i18n import Translator
from bot.settings import Settings
from bot.worker.answer_cache import record_traces
from rag_core.recipes import RECIPES

__all__ = ["declare", "run"]


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("question")
    parser.add_argument("--recipe", choices=("auto", *RECIPES), default="auto", help="how the answer is made")
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")
    parser.add_argument("--trace", action="store_true", help="stages, timings and counts after the answer")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ask the running bot, or answer in this process, and print the answer. Returns the exit code."""
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            answer = await owner.ask(args.question, trace=args.trace, recipe=args.recipe)
        else:
            async with open_up_to_date_engine(settings) as rag, record_traces(rag):
                answer = await answer_as_json(
                    rag, args.question, settings.bot.zone, trace=args.trace, recipe=args.recipe
                )
    if answer is None:
        print(Translator(settings.bot.language)("none-visible-admin"), file=sys.stderr)
        return 1
    if args.json:
        print(
            json.dumps(answer["answer"] | ({"trace": answer["trace"]} if answer["trace"] else {}), ensure_ascii=False)
        )
    else:
        print(
            "\n".join(
                [
                    format_answer_text(answer, Translator(settings.bot.language), settings.bot.zone),
                    *format_answer_trace(answer),
                ]
            )
        )
    return 0
