"""Fits: the weights that put the relevant hits first are found again, and a fusion that loses nothing."""

from __future__ import annotations

import numpy as np

from bot.evaluation.fitting import (
    Ranking,
    RankingRow,
    RetrieverRankings,
    choose_safest_fusions,
    fit_ranking,
)
from rag_core.types import PassageRef, PostKey

CHANNELS, QUESTIONS, HITS = 5, 12, 15


def make_rows() -> list[RankingRow]:
    """Rows in which a new post with the wanted kind is the relevant one, whatever the fusion says."""
    rng, rows = np.random.default_rng(3), []
    for channel in range(CHANNELS):
        for _ in range(QUESTIONS):
            features = rng.random((HITS, 6))
            best = int(np.argmax(features[:, 3] + features[:, 5]))
            ids = tuple(f"msg-{n}" for n in range(HITS))
            rows.append(RankingRow(features, ids, frozenset({ids[best]}), f"set/{channel}"))
    return rows


def test_the_features_that_decide_get_the_weights_and_held_out_channels_gain() -> None:
    fitted = fit_ranking(make_rows())
    deciding = min(fitted.weights.recency, fitted.weights.wanted)
    assert deciding > 3 * max(fitted.weights.terms, fitted.weights.beginning, fitted.weights.likeness)
    assert fitted.held_out[0] > 0.8 > fitted.fused[0]


def test_documents_with_other_needs_weigh_little() -> None:
    rows = make_rows()
    others = [
        RankingRow(row.features[:, [0, 3, 2, 1, 4, 5]], row.ids, row.relevant, "documents", 0.05) for row in rows[:12]
    ]
    weights = fit_ranking(rows, others).weights
    assert weights.recency > weights.terms


# fusions


def place(number: int) -> PassageRef:
    return PassageRef(PostKey(-1, number), 0, 0, 1)


NAMES = {place(n): str(n) for n in range(60)}


def legs(lang: str, right: int, lexical: list[int], dense: list[int]) -> RetrieverRankings:
    def ranked(numbers: list[int]) -> Ranking:
        return [(place(n), 1.0 - i / 50) for i, n in enumerate(numbers)]

    return RetrieverRankings(lang, frozenset({str(right)}), ranked(lexical), ranked(dense), NAMES)


def test_a_dense_leg_that_misleads_gets_no_weight() -> None:
    rows = [legs("ru", n, [n, 50, 51], [52, 53, 54]) for n in range(20)]
    assert choose_safest_fusions(rows)["ru"].dense == 0.0


def test_a_dense_leg_that_knows_better_gets_enough_to_put_it_first() -> None:
    rows = [legs("en", n, [50, n, 51], [n, 51, 52]) for n in range(20)]
    fusion = choose_safest_fusions(rows)["en"]
    order = fusion(rows[0].lexical, rows[0].dense, 50)
    assert order[0][0] == place(0)


def test_languages_are_judged_apart() -> None:
    rows = [legs("en", n, [50, n], [n, 51]) for n in range(10)]
    rows += [legs("ru", n, [n, 50], [51, 52]) for n in range(10)]
    found = choose_safest_fusions(rows)
    assert found["en"].dense > 0
    assert found["ru"].dense == 0
