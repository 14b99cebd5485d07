"""Corpus windows: posts of the shared data sets between two post numbers, and the check of questions against posts."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Window = tuple[str, str, int, int, int]  # data set, channel, first and last post number, how many posts lie between


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON Lines file, gzipped or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def post_number(row: Row) -> int:
    return int(str(row["id"]).rsplit("-", 1)[1])


def select_posts(data: Path, windows: Iterable[Window]) -> list[Row]:
    """Posts of each window, oldest first. Raises ValueError where a window holds another number of posts."""
    posts: list[Row] = []
    for name, channel, first, last, count in windows:
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


def check_gold(queries: list[Row], texts: dict[str, str]) -> None:
    """Every relevant post is in the corpus, every answer stands in one of them, every stale string somewhere.

    Raises ValueError with the rows that fail, for example after a data set has changed.
    """
    words = {id_: normalise_words(text) for id_, text in texts.items()}
    faults = []
    for row in queries:
        relevant = row["relevant"]
        faults += [f"{row['id']}: no post {id_}" for id_ in relevant if id_ not in words]
        for sought, where in (("answers", relevant), ("stale", list(words))):
            for string in row[sought]:
                if not any(normalise_words(string) in words.get(id_, "") for id_ in where):
                    faults.append(f"{row['id']}: no post says {string!r}")
    if faults:
        raise ValueError("\n".join(faults))
