"""Corpus builder: puts the posts that this validation set asks about beside its questions, one folder for each part.

    python assemble.py TARGET DATA_DIR

DATA_DIR is the folder that holds `tg_ru_news`. TARGET gets two folders for `citegram eval answers`: `real`
(`posts.jsonl` and `queries.jsonl`) and `samples` (the exports of the sample
channels and `queries.jsonl`). No post is kept here.
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
CHANNELS = HERE.parents[2] / "bot" / "sandbox" / "channels"
WINDOWS = (  # data set, channel, first and last post number, how many posts lie between
    ("tg_ru_news", "nsmag", 10860, 11077, 197),
    ("tg_ru_news", "ru2ch", 127927, 128136, 144),
    ("tg_ru_news", "moscowtoplive", 26850, 27026, 153),
    ("tg_ru_news", "habr_com", 62800, 62981, 174),
    ("tg_ru_news", "banksta", 60731, 60960, 204),
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
    posts = select_posts(options.data)
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
