import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from rag_core.index.bm25_postings import IndexSnapshot, PostingsBM25

WORDS = st.sampled_from([f"w{n}" for n in range(12)])
DOCUMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=15)
QUERIES = st.lists(WORDS, min_size=1, max_size=5)


def top(index, query, n=50, snapshot=None):
    ((docs, scores),) = index.best_of_each([query], n, snapshot or index.snapshot())
    return list(zip(docs.tolist(), scores.tolist(), strict=True))


def reference(corpus, query):
    """rank-bm25's own scores, but for its idf: ours is Lucene's."""
    whole = BM25Okapi(corpus)
    count = len(corpus)
    held = {word: sum(word in document for document in corpus) for document in corpus for word in document}
    whole.idf = {word: math.log(1 + (count - df + 0.5) / (df + 0.5)) for word, df in held.items()}
    return whole.get_scores(query)


@given(corpus=DOCUMENTS, query=QUERIES)
def test_scores_are_those_of_rank_bm25_whether_documents_come_at_once_or_one_by_one(corpus, query):
    whole, grown = PostingsBM25(corpus), PostingsBM25()
    for document in corpus:
        grown.replace(np.zeros(0, np.int64), [document])
    expected = reference(corpus, query)
    assert np.abs(whole.get_scores(query) - expected).max() < 1e-9
    assert np.abs(grown.get_scores(query) - expected).max() < 1e-9
    holding = [n for n, words in enumerate(corpus) if set(query) <= set(words)]
    assert list(whole.matching(query)) == list(grown.matching(query)) == holding


@given(corpus=DOCUMENTS, query=QUERIES, data=st.data())
def test_what_was_deleted_is_as_if_never_added_also_before_compacting(corpus, query, data):
    gone = data.draw(st.sets(st.integers(0, len(corpus) - 1), max_size=len(corpus) - 1))
    index = PostingsBM25(corpus)
    index.delete(sorted(gone))
    assert not {doc for doc, _ in top(index, query, len(corpus))} & gone
    rest = [document for n, document in enumerate(corpus) if n not in gone]
    alive = [n for n in range(len(corpus)) if n not in gone]
    assert np.abs(index.get_scores(query)[alive] - reference(rest, query)).max() < 1e-9
    renumbered = index.compact()
    assert list(renumbered[sorted(set(range(len(corpus))) - gone)]) == list(range(len(rest)))
    assert np.abs(index.get_scores(query) - reference(rest, query)).max() < 1e-9


def found(index, query, n, mask):
    ((docs, _),) = index.best_of_each([query], n, index.snapshot(), lambda some: mask[some])
    return docs.tolist()


@given(corpus=DOCUMENTS, query=QUERIES, data=st.data())
def test_a_snapshot_of_some_documents_scores_as_if_there_were_no_others(corpus, query, data):
    seen = data.draw(st.sets(st.integers(0, len(corpus) - 1), min_size=1))
    mask = np.array([n in seen for n in range(len(corpus))])
    index = PostingsBM25(corpus)
    alone = PostingsBM25([document for n, document in enumerate(corpus) if n in seen])
    lengths = [len(corpus[n]) for n in seen]
    snapshot = IndexSnapshot(len(corpus), mask.take, len(seen), sum(lengths) / len(seen))
    inside = sorted(seen)
    assert top(index, query, 50, snapshot) == [(inside[doc], score) for doc, score in top(alone, query, 50)]
    whole = alone.snapshot()
    for word in query:
        assert index.frequency(word, snapshot) == alone.frequency(word, whole)


@given(corpus=DOCUMENTS, query=QUERIES, n=st.integers(1, 8), data=st.data())
def test_top_is_the_best_of_the_allowed_that_hold_a_term(corpus, query, n, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(corpus), max_size=len(corpus))))
    index = PostingsBM25(corpus)
    scores = index.get_scores(query)
    holding = [d for d, words in enumerate(corpus) if mask[d] and set(words) & set(query)]
    expected = sorted(holding, key=lambda d: (-scores[d], d))[:n]
    assert found(index, query, n, mask) == expected


@given(corpus=DOCUMENTS, queries=st.lists(QUERIES, max_size=4), n=st.integers(1, 8), data=st.data())
def test_queries_searched_together_find_what_each_finds_alone(corpus, queries, n, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(corpus), max_size=len(corpus))))
    index = PostingsBM25(corpus)
    snapshot = IndexSnapshot(len(corpus), mask.take, int(mask.sum()), 5.0)
    together = [(docs.tolist(), scores.tolist()) for docs, scores in index.best_of_each(queries, n, snapshot)]
    alone = [index.best_of_each([query], n, snapshot)[0] for query in queries]
    assert together == [(docs.tolist(), scores.tolist()) for docs, scores in alone]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
def test_top_of_long_lists_is_what_looking_at_every_document_finds(share):
    rng = np.random.default_rng(1)
    corpus = [[f"w{w}" for w in rng.zipf(1.3, rng.integers(1, 12)) % 40] for _ in range(9000)]
    index, mask = PostingsBM25(corpus), rng.random(9000) < share
    index.delete(np.flatnonzero(rng.random(9000) < 0.1))
    for query in (["w1", "w2", "w3"], ["w39", "w1"], ["w30"], ["w0", "w1", "w2", "w3", "w4", "w5"]):
        scores = index.get_scores(query)
        holding = [d for d, w in enumerate(corpus) if mask[d] and index.alive[d] and set(w) & set(query)]
        expected = sorted(holding, key=lambda d: (-scores[d], d))[:50]
        assert found(index, query, 50, mask) == expected


def test_a_query_that_fails_leaves_nothing_for_the_next():
    def broken(docs):
        raise RuntimeError

    index = PostingsBM25([["cat", "sat"], ["cat"], ["dog"], ["bird"], ["fish"]])
    expected = top(index, ["cat"])
    with pytest.raises(RuntimeError):
        index.best_of_each([["cat"]], 50, index.snapshot(), broken)
    assert top(index, ["cat"]) == expected


def test_a_term_is_held_where_a_living_document_that_may_be_shown_holds_it():
    index = PostingsBM25([["cat"]] * 3000 + [["dog"]])
    assert index.holds("cat", lambda docs: docs == 2999)
    assert not index.holds("cat", lambda docs: docs == 3000)
    assert not index.holds("bird")
    index.delete([3000])
    assert not index.holds("dog")


def test_an_empty_index_answers_nothing():
    assert top(PostingsBM25(), ["cat"]) == []
    assert list(PostingsBM25().matching(["cat"])) == []
