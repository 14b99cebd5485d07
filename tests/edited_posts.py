"""Real posts, each before and after one change; rows keep places in the posts, and of their texts only changed words.

Rows name a source and the number of a post there; `before` and `after` are parts of its text, [start, end], of another
post's, [number, start, end], or words given as they are. A wrong `crc` tells that the posts are no longer the same.
"""

import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class EditedPost:
    kind: str
    lang: str
    before: str
    after: str
    post: str


def _read_exported_text(text):
    return text if isinstance(text, str) else "".join(one if isinstance(one, str) else one["text"] for one in text)


@cache
def _read_posts(shared, source):
    if (zipped := shared / source / "posts.jsonl.gz").exists():
        with gzip.open(zipped, "rt", encoding="utf-8") as lines:
            return [json.loads(line)["text"] for line in lines]
    file = ROOT / source / "result.json" if "/" in source else shared / source / "json/result.json"
    exported = json.loads(file.read_text("utf-8"))["messages"]
    return [_read_exported_text(message.get("text", "")) for message in exported]


def read_edits(file, shared, of):
    """The rows of a file under tests/data that belong to `of`."""
    edits = []
    for row in map(json.loads, (ROOT / "tests/data" / file).read_text("utf-8").splitlines()):
        if row["of"] == of:
            posts = _read_posts(shared, row["source"])
            before, after = (
                "".join(
                    part if isinstance(part, str) else posts[([row["post"], *part])[-3]][part[-2] : part[-1]]
                    for part in row[name]
                )
                for name in ("before", "after")
            )
            assert crc32((before + after).encode()) == row["crc"], f"posts of {row['source']} have changed: {row}"
            edits.append(EditedPost(row["kind"], row.get("lang", "ru"), before, after, posts[row["post"]]))
    return edits
