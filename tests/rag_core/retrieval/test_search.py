import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from faulty_indexes import Meaning, with_meaning

from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.aggregate import MentionTerm, find_mentions
from rag_core.retrieval.search import append_expansion_hits, extract_expansion_names, resolve_filter, search_passages
from rag_core.run import Run
from rag_core.storage import channels, visible_posts
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Kind, Media, Origin, Passage, PassageRef, Plan, PostKey, SearchFilter, Viewer


async def found(library, text, *see, **plan):
    question = library.question(text, see=see) if see else library.question(text)
    return [hit.passage.key for hit in await searched(library, question, **plan)]


async def searched(library, question, **plan):
    run = Run(library.rag.budgets, "direct")
    return await search_passages(replace(plan_by_rules(question), **plan), question, library.rag, run)


async def matched(library, text, **plan):
    viewer = library.question("").viewer
    words = [MentionTerm((term,)) for term in tokenize(text)]
    return [place.key.message_id for place in await find_mentions(words, Plan((), **plan), viewer, library.rag)]


async def test_the_viewer_s_channels_bound_the_plan_s(library):
    viewer = Viewer(1, frozenset({-1, -2}))
    for given, bound in ((None, {-1, -2}), (frozenset({-2, -3}), {-2}), (frozenset({-3}), frozenset())):
        assert (await resolve_filter(Plan(("a",), channels=given), viewer, library.rag)).channels == bound


async def test_the_best_post_comes_first_with_its_score_and_its_header(library):
    hits = await searched(library, library.question("ferry ticket for children"))
    assert hits[0].passage.key == PostKey(library.harbour, 5)
    assert hits[0].passage.header == "Harbour News · 2025-04-10"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.leg for hit in hits} == {"lexical"}


@pytest.mark.parametrize("text", ["", "🔥", "что это?", "zyzzyva"])
async def test_what_has_no_terms_or_no_posts_finds_nothing(library, text):
    assert await found(library, text) == []


async def test_a_viewer_without_channels_finds_nothing(library):
    question = library.question("ferry", see=())
    assert await searched(library, question) == ()
    assert await find_mentions([MentionTerm(("ferri",))], Plan(()), question.viewer, library.rag) == []


async def test_a_post_is_shown_as_it_stands_in_the_archive_now(library, make_post):
    """The index may be behind by a few seconds: it names places, the words come from the archive."""
    shorter = make_post(1, "No ferry.", chat=library.harbour)
    dearer = "A ferry ticket costs fifteen euros; children under six sail for nothing!"
    other = make_post(5, dearer, chat=library.harbour)
    edited = [replace(post, edited=post.date.replace(year=2026)) for post in (shorter, other)]
    await library.keep(*edited, index=False)
    await library.erase(PostKey(library.harbour, 6), index=False)
    hits = await searched(library, library.question("ferry"))
    assert [hit.passage.key.message_id for hit in hits] == [5]
    assert "fifteen" in hits[0].passage.text


async def test_a_post_of_many_passages_is_one_post(library, make_post):
    await library.keep(make_post(9, "The drawbridge is up again today. " * 200, chat=library.harbour))
    assert await matched(library, "drawbridge") == [9]


async def test_neither_are_a_date_an_origin_or_a_parent_but_a_file_name_is(library, make_post):
    key = {"chat": library.harbour}
    await library.keep(
        make_post(20, "Zeppelins are here.", **key),
        make_post(21, "Yes, since noon.", reply_to=20, **key),
        make_post(22, "", media=Media("document", "zeppelins.pdf"), **key),
        make_post(23, "Hello!", origin=Origin("Zeppelins"), **key),
    )
    assert await matched(library, "zeppelins") == [20, 22]
    assert await matched(library, "2025") == []


_FILLER = "The tram leaves from the square in front of the old town hall and nobody has to wait for long. " * 20


async def test_the_index_lists_the_posts_that_reading_them_all_finds(library, make_post):
    """Terms of headers, of several passages, of versions that were replaced: the same posts at the same places."""
    rng, words = random.Random(7), ("zeppelin", "balloon", "harbour", "kite")
    for n in range(30, 130):
        said = " ".join((*rng.sample(words, rng.randrange(3)), rng.choice(("", _FILLER)), *rng.sample(words, 1)))
        await library.keep(
            make_post(
                n,
                said if rng.random() < 0.8 else "Hello.",
                chat=library.harbour,
                reply_to=rng.randrange(30, n + 1) if rng.random() < 0.4 else None,
                origin=Origin(rng.choice(words)) if rng.random() < 0.3 else None,
                media=Media("document", f"{rng.choice(words)}.pdf") if rng.random() < 0.2 else None,
            ),
            index=n % 10 == 0,
        )
    await library.keep(make_post(30, "A kite.", chat=library.harbour, edited=datetime(2026, 1, 1, tzinfo=UTC)))
    viewer = library.question("").viewer
    asked = [(first, *more) for first in words for more in ((), *((other,) for other in words if other != first))]

    async def find_all(*further):
        terms = [[MentionTerm((term, *further)) for text in one for term in tokenize(text)] for one in asked]
        return [
            [*await find_mentions(some, Plan((), kind=kind), viewer, library.rag)]
            for some in terms
            for kind in (Kind.HOW_MANY, Kind.LAST)
        ]

    listed = await find_all()
    assert all(map(len, listed))
    read = await find_all("of two terms the posts are read")
    # for the last mention reading ends with the batch that has one: here all posts are of one batch
    assert read == listed


async def test_what_was_edited_or_deleted_since_it_was_indexed_matches_no_more(library):
    first = (await visible_posts.fetch_posts(library.rag.archive, [PostKey(library.harbour, 1)]))[
        PostKey(library.harbour, 1)
    ]
    await library.keep(replace(first, text="No boat today.", edited=first.date.replace(year=2026)), index=False)
    await library.erase(PostKey(library.harbour, 6), index=False)
    assert await matched(library, "ferry") == [5]


async def test_a_post_of_a_channel_without_a_name_is_found(library, make_post):
    await library.keep(make_post(1, "Nameless zeppelin.", chat=-5))
    assert await found(library, "zeppelin", -5) == [PostKey(-5, 1)]
    await channels.save_channel(library.rag.archive, Channel(-5, "Airfield"))
    assert await found(library, "zeppelin", -5) == [PostKey(-5, 1)]


async def test_both_legs_are_asked_for_what_the_viewer_may_read(library):
    meaning = Meaning(PassageRef(PostKey(library.harbour, 3), 0, 0, 58))
    with_meaning(library, meaning)
    hits = await searched(library, library.question("lighthouse fish", see=(library.harbour,)))
    assert meaning.asked == [SearchFilter(frozenset({library.harbour}))]
    assert (hits[0].passage.key.message_id, hits[0].leg) == (3, "both")


async def test_of_many_like_hits_others_are_kept_and_copies_stay_with_their_text(tmp_path, open_library, make_post):
    async with open_library(tmp_path / "data", retrieval={"diversity": 0.2}) as library:
        library.rag.keep = 24
        like = [make_post(n, f"ferry pier four timetable changed, page {n}", chat=library.harbour) for n in range(40)]
        same = [
            make_post(50, "The ferry race is won by the tortoise team.", chat=chat)
            for chat in (library.harbour, library.kiln)
        ]
        await library.keep(*like, *same)
        question = library.question("ferry timetable")
        hits = await search_passages(plan_by_rules(question), question, library.rag, Run(library.rag.budgets, "test"))
    keys = [hit.passage.key for hit in hits]
    assert len(keys) == 25  # twenty stay, four are chosen for being unlike, and one is a copy of such a one
    assert {PostKey(library.harbour, 50), PostKey(library.kiln, 50)} <= set(keys)


def place(number, part=0):
    return PassageRef(PostKey(-1, number), part, 0, 10)


def ranked(*numbers):
    return [(place(n), 10.0 / rank) for rank, n in enumerate(numbers, 1)]


def passage(text, header="Harbour News · 2025-03-01"):
    return Passage(PostKey(-1, 1), 0, header, text, 0, len(text), datetime(2025, 3, 1, tzinfo=UTC))


LONG_POST = [*((place(1, part), 9.0) for part in range(10)), *ranked(2, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("own", "others", "found"),
    [
        (ranked(1, 2, 3, 4, 5, 6, 7), [(ranked(9, 7, 8), 0.15)] * 5, [1, 2, 3, 4, 5, 7]),  # 7 is found by both
        (ranked(1, 2, 3, 4, 5, 6, 7), [(ranked(9, 7, 8), 100.0)] * 5, [1, 2, 3, 4, 5, 9]),
        (LONG_POST, [(ranked(6, 7), 100.0)], [1] * 10 + [2, 3, 4, 5]),
        ([], [(ranked(901, 77, 5003), 0.15), (ranked(42, 640, 31), 0.15)], [901, 42, 77, 640, 5003, 31]),
    ],
)
def test_the_first_five_posts_of_the_question_itself_stay_first(own, others, found):
    fused = append_expansion_hits(own, others)
    assert [one.key.message_id for one, _ in fused][: len(found)] == found
    assert dict(fused) == {one: 0.0 for ranking, _ in others for one, _ in ranking} | dict(own)


def test_the_names_that_the_best_posts_bring_are_looked_for():
    posts = [passage("Captain Grey sails to Owl Island. Owl Island is small."), passage("Captain Grey of Oslo is old.")]
    assert extract_expansion_names("Who sails the ferry?", posts) == "Owl Island Captain Grey Captain Grey of Oslo"
    asked = extract_expansion_names("Where does Captain Grey live?", posts)
    assert "Owl Island" in asked
    assert "Grey" not in asked
    assert extract_expansion_names("Who sails?", []) == ""
    assert "Third" not in extract_expansion_names(
        "Who?", [*posts, passage("The Third Post")]
    )  # of the first two posts alone
