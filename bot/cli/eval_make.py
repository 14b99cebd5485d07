"""`citegram eval make`: make a question set out of one's own channels."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bot.cli.open_data_folder import open_archive, require_archive
from bot.evaluation.data import make_questions
from bot.settings import Settings
from rag_core.errors import SettingsWrong, translate_errors
from rag_core.storage import channels, posts
from rag_core.types import Post

_FEWEST_QUESTIONS = 50  # fewer say little about a change


async def run_make(args: argparse.Namespace, settings: Settings) -> None:
    """Make a question set out of the posts of the archive."""
    folder: Path = args.folder
    if (folder / "queries.jsonl").exists():
        raise SettingsWrong(f"{folder} holds questions already: name another folder, or measure with these.")
    require_archive(settings.data.dir)
    all_posts: list[Post] = []  # in the order in which they were stored
    async with open_archive(settings.data.dir) as archive:
        known, after = await channels.load_channels(archive), 0
        while changes := await posts.list_post_changes(archive, after, 2000):
            after = changes[-1].seq
            all_posts += [change.post for change in changes if change.post and change.post.text.strip()]
    most, seed = args.limit or 100, 42 if args.seed is None else args.seed
    queries, corpus = make_questions(all_posts, known, most, seed)
    if not queries:
        raise SettingsWrong("No post of yours has a sentence to ask about: import some posts first.")
    refusal = "The questions cannot be written ({}): name another folder."
    with translate_errors(SettingsWrong, OSError, say=refusal):
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in (("corpus", corpus), ("queries", queries)):
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{len(queries)} questions about {len(corpus)} posts: citegram eval answers {folder}")
    if about := sum(row["kind"] == "about" for row in queries):
        print(f"{about} of them ask in words of the post, which is easier than readers do: few posts state values.")
    if len(queries) < min(most, _FEWEST_QUESTIONS):
        print(
            f"Fewer than {_FEWEST_QUESTIONS}: of {len(all_posts)} posts no more state a price, a date, a time or a "
            "number, or have a sentence with four words that few other posts have."
        )
