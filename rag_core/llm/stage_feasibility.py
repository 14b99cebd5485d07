"""Stage feasibility: which stages a model ends in time on this machine, at its measured rates."""

from __future__ import annotations

from dataclasses import dataclass

from rag_core.llm.protocol import LanguageModel, TokenRates
from rag_core.models.catalog import WRITERS, names_model
from rag_core.settings import Budgets

# Tokens of a usual prompt and of its reply.
_JUDGE_TOKENS, _WRITE_TOKENS = (90, 1), (900, 150)
_PLAN_TOKENS, _SHORT_PLAN_TOKENS = (700, 90), (200, 60)
_MAX_WRITE_S = 20.0  # the posts' own words are shown at once: whoever reads them waits no longer for a written answer


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """Seconds that a usual prompt of a stage takes, and the seconds that the stage has."""

    stage: str
    seconds: float
    limit: float

    @property
    def fits(self) -> bool:
        """Whether the stage ends in time."""
        return self.seconds <= self.limit


def estimate_stages(rates: TokenRates, budgets: Budgets) -> tuple[StageEstimate, ...]:
    """Estimate judging, planning and writing, in this order; a plan is the short one where only that ends in time."""
    plan = rates.estimate_seconds(*(_SHORT_PLAN_TOKENS if plans_in_keywords(rates, budgets) else _PLAN_TOKENS))
    return (
        StageEstimate("judge", rates.estimate_seconds(*_JUDGE_TOKENS), budgets.judge),
        StageEstimate("plan", plan, budgets.plan),
        StageEstimate("write", rates.estimate_seconds(*_WRITE_TOKENS), min(budgets.write, _MAX_WRITE_S)),
    )


def plans_in_keywords(rates: TokenRates | None, budgets: Budgets) -> bool:
    """Whether only the short plan can end in time; False for unknown rates."""
    return rates is not None and rates.estimate_seconds(*_PLAN_TOKENS) > budgets.plan


def judges_only(name: str) -> bool:
    """Whether a model is known, by its name or that in its file, to be too small to plan and to write."""
    return any(row.judges_only and names_model(name, row.name) for row in WRITERS)


def writes_in_time(model: LanguageModel, budgets: Budgets) -> bool:
    """Whether a model can write, and ends before its reader has left; as of a server where rates are unknown."""
    if judges_only(model.name):
        return False
    return model.rates is None or estimate_stages(model.rates, budgets)[-1].fits
