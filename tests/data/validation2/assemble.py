"""Corpus builder: puts the posts that the second validation set asks about beside its questions or claims.

    python tests/data/validation2/assemble.py TARGET SHARED [--claims]

SHARED is the folder of the shared data sets, which holds `tg_ru_news`; the posts of the three channels written for this
set lie beside this script. TARGET becomes a folder for `citegram eval answers`, with --claims one for `citegram eval
verify`.
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
NEWS = "tg_ru_news/posts.jsonl.gz"
CHANNEL = "moscowtoplive"
NEWEST = 500  # posts of the channel, from 5 November to 4 December 2024
LABELS = {"not_enough": "not_found"}  # as `citegram eval verify` calls it


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON Lines file, gzipped or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def select_posts(shared: Path) -> list[Row]:
    """Newest posts of the news channel, oldest first, then those of the channels written for this set."""
    rows = [row for row in read_rows(shared / NEWS) if row["channel"] == CHANNEL]
    return sorted(rows, key=lambda row: str(row["date"]))[-NEWEST:] + read_rows(HERE / "own_posts.jsonl")


def normalise_words(text: str) -> str:
    """Words in lower case with е for ё, one space between and at both ends, so that `in` compares whole words."""
    words = re.findall(r"\w+", text.lower().replace("ё", "е"))
    return f" {' '.join(words)} "


def check_row(row: Row, words: dict[str, str]) -> list[str]:
    """Faults of a row's gold: no such post, an answer in none of its posts, a stale string in no post at all.

    A question is without an answer exactly if it names neither post nor answer.
    """
    relevant = row["relevant"]
    faults = [f"no post {id_}" for id_ in relevant if id_ not in words]
    for sought, where in (("answers", relevant), ("stale", list(words))):
        for string in row.get(sought, []):
            if not any(normalise_words(string) in words.get(id_, "") for id_ in where):
                faults.append(f"no post says {string!r}")
    if "answerable" in row and not row["answerable"] == bool(relevant) == bool(row["answers"]):
        faults.append("answerable does not fit its posts and answers")
    return [f"{row['id']}: {fault}" for fault in faults]


def check_gold(posts: list[Row]) -> None:
    """Raises ValueError with the faults of all rows, for example after a data set has changed."""
    words = {str(post["id"]): normalise_words(str(post["text"])) for post in posts}
    rows = read_rows(HERE / "queries.jsonl") + read_rows(HERE / "claims.jsonl")
    faults = [fault for row in rows for fault in check_row(row, words)]
    if len({row["id"] for row in rows}) < len(rows):
        faults.append("an id stands twice")
    if faults:
        raise ValueError("\n".join(faults))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the corpus folder of the second validation set.")
    parser.add_argument("target", type=Path)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--claims", action="store_true", help="a folder for `citegram eval verify`")
    options = parser.parse_args()
    if not (options.shared / NEWS).is_file():
        parser.exit(message=f"{options.shared} does not hold the data sets; nothing was built\n")
    posts = select_posts(options.shared)
    check_gold(posts)
    options.target.mkdir(parents=True, exist_ok=True)
    if options.claims:
        write_rows(options.target / "corpus.jsonl", posts)
        claims = read_rows(HERE / "claims.jsonl")
        for claim in claims:
            claim |= {"text": claim.pop("claim"), "label": LABELS.get(claim["label"], claim["label"])}
        write_rows(options.target / "claims.jsonl", claims)
    else:
        write_rows(options.target / "posts.jsonl", posts)
        shutil.copyfile(HERE / "queries.jsonl", options.target / "queries.jsonl")


if __name__ == "__main__":
    main()
