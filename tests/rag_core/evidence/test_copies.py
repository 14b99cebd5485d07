from dataclasses import replace

import pytest

from ingest.copies import CopyIndexer
from rag_core.evidence import gather_evidence
from rag_core.storage import posts
from rag_core.types import Hit, Origin, Passage, PostKey, Viewer

BRIDGE = "The drawbridge over the canal closes at midnight and opens again at six."
MORE = f"{BRIDGE} Bring a lamp."


async def keep(library, *kept):
    await library.keep(*kept)
    await CopyIndexer(library.rag.archive).catch_up()


def hit(post, score=1.0):
    return Hit(Passage(post.key, 0, "", post.text, 0, len(post.text), post.date, None, post.origin), score, "lexical")


async def gathered_from(library, *hits, see=None):
    viewer = Viewer(1, frozenset(see or (library.harbour, library.kiln, library.safe)))
    return [source.passage for source in (await gather_evidence(hits, viewer, library.rag)).sources]


async def test_copies_are_told_though_no_leg_brought_them_up_and_the_earliest_is_cited(library, make_post):
    first = make_post(50, f"{BRIDGE}\n\nSubscribe to @harbour_news", chat=library.harbour, days=1)
    second = make_post(51, f"🔥 {BRIDGE}", chat=library.kiln, days=2)
    third = make_post(52, BRIDGE, chat=library.safe, days=3)
    await keep(library, third, second, first)
    (cited,) = await gathered_from(library, hit(third))
    assert (cited.key, cited.text) == (first.key, BRIDGE)
    assert set(cited.copies) == {second.key, third.key}
    assert cited.header.startswith("Harbour News")
    # where the words are not the same to the letter, all of the original's one passage is
    (cited,) = await gathered_from(library, hit(second))
    assert (cited.key, cited.text) == (first.key, first.text)


CLOSED = "The pottery on the hill is closed tomorrow because of the marathon."


@pytest.mark.parametrize(
    ("first", "second", "later", "cited"),
    [
        (BRIDGE, MORE, 1, [(51, (50,))]),  # of nearly the same the one that was found
        (BRIDGE, BRIDGE.replace("six", "seven"), 1, [(51, ()), (50, ())]),  # a corrected fact stands for itself
        (CLOSED, CLOSED, 7, [(51, ()), (50, ())]),  # another week
    ],
)
async def test_near_copies_are_one_source_and_other_facts_or_weeks_are_not(
    library, make_post, first, second, later, cited
):
    kept = make_post(50, first, chat=library.harbour), make_post(51, second, chat=library.kiln, days=later)
    await keep(library, *kept)
    for hits in ((hit(kept[1], 2.0), hit(kept[0])), (hit(kept[1]),)):
        found = await gathered_from(library, *hits)
        told = [(one.key.message_id, tuple(key.message_id for key in one.copies)) for one in found]
        assert told == (cited if len(hits) > 1 else cited[:1])
        assert found[0].text == second


async def test_of_nearly_the_same_the_original_is_cited_where_it_holds_the_words(library, make_post):
    first = make_post(50, MORE, chat=library.harbour, days=0)
    shorter = make_post(51, BRIDGE, chat=library.kiln, days=1)
    later = make_post(52, BRIDGE, chat=library.safe, days=2)
    await keep(library, first, shorter, later)
    (cited,) = await gathered_from(library, hit(shorter))
    assert (cited.key, cited.text) == (first.key, BRIDGE)
    assert first.text[cited.start : cited.end] == cited.text
    assert set(cited.copies) == {shorter.key, later.key}


@pytest.mark.parametrize("days", [-10, 10])
async def test_a_copy_in_a_closed_channel_is_not_shown_not_counted_and_not_the_original(library, make_post, days):
    ours = make_post(51, BRIDGE, chat=library.harbour)
    theirs = make_post(50, f"{BRIDGE}\n\nVault. Subscribe", chat=library.safe, days=days)
    forward = make_post(52, BRIDGE, chat=library.safe, days=days, origin=Origin("Harbour News", library.harbour, 51))
    near = make_post(53, f"Treasurer says: {BRIDGE}", chat=library.safe, days=0)
    await keep(library, ours)
    before = await library.ask("When does the drawbridge over the canal close?")
    await keep(library, theirs, forward, near)
    after = await library.ask("When does the drawbridge over the canal close?")
    assert after.sentences == before.sentences
    assert after.copies == before.copies == {}
    assert str(library.safe) not in repr(after)
    everything = await library.ask(
        "When does the drawbridge over the canal close?", see=(library.harbour, library.safe)
    )
    assert sum(map(len, everything.copies.values())) >= 2


async def test_an_answer_cites_the_original_and_names_its_copies(library, make_post):
    first = make_post(50, BRIDGE, chat=library.kiln, days=1)
    await keep(library, first, make_post(51, f"{BRIDGE} https://t.me/pech_i_glina/50", chat=library.harbour, days=2))
    answer = await library.ask("When does the drawbridge over the canal close?")
    assert answer.posts() == (first.key,)
    assert answer.list_named_posts() == (first.key, PostKey(library.harbour, 51))
    assert first.text[answer.sentences[0].citations[0].start :].startswith(answer.sentences[0].text)


async def test_a_forward_is_the_original_only_where_nobody_knows_its_post(library, make_post):
    source = make_post(50, BRIDGE, chat=library.harbour, days=5)
    early = make_post(51, BRIDGE, chat=library.kiln, days=1, origin=Origin("Harbour News", library.harbour, 50))
    await keep(library, source, early)
    (cited,) = await gathered_from(library, hit(early))
    assert (cited.key, cited.copies) == (source.key, (early.key,))
    stranger = make_post(52, BRIDGE, chat=library.kiln, days=0, origin=Origin("Elsewhere", -1009, 7))
    await keep(library, stranger)
    (cited,) = await gathered_from(library, hit(source))
    assert cited.key == stranger.key


async def test_what_is_new_or_was_edited_just_now_is_judged_by_its_words(library, make_post):
    first, second = make_post(50, BRIDGE, chat=library.harbour), make_post(51, BRIDGE, chat=library.kiln, days=1)
    await keep(library, first, second)
    new = make_post(52, BRIDGE, chat=library.safe, days=2)
    edited = replace(second, text="The drawbridge is open day and night from now on.", edited=new.date)
    await library.keep(new, edited)
    (cited,) = await gathered_from(library, hit(new), hit(first))
    assert (cited.key, cited.copies) == (first.key, (new.key,))
    cited = await gathered_from(library, hit(edited), hit(first))
    assert [(passage.key, passage.copies) for passage in cited] == [(edited.key, ()), (first.key, ())]


async def test_parts_of_a_long_post_stay_apart(library, make_post):
    text = f"{BRIDGE}\n\nTickets for the night boat are sold at the lock house."
    kept = [make_post(50, text, chat=library.harbour), make_post(51, text, chat=library.kiln, days=1)]
    await keep(library, *kept)
    cut = len(BRIDGE)
    pieces = [
        Hit(replace(hit(post).passage, part=part, text=text[a:b], start=a, end=b), 1.0, "lexical")
        for post in reversed(kept)
        for part, (a, b) in enumerate(((0, cut), (cut + 2, len(text))))
    ]
    cited = await gathered_from(library, *pieces)
    assert [(p.key, p.part, p.start, p.text) for p in cited] == [
        (kept[0].key, 0, 0, text[:cut]),
        (kept[0].key, 1, cut + 2, text[cut + 2 :]),
    ]


async def test_a_removed_post_is_no_copy_at_once(library, make_post):
    first, second = make_post(50, BRIDGE, chat=library.harbour), make_post(51, BRIDGE, chat=library.kiln, days=1)
    await keep(library, first, second)
    await posts.mark_posts_deleted(library.rag.archive, [first.key], how="test")
    (cited,) = await gathered_from(library, hit(second))
    assert (cited.key, cited.copies) == (second.key, ())
