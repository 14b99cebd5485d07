"""Watches over news posts: recall and precision against plain regular expressions, copies, processor time.

Run: python tests/bench/watch_accuracy.py posts.jsonl.gz
"""

import gzip
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bot.notifications import REWORDED_WITHIN
from ingest.copies import are_rewordings
from rag_core.storage.subscriptions import Watch
from rag_core.types import Post, PostKey
from rag_core.watch_matching import WatchIndex

DATA = Path(__file__).parents[1] / "data" / "watches"


def make_watch(number, text):
    made_at = datetime.fromtimestamp(0, UTC)
    return Watch(1, 1, True, text, text, id=number, made_at=made_at, paused=False, muted_until=0, quiet="")


def main(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    wanted = [json.loads(line) for line in (DATA / "watches.jsonl").read_text("utf-8").splitlines()]
    posts = [Post(PostKey(1, n), datetime(2024, 12, 1, tzinfo=UTC), row["text"]) for n, row in enumerate(rows)]
    index = WatchIndex(make_watch(n, one["watch"]) for n, one in enumerate(wanted))
    found = {n: set() for n in range(len(wanted))}
    for post, row in zip(posts, rows, strict=True):
        for watch in index.match(post):
            found[watch.id].add(row["id"])
    both = told = due = 0
    for n, one in enumerate(wanted):
        right = set(one["matches"])
        both, told, due = both + len(right & found[n]), told + len(found[n]), due + len(right)
        if right != found[n]:
            print(f"{one['watch']}: missed {len(right - found[n])}, beside {len(found[n] - right)} of {len(right)}")
    by_id = {row["id"]: row for row in rows}
    pairs = [json.loads(line) for line in (DATA / "near_copies.jsonl").read_text("utf-8").splitlines()]
    joined = {True: 0, False: 0}
    for pair in pairs:
        one, other = (by_id[name] for name in pair["ids"])
        near = abs(datetime.fromisoformat(one["date"]) - datetime.fromisoformat(other["date"])) <= REWORDED_WITHIN
        joined[pair["copies"]] += near and are_rewordings(one["text"], other["text"])
    copies = sum(pair["copies"] for pair in pairs)
    print(f"near copies joined: {joined[True]} of {copies}; others: {joined[False]} of {len(pairs) - copies}")
    print(f"recall {both / due:.3f} ({due} matches), precision {both / told:.3f}")
    many = [replace(make_watch(n, wanted[n % len(wanted)]["watch"])) for n in range(1000)]
    large = WatchIndex(many)
    began = time.process_time()
    for post in posts:
        large.match(post)
    print(f"{(time.process_time() - began) / len(posts) * 1000:.3f} ms a post with 1,000 watches")


if __name__ == "__main__":
    main(sys.argv[1])
