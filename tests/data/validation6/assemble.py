"""Corpus builder: puts the posts of the shared data sets that this validation set asks about beside its questions.

    python assemble.py TARGET DATA_DIR

DATA_DIR is the folder that holds `tg_ru_news`. TARGET becomes a folder for `citegram eval answers`: `posts.jsonl` and
`queries.jsonl`. No post is kept here.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus_windows import check_gold, read_rows, select_posts, write_rows

HERE = Path(__file__).parent
WINDOWS = (  # data set, channel, first and last post number, how many posts lie between
    ("tg_ru_news", "nsmag", 11078, 11435, 350),
    ("tg_ru_news", "ru2ch", 128137, 128621, 350),
    ("tg_ru_news", "moscowtoplive", 26558, 26849, 250),
    ("tg_ru_news", "moscowtoplive", 27380, 27548, 150),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the corpus folder of the sixth validation set.")
    parser.add_argument("target", type=Path)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    if not (options.data / "tg_ru_news" / "posts.jsonl.gz").is_file():
        parser.exit(message=f"{options.data} does not hold the data sets; nothing was built\n")
    posts = select_posts(options.data, WINDOWS)
    check_gold(read_rows(HERE / "queries.jsonl"), {str(post["id"]): str(post["text"]) for post in posts})
    options.target.mkdir(parents=True, exist_ok=True)
    write_rows(options.target / "posts.jsonl", posts)
    shutil.copyfile(HERE / "queries.jsonl", options.target / "queries.jsonl")


if __name__ == "__main__":
    main()
