"""Corpus builder: puts the posts of the shared data sets that this validation set asks about beside its questions.

    python assemble.py TARGET DATA_DIR

DATA_DIR is the folder that holds `tg_ru_news`. TARGET becomes a folder for `citegram eval answers`: `posts.jsonl` and
`queries.jsonl`. No post is kept here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus_windows import check_gold, map_texts, parse_folders, read_rows, select_posts, write_corpus

HERE = Path(__file__).parent
WINDOWS = (  # data set, channel, first and last post number, how many posts lie between
    ("tg_ru_news", "nsmag", 11078, 11435, 350),
    ("tg_ru_news", "ru2ch", 128137, 128621, 350),
    ("tg_ru_news", "moscowtoplive", 26558, 26849, 250),
    ("tg_ru_news", "moscowtoplive", 27380, 27548, 150),
)


def main() -> None:
    options = parse_folders(__doc__)
    posts = select_posts(options.data, WINDOWS)
    check_gold(read_rows(HERE / "queries.jsonl"), map_texts(posts))
    write_corpus(options.target, posts, HERE)


if __name__ == "__main__":
    main()
