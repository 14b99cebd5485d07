"""`citegram eval make DIR`: a question set out of one's own channels, to be measured again and again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bot.commands import evaluate_options as options
from bot.evaluation.making import made_questions
from bot.settings import Settings
from rag_core.doors.archive import Archive, channels, posts
from rag_core.errors import SettingsWrong, raised_as
from rag_core.types import Post

__all__ = ["declare", "run"]

_MOST, _SEED = 100, 42
_SLICE = 2000  # posts read at once
_THERE = "{} holds questions already: name another folder, or measure with these."
_NONE = "No post of yours has a sentence to ask about: import some posts first."
_UNWRITTEN = "The questions cannot be written ({}): name another folder."


def declare(kinds: Any) -> None:
    """Describe the command to argparse."""
    parser = kinds.add_parser("make", help="make a question set out of your own channels, without a model")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder; it will hold texts of your posts")
    options.among(parser, "questions")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Make, write, say. Returns the exit code."""
    folder: Path = args.folder
    if (folder / "queries.jsonl").exists():
        raise SettingsWrong(_THERE.format(folder))
    archive = await Archive.open(settings.data.dir)
    try:
        found, known = await _all_posts(archive), await channels.known(archive)
    finally:
        await archive.close()
    made = made_questions(found, known, args.limit or _MOST, _SEED if args.seed is None else args.seed)
    if not made.queries:
        raise SettingsWrong(_NONE)
    with raised_as(SettingsWrong, OSError, say=_UNWRITTEN):
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "corpus.jsonl", made.corpus)
        _write(folder / "queries.jsonl", made.queries)
    print(f"{len(made.queries)} questions about {len(made.corpus)} posts: citegram eval answers {folder}")
    return 0


async def _all_posts(archive: Archive) -> list[Post]:
    """Every post with a text that is not deleted, in the order it was kept."""
    found: list[Post] = []
    after = 0
    while changes := await posts.changes(archive, after, _SLICE):
        after = changes[-1].seq
        found += [change.post for change in changes if change.post and change.post.text.strip()]
    return found


def _write(file: Path, rows: Iterable[dict[str, object]]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
