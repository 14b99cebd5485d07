"""Stage feasibility: which stages and recipes a model ends in time on this machine, at its measured rates."""

from __future__ import annotations

from dataclasses import dataclass

from rag_core.llm.protocol import LanguageModel, TokenRates
from rag_core.models.catalog import WRITERS, names_model
from rag_core.settings import Budgets, RagSettings
from rag_core.stages import Stage

# Tokens of a usual prompt and of its reply, counted on the sample channels; a common prefix is read once.
_TOKENS = {
    Stage.JUDGE: (90, 1), Stage.PLAN: (700, 90), Stage.WRITE: (900, 150), Stage.PREDICT: (200, 60),
    Stage.STEP: (250, 70), Stage.PARTS: (600, 100), Stage.REFLECT: (900, 40),
}  # fmt: skip
_SHORT_PLAN_TOKENS, _REDUCE_TOKENS, _STEP_PREFIX = (200, 60), (480, 60), 1000
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
    plan = rates.estimate_seconds(*(_SHORT_PLAN_TOKENS if plans_in_keywords(rates, budgets) else _TOKENS[Stage.PLAN]))
    return (
        StageEstimate("judge", rates.estimate_seconds(*_TOKENS[Stage.JUDGE]), budgets.judge),
        StageEstimate("plan", plan, budgets.plan),
        StageEstimate("write", rates.estimate_seconds(*_TOKENS[Stage.WRITE]), min(budgets.write, _MAX_WRITE_S)),
    )


def plans_in_keywords(rates: TokenRates | None, budgets: Budgets) -> bool:
    """Whether only the short plan can end in time; False for unknown rates."""
    return rates is not None and rates.estimate_seconds(*_TOKENS[Stage.PLAN]) > budgets.plan


def judges_only(name: str) -> bool:
    """Whether a model is known, by its name or that in its file, to be too small to plan and to write."""
    return any(row.judges_only and names_model(name, row.name) for row in WRITERS)


def writes_in_time(model: LanguageModel, budgets: Budgets) -> bool:
    """Whether a model can write, and ends before its reader has left; as of a server where rates are unknown."""
    if judges_only(model.name):
        return False
    return model.rates is None or estimate_stages(model.rates, budgets)[-1].fits


REVIEW = "careful"  # no recipe: the review of the draft of any recipe
_FALLBACK_SECONDS, _FALLBACK_SHARE = 15.0, 1 / 3


def reserve_for_fallback(whole: float) -> float:
    """Seconds of a question that are kept back for `direct`, which answers where another recipe fails."""
    return min(_FALLBACK_SECONDS, _FALLBACK_SHARE * whole)


def _list_stage_tokens(recipe: str, settings: RagSettings) -> list[tuple[Stage, int, int]]:
    """List the model's stages of a recipe besides those of `direct`, with the tokens of prompts and replies."""
    council = settings.council
    judge, first_step = council.top_k * _TOKENS[Stage.JUDGE][0], _STEP_PREFIX + _TOKENS[Stage.STEP][0]
    predictions, parts = [Stage.PREDICT] * (council.predictors or 3), [Stage.PARTS] * council.follow_up
    known, others = {
        "council": ([(Stage.JUDGE, judge, 0)], [*predictions, Stage.WRITE, *parts]),
        "react": (
            [(Stage.STEP, first_step, _TOKENS[Stage.STEP][1])],
            [*[Stage.STEP] * (settings.agent.max_steps - 1), Stage.WRITE],
        ),
        REVIEW: ([], [Stage.WRITE, Stage.REFLECT, Stage.WRITE]),
    }.get(recipe, ([], []))
    return [*known, *((stage, *_TOKENS[stage]) for stage in others)]


def fits_budgets(recipe: str, rates: TokenRates | None, settings: RagSettings) -> bool:
    """Whether each call of a recipe can end in its stage, and all in the question; True where rates are unknown."""
    if rates is None:
        return True
    took = [(stage, rates.estimate_seconds(*tokens)) for stage, *tokens in _list_stage_tokens(recipe, settings)]
    left = settings.question_s - reserve_for_fallback(settings.question_s)
    in_stages = all(seconds <= getattr(settings.budgets, stage.budget) for stage, seconds in took)
    return in_stages and sum(seconds for _, seconds in took) <= left


_MAX_REDUCE_SECONDS = 10.0  # the facts are there already: a reader does not wait longer for them in other words


def has_time_to_reduce(rates: TokenRates | None) -> bool:
    """Whether a model writes an answer from the facts of a few posts soon enough; True for unknown rates."""
    return rates is None or rates.estimate_seconds(*_REDUCE_TOKENS) <= _MAX_REDUCE_SECONDS
