from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from rag_core.storage import posts
from rag_core.types import Citation, Draft, Passage, PostKey, Sentence
from rag_core.verification.support import check_citations, filter_current_passages

DAY = datetime(2025, 3, 1, tzinfo=UTC)


def cited(chat: int, number: int, text: str, start: int = 0) -> Citation:
    return Citation(PostKey(chat, number), text, start, start + len(text), DAY)


async def kept(library: Any, *citations: Citation, see: tuple[int, ...] | None = None) -> tuple[Sentence, ...]:
    viewer = library.question("", see=see or (library.harbour, library.kiln)).viewer
    return await check_citations(Draft((Sentence("said", citations),), 1.0), viewer, library.rag)


async def test_a_quote_that_stands_in_its_post_is_kept(library: Any) -> None:
    right = cited(library.harbour, 2, "mackerel", 6)
    assert await kept(library, right) == (Sentence("said", (right,)),)


async def test_a_quote_that_does_not_stand_there_word_for_word_is_dropped_with_its_sentence(library: Any) -> None:
    for wrong in (
        cited(library.harbour, 2, "mackerel", 7),
        cited(library.harbour, 2, "Mackerel", 6),
        cited(library.harbour, 2, "", 6),
        cited(library.harbour, 99, "mackerel", 6),
        cited(library.harbour, 2, "mackerel", 10_000),
        replace(cited(library.harbour, 2, "mackerel", 6), end=99),
    ):
        assert await kept(library, wrong) == ()


async def test_a_sentence_keeps_those_of_its_citations_that_stand(library: Any) -> None:
    right, wrong = cited(library.harbour, 2, "mackerel", 6), cited(library.harbour, 3, "mackerel", 6)
    ((sentence),) = await kept(library, wrong, right)
    assert sentence.citations == (right,)


async def test_a_post_of_a_channel_that_the_asker_may_not_read_is_not_cited(library: Any) -> None:
    assert await kept(library, cited(library.harbour, 2, "mackerel", 6), see=(library.kiln,)) == ()


@pytest.mark.parametrize("change", ["edited", "deleted"])
async def test_what_changed_between_search_and_citing_is_dropped(library: Any, change: str) -> None:
    key = PostKey(library.harbour, 2)
    if change == "deleted":
        await library.erase(key, index=False)
    else:
        (post,) = (await posts.fetch_posts(library.rag.archive, [key])).values()
        later = replace(post, text="Fresh herring is sold on the quay.", edited=post.date.replace(year=2026))
        await library.keep(later, index=False)
    assert await kept(library, cited(library.harbour, 2, "mackerel", 6)) == ()


async def test_the_nearest_posts_are_looked_at_again_too(library: Any, make_post: Any) -> None:
    def passage(number: int, text: str, chat: int = library.harbour) -> Passage:
        return Passage(PostKey(chat, number), 0, "", text, 0, len(text), DAY)

    here, gone, changed = passage(2, "Fresh"), passage(3, "The"), passage(4, "Keep")
    await library.keep(make_post(1, "The safe is open.", chat=library.safe))
    closed = passage(1, "The safe is open.", library.safe)
    await library.erase(gone.key, index=False)
    viewer = library.question("").viewer
    assert await filter_current_passages([here, gone, changed, closed], viewer, library.rag) == (here,)
    assert await filter_current_passages([], viewer, library.rag) == ()
