"""Corpus builders of validation sets: posts selected from the shared data sets, gold checked, a folder written."""

from __future__ import annotations

import gzip
import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Window = tuple[str, str, int, int, int]  # data set, channel, first and last post number, how many posts lie between
NEWS = "tg_ru_news/posts.jsonl.gz"
_LABELS = {"not_enough": "not_found"}  # as `citegram eval verify` calls it


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON Lines file, gzipped or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_channel(data: Path, name: str, channel: str) -> list[Row]:
    return [row for row in read_rows(data / name / "posts.jsonl.gz") if row["channel"] == channel]


def post_number(row: Row) -> int:
    return int(str(row["id"]).rsplit("-", 1)[1])


def select_posts(data: Path, windows: Iterable[Window]) -> list[Row]:
    """Posts of each window, oldest first. Raises ValueError where a window holds another number of posts."""
    posts: list[Row] = []
    for name, channel, first, last, count in windows:
        rows = read_channel(data, name, channel)
        window = sorted((row for row in rows if first <= post_number(row) <= last), key=post_number)
        if len(window) != count:
            raise ValueError(f"{channel} {first} to {last}: {len(window)} posts instead of {count}")
        posts += window
    return posts


def select_newest(data: Path, name: str, channel: str, count: int | None = None) -> list[Row]:
    """Newest posts of a channel (None: all), oldest first."""
    rows = sorted(read_channel(data, name, channel), key=lambda row: str(row["date"]))
    return rows[-count if count else 0 :]


def read_export(path: Path, prefix: str = "") -> dict[str, str]:
    """Texts of a Telegram export by `msg-<number>`, the ids that the evaluation gives its messages."""
    texts = {}
    for message in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        text = message.get("text", "")
        parts = [text] if isinstance(text, str) else text
        texts[f"{prefix}msg-{message['id']}"] = "".join(p if isinstance(p, str) else p["text"] for p in parts)
    return texts


def map_texts(posts: list[Row]) -> dict[str, str]:
    return {str(post["id"]): str(post["text"]) for post in posts}


def normalise_words(text: str) -> str:
    """Words in lower case with е for ё, one space between and at both ends, so that `in` compares whole words."""
    words = re.findall(r"\w+", text.lower().replace("ё", "е"))
    return f" {' '.join(words)} "


def check_gold(rows: list[Row], texts: dict[str, str]) -> None:
    """Every relevant post is in the corpus, every answer stands in one of them, every stale string somewhere.

    A question is without an answer exactly if it names neither post nor answer; no id stands twice. Raises ValueError
    with the rows that fail, for example after a data set has changed.
    """
    words = {id_: normalise_words(text) for id_, text in texts.items()}
    faults = []
    for row in rows:
        relevant = row.get("relevant", [])
        faults += [f"{row['id']}: no post {id_}" for id_ in relevant if id_ not in words]
        for sought, where in (("answers", relevant), ("stale", list(words))):
            for string in row.get(sought, []):
                if not any(normalise_words(string) in words.get(id_, "") for id_ in where):
                    faults.append(f"{row['id']}: no post says {string!r}")
        if "answerable" in row and not row["answerable"] == bool(relevant) == bool(row["answers"]):
            faults.append(f"{row['id']}: answerable does not fit its posts and answers")
    if len({row["id"] for row in rows}) < len(rows):
        faults.append("an id stands twice")
    if faults:
        raise ValueError("\n".join(faults))


def parse_folders(doc: str | None, needed: str = NEWS, *, claims: bool = False) -> Namespace:
    """Arguments of a builder: `target`, `data` (the folder of the shared data sets), `claims`."""
    parser = ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("data", type=Path)
    if claims:
        parser.add_argument("--claims", action="store_true", help="a folder for `citegram eval verify`")
    options = parser.parse_args()
    if not (options.data / needed).is_file():
        parser.exit(message=f"{options.data} does not hold the data sets; nothing was built\n")
    return options


def write_corpus(target: Path, posts: list[Row], source: Path, *, claims: bool = False) -> None:
    """Write posts with the questions of the folder `source`, or with its claims."""
    if not claims:
        write_rows(target / "posts.jsonl", posts)
        write_rows(target / "queries.jsonl", read_rows(source / "queries.jsonl"))
        return
    write_rows(target / "corpus.jsonl", posts)
    rows = read_rows(source / "claims.jsonl")
    for row in rows:
        row |= {"text": row.pop("claim"), "label": _LABELS.get(row["label"], row["label"])}
    write_rows(target / "claims.jsonl", rows)
