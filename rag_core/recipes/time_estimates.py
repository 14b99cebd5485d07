"""Time estimates of recipes: whether the calls of one can end in their budgets at the measured rates of a model."""

from __future__ import annotations

from rag_core.llm.protocol import TokenRates
from rag_core.settings import RagSettings
from rag_core.stages import Stage

REVIEW = "careful"  # no recipe: the review of the draft of any recipe
_FALLBACK_SECONDS, _FALLBACK_SHARE = 15.0, 1 / 3
# Tokens that a model of 1.5 B reads and writes in a call, counted on the sample channels; a common prefix is read once.
_JUDGED_POST = 130
_WRITE_PROMPT, _WRITE_REPLY = 330, 60  # without the posts
_PREDICTED_POST = 200
_STEP_PREFIX, _STEP_PROMPT, _STEP_REPLY = 1000, 250, 70
_PARTS_PROMPT, _PARTS_REPLY = 600, 100
_REVIEW_PROMPT, _REVIEW_REPLY = 330, 40


def reserve_for_fallback(whole: float) -> float:
    """Seconds of a question that are kept back for `direct`, which answers where another recipe fails."""
    return min(_FALLBACK_SECONDS, _FALLBACK_SHARE * whole)


def list_model_calls(recipe: str, settings: RagSettings) -> list[tuple[Stage, int, int]]:
    """List the calls of a recipe besides those of `direct`, as stages with the tokens of their prompts and replies."""
    evidence = settings.llm.evidence_tokens
    write = (Stage.WRITE, _WRITE_PROMPT + evidence, _WRITE_REPLY)
    match recipe:
        case "council":
            predictors = settings.council.predictors or 3
            judge = (Stage.JUDGE, settings.council.top_k * _JUDGED_POST, 0)
            parts = [(Stage.PARTS, _PARTS_PROMPT, _PARTS_REPLY)] if settings.council.follow_up else []
            predict = (Stage.PREDICT, _PREDICTED_POST, _WRITE_REPLY)
            return [judge, *[predict] * predictors, write, *parts]
        case "react":
            first = (Stage.STEP, _STEP_PREFIX + _STEP_PROMPT, _STEP_REPLY)
            more = [(Stage.STEP, _STEP_PROMPT, _STEP_REPLY)] * (settings.agent.max_steps - 1)
            return [first, *more, write]
        case "careful":
            return [write, (Stage.REFLECT, _REVIEW_PROMPT + evidence, _REVIEW_REPLY), write]
    return []


def fits_budgets(recipe: str, rates: TokenRates | None, settings: RagSettings) -> bool:
    """Whether each call of a recipe can end in its stage, and all in the question; True where rates are unknown."""
    if rates is None:
        return True
    calls = list_model_calls(recipe, settings)
    seconds = [rates.estimate_seconds(prompt, reply) for _, prompt, reply in calls]
    whole = settings.question_s
    left = whole - reserve_for_fallback(whole)
    budgets: list[float] = [getattr(settings.budgets, stage.budget) for stage, *_ in calls]
    return sum(seconds) <= left and all(took <= most for took, most in zip(seconds, budgets, strict=True))


_MAX_REDUCE_SECONDS = 10.0  # the facts are there already: a reader does not wait longer for them in other words
_FACTS = 150


def has_time_to_reduce(rates: TokenRates | None) -> bool:
    """Whether a model writes an answer from the facts of a few posts soon enough; True for unknown rates."""
    return rates is None or rates.estimate_seconds(_WRITE_PROMPT + _FACTS, _WRITE_REPLY) <= _MAX_REDUCE_SECONDS
