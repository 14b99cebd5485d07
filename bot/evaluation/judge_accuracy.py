"""Judge accuracy: how well a language model tells the sentences that answer from those that do not, and how fast.

Of each question the first sentence of the rules is judged, whether or not it would be shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bot.evaluation.answer_metrics import Metrics, compute_mean, holds_answer
from bot.evaluation.ask_and_judge import build_question
from bot.evaluation.datasets import EvaluationQuery
from bot.evaluation.indexed_dataset import IndexedDataset
from rag_core.calibration import Calibration
from rag_core.llm.protocol import LanguageModel
from rag_core.planning.plan import make_plan
from rag_core.recipe_steps import search_and_extract
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.verification.answer_judge import ask_yes_no_odds, build_judge_prompt


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """First sentence of a question's extract: whether it answers, the extract's confidence and the model's log odds."""

    lang: str
    right: bool
    confidence: float
    odds: float
    seconds: float


async def judge_first_sentence(
    query: EvaluationQuery, data: IndexedDataset, model: LanguageModel
) -> JudgedSentence | None:
    """Judge the first sentence found for a question; None where nothing is found. Raises GenerationFailed."""
    question = build_question(query, data)
    rag = replace(data.rag, writer=model, planner=None, calibration=Calibration().without_bars())
    run = Run(rag.settings.budgets, "judge")
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run, by_model=False))
    draft, _ = await search_and_extract(question, plan, rag, run)
    if not draft.candidates:
        return None
    quote = draft.candidates[0].citations[0]
    async with model.turn(question.viewer.user_id) as session:
        started = time.perf_counter()
        odds = await ask_yes_no_odds(build_judge_prompt(question.text, quote.quote, quote.date), session)
    right = query.answerable and holds_answer(quote.quote, query.answers)
    return JudgedSentence(query.lang, right, draft.covered, odds, time.perf_counter() - started)


def compute_judge_metrics(rows: Sequence[JudgedSentence]) -> Metrics:
    """AUC, right against the others, of the model's log odds and of the confidence; seconds of a judgement."""
    right = np.array([row.right for row in rows], bool)
    return {
        "auc": compute_auc([row.odds for row in rows], right),
        "confidence_auc": compute_auc([row.confidence for row in rows], right),
        "seconds": compute_mean([row.seconds for row in rows], 3),
        "right": compute_mean([row.right for row in rows]),
    }


def compute_auc(scores: Sequence[float], right: Sequence[bool] | np.ndarray) -> float | None:
    """Share of pairs of a right and another row in which the right one scores higher; None without such pairs."""
    values, marks = np.array(scores), np.array(right, bool)
    if marks.all() or not marks.any():
        return None
    better = values[marks][:, None] - values[~marks][None]
    return round(float(((better > 0) + 0.5 * (better == 0)).mean()), 4)
