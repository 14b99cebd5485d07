"""A bar for claims that keeps a promise: of what is not borne out, at most so much passes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from bot.evaluation.claims import Row
from bot.evaluation.fitting import FOLDS, folds
from rag_core.calibration import ClaimBar
from rag_core.errors import ImportRefused
from rag_core.verify.verdict import Label
from rag_core.verify.weigh import decide

__all__ = ["claim_bar"]

Scored = tuple[str, bool, float]  # language, whether it is borne out, how likely that is by the checks


def claim_bar(rows: Sequence[Row], target: float, data: str) -> ClaimBar:
    """The least bar that at most `target` of what is not borne out reaches, in each language.

    Split conformal prediction (Vovk et al. 2005): the quantile with its finite-sample correction holds for claims
    that are drawn as these are. Raises ImportRefused where too few rows are not borne out.
    """
    scored = [_scored(row) for row in rows]
    bar = _bar(scored, target)
    if bar is None:
        raise ImportRefused(f"{data} holds too few claims that are not borne out for a promise of {target:.0%}.")
    fold = folds([row.group for row in rows])
    passed: list[bool] = []
    kept: list[bool] = []
    for n in range(FOLDS):
        other = _bar([one for one, its in zip(scored, fold, strict=True) if its != n], target)
        for (_, borne_out, likely), its in zip(scored, fold, strict=True):
            if its == n:
                (kept if borne_out else passed).append(other is not None and likely >= other)
    return ClaimBar(bar, target, _share(passed), _share(kept), data, f"{datetime.now(UTC):%Y-%m-%d}")


def _scored(row: Row) -> Scored:
    """Only what counts as supported may pass at all."""
    supports = [decide(row.claim, text, row.lang) for text in row.evidence]
    likely = max((s.likely for s in supports if s.label is Label.SUPPORTED), default=0.0)
    return row.lang, row.gold == "supported", likely


def _bar(scored: Sequence[Scored], target: float) -> float | None:
    """Just above the likelihood that a share of `target` of the claims not borne out reaches."""
    bars = []
    for lang in {lang for lang, _, _ in scored}:
        wrong = sorted(likely for its, borne_out, likely in scored if its == lang and not borne_out)
        place = int(np.ceil((1 - target) * (len(wrong) + 1))) - 1
        if place >= len(wrong):
            return None
        bars.append(wrong[place])
    return round(min(1.0, max(bars) + 0.0001), 4) if bars else None


def _share(flags: Sequence[bool]) -> float:
    return round(float(np.mean(flags)), 4) if flags else 0.0
