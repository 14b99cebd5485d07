"""Watches over real posts, against plain regular expressions, and near copies that were told apart by reading."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bot.notifications import REWORDED_WITHIN
from ingest.copies import are_rewordings
from rag_core.retrieval.post_search import WatchIndex
from rag_core.storage.subscriptions import Watch
from rag_core.types import Post, PostKey

DATA = Path(__file__).parents[1] / "data" / "watches"
MADE = datetime.fromtimestamp(0, UTC)


def read_rows(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows(shared_data):
    with gzip.open(shared_data / "tg_ru_news" / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_a_watch_finds_the_posts_that_hold_all_its_words_in_any_form_and_few_others(rows):
    wanted = [(one["watch"], set(one["matches"])) for one in read_rows("watches.jsonl")]
    index = WatchIndex(
        Watch(1, 1, True, text, text, id=n, made_at=MADE, paused=False, muted_until=0, quiet="")
        for n, (text, _) in enumerate(wanted)
    )
    posts = {row["id"]: Post(PostKey(1, n), MADE, row["text"]) for n, row in enumerate(rows)}
    told = {(watch.id, id_) for id_, post in posts.items() for watch in index.match(post)}
    due = {(n, id_) for n, (_, matches) in enumerate(wanted) for id_ in matches}
    assert len(due) >= 1000
    assert len(told & due) >= 0.99 * len(due), due - told
    assert len(told & due) >= 0.985 * len(told), told - due


def test_near_copies_of_one_event_are_joined_and_those_of_others_hardly_ever(rows):
    by_id, joined = {row["id"]: row for row in rows}, {True: [], False: []}
    for pair in read_rows("near_copies.jsonl"):
        one, other = (by_id[id_] for id_ in pair["ids"])
        near = abs(datetime.fromisoformat(one["date"]) - datetime.fromisoformat(other["date"])) <= REWORDED_WITHIN
        joined[pair["copies"]].append(near and are_rewordings(one["text"], other["text"]))
    assert len(joined[True]) >= 20 and len(joined[False]) >= 25
    assert all(joined[True])
    assert sum(joined[False]) <= 1
