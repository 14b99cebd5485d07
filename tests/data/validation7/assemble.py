"""Corpus builder: puts the posts that this validation set asks about beside its questions, one folder for each part.

    python assemble.py TARGET DATA_DIR

DATA_DIR is the folder that holds `tg_ru_news`. TARGET gets two folders for `citegram eval answers`: `real`
(`posts.jsonl` and `queries.jsonl`) and `samples` (the exports of the sample
channels and `queries.jsonl`). No post is kept here.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus_windows import check_gold, map_texts, parse_folders, read_export, read_rows, select_posts, write_rows

HERE = Path(__file__).parent
CHANNELS = HERE.parents[2] / "bot" / "sandbox" / "channels"
WINDOWS = (  # data set, channel, first and last post number, how many posts lie between
    ("tg_ru_news", "nsmag", 10860, 11077, 197),
    ("tg_ru_news", "ru2ch", 127927, 128136, 144),
    ("tg_ru_news", "moscowtoplive", 26850, 27026, 153),
    ("tg_ru_news", "habr_com", 62800, 62981, 174),
    ("tg_ru_news", "banksta", 60731, 60960, 204),
)


def main() -> None:
    options = parse_folders(__doc__)
    posts, queries = select_posts(options.data, WINDOWS), read_rows(HERE / "queries.jsonl")
    exports = sorted(CHANNELS.glob("*/result.json"))
    samples = {id_: text for path in exports for id_, text in read_export(path, f"{path.parent.name}/").items()}
    for part, texts in (("real", map_texts(posts)), ("samples", samples)):
        rows = [row for row in queries if row["id"].startswith(part[0])]
        check_gold(rows, texts)
        write_rows(options.target / part / "queries.jsonl", rows)
    write_rows(options.target / "real" / "posts.jsonl", posts)
    for path in exports:
        shutil.copytree(path.parent, options.target / "samples" / path.parent.name, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
