"""Corpus builder: puts the posts of the shared data sets that this validation set asks about beside its questions.

    python assemble.py TARGET DATA_DIR

DATA_DIR is the folder that holds `tg_ru_news`. TARGET becomes a folder for `citegram eval answers`: `posts.jsonl` and
`queries.jsonl`. No post is kept here.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

Row = dict[str, Any]

HERE = Path(__file__).parent
WINDOWS = (  # data set, channel, first and last post number, how many posts lie between
    ("tg_ru_news", "nsmag", 11078, 11435, 350),
    ("tg_ru_news", "ru2ch", 128137, 128621, 350),
    ("tg_ru_news", "moscowtoplive", 26558, 26849, 250),
    ("tg_ru_news", "moscowtoplive", 27380, 27548, 150),
)


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON Lines file, gzipped or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def post_number(row: Row) -> int:
    return int(str(row["id"]).rsplit("-", 1)[1])


def select_posts(data: Path) -> list[Row]:
    """Posts of each window, oldest first. Raises ValueError where a window holds another number of posts."""
    posts: list[Row] = []
    for name, channel, first, last, count in WINDOWS:
        rows = [row for row in read_rows(data / name / "posts.jsonl.gz") if row["channel"] == channel]
        window = sorted((row for row in rows if first <= post_number(row) <= last), key=post_number)
        if len(window) != count:
            raise ValueError(f"{channel} {first} to {last}: {len(window)} posts instead of {count}")
        posts += window
    return posts


def normalise_words(text: str) -> str:
    """Words in lower case with е for ё, one space between and at both ends, so that `in` compares whole words."""
    words = re.findall(r"\w+", text.lower().replace("ё", "е"))
    return f" {' '.join(words)} "


def check_gold(texts: dict[str, str]) -> None:
    """Every relevant post is in the corpus, every answer stands in one of them, every stale string somewhere.

    Raises ValueError with the rows that fail, for example after a data set has changed.
    """
    words = {id_: normalise_words(text) for id_, text in texts.items()}
    faults = []
    for row in read_rows(HERE / "queries.jsonl"):
        relevant = row["relevant"]
        faults += [f"{row['id']}: no post {id_}" for id_ in relevant if id_ not in words]
        for sought, where in (("answers", relevant), ("stale", list(words))):
            for string in row[sought]:
                if not any(normalise_words(string) in words.get(id_, "") for id_ in where):
                    faults.append(f"{row['id']}: no post says {string!r}")
    if faults:
        raise ValueError("\n".join(faults))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the corpus folder of the sixth validation set.")
    parser.add_argument("target", type=Path)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    if not (options.data / "tg_ru_news" / "posts.jsonl.gz").is_file():
        parser.exit(message=f"{options.data} does not hold the data sets; nothing was built\n")
    posts = select_posts(options.data)
    check_gold({str(post["id"]): str(post["text"]) for post in posts})
    options.target.mkdir(parents=True, exist_ok=True)
    write_rows(options.target / "posts.jsonl", posts)
    shutil.copyfile(HERE / "queries.jsonl", options.target / "queries.jsonl")


if __name__ == "__main__":
    main()
