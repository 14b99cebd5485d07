"""Successors: a later post of the channel that corrects an older one by other words than the question's."""

import pytest

from rag_core.types import PostKey

OLD = "The Honey Day fair is on 14 August, in the square by the hall."
NEW = "Rain is promised, so the fair is put back to Sunday, 16 August, nine till three. The same square."
OTHERS = (
    "Quiet coach trial: front carriage, six weeks, no calls and no speakers.",
    "The tea bar at Ashcombe is run by Dot. Flat white and bacon rolls.",
    "Our autumn meeting is at the Methodist Hall, seven in the evening.",
    "Somebody left a tartan flask on the train.",
)
QUESTION = "what date is the honey day fair?"


@pytest.fixture
async def village(empty_library, make_post):
    """A channel of a village, in which the correction comes a week after the announcement."""
    key = {"chat": empty_library.harbour}
    posts = [make_post(n, text, days=n, **key) for n, text in enumerate(OTHERS, 3)]
    await empty_library.keep(make_post(1, OLD, **key), make_post(2, NEW, days=1, **key), *posts)
    return empty_library


async def test_a_later_post_that_corrects_comes_before_what_it_corrects(village):
    answer = await village.ask(QUESTION)
    assert "16 August" in answer.sentences[0].text
    assert "14 August" in " ".join(sentence.text for sentence in answer.sentences[1:])
    assert PostKey(village.harbour, 2) in {source.passage.key for source in answer.found}
    assert len({source.number for source in answer.found}) == len(answer.found)


async def test_a_correction_of_another_channel_corrects_nothing(empty_library, make_post):
    await empty_library.keep(
        make_post(1, OLD, chat=empty_library.harbour), make_post(2, NEW, days=1, chat=empty_library.safe)
    )
    alone = await empty_library.ask(QUESTION)
    assert alone.posts() == (PostKey(empty_library.harbour, 1),)
    both = await empty_library.ask(QUESTION, see=(empty_library.harbour, empty_library.safe))
    assert both.posts()[0] == PostKey(empty_library.harbour, 1)


async def test_what_came_before_is_no_successor(empty_library, make_post):
    key = {"chat": empty_library.harbour}
    await empty_library.keep(make_post(1, NEW, **key), make_post(2, OLD, days=1, **key))
    assert (await empty_library.ask(QUESTION)).posts()[0] == PostKey(empty_library.harbour, 2)


async def test_later_posts_about_something_else_supersede_nothing(village, make_post):
    await village.keep(make_post(9, "The raffle is on 20 August, in the hall.", days=9, chat=village.harbour))
    answer = await village.ask("where do they sell bacon rolls?")
    assert answer.posts()[0] == PostKey(village.harbour, 4)
    assert not any("Earlier" in sentence.text for sentence in answer.sentences)
