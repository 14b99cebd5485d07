"""Fit of the order of hits: weights that put the relevant hits first are found again."""

from __future__ import annotations

import numpy as np

from bot.evaluation.coverage_and_ranking_fit import RankingRow, fit_ranking

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
    assert fit_ranking(rows, others).weights.recency > fit_ranking(rows, others).weights.terms
