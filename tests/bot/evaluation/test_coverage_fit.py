"""The fit of the coverage of brief questions: signs hold, and the bars keep their promises on held-out channels."""

from __future__ import annotations

import numpy as np

from bot.evaluation.coverage_and_ranking_fit import CoverageRow, fit_coverage, fit_signed_logistic
from bot.evaluation.scoring import JudgedAnswer
from rag_core.context.coverage import BRIEF_SIGNS
from rag_core.types import Certainty


def answer(right: bool, answerable: bool) -> JudgedAnswer:
    return JudgedAnswer(
        lang="en", group="", answerable=answerable, refused=False, first_right=right, shown_right=right,
        cited_right=(right,), covered_sentences=(True,), length=10, took_ms=1.0, confidence=0.5,
    )  # fmt: skip


def rows(count: int) -> list[CoverageRow]:
    """Questions whose first feature tells whether they are answered rightly, and the others nothing."""
    rng = np.random.default_rng(3)
    found = []
    for n in range(count):
        right = bool(rng.random() < 0.6)
        features = (rng.normal(2.0 * right), *rng.normal(size=len(BRIEF_SIGNS) - 1))
        judged = answer(right, right or n % 3 > 0)
        found.append(CoverageRow(features, f"channel-{n % 7}", judged, judged))
    return found


def test_a_weight_against_its_sign_is_nought() -> None:
    some = rows(200)
    features = -np.array([row.features for row in some])
    yes = np.array([row.as_sure.shown_right for row in some])
    _, weights = fit_signed_logistic(features, yes, np.ones(len(some)))
    assert weights[0] == 0.0
    assert all(weight * sign >= 0 for weight, sign in zip(weights, BRIEF_SIGNS.values(), strict=True))


def test_the_bars_keep_their_promises_on_held_out_channels() -> None:
    fitted = fit_coverage(rows(400))
    assert fitted.auc > 0.85
    assert fitted.weights["strength"] == max(fitted.weights.values())
    assert fitted.refused >= 0.7
    assert fitted.bar < fitted.sure < 1
    assert fitted.shares[Certainty.SURE][1] >= 0.9
