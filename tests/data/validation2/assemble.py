"""Corpus builder: puts the posts that the second validation set asks about beside its questions or claims.

    python tests/data/validation2/assemble.py TARGET SHARED [--claims]

SHARED is the folder of the shared data sets, which holds `tg_ru_news`; the posts of the three channels written for this
set lie beside this script. TARGET becomes a folder for `citegram eval answers`, with --claims one for `citegram eval
verify`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus_windows import check_gold, map_texts, parse_folders, read_rows, select_newest, write_corpus

HERE = Path(__file__).parent
NEWEST = 500  # posts of the channel, from 5 November to 4 December 2024


def main() -> None:
    options = parse_folders(__doc__, claims=True)
    posts = select_newest(options.data, "tg_ru_news", "moscowtoplive", NEWEST) + read_rows(HERE / "own_posts.jsonl")
    check_gold(read_rows(HERE / "queries.jsonl") + read_rows(HERE / "claims.jsonl"), map_texts(posts))
    write_corpus(options.target, posts, HERE, claims=options.claims)


if __name__ == "__main__":
    main()
