import asyncio
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ingest.indexer
from ingest.indexer import LexicalIndexer
from rag_core.engine import load_or_make_lexical_index
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex, get_lexical_folder
from rag_core.storage import posts, visible_posts
from rag_core.text.tokens import tokenize
from rag_core.types import PostKey, SearchFilter


def found(library, words, *chats):
    only = SearchFilter(frozenset(chats or (library.harbour, library.kiln)))
    return sorted(place.key.message_id for place, _ in library.rag.lexical.search(tokenize(words), only, 10_000))


async def stored(library, number):
    key = PostKey(library.harbour, number)
    return (await visible_posts.fetch_posts(library.rag.archive, [key]))[key]


async def edit(library, number, text):
    post = await stored(library, number)
    await library.keep(replace(post, text=text, edited=post.stamp.replace(year=post.stamp.year + 1)), index=False)


async def test_a_crash_while_adding_loses_nothing_and_doubles_nothing(library, make_post):
    class Dying(LexicalIndex):
        dead = True

        def replace(self, keys, entries):
            gone = super().replace(keys, entries[: len(entries) // 2] if self.dead else entries)
            if self.dead:
                raise MemoryError
            return gone

    dying = Dying()
    indexer = LexicalIndexer(library.rag.archive, dying)
    with pytest.raises(MemoryError):
        await indexer.catch_up()
    assert (len(dying), dying.watermark) == (5, 0)
    dying.dead = False
    assert await indexer.catch_up() == 10
    assert (len(dying), dying.watermark) == (10, 10)


async def test_being_stopped_in_the_middle_saves_no_mark_without_its_posts(library):
    """A thread goes on when its task is cancelled: what is saved then must not be half of what it does."""
    begun = threading.Event()

    class Long(LexicalIndex):
        def replace(self, keys, entries):
            begun.set()
            time.sleep(0.2)
            return super().replace(keys, entries)

    lexical = Long()
    indexer = LexicalIndexer(library.rag.archive, lexical)
    task = asyncio.create_task(indexer.catch_up())
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lexical.watermark == 10  # the thread has come to its end
    await indexer.save()
    loaded = await load_or_make_lexical_index(library.rag.archive)
    assert len(loaded) == loaded.watermark == 10


async def test_a_post_that_comes_while_others_are_taken_in_is_not_passed_over(library, make_post):
    async def post():
        for n in range(200, 260):
            await library.keep(make_post(n, f"Buoy {n}.", chat=library.harbour), index=False)

    async def index():
        for _ in range(30):
            await library.indexer.catch_up()
            await asyncio.sleep(0)

    await asyncio.gather(post(), index())
    await library.indexer.catch_up()
    assert found(library, "buoy") == list(range(200, 260))


async def test_a_loaded_index_goes_on_where_it_was_saved(library, make_post):
    await library.indexer.save()
    await library.keep(make_post(31, "A new zeppelin.", chat=library.harbour), index=False)
    await edit(library, 1, "The zeppelin leaves.")
    loaded = await load_or_make_lexical_index(library.rag.archive)
    assert await LexicalIndexer(library.rag.archive, loaded).catch_up() == 2
    library.rag = replace(library.rag, lexical=loaded)
    assert found(library, "zeppelin") == [1, 31]
    assert found(library, "ferry") == [5, 6]


async def test_without_leave_to_save_nothing_is_written(library, make_post, monkeypatch):
    monkeypatch.setattr(ingest.indexer, "_SAVE_AFTER_CHANGES", 1)
    await library.keep(make_post(40, "A buoy.", chat=library.harbour), index=False)
    await library.indexer.catch_up(save=False)
    assert not get_lexical_folder(library.rag.archive.folder).exists()
    await library.keep(make_post(41, "A buoy.", chat=library.harbour), index=False)
    await library.indexer.catch_up()
    assert get_lexical_folder(library.rag.archive.folder).exists()


async def test_an_index_that_cannot_be_written_says_so_and_is_tried_again(library):
    folder = get_lexical_folder(library.rag.archive.folder)
    folder.write_text("in the way")
    with pytest.raises(IndexUnavailable, match="cannot be written"):
        await library.indexer.save()
    folder.unlink()
    await library.indexer.save()
    assert len(await load_or_make_lexical_index(library.rag.archive)) == 10


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "edit", "erase", "index", "save", "crash"]), st.integers(1, 6), st.text(max_size=80)
    ),
    max_size=25,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPERATIONS)
def test_whatever_happens_the_index_holds_each_living_post_once(open_library, make_post, tmp_path_factory, operations):
    async def check(folder):
        async with open_library(folder) as library:
            for turn, (operation, number, text) in enumerate(operations):
                post = make_post(number, f"post{number} {text}", chat=library.harbour, days=turn)
                await act(library, operation, post)
            await library.indexer.catch_up()
            living = await posts.list_message_ids(library.rag.archive, library.harbour)
            for number in range(1, 7):
                assert found(library, f"post{number}") == ([number] if number in living else [])
            assert len(library.rag.lexical) == len(living)

    asyncio.run(check(tmp_path_factory.mktemp("operations")))


async def act(library, operation, post):
    if operation == "write":
        await library.keep(post, index=False)
    elif operation == "edit":
        await library.keep(replace(post, edited=post.date.replace(year=2026)), index=False)
    elif operation == "erase":
        await library.erase(post.key, index=False)
    elif operation == "index":
        await library.indexer.catch_up()
    elif operation == "save":
        await library.indexer.save()
    else:  # the process is gone, and what was not saved with it
        library.rag = replace(library.rag, lexical=await load_or_make_lexical_index(library.rag.archive))
        library.indexer = LexicalIndexer(library.rag.archive, library.rag.lexical)
