"""`citegram ask "…"`: one question on the terminal; this viewer sees all channels."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from bot.commands.indexed import opened
from bot.render import plain
from bot.settings import Settings
from bot.words import Words
from rag_core.analysis import language_of
from rag_core.answer import answer
from rag_core.doors.archive import channels
from rag_core.stage import Run
from rag_core.types import Answer, PostKey, Question, Viewer

__all__ = ["declare", "run"]


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("ask", help="ask one question, as somebody who may read every channel")
    parser.add_argument("question")
    parser.add_argument("--json", action="store_true", help="the answer as one JSON object")
    parser.add_argument("--trace", action="store_true", help="stages, timings and counts after the answer")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ask and print. Returns the exit code."""
    runs: list[Run] = []
    async with opened(settings) as rag:
        viewer = Viewer(0, frozenset(await channels.known(rag.archive)))
        if not viewer.channels:
            print(Words(settings.bot.language)("none-visible-admin"), file=sys.stderr)
            return 1
        question = Question(args.question, language_of(args.question), datetime.now(UTC), viewer)
        given = await answer(question, replace(rag, traced=runs.append))
    spans = runs[0].spans if args.trace else []
    if args.json:
        traced = {"trace": [asdict(span) for span in spans]} if spans else {}
        print(json.dumps(_plain(given) | traced, ensure_ascii=False))
    else:
        print(_written(given, settings))
        for span in spans:
            counts = " ".join(f"{name}={value}" for name, value in span.counts.items())
            print(f"{span.stage:10} {span.took_ms:8.1f} ms  {counts}{f'  {span.error}' if span.error else ''}")
    return 0


def _written(given: Answer, settings: Settings) -> str:
    words, zone = Words(settings.bot.language), settings.bot.zone
    numbers = {key: n for n, key in enumerate(given.posts(), 1)}
    lines = [f"{plain(s.text)} {' '.join(f'[{numbers[k]}]' for k in dict.fromkeys(c.post for c in s.citations))}"
             for s in given.sentences] or [words("refused")]  # fmt: skip
    dates = {c.post: c.date for s in given.sentences for c in s.citations}
    sources = [
        f"[{n}] {given.link(key)}  {_title(given, key)}, {words.date(dates[key], zone)}" for key, n in numbers.items()
    ]
    if given.refused and given.nearest:
        sources = [words("nearest", count=len(given.nearest))]
        sources += [f"{given.link(p.key)}  {_title(given, p.key)}, {words.date(p.date, zone)}" for p in given.nearest]
    return "\n".join((*lines, "", *sources)).rstrip()


def _title(given: Answer, key: PostKey) -> str:
    channel = given.channels.get(key.chat_id)
    return plain(channel.title) if channel else ""


def _plain(given: Answer) -> dict[str, Any]:
    return {
        "refused": given.refused,
        "sentences": [
            {"text": s.text, "support": s.support,
             "citations": [{"link": given.link(c.post), "quote": c.quote, "date": c.date.isoformat()}
                           for c in s.citations]}
            for s in given.sentences
        ],
        "nearest": [given.link(p.key) for p in given.nearest],
        "confidence": round(given.confidence, 4),
        "recipe": given.recipe,
        "model": given.model,
        "without": [s.stage for s in given.shortfalls],
        "trace_id": given.trace_id,
    }  # fmt: skip
