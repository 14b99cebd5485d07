import asyncio
from dataclasses import replace

import numpy as np
import pytest

from ingest import integrity
from ingest.indexer import DenseIndexer, build_lexical_entry
from ingest.integrity import read_current_passages
from ingest.outages import IndexesRepaired
from rag_core.errors import ArchiveUnavailable
from rag_core.index.vector_store import VectorPoint
from rag_core.storage import posts
from rag_core.types import PassageRef, PostKey

pytestmark = pytest.mark.slow

HARBOUR, KILN, NOBODYS = -1001000000001, -1001000000002, -1001000000099


class Night:
    """A library at night, and what its admins are told."""

    def __init__(self, library):
        self.books, self.rag = library, library.rag
        self.told = []

    async def tell(self, notice):
        self.told.append(notice)
        return True

    async def check(self, samples=200):
        return await integrity.check_integrity(self.rag, self.books.indexer, self.tell, samples)

    async def finds(self, question):
        given = await self.books.ask(question)
        return {source.passage.key for source in given.found}


@pytest.fixture
async def night(library):
    return Night(library)


class Mute:
    """The real embedder; a text that smiles has no vector."""

    def __init__(self, embedder):
        self._embedder = embedder
        self.name = embedder.name

    async def passages(self, texts):
        rows = await self._embedder.passages(texts)
        return np.where([["🙂" in text] for text in texts], np.float32(0), rows)


@pytest.fixture
async def bright(tmp_path, open_library, offline_models, make_post):
    """A library with vectors of twenty posts, one of them without words that mean anything."""
    async with open_library(tmp_path / "data", models={"dir": offline_models.parent}) as library:
        texts = [f"The ferry leaves pier {n} at noon, and the harbour is quiet." for n in range(19)]
        kept = [make_post(n, text, chat=HARBOUR, days=n) for n, text in enumerate([*texts, "🙂🙂🙂"], 1)]
        await library.keep(*kept)
        mute = Mute(library.rag.dense.embedder)
        library.rag = replace(library.rag, dense=replace(library.rag.dense, embedder=mute))
        library.dense = DenseIndexer(library.rag.archive, library.rag.dense.vectors, mute)
        await library.dense.catch_up()
        yield Night(library)


async def test_an_archive_and_indexes_in_order_are_all_right(night, make_post):
    album = [make_post(n, "A caption" if n == 31 else "", chat=KILN, album="a") for n in (30, 31, 32)]
    silent = [make_post(40, "", chat=KILN), make_post(41, " \n\u00a0 ", chat=KILN), make_post(42, "gone", chat=KILN)]
    guarded = make_post(43, "for members", chat=KILN, guarded="protected")
    reply = make_post(44, "Yes, at noon.", chat=KILN, reply_to=1)
    long = make_post(45, "слово за словом. " * 400, chat=KILN)
    await night.books.keep(*album, *silent, guarded, reply, long)
    await night.books.erase(PostKey(KILN, 42))
    found = await night.check()
    assert (found.words_wrong, found.vectors) == ([], None)
    assert str(found) == f"14 posts, {len(night.rag.lexical)} passages: all right"
    assert night.told == []


async def test_a_post_missing_from_the_words_is_found_again(night):
    lost = [PostKey(HARBOUR, 1), PostKey(KILN, 2)]
    night.rag.lexical.replace(lost, ())
    assert PostKey(HARBOUR, 1) not in await night.finds("When does the ferry to Owl Island leave?")
    found = await night.check(samples=0)
    assert sorted(found.words_wrong) == sorted(lost)
    assert night.told == [IndexesRepaired(again=2, out=0)]
    assert PostKey(HARBOUR, 1) in await night.finds("When does the ferry to Owl Island leave?")
    assert str(await night.check()).endswith("all right")


async def test_a_post_with_the_words_of_another_version_is_noticed_among_the_samples(night):
    key = PostKey(HARBOUR, 2)
    (passage,) = (await read_current_passages(night.rag.archive, [key]))[key]
    night.rag.lexical.replace(
        [key], [build_lexical_entry(replace(passage, text="Fresh herring is sold on the quay on Mondays."))]
    )
    assert (await night.check(samples=0)).words_wrong == []  # by its number it is in order
    found = await night.check(samples=2000)
    assert found.words_wrong == [key]
    assert key in await night.finds("When is fresh mackerel sold?")


async def test_a_part_that_a_shorter_version_left_is_taken_out(night):
    key = PostKey(HARBOUR, 2)
    (passage,) = (await read_current_passages(night.rag.archive, [key]))[key]
    night.rag.lexical.replace((), [build_lexical_entry(replace(passage, part=1))])
    found = await night.check(samples=2000)
    assert found.words_wrong == [key]
    assert list(night.rag.lexical.parts_of(HARBOUR)[0]).count(2) == 1


async def test_posts_that_come_and_change_meanwhile_are_not_wrong(night, make_post):
    async def busy():
        for number in range(200):
            await night.books.keep(make_post(100 + number % 50, f"ferry {number}", chat=HARBOUR, days=number),
                                     index=False)  # fmt: skip

    working = asyncio.create_task(busy())
    while not working.done():
        assert (await night.check()).words_wrong == []
    await working


async def test_a_damaged_file_is_said_and_nothing_is_compared(night):
    await night.rag.archive.check_pages()
    file = night.rag.archive.folder / "citegram.db"
    async with night.rag.archive._turn:
        await night.rag.archive._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = bytearray(file.read_bytes())
    pages[8 * 4096 : 12 * 4096] = b"\x5a" * (4 * 4096)
    file.write_bytes(pages)
    with pytest.raises(ArchiveUnavailable, match="is damaged"):
        await night.check()


async def test_rows_that_belong_to_nothing_are_said(night):
    archive = night.rag.archive
    async with archive._turn:
        await archive._writer.execute("PRAGMA foreign_keys = OFF")
        await archive._writer.execute("INSERT INTO bindings (group_id, chat_id) VALUES (1, 2)")
    with pytest.raises(ArchiveUnavailable, match="1 rows belong to nothing"):
        await night.check()


async def test_vectors_in_order_are_all_right_also_where_a_text_has_none(bright, make_post):
    found = await bright.check()
    assert (found.vectors, list(found.vectors_wrong)) == (19, [])
    await bright.books.keep(make_post(50, "A new pier opens.", chat=HARBOUR))
    await posts.mark_posts_deleted(bright.rag.archive, [PostKey(HARBOUR, 4)], how="admin")
    assert list((await bright.check()).vectors_wrong) == []
    assert bright.told == []


async def test_missing_and_stray_vectors_are_put_right(bright):
    vectors, gone = bright.rag.dense.vectors, PostKey(HARBOUR, 900)
    await vectors.remove([PostKey(HARBOUR, 3), PostKey(HARBOUR, 7)])
    date = bright.books.now
    for key in (gone, PostKey(NOBODYS, 5)):
        vector = np.ones(vectors.about.dimension, np.float32)
        await vectors.upsert([VectorPoint(PassageRef(key, 0, 0, 5), date, "en", "0" * 32, vector)])
    found = await bright.check(samples=0)
    assert sorted(found.vectors_wrong) == sorted([PostKey(HARBOUR, 3), PostKey(HARBOUR, 7), gone, PostKey(NOBODYS, 5)])
    assert bright.told == [IndexesRepaired(again=2, out=2)]
    assert await bright.books.dense.waiting() == 4
    assert list((await bright.check()).vectors_wrong) == []  # what waits in the queue is on its way
    await bright.books.dense.catch_up()
    assert await vectors.count() == 19
    assert list((await bright.check()).vectors_wrong) == []


async def test_vectors_of_other_texts_and_parts_too_many_are_noticed_among_the_samples(bright):
    vectors, key, longer = bright.rag.dense.vectors, PostKey(HARBOUR, 3), PostKey(HARBOUR, 8)
    (held,) = [held async for page in vectors.iterate_points() for held in page if held.place.key == key]
    (other,) = await bright.rag.dense.embedder.passages(["The oven is cold on Mondays."])
    for place in (held.place, PassageRef(longer, 1, 0, 5)):
        await vectors.upsert([VectorPoint(place, bright.books.now, "en", "f" * 32, other)])
    assert list((await bright.check(samples=0)).vectors_wrong) == []
    assert sorted((await bright.check(samples=2000)).vectors_wrong) == [key, longer]
    await bright.books.dense.catch_up()
    assert list((await bright.check(samples=2000)).vectors_wrong) == []
    assert await vectors.count() == 19
