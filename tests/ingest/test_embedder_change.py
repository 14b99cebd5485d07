import asyncio
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import pytest

import ingest.rebuild
from bot.indexing import IndexingWorker
from ingest.indexer import DenseIndexer, LexicalIndexer, prepare_point
from ingest.integrity import compare_indexes, read_current_passages
from ingest.rebuild import EmbedderChange
from rag_core import RagSettings, open_engine
from rag_core.engine import switch_model
from rag_core.models.active_models import find_embedder_progress
from rag_core.models.catalog import find_models, name_vector_space
from rag_core.retrieval.fusion import RetrievalQuery
from rag_core.retrieval.search import search_hybrid
from rag_core.run import Budgets, Run
from rag_core.storage import channels, index_state, posts
from rag_core.storage.backups import make_backup, restore_backup
from rag_core.types import Channel, PostKey, SearchFilter, Visibility

pytestmark = pytest.mark.slow

CHAT, OTHER = -1001000000001, -1001000000002
OLD, NEW = "minilm-navec", "e5-small-centred"
NEW_SPACE = name_vector_space(find_models(NEW)[0])


@pytest.fixture
def models(tmp_path, offline_models, multilingual_model):
    folder = tmp_path / "models"
    folder.mkdir()
    for made in (offline_models, multilingual_model):
        (folder / made.name).symlink_to(made)
    return folder


Open = Callable[..., Any]


@pytest.fixture
def opened(tmp_path, models):
    """Open the engine of the test's folder with an embedder, as a start does, and its indexers."""

    @asynccontextmanager
    async def open_with(embedder="auto", **more):
        chosen = {"dir": models, "embedder": embedder, "reranker": "none"}
        given = {"data": {"dir": tmp_path / "data"}, "models": chosen, **more}
        async with open_engine(RagSettings.model_validate(given), language=False) as rag:
            for chat in (CHAT, OTHER):
                await channels.save_channel(rag.archive, Channel(chat, f"C{chat}", visibility=Visibility.PUBLIC))
            bench = Bench(rag)
            try:
                yield bench
            finally:
                await bench.change.close()

    return open_with


class Bench:
    """Engine with what a bot indexes with."""

    def __init__(self, rag):
        assert rag.dense
        self.rag = rag
        self.dense = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
        self.lexical = LexicalIndexer(rag.archive, rag.lexical)
        self.change = EmbedderChange(rag, self.dense)

    async def keep(self, *kept, embed=True):
        await posts.save_posts(self.rag.archive, kept, source="live")
        await self.lexical.catch_up()
        if embed:
            await self.dense.catch_up()

    async def find(self, text):
        query = RetrievalQuery(text, "hybrid", 20, SearchFilter(frozenset({CHAT, OTHER})), "en")
        found = await search_hybrid(query, self.rag, Run(self.rag.budgets, "test"))
        return [place.key.message_id for place, _ in found.ranked]

    async def check_all_is_of(self, model):
        """Every vector is of this model and of the present text, and both indexes are complete."""
        archive, dense = self.rag.archive, self.rag.dense
        assert (dense.model.name, self.dense.embedder.name) == (model, model)
        assert dense.vectors.about.model == name_vector_space(dense.model)
        await self.lexical.catch_up()
        await self.dense.catch_up()
        keys = {key for chat in (CHAT, OTHER) for key in await list_keys(archive, chat)}
        wanted = {
            (passage.key, passage.part, prepare_point(passage, model)[1].text_hash)
            for passages in (await read_current_passages(archive, sorted(keys))).values()
            for passage in passages
        }
        there = [
            (held.place.key, held.place.part, held.text_hash)
            async for page in dense.vectors.iterate_points()
            for held in page
        ]
        assert sorted(there) == sorted(wanted)
        last = await posts.get_last_seq(archive)
        state = await index_state.load_vector_state(archive)
        assert state == index_state.VectorState(model, dense.vectors.about.identity, last)
        assert self.rag.lexical.watermark == last
        assert await self.dense.waiting() == 0
        assert await index_state.load_next_vectors(archive) is None
        compared = await compare_indexes(self.rag)
        assert (compared["words"], compared["vectors"]) == (0, 0)


async def list_keys(archive, chat):
    return [PostKey(chat, number) for number in await index_state.list_indexable_ids(archive, chat)]


TEXTS = (
    "The ferry to Owl Island leaves at {n}:30 from pier four.",
    "Запись на осенний курс керамики открывается {n} сентября.",
    "Fresh mackerel is sold on the quay, {n} euros a kilo.",
    "Абонемент в мастерскую стоит {n} тысяч рублей в месяц.",
)


QUESTIONS = ("When does the ferry leave?", "Сколько стоит абонемент?")


def make_posts(make_post, count, chat=CHAT):
    return [make_post(n, TEXTS[n % 4].format(n=n), chat=chat, days=n) for n in range(1, count + 1)]


async def test_posts_are_embedded_beside_and_the_swap_mixes_nothing(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 40))
    async with opened() as bench:
        await bench.check_all_is_of(OLD)  # the better one is there, and nobody asked for it
        assert bench.rag.next_embedder is None
        before = [await bench.find(text) for text in QUESTIONS]
        used = await switch_model(bench.rag, NEW)
        assert (used.now, used.beside) == (False, True)
        embed, asked = bench.change._embed_batch, []

        async def embed_and_ask(tell=None):
            """A batch; after it the old answers, and posts that come, change and go."""
            if not asked:
                asked.append([await bench.find(text) for text in QUESTIONS])
            elif len(asked) == 1:
                asked.append([])
                await bench.keep(make_post(41, "A canoe is for hire on the lake.", chat=CHAT))
                await bench.keep(make_post(2, "The kiln is cold.", chat=CHAT, edited=make_post(1, "", days=90).date))
                await posts.mark_posts_deleted(bench.rag.archive, [PostKey(CHAT, 3)], how="test")
                assert bench.rag.dense.model.name == OLD
                assert 41 in await bench.find("Where is a boat for hire?")  # the live vectors have it at once
            return await embed(tell)

        bench.change._embed_batch = embed_and_ask
        told = []
        await bench.change.run(lambda done, total: told.append((done, total)))
        assert asked[0] == before
        assert told[-1] == (40, 40)
        await bench.check_all_is_of(NEW)
        assert 41 in await bench.find("Where is a boat for hire?")
        vectors = bench.rag.settings.data.dir / "vectors"
        assert [folder.name for folder in vectors.iterdir()] == [NEW_SPACE]
        assert (await index_state.load_vector_state(bench.rag.archive)).replaced == ""
    async with opened() as bench:
        await bench.check_all_is_of(NEW)


@pytest.mark.parametrize(
    ("name", "finished"),
    [
        ("embed_posts", False),
        ("save_next_vectors", True),
        ("install_next_vectors", False),
        ("install_next_vectors", True),
        ("forget_replaced_vectors", False),
    ],
)
async def test_a_process_that_ends_at_any_step_is_followed_by_one_that_goes_on(
    opened, make_post, monkeypatch, name, finished
):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 40))
    async with opened() as bench:
        await switch_model(bench.rag, NEW)
        place = ingest.rebuild if name == "embed_posts" else index_state
        work, calls = getattr(place, name), []

        async def end(*given):
            calls.append(name)
            if len(calls) == 1 and name in ("embed_posts", "save_next_vectors"):
                return await work(*given)  # the second time
            if finished:
                await work(*given)
            raise asyncio.CancelledError

        with monkeypatch.context() as patch:
            patch.setattr(place, name, end)
            with pytest.raises(asyncio.CancelledError):
                await bench.change.run()
        swapped = name == "forget_replaced_vectors" or (name == "install_next_vectors" and finished)
    async with opened() as bench:
        assert bench.rag.dense.model.name == (NEW if swapped else OLD)
        await bench.keep(make_post(50, "A canoe is for hire.", chat=CHAT))
        await bench.change.run()
        await bench.check_all_is_of(NEW)
        assert [folder.name for folder in (bench.rag.settings.data.dir / "vectors").iterdir()] == [NEW_SPACE]


def run_and_kill(seconds, *given):
    """Run the child and kill it some seconds after it has opened the engine; its exit code where it was done."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "embedder_change_program", *given], stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        time.sleep(seconds)
        code = child.poll()
        child.kill()
    return code


async def test_a_change_that_is_killed_again_and_again_ends_whole(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 50))
        settings = bench.rag.settings
    named = settings.model_copy(update={"models": settings.models.model_copy(update={"embedder": NEW})})
    for tries in range(20):
        seconds = random.Random(tries).uniform(0.2, 1) * 1.5**tries
        code = await asyncio.to_thread(run_and_kill, seconds, named.model_dump_json())
        if code is not None:
            break
    assert (code, tries > 0) == (0, True)
    async with opened(NEW) as bench:
        await bench.change.run()
        await bench.check_all_is_of(NEW)


async def test_an_admin_who_thinks_better_of_it_loses_nothing(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 40))
    async with opened() as bench:
        await switch_model(bench.rag, NEW)
        await bench.change._open(bench.rag.next_embedder)
        await bench.change._embed_batch()
        used = await switch_model(bench.rag, OLD)
        assert (used.now, used.beside) == (True, False)
        await bench.change.run()
        await bench.check_all_is_of(OLD)
        assert [folder.name for folder in (bench.rag.settings.data.dir / "vectors").iterdir()] == [OLD]


async def test_a_question_that_began_before_the_swap_keeps_to_its_model(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 8))
    async with opened() as bench:
        await switch_model(bench.rag, NEW)
        embed, old = bench.rag.dense.embedder.query, bench.rag.dense

        async def embed_meanwhile(text):
            vector = await embed(text)
            if bench.rag.dense is old:
                await bench.change._open(bench.rag.next_embedder)
                await bench.change._swap()
            return vector

        old.embedder.query = embed_meanwhile
        query = RetrievalQuery("When does the ferry leave?", "hybrid", 9, SearchFilter(frozenset({CHAT})), "en")
        found = await search_hybrid(query, bench.rag, Run(Budgets(search=60), "test"))  # the model is opened in it
        assert bench.rag.dense is not old
        assert found.vectors.embedder is old.embedder
        stored = await found.vectors.read([place for place, _ in found.ranked])
        assert {len(vector) for vector in stored.values()} == {old.embedder.dimension} == {len(found.vector)}


async def test_on_a_server_the_collection_is_replaced(opened, make_post, qdrant):
    served = {"url": qdrant.url, "collection": "mine"}
    async with opened(OLD, qdrant=served) as bench:
        await bench.keep(*make_posts(make_post, 12))
    async with opened(qdrant=served) as bench:
        assert qdrant.collections == ["mine"]
        await switch_model(bench.rag, NEW)
        await bench.change._open(bench.rag.next_embedder)
        assert qdrant.collections == ["mine", f"mine-{NEW_SPACE}"]
    async with opened(qdrant=served) as bench:
        assert bench.rag.dense.model.name == OLD
        await bench.change.run()
        await bench.check_all_is_of(NEW)
        assert qdrant.collections == [f"mine-{NEW_SPACE}"]
    async with opened(qdrant=served) as bench:
        await bench.check_all_is_of(NEW)
        await switch_model(bench.rag, OLD)
        await bench.change.run()
        await bench.check_all_is_of(OLD)
        assert qdrant.collections == ["mine"]


async def test_a_bot_changes_by_itself_and_forgets_no_removed_channel(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 40), *make_posts(make_post, 5, OTHER))
    async with opened() as bench:
        worker = IndexingWorker(bench.rag.archive, bench.lexical, bench.dense, every=0.02, change=bench.change)
        running = asyncio.create_task(worker.run())
        try:
            await switch_model(bench.rag, NEW)
            async with asyncio.timeout(100):
                while not await index_state.load_next_vectors(bench.rag.archive):  # noqa: ASYNC110 - it is a row
                    await asyncio.sleep(0.01)
                await channels.remove_channel(bench.rag.archive, OTHER)
                while bench.dense.embedder.name != NEW or bench.rag.next_embedder:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                while OTHER in await channels.load_channels(bench.rag.archive):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                while (await index_state.load_vector_state(bench.rag.archive)).replaced:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await bench.check_all_is_of(NEW)


# "auto" keeps the embedder of the archive


async def test_a_restored_backup_keeps_its_embedder(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 4))
    async with opened() as bench:
        folder = bench.rag.settings.data.dir
    backup = make_backup(folder, Event())
    await asyncio.to_thread(restore_backup, folder, backup, Event())
    shutil.rmtree(folder / "vectors")  # as on another machine
    async with opened() as bench:
        assert bench.rag.dense.model.name == OLD
        await bench.check_all_is_of(OLD)


async def test_how_far_an_embedder_is_that_was_asked_for_is_told_until_it_answers(opened, make_post):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 4))
    async with opened() as bench:
        assert await find_embedder_progress(bench.rag.settings, bench.rag.archive) is None  # nobody asked for another
        await switch_model(bench.rag, NEW)
        following = await find_embedder_progress(bench.rag.settings, bench.rag.archive)
        assert (following.name, following.live, following.done, following.total) == (NEW, OLD, 0, 4)
        assert str(following).startswith("e5-small-centred: 0 of 4 posts are embedded; until all are, ")
        await bench.change.run()
        assert await find_embedder_progress(bench.rag.settings, bench.rag.archive) is None


async def test_an_embedder_that_is_gone_is_asked_for_and_not_replaced(opened, make_post, models):
    async with opened(OLD) as bench:
        await bench.keep(*make_posts(make_post, 4))
    async with opened() as bench:
        settings = bench.rag.settings
    (models / OLD).unlink()
    async with open_engine(settings, language=False) as rag:
        assert rag.dense is None
        assert f"citegram models pull {OLD}" in rag.without[0].reason
    async with opened(NEW) as bench:  # asked for by name, and with nothing to answer from meanwhile
        await bench.dense.catch_up()
        await bench.change.run()
        await bench.check_all_is_of(NEW)
        assert [folder.name for folder in (settings.data.dir / "vectors").iterdir()] == [NEW_SPACE]


async def test_vectors_of_another_adapter_are_made_anew_and_the_old_folders_go(opened, make_post, tmp_path):
    folder = tmp_path / "data" / "vectors"
    for name in (NEW, f"{NEW}-0123abcd", f"{NEW}-large"):  # the last is another model's
        (folder / name).mkdir(parents=True)
    async with opened(NEW) as bench:
        await bench.keep(*make_posts(make_post, 4))
        await bench.change.run()
        await bench.check_all_is_of(NEW)
    assert {one.name for one in folder.iterdir()} == {NEW_SPACE, f"{NEW}-large"}
