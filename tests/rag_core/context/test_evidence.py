from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rag_core.context.evidence import MAX_SOURCES, compose_evidence, order_copies
from rag_core.storage.near_duplicates import PostCopies, PostCopy
from rag_core.text.sentences import build_text_key
from rag_core.types import Hit, Origin, Passage, PostKey

DAY = datetime(2025, 3, 1, tzinfo=UTC)


def hit(number: int, text: str, score: float = 1.0, *, chat: int = -1, days: int = 0, origin: str = "") -> Hit:
    source = Origin(origin) if origin else None
    key = PostKey(chat, number)
    return Hit(Passage(key, 0, "", text, 0, len(text), DAY + timedelta(days=days), None, source), score, "lexical")


def test_sources_are_numbered_from_one_in_the_order_of_the_hits() -> None:
    evidence = compose_evidence([hit(n, f"text {n}", 10.0 - n) for n in range(20)])
    assert [s.number for s in evidence.sources] == list(range(1, MAX_SOURCES + 1))
    assert [s.passage.key.message_id for s in evidence.sources] == list(range(MAX_SOURCES))
    assert evidence.number_sources()[3].passage.text == "text 2"


def test_the_original_stands_for_its_forwards_with_the_score_of_the_best() -> None:
    forward = hit(5, "Мост закрыт!", 9.0, chat=-2, days=-1, origin="Гавань")
    original, copy = hit(1, "Мост закрыт", 7.0), hit(8, "мост  ЗАКРЫТ https://t.me/a/1 @harbour", 3.0, chat=-3, days=4)
    (source,) = compose_evidence([forward, copy, original]).sources
    assert source.passage.key == PostKey(-1, 1)
    assert source.score == 9.0
    assert source.passage.copies == (PostKey(-3, 8), PostKey(-2, 5))


def test_of_copies_that_are_no_forwards_the_earliest_is_the_original() -> None:
    (source,) = compose_evidence([hit(2, "same", days=3), hit(1, "same", days=5, chat=-2)]).sources
    assert (source.passage.key, source.passage.copies) == (PostKey(-1, 2), (PostKey(-2, 1),))


@pytest.mark.parametrize("text", ["", "🔥", "https://t.me/a/1", "@harbour"])
def test_posts_without_words_are_no_copies_of_each_other(text: str) -> None:
    evidence = compose_evidence([hit(1, text), hit(2, text)])
    assert len(evidence.sources) == 2
    assert not any(source.passage.copies for source in evidence.sources)


def test_a_number_makes_another_post() -> None:
    assert len(compose_evidence([hit(1, "Хлеб по 90"), hit(2, "Хлеб по 95")]).sources) == 2


def test_nothing_found_is_no_evidence() -> None:
    assert compose_evidence([]).sources == ()


def test_an_address_is_no_mention() -> None:
    assert build_text_key("Пишите на a@b.ru") != build_text_key("Пишите на")
    assert build_text_key("Пишите @anna_k") == build_text_key("пишите!")


def known(*hits: Hit, others: tuple[PostCopy, ...] = ()) -> dict[PostKey, PostCopies]:
    """A family of the hits' posts and others."""
    passages = [one.passage for one in hits]
    everybody = (*(PostCopy(p.key, p.date, p.origin, b"x") for p in passages), *others)
    return {p.key: PostCopies(1, b"x", everybody) for p in passages}


def test_a_family_is_one_source_whatever_its_words_and_its_best_passage_is_cited() -> None:
    best, first = hit(2, "The bridge is closed, they say", 9.0, days=3), hit(1, "The bridge is closed", 5.0, chat=-2)
    (source,) = compose_evidence([best, first], known(best, first)).sources
    assert (source.passage.key, source.passage.text) == (best.passage.key, best.passage.text)
    assert (source.score, source.passage.copies) == (9.0, (first.passage.key,))


def test_copies_that_are_no_hits_are_remembered_the_original_first() -> None:
    found = hit(5, "same", days=5)
    later, earlier = (PostCopy(PostKey(-3, n), DAY + timedelta(days=n), None, b"x") for n in (7, 2))
    (source,) = compose_evidence([found], known(found, others=(later, earlier))).sources
    assert source.passage.copies == (earlier.key, later.key)


def test_a_post_that_is_too_new_joins_the_family_that_has_its_words() -> None:
    old, new = hit(1, "The bridge is closed"), hit(9, "the bridge is CLOSED!", 9.0, chat=-2, days=4)
    (source,) = compose_evidence([new, old], known(old)).sources
    assert (source.passage.key, source.passage.copies) == (old.passage.key, (new.passage.key,))


def test_families_with_the_same_words_stay_apart() -> None:
    monday, tuesday = hit(1, "Closed tomorrow"), hit(2, "Closed tomorrow", days=7)
    told = known(monday) | {key: PostCopies(2, b"y", c.all) for key, c in known(tuesday).items()}
    assert len(compose_evidence([monday, tuesday], told).sources) == 2


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
def test_the_earliest_is_the_original_and_a_forward_only_of_a_post_nobody_knows(
    origin: Origin | None, first: int
) -> None:
    copies = [PostCopy(PostKey(-1, 1), DAY, None, b""), PostCopy(PostKey(-2, 2), DAY - timedelta(days=1), origin, b"")]
    assert order_copies(copies)[0].key.message_id == first
