from dataclasses import replace
from datetime import UTC, datetime

import pytest

from rag_core.index.bm25_postings import TermStatistics
from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.fusion import RetrievalResult
from rag_core.retrieval.search import MAX_RERANKED, rerank_by_features, rerank_hits, search_passages
from rag_core.run import Run
from rag_core.types import Kind, Passage, PassageRef, Plan, PostKey, Question, Viewer


class Scripted:
    """The wire of a reranker: it prefers texts with a word, and remembers what it was asked."""

    name, languages, pair_s = "scripted", frozenset({"en"}), 0.01

    def __init__(self, word, *, pair_s=0.01):
        self.word, self.pair_s = word, pair_s
        self.seen = []

    async def scores(self, question, texts):
        self.seen.append(texts)
        return [float(self.word in text) for text in texts]


@pytest.fixture
async def found(library, make_post):
    posts = [make_post(100 + n, f"The ferry timetable, page {n}.", chat=library.harbour) for n in range(30)]
    await library.keep(*posts)
    question = library.question("ferry timetable page")
    return await search_passages(plan_by_rules(question), question, library.rag, notebook(library))


def notebook(library):
    return Run(library.rag.budgets, "test")


async def reranked(library, hits, reranker, text="ferry page"):
    rag, run = replace(library.rag, reranker=reranker), notebook(library)
    return await run.require("rerank", rerank_hits(library.question(text), hits, rag, run))


async def test_what_the_model_prefers_comes_first_and_nothing_is_lost(library, found):
    wanted = found[12].passage
    better = await reranked(library, found, Scripted(wanted.text))
    assert better[0].passage == wanted
    assert {hit.passage.key for hit in better} == {hit.passage.key for hit in found}
    assert [hit.passage for hit in better[MAX_RERANKED:]] == [hit.passage for hit in found[MAX_RERANKED:]]
    scores = [hit.score for hit in better]
    assert scores == sorted(scores, reverse=True)


async def test_as_many_as_the_budget_allows_are_looked_at(library, found):
    slow, too_slow = Scripted("page", pair_s=1.0), Scripted("page", pair_s=60.0)
    await reranked(library, found, slow)
    assert [len(texts) for texts in slow.seen] == [4]  # 80 % of 6 s
    assert await reranked(library, found, too_slow) == found
    assert not too_slow.seen


async def test_a_language_it_does_not_know_is_left_alone(library, found):
    reranker = Scripted("page")
    assert await reranked(library, found, reranker, "расписание парома") == found
    assert not reranker.seen


@pytest.mark.parametrize(
    ("leg", "lead", "number", "decisive"),
    [
        ("both", 1.0, 30, True), ("lexical", 1.0, 30, False), ("lexical", 1.0, 20, True), ("lexical", 0.6, 20, False),
    ],
)  # fmt: skip
async def test_a_clear_lead_of_both_legs_or_among_few_hits_is_decisive(library, found, leg, lead, number, decisive):
    first, *rest = found[:number]
    hits = (replace(first, leg=leg, score=lead), *(replace(hit, score=0.5) for hit in rest))
    reranker = Scripted("page")
    assert (await reranked(library, hits, reranker) == hits) is decisive
    assert bool(reranker.seen) is not decisive


CHAT = -1
NOW = datetime(2026, 6, 1, tzinfo=UTC)
TEXTS = {
    1: (datetime(2024, 5, 1, tzinfo=UTC), "A sauna ticket costs 300 ₽."),
    2: (datetime(2026, 5, 1, tzinfo=UTC), "A sauna ticket costs 450 ₽."),
    3: (datetime(2026, 5, 2, tzinfo=UTC), "The sauna has a new bench; keep your ticket."),
}
STATISTICS = TermStatistics(1000, 8.0, lambda term: 3)


@pytest.mark.parametrize(
    ("text", "scores", "near", "order"),
    [
        ("how much is a sauna ticket", {1: 9.0, 2: 8.6}, None, [2, 1]),  # the newest price
        ("how much is a sauna ticket", {3: 8.8, 2: 8.6}, None, [2, 3]),  # a price before a post without one
        ("how much was a sauna ticket in 2024", {1: 9.0, 2: 8.6, 3: 1.0}, None, [1, 2, 3]),  # no bonus for new posts
        ("sauna ticket", {2: 1.0, 3: 0.95}, 3, [3, 2]),  # what the dense search found near too
    ],
)
def test_features_order_the_hits(text, scores, near, order):
    places = {n: PassageRef(PostKey(CHAT, n), 0, 0, len(said)) for n, (_, said) in TEXTS.items()}
    passages = {
        places[n]: Passage(PostKey(CHAT, n), 0, "Steam", said, 0, len(said), date) for n, (date, said) in TEXTS.items()
    }
    question = Question(text, "en", NOW, Viewer(1, frozenset({CHAT})))
    cosines = {places[near]: 0.6} if near else {}
    found = RetrievalResult([(places[n], s) for n, s in scores.items()], {}, None, cosines=cosines)
    ranked = rerank_by_features(found, passages, Plan((text,)), question, STATISTICS)
    assert [place.key.message_id for place, _ in ranked] == order
    assert ranked[0][1] == pytest.approx(1.0)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


async def test_a_question_without_a_topic_is_searched_by_date(library, make_post):
    posts = [make_post(n, f"Bulletin {n}: wind and rain.", chat=library.harbour) for n in range(30, 90)]
    await library.keep(*posts)
    rag = library.rag
    question = Question("what is new", "en", NOW, Viewer(1, frozenset({library.harbour})))
    hits = await search_passages(Plan((question.text,), Kind.POSTED), question, rag, Run(rag.budgets, "search"))
    dates = [hit.passage.date for hit in hits]
    assert len(hits) == rag.keep
    assert dates == sorted(dates, reverse=True)
