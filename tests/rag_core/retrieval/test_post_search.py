from dataclasses import replace

from ingest.copies import CopyIndexer
from rag_core.errors import ArchiveUnavailable, IndexUnavailable
from rag_core.retrieval import post_search
from rag_core.retrieval.post_search import list_posts
from rag_core.storage import channels
from rag_core.types import Channel, Media, Origin, Visibility

BRIDGE = "The drawbridge over the canal closes at midnight and opens again at six."


async def listed(library, text, **more):
    return await list_posts(library.question(text, **more), library.rag)


def numbers(found, *, whole=None):
    return [one.post.key.message_id for one in found.found if whole is None or one.whole is whole]


class Broken:
    """A lexical leg that fails where it is asked, but for its watermark."""

    def __init__(self, lexical, *names):
        self._lexical = lexical
        self._names = names

    def __getattr__(self, name):
        if name in self._names:
            raise IndexUnavailable("The index cannot be read.")
        return getattr(self._lexical, name)


async def test_posts_that_hold_all_the_words_come_first_and_are_counted_exactly(library):
    found = await listed(library, "ferry leaves")
    assert (numbers(found, whole=True), found.matching, found.more) == ([1], 1, False)
    assert set(numbers(found, whole=False)) == {5, 6}
    assert numbers(found)[0] == 1


async def test_every_post_with_the_words_is_found_also_beyond_what_a_leg_gives(library, make_post):
    await library.keep(*(make_post(100 + n, f"Tugboat number {n}.", chat=library.harbour, days=n) for n in range(130)))
    found = await listed(library, "tugboat")
    assert (found.matching, found.whole, found.more) == (130, 130, False)


async def test_where_the_list_is_cut_there_are_more(library, make_post, monkeypatch):
    await library.keep(*(make_post(100 + n, f"Tugboat number {n}.", chat=library.harbour, days=n) for n in range(20)))
    monkeypatch.setattr(post_search, "MAX_LISTED_POSTS", 8)
    monkeypatch.setattr(post_search, "_POSTS_PER_READ", 5)
    cut, whole = await listed(library, "tugboat"), await listed(library, "ferry")
    assert (cut.matching, cut.more, whole.matching, whole.more) == (8, True, 3, False)
    monkeypatch.setattr(post_search, "MAX_LISTED_POSTS", 20)
    exactly = await listed(library, "tugboat")
    assert (exactly.matching, exactly.more) == (20, False)


async def test_words_in_different_passages_of_a_long_post_are_in_one_post(library, make_post):
    text = "Anchors away. " + "Nothing to see here, move along please. " * 120 + "Zeppelin."
    await library.keep(make_post(50, text, chat=library.harbour))
    found = await listed(library, "anchors zeppelin")
    assert numbers(found, whole=True) == [50]


async def test_a_word_of_a_channels_title_alone_is_not_in_a_post(library):
    found = await listed(library, "harbour")
    assert (found.matching, numbers(found, whole=True)) == (0, [])
    assert numbers(found, whole=False)


async def test_without_words_all_posts_of_the_time_are_listed_newest_first(library):
    found = await listed(library, "posts between 1 and 3 March 2025")
    assert [one.post.date.day for one in found.found] == [3, 3, 2, 2, 1, 1]
    assert (found.matching, found.whole, found.sought.words) == (6, 6, "")


async def test_a_phrase_has_to_stand_word_for_word(library):
    assert numbers(await listed(library, "«owl island»")) == [1]
    assert numbers(await listed(library, "«island owl»")) == []
    near = await listed(library, "«ferry ticket» lighthouse")
    assert (numbers(near, whole=True), numbers(near, whole=False)) == ([], [5])


async def test_a_file_is_found_by_its_name(library, make_post):
    menu = make_post(50, "", chat=library.harbour, media=Media("document", "tugboat-menu.pdf", "application/pdf"))
    await library.keep(menu)
    (found,) = (await listed(library, "tugboat")).found
    assert (found.post.key, found.text, found.whole) == (menu.key, "tugboat-menu.pdf", True)


async def test_copies_are_one_entry_with_the_original_shown_and_the_others_told(library, make_post):
    first = make_post(50, BRIDGE, chat=library.harbour, days=1)
    second = make_post(51, f"🔥 {BRIDGE}", chat=library.kiln, days=2)
    third = make_post(52, BRIDGE, chat=library.safe, days=3)
    await library.keep(third, second, first)
    for _ in range(2):  # before the copies are looked for, and after
        found = await listed(library, "drawbridge")
        (one,) = found.found
        assert (one.post.key, one.copies, found.matching) == (first.key, (second.key,), 2)
        await CopyIndexer(library.rag.archive).catch_up()


async def test_within_a_filter_the_original_is_what_the_filter_lets_through(library, make_post):
    first = make_post(50, BRIDGE, chat=library.harbour, days=1)
    later = make_post(51, BRIDGE, chat=library.kiln, days=40)
    await library.keep(first, later)
    await CopyIndexer(library.rag.archive).catch_up()
    (one,) = (await listed(library, "drawbridge in April 2025")).found
    assert (one.post.key, one.copies) == (later.key, (first.key,))


async def test_a_closed_channel_is_not_found_not_named_and_not_counted(library, make_post):
    await channels.save_channel(
        library.rag.archive, Channel(library.safe, "Vault", "the_vault", visibility=Visibility.ADMINS)
    )
    await library.keep(
        make_post(50, BRIDGE, chat=library.safe), make_post(51, "A tunnel.", chat=library.safe, origin=Origin("Moles"))
    )
    await CopyIndexer(library.rag.archive).catch_up()
    for text in ("drawbridge", "«drawbridge over the canal»", "@the_vault drawbridge", "forwards from Moles", "tunnel"):
        found = await listed(library, text)
        assert (found.found, found.matching) == ((), 0), text
        assert library.safe not in found.channels
        assert found.sought.plan.channels is None
    everything = await listed(library, "posts in March 2025")
    assert library.safe not in {one.post.key.chat_id for one in everything.found}


async def test_nobody_without_channels_finds_anything(library):
    found = await listed(library, "ferry", see=())
    assert (found.found, found.matching, dict(found.channels)) == ((), 0, {})


async def test_a_deleted_post_is_gone_at_once(library):
    found = await listed(library, "mackerel")
    await library.erase(found.found[0].post.key, index=False)
    again = await listed(library, "mackerel")
    assert (again.found, again.matching) == ((), 0)
    assert [s.stage for s in again.shortfalls] == ["search"]  # the index has yet to hear of it


async def test_where_the_words_cannot_be_counted_that_is_said(library):
    library.rag = replace(library.rag, lexical=Broken(library.rag.lexical, "matching"))
    found = await listed(library, "ferry")
    assert [s.stage for s in found.shortfalls] == ["chronicle"]
    assert set(numbers(found)) == {1, 5, 6}


async def test_copies_that_cannot_be_looked_up_are_a_shortfall(library, monkeypatch):
    async def broken(*_):
        raise ArchiveUnavailable("The archive cannot be read.")

    monkeypatch.setattr(post_search.near_duplicates, "fetch_copies", broken)
    found = await listed(library, "ferry")
    assert (found.whole, [s.stage for s in found.shortfalls]) == (3, ["copies"])


async def test_a_search_leaves_a_trace_without_texts(library):
    await listed(library, "mackerel on the quay")
    (run,) = library.runs
    assert run.recipe == "search"
    assert "mackerel" not in run.line() + str(run.spans)
