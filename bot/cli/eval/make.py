"""`citegram eval make DIR`: make a question set out of one's own channels, for repeated measurements."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bot.cli.eval import options
from bot.evaluation.datasets import make_questions
from bot.settings import Settings
from rag_core.errors import SettingsWrong, translate_errors
from rag_core.storage import Archive, channels, posts
from rag_core.types import Post

_DEFAULT_QUESTIONS, _DEFAULT_SEED = 100, 42
_SLICE_POSTS = 2000  # posts read at once
_ALREADY_THERE_TEXT = "{} holds questions already: name another folder, or measure with these."
_NO_POSTS_TEXT = "No post of yours has a sentence to ask about: import some posts first."
_NOT_WRITABLE_TEXT = "The questions cannot be written ({}): name another folder."


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("make", help="make a question set out of your own channels, without a model")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder; it will hold texts of your posts")
    options.add_sample_options(parser, "questions")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Make the question set, write it, and print its size. Returns the exit code."""
    folder: Path = args.folder
    if (folder / "queries.jsonl").exists():
        raise SettingsWrong(_ALREADY_THERE_TEXT.format(folder))
    archive = await Archive.open(settings.data.dir)
    try:
        all_posts, known = await _read_all_posts(archive), await channels.load_channels(archive)
    finally:
        await archive.close()
    question_set = make_questions(
        all_posts, known, args.limit or _DEFAULT_QUESTIONS, _DEFAULT_SEED if args.seed is None else args.seed
    )
    if not question_set.queries:
        raise SettingsWrong(_NO_POSTS_TEXT)
    with translate_errors(SettingsWrong, OSError, say=_NOT_WRITABLE_TEXT):
        folder.mkdir(parents=True, exist_ok=True)
        _write_rows(folder / "corpus.jsonl", question_set.corpus)
        _write_rows(folder / "queries.jsonl", question_set.queries)
    print(
        f"{len(question_set.queries)} questions about {len(question_set.corpus)} posts: citegram eval answers {folder}"
    )
    return 0


async def _read_all_posts(archive: Archive) -> list[Post]:
    """Read all posts with text that are not deleted, in the order in which they were stored."""
    all_posts: list[Post] = []
    after = 0
    while changes := await posts.list_post_changes(archive, after, _SLICE_POSTS):
        after = changes[-1].seq
        all_posts += [change.post for change in changes if change.post and change.post.text.strip()]
    return all_posts


def _write_rows(file: Path, rows: Iterable[dict[str, object]]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
