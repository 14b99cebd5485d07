import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.retrieval.fusion import Fusion, select_by_mmr

RANKING = st.lists(st.tuples(st.integers(0, 20), st.floats(-5, 30)), unique_by=lambda pair: pair[0], max_size=12).map(
    lambda pairs: sorted(pairs, key=lambda pair: -pair[1])
)


@given(lexical=RANKING, dense=RANKING, weight=st.floats(0, 1))
@pytest.mark.parametrize("kind", ["sum", "rrf"])
def test_every_item_of_both_legs_comes_out_once_best_first(kind, lexical, dense, weight):
    fused = Fusion(kind, weight)(lexical, dense)
    assert sorted(item for item, _ in fused) == sorted({item for item, _ in [*lexical, *dense]})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)


@given(lexical=RANKING.filter(lambda r: len({score for _, score in r}) == len(r)))
def test_a_dense_leg_without_weight_changes_nothing(lexical):
    dense = [(item, 1.0) for item, _ in reversed(lexical)]
    for kind in ("sum", "rrf"):
        assert [item for item, _ in Fusion(kind, 0.0)(lexical, dense)][: len(lexical)] == [item for item, _ in lexical]


def test_the_sum_weighs_how_much_better_not_only_that_it_is_better():
    lexical = [("clear", 10.0), ("second", 1.0), ("third", 0.0)]
    dense = [("second", 0.9), ("clear", 0.89), ("third", 0.1)]
    assert Fusion("sum", 0.5)(lexical, dense)[0][0] == "clear"


def test_the_last_of_a_few_is_more_than_what_was_not_found():
    """Two posts hold the word: the second is no worse than a post that only looks a little like the question."""
    lexical, dense = [("first", 9.0), ("second", 8.0)], [("near", 0.4), ("nearer", 0.39), ("far", 0.1)]
    assert [item for item, _ in Fusion("sum", 0.3)(lexical, dense, most=50)][:3] == ["first", "second", "near"]
    cut = [item for item, _ in Fusion("sum", 0.3)(lexical, dense, most=2)]
    assert cut.index("second") > cut.index("near")  # there were more: the second is the least of many


def test_ranks_are_those_of_the_paper():
    fused = dict(Fusion("rrf", 0.5)([("a", 3.0), ("b", 2.0)], [("b", 0.9)]))
    assert fused["b"] == pytest.approx(61 * 0.5 * (1 / 62 + 1 / 61))
    assert fused["a"] == pytest.approx(61 * 0.5 / 61)


def test_a_near_copy_is_left_out_before_another_view():
    vectors = {
        "best": np.array([1, 0], np.float32),
        "copy": np.array([1, 0.01], np.float32),
        "other": np.array([0, 1], np.float32),
    }
    kept = select_by_mmr([("best", 1.0), ("copy", 0.95), ("other", 0.7), ("end", 0.0)], vectors, keep=2)
    assert [item for item, _ in kept] == ["best", "other"]


def test_without_vectors_likeness_is_asked_for():
    ranking = [("red cat", 1.0), ("red cats", 0.9), ("blue dog", 0.8), ("x", 0.0)]
    alike = np.array([[float(one[:3] == other[:3]) for other, _ in ranking] for one, _ in ranking])
    kept = select_by_mmr(ranking, {}, keep=2, alike=alike)
    assert [item for item, _ in kept] == ["red cat", "blue dog"]


def test_the_order_of_what_is_kept_is_the_order_it_had():
    rng = np.random.default_rng(3)
    ranking = [(n, 1.0 - n / 60) for n in range(60)]
    vectors = {n: rng.normal(size=8).astype(np.float32) for n in range(60)}
    kept = [item for item, _ in select_by_mmr(ranking, vectors, keep=40)]
    assert len(kept) == 40
    assert kept == sorted(kept)
    assert kept[0] == 0
