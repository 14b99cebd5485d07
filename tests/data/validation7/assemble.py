"""Corpus builder: puts the posts that this validation set asks about beside its questions, one folder for each part.

    python assemble.py TARGET DATA_DIR

DATA_DIR is the folder that holds `tg_ru_news`. TARGET gets two folders for `citegram eval answers`: `real`
(`posts.jsonl` and `queries.jsonl`) and `samples` (the exports of the sample
channels and `queries.jsonl`). No post is kept here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus_windows import Row, check_gold, read_rows, select_posts, write_rows

HERE = Path(__file__).parent
CHANNELS = HERE.parents[2] / "bot" / "sandbox" / "channels"
WINDOWS = (  # data set, channel, first and last post number, how many posts lie between
    ("tg_ru_news", "nsmag", 10860, 11077, 197),
    ("tg_ru_news", "ru2ch", 127927, 128136, 144),
    ("tg_ru_news", "moscowtoplive", 26850, 27026, 153),
    ("tg_ru_news", "habr_com", 62800, 62981, 174),
    ("tg_ru_news", "banksta", 60731, 60960, 204),
)


def plain_text(text: str | list[str | Row]) -> str:
    """Text of an exported message, which is a string or a list of strings and formatted parts."""
    parts = [text] if isinstance(text, str) else text
    return "".join(part if isinstance(part, str) else str(part["text"]) for part in parts)


def read_samples() -> dict[str, str]:
    """Texts of the sample channels by id, `<folder>/msg-<id>`."""
    texts = {}
    for path in sorted(CHANNELS.glob("*/result.json")):
        for message in json.loads(path.read_text(encoding="utf-8"))["messages"]:
            texts[f"{path.parent.name}/msg-{message['id']}"] = plain_text(message.get("text", ""))
    return texts


def write_part(target: Path, queries: list[Row]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    write_rows(target / "queries.jsonl", queries)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the corpus folders of the seventh validation set.")
    parser.add_argument("target", type=Path)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    if not (options.data / "tg_ru_news" / "posts.jsonl.gz").is_file():
        parser.exit(message=f"{options.data} does not hold the data sets; nothing was built\n")
    posts = select_posts(options.data, WINDOWS)
    queries = read_rows(HERE / "queries.jsonl")
    real = [row for row in queries if row["id"].startswith("r")]
    samples = [row for row in queries if row["id"].startswith("s")]
    check_gold(real, {str(post["id"]): str(post["text"]) for post in posts})
    check_gold(samples, read_samples())
    write_part(options.target / "real", real)
    write_rows(options.target / "real" / "posts.jsonl", posts)
    write_part(options.target / "samples", samples)
    for path in sorted(CHANNELS.glob("*/result.json")):
        shutil.copytree(path.parent, options.target / "samples" / path.parent.name, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
