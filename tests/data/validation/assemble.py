"""Corpus builder: puts the posts of the shared data sets that this validation set asks about beside its questions.

    python tests/data/validation/assemble.py TARGET SHARED [--claims]

SHARED is the folder that holds `tg_ru_news`, `tg_export_en` and the other data sets. TARGET becomes a folder for
`citegram eval answers`, with --claims one for `citegram eval verify`. No post is kept in the repository.
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
EXPORT = "tg_export_en/json/result.json"  # a Telegram Desktop export, read as it is
CHANNELS = (  # data set, channel, how many of its newest posts (None: all)
    ("tg_ru_news", "nsmag", 400),
    ("tg_ru_news", "ru2ch", 400),
    ("tg_ru_official", "nalog_gov_ru", None),
    ("tg_ru_official", "MinEconomyrf", 300),
    ("tg_ru_finance", "MarketOverview", None),
)
LABELS = {"not_enough": "not_found"}  # as `citegram eval verify` calls it


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON Lines file, gzipped or not."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def select_posts(shared: Path) -> list[Row]:
    """Newest posts of each channel of the table, oldest first within a channel."""
    posts = []
    for name, channel, newest in CHANNELS:
        rows = [row for row in read_rows(shared / name / "posts.jsonl.gz") if row["channel"] == channel]
        posts += sorted(rows, key=lambda row: str(row["date"]))[-newest if newest else 0 :]
    return posts


def read_export(path: Path) -> dict[str, str]:
    """Texts of an export by `msg-<number>`, the ids that the evaluation gives its messages."""
    texts = {}
    for message in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        parts = message.get("text", "")
        plain = parts if isinstance(parts, str) else "".join(p if isinstance(p, str) else p["text"] for p in parts)
        texts[f"msg-{message['id']}"] = plain
    return texts


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
    for name in ("queries", "claims", "talk", "followups"):
        for row in read_rows(HERE / f"{name}.jsonl"):
            relevant = row.get("relevant", [])
            faults += [f"{row['id']}: no post {id_}" for id_ in relevant if id_ not in words]
            for sought, where in (("answers", relevant), ("stale", list(words))):
                for string in row.get(sought, []):
                    if not any(normalise_words(string) in words.get(id_, "") for id_ in where):
                        faults.append(f"{row['id']}: no post says {string!r}")
    if faults:
        raise ValueError("\n".join(faults))


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the corpus folder of the validation set.")
    parser.add_argument("target", type=Path)
    parser.add_argument("shared", type=Path)
    parser.add_argument("--claims", action="store_true", help="a folder for `citegram eval verify`")
    options = parser.parse_args()
    if not (options.shared / EXPORT).is_file():
        parser.exit(message=f"{options.shared} does not hold the data sets; nothing was built\n")
    posts = select_posts(options.shared)
    texts = {str(post["id"]): str(post["text"]) for post in posts}
    texts |= read_export(options.shared / EXPORT)
    check_gold(texts)
    (options.target / "json").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(options.shared / EXPORT, options.target / "json" / "result.json")
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
