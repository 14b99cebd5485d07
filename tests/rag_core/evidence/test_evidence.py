from datetime import UTC, datetime, timedelta

import pytest

from rag_core.evidence import MAX_SOURCES, compose_evidence, order_copies
from rag_core.storage.near_duplicates import PostCopy
from rag_core.types import Hit, Origin, Passage, PostKey

DAY = datetime(2025, 3, 1, tzinfo=UTC)


def hit(number, text, score=1.0, *, chat=-1, days=0, origin=""):
    source = Origin(origin) if origin else None
    key = PostKey(chat, number)
    return Hit(Passage(key, 0, "", text, 0, len(text), DAY + timedelta(days=days), None, source), score, "lexical")


def test_sources_are_numbered_from_one_in_the_order_of_the_hits():
    evidence = compose_evidence([hit(n, f"text {n}", 10.0 - n) for n in range(20)])
    assert [s.number for s in evidence.sources] == list(range(1, MAX_SOURCES + 1))
    assert [s.passage.key.message_id for s in evidence.sources] == list(range(MAX_SOURCES))
    assert evidence.sources[2].passage.text == "text 2"


def test_the_original_stands_for_its_forwards_with_the_score_of_the_best():
    forward = hit(5, "Мост закрыт!", 9.0, chat=-2, days=-1, origin="Гавань")
    original, copy = hit(1, "Мост закрыт", 7.0), hit(8, "мост  ЗАКРЫТ https://t.me/a/1 @harbour", 3.0, chat=-3, days=4)
    (source,) = compose_evidence([forward, copy, original]).sources
    assert source.passage.key == PostKey(-1, 1)
    assert source.score == 9.0
    assert source.passage.copies == (PostKey(-3, 8), PostKey(-2, 5))


@pytest.mark.parametrize("text", ["", "🔥", "https://t.me/a/1", "@harbour"])
def test_posts_without_words_are_no_copies_of_each_other(text):
    evidence = compose_evidence([hit(1, text), hit(2, text)])
    assert len(evidence.sources) == 2
    assert not any(source.passage.copies for source in evidence.sources)


@pytest.mark.parametrize(
    ("origin", "first"),
    [
        (None, 2),
        (Origin("Harbour"), 1),  # of somebody with this name: it may be the other
        (Origin("Harbour", -1, 1), 1),
        (Origin("Harbour", -1), 1),  # exports know the channel only
        (Origin("Harbour", -1, 77), 2),
        (Origin("Elsewhere", -9, 1), 2),
    ],
)
def test_the_earliest_is_the_original_and_a_forward_only_of_a_post_nobody_knows(origin, first):
    copies = [PostCopy(PostKey(-1, 1), DAY, None, b""), PostCopy(PostKey(-2, 2), DAY - timedelta(days=1), origin, b"")]
    assert order_copies(copies)[0].key.message_id == first
