"""What is remembered of questions: found again at once, never for somebody else, never when it is old."""

import asyncio
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from faulty_indexes import BrokenLexical, Compass, Meaning, with_meaning

from rag_core.answer import answer_question
from rag_core.engine import Caches, VersionedCache, make_plan_key
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex
from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import find_models
from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.search import search_passages
from rag_core.run import Run
from rag_core.storage import visible_posts
from rag_core.types import Channel, Media, PassageRef, PostKey, Question, Viewer

FERRY = "When does the ferry to Owl Island leave?"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def looks(library):
    """Of the last question: which memory was asked, and whether it knew."""
    return {s.stage: bool(s.counts["cache_hit"]) for s in library.runs[-1].spans if "cache_hit" in s.counts}


def told(answer):
    return replace(answer, trace_id="")


NEW, AGAIN = {"plan": False, "lookup": False}, {"plan": True, "lookup": True}


async def test_a_question_asked_again_is_neither_planned_nor_searched(library):
    first = await library.ask(FERRY)
    assert looks(library) == NEW
    second = await library.ask(FERRY)
    assert looks(library) == AGAIN
    assert told(second) == told(first)
    assert "7:30" in second.sentences[0].text
    stages = {span.stage for span in library.runs[-1].spans}
    assert "fetch" in stages
    assert not stages & {"filter", "lexical", "dense", "queries", "further", "diverse"}
    assert library.rag.caches.counts == (2, 4)


async def test_hits_are_kept_for_five_minutes_and_plans_for_ten(library):
    clock = Clock()
    library.rag.caches = Caches(clock)
    await library.ask(FERRY)
    clock.now += 299
    await library.ask(FERRY)
    assert looks(library) == AGAIN
    clock.now += 2
    await library.ask(FERRY)
    assert looks(library) == {"plan": True, "lookup": False}
    clock.now += 299
    await library.ask(FERRY)
    assert looks(library) == {"plan": False, "lookup": True}


async def test_an_edit_and_a_deletion_show_at_once_though_the_index_does_not_know_yet(library):
    await library.ask(FERRY)
    key = PostKey(library.harbour, 1)
    post = (await visible_posts.fetch_posts(library.rag.archive, [key]))[key]
    later = post.text.replace("7:30", "9:15")
    await library.keep(replace(post, text=later, edited=post.date + timedelta(days=1)), index=False)
    edited = await library.ask(FERRY)
    assert looks(library) == AGAIN
    assert "9:15" in edited.sentences[0].text
    assert "7:30" not in repr(edited)
    await library.erase(key, index=False)
    gone = await library.ask(FERRY)
    assert looks(library) == AGAIN
    assert key not in {*gone.posts(), *(source.passage.key for source in gone.found)}
    assert "9:15" not in repr(gone)


async def test_all_is_forgotten_when_the_index_has_changed(library, make_post):
    async def forgotten():
        await library.ask(FERRY)
        new = looks(library) == NEW
        await library.ask(FERRY)
        return new and looks(library) == AGAIN

    assert await forgotten()
    await library.keep(
        make_post(9, "The ferry to Owl Island leaves at 6:00 from June on.", chat=library.harbour, days=99)
    )
    assert await forgotten()
    assert 9 in {source.passage.key.message_id for source in (await library.ask(FERRY)).found}
    await library.erase(PostKey(library.harbour, 9))
    assert await forgotten()
    await library.indexer.renew([PostKey(library.harbour, 1)])  # no change of the archive: the watermark stays
    assert await forgotten()
    await library.indexer.put_in_place(LexicalIndex())  # the swap at the end of a rebuild
    assert await forgotten()
    assert not await forgotten()


async def test_a_post_that_got_a_photo_is_among_those_with_photos_at_once(library, make_post):
    await library.keep(make_post(20, "The ferry smells of paint.", chat=library.harbour, media=Media("photo")))
    question = "What does the ferry smell of in posts with photos?"
    for _ in range(2):
        assert {s.passage.key.message_id for s in (await library.ask(question)).found} == {20}
    key = PostKey(library.harbour, 6)
    post = (await visible_posts.fetch_posts(library.rag.archive, [key]))[key]
    edited = replace(post, text=f"{post.text} ", media=Media("photo"), edited=post.date + timedelta(days=1))
    await library.keep(edited, make_post(99, "Anything.", chat=library.harbour), index=False)
    assert {s.passage.key.message_id for s in (await library.ask(question)).found} == {6, 20}
    assert looks(library) == {"plan": True, "lookup": False}


async def test_hits_are_forgotten_when_the_vectors_have_changed(library, tmp_path):
    store = await open_vector_store(tmp_path / "vectors", model="tiny", dimension=2)
    dense = DenseIndex(find_models("tiny")[0], Compass(), store)
    library.rag = replace(library.rag, dense=dense)
    place, question = (
        PassageRef(PostKey(library.harbour, 3), 0, 0, 58),
        "What does the museum of the lighthouse show people?",
    )
    written = VectorPoint(place, datetime(2025, 3, 3, tzinfo=UTC), "en", "hash", np.array([1, 0], np.float32))
    try:
        legs = []
        for change in (store.upsert([written]), store.remove([place.key]), None):
            legs.append({source.leg for source in (await library.ask(question)).found})
            assert looks(library) == {"plan": len(legs) > 1, "lookup": False}
            await library.ask(question)
            assert looks(library) == AGAIN
            if change:
                await change
        assert legs == [{"lexical"}, {"both"}, {"lexical"}]
    finally:
        await store.close()


async def test_whoever_asks_in_whatever_order_is_answered_as_if_nobody_had_asked_before(library, make_post):
    await library.keep(
        make_post(1, "The ferry to Owl Island leaves at 5:00 for members.", chat=library.safe, author="Anna"),
        make_post(2, "The lighthouse lamp is sold for 900 euros.", chat=library.safe, media=Media("photo")),
        make_post(30, "The lighthouse lamp is polished on Mondays.", chat=library.harbour, media=Media("photo")),
    )
    sets = [see for n in range(4) for see in itertools.combinations((library.harbour, library.kiln, library.safe), n)]
    texts = [
        FERRY,
        "What about the lamp of the lighthouse in posts with photos?",
        "What do posts by Anna say about the ferry to Owl Island?",
        "What is said about the ferry in the channel @harbour_news?",
        "Сколько стоит абонемент в мастерскую?",
    ]
    asked = [(text, see) for text in texts for see in sets]
    alone = {
        one: told(await answer_question(library.question(one[0], see=one[1]), replace(library.rag))) for one in asked
    }
    asked *= 2
    random.Random(3).shuffle(asked)
    for text, see in asked:
        assert told(await library.ask(text, see=see)) == alone[text, see], (text, see)
        # nor does more come to the stages behind the search, which look once more at who may read what
        one, run = library.question(text, see=see), Run(library.rag.budgets, "test")
        hits = await search_passages(plan_by_rules(one, {}), one, library.rag, run)
        assert {hit.passage.key.chat_id for hit in hits} <= set(see), (text, see)
    hits, looked = library.rag.caches.counts
    assert hits > looked / 3


async def test_who_ask_at_once_are_all_answered_for_themselves(library, make_post):
    await library.keep(make_post(1, "The ferry to Owl Island leaves at 5:00 for members.", chat=library.safe))
    views = [(library.harbour,), (library.safe,), (library.harbour, library.safe)] * 10
    answers = await asyncio.gather(*(library.ask(FERRY, see=see) for see in views))
    for see, given in zip(views, answers, strict=True):
        assert given.sentences and {key.chat_id for key in given.posts()} <= set(see)


async def test_what_was_found_with_something_missing_is_not_remembered(library):
    meaning, question = Meaning(fails="search"), "What does the museum of the lighthouse show people?"
    with_meaning(library, meaning)
    for known in (False, True):
        assert [s.stage for s in (await library.ask(question)).shortfalls] == ["dense"]
        assert looks(library) == {"plan": known, "lookup": False}
    meaning.fails = ""
    for known in (False, True):
        assert (await library.ask(question)).shortfalls == ()
        assert looks(library) == {"plan": True, "lookup": known}


async def test_an_index_that_is_down_is_said_each_time(library):
    await library.ask(FERRY)
    library.rag = replace(library.rag, lexical=BrokenLexical())
    for _ in range(2):
        with pytest.raises(IndexUnavailable):
            await library.ask(FERRY)


def question(text="Что писали вчера?", *, at, see=(-1,), lang="ru"):
    return Question(text, lang, at, Viewer(1, frozenset(see)))


def test_a_plan_is_one_of_a_day_a_zone_and_a_reader_with_channels_of_these_names():
    moscow, noon = timezone(timedelta(hours=3)), datetime(2026, 1, 15, 12, tzinfo=UTC)
    known = {-1: Channel(-1, "Harbour"), -2: Channel(-2, "Vault")}
    one = make_plan_key(question(at=noon), known)
    assert make_plan_key(question(at=noon + timedelta(hours=3)), known) == one
    assert make_plan_key(replace(question(at=noon), viewer=Viewer(2, frozenset({-1}))), known) == one
    others = [
        make_plan_key(question(at=noon + timedelta(hours=12)), known),
        make_plan_key(question(at=noon.astimezone(moscow)), known),
        make_plan_key(question("Что писали сегодня?", at=noon), known),
        make_plan_key(question(at=noon, lang="en"), known),
        make_plan_key(question(at=noon, see=(-1, -2)), known),
        make_plan_key(question(at=noon, see=()), known),
        make_plan_key(question(at=noon), {-1: Channel(-1, "Haven"), -2: Channel(-2, "Vault")}),
        make_plan_key(question(at=noon), {-1: Channel(-1, "Harbour", "harbour_news"), -2: Channel(-2, "Vault")}),
    ]
    assert len({one, *others}) == 9


async def test_yesterday_is_another_day_after_midnight(library):
    asked = library.question("What was posted yesterday?")
    before = replace(asked, asked_at=datetime(2025, 3, 2, 23, 58, tzinfo=UTC))
    after = replace(asked, asked_at=datetime(2025, 3, 3, 0, 1, tzinfo=UTC))
    days = [
        {key.message_id for key in (await answer_question(one, library.rag)).posts()} for one in (before, after, before)
    ]
    assert days == [{1}, {2}, {1}]


def test_a_memory_holds_so_many_and_nothing_that_was_begun_before_a_change():
    memory = VersionedCache(3, 10, Clock())
    for n in range(3):
        memory.get(n, (1,))
        memory.store(n, (1,), n)
    assert memory.get(0, (1,)) == 0  # the least used go first
    memory.store(3, (1,), 3)
    assert [memory.get(n, (1,)) for n in range(4)] == [0, None, 2, 3]
    assert memory.get(4, (2,)) is None  # the index has moved while the next was worked out
    memory.store(0, (1,), 9)
    memory.store(4, (2,), 4)
    assert [memory.get(n, (2,)) for n in (0, 4)] == [None, 4]
    assert memory.get(4, (3,)) is None
    assert len(memory) == 0


def test_many_threads_may_use_a_memory():
    clock, memory = Clock(), VersionedCache[tuple[int, int]](20, 5, Clock())

    def work(seed):
        rng, wrong = random.Random(seed), []
        for _ in range(3000):
            key, version = rng.randrange(40), rng.randrange(2)
            found = memory.get(key, (version,))
            wrong += [found] if found not in (None, (key, version)) else []
            memory.store(key, (version,), (key, version))
            clock.now += 0.01
        return wrong

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [[]] * 4
    assert len(memory) <= 20


async def test_another_engine_has_its_own_caches_and_forgetting_drops_them_all(library):
    await library.ask(FERRY)
    caches = library.rag.caches
    assert replace(library.rag, settings=library.rag.settings).caches.counts == (0, 0)
    assert all((len(caches.plans), len(caches.hits)))
    caches.forget()
    assert (len(caches.plans), len(caches.hits)) == (0, 0)
