"""Search plan evaluation: how many plans of a model are valid, how fast they come, how much prompt is cached."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bot.evaluation.answer_metrics import Metrics, compute_mean, compute_percentile
from bot.evaluation.datasets import parse_time
from bot.evaluation.recorded_replies import RecordingModel
from rag_core.errors import ImportRefused, translate_errors
from rag_core.llm.protocol import FinishReason, Generation
from rag_core.planning.llm_planner import (
    KnownEntities,
    SearchPlan,
    ShortPlan,
    parse_proposal,
    parse_short_plan,
    parse_strictly,
    plan_by_model,
)
from rag_core.planning.plan import plan_by_rules
from rag_core.planning.queries import MIN_QUERIES
from rag_core.settings import Budgets
from rag_core.stage_runner import Run
from rag_core.text.language_detection import detect_language
from rag_core.types import Question, Viewer

PLAN_FORMS = ("gbnf", "schema", "none")


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One question and the plan made for it. `reply` is None if the model did not answer in time."""

    lang: str
    reply: Generation | None
    calls: int
    queries: int
    shortfalls: int
    took_ms: float
    short: bool

    @property
    def ended(self) -> bool:
        """Whether the reply ended by itself, within its max_tokens."""
        return self.reply is not None and self.reply.finish is FinishReason.STOP

    @property
    def valid(self) -> bool:
        """Whether the reply is complete, strict JSON, a plan, and keeps enough queries after the rules."""
        form = ShortPlan if self.short else SearchPlan
        return self.ended and parse_strictly(form, self.reply.text) is not None and self.queries >= MIN_QUERIES  # type: ignore[union-attr]

    @property
    def usable(self) -> bool:
        """Whether at least one query of the model is complete."""
        parse = parse_short_plan if self.short else parse_proposal
        return self.reply is not None and bool(parse(self.reply.text).queries)


def read_questions(file: Path, now: datetime | None = None) -> list[Question]:
    """Read the questions of a queries.jsonl, or one for each line, asked `now`. Raises ImportRefused."""
    refusal = f"{file} cannot be read ({{}}): give queries.jsonl, or a text file with one question on each line."
    with translate_errors(
        ImportRefused, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, say=refusal
    ):
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        questions = [_parse_question(line, now or datetime.now(UTC)) for line in lines]
    if not questions:
        raise ImportRefused(f"{file} holds no question: give queries.jsonl, or one question on each line.")
    return questions


def _parse_question(line: str, now: datetime) -> Question:
    row = json.loads(line) if line.startswith("{") else {"text": line}
    text, asked_at = row["text"], parse_time(row["asked_at"]) if row.get("asked_at") else now
    return Question(text, row.get("lang") or detect_language(text), asked_at, Viewer(0, frozenset()))


async def measure_plan(
    question: Question, around: KnownEntities, model: RecordingModel, budgets: Budgets, *, short: bool
) -> PlanRow | None:
    """Plan one question by rules and model; None if there is nothing to plan. `short`: as `mapreduce` does."""
    by_rules = plan_by_rules(question)
    if not by_rules.queries:
        return None
    run, before = Run(budgets, "plans"), len(model.replies)
    started = time.perf_counter()
    plan = await plan_by_model(question, by_rules, around, model, run, short=short)
    took = (time.perf_counter() - started) * 1000
    replies = model.replies[before:]
    return PlanRow(
        lang=question.lang,
        reply=replies[0] if replies else None,
        calls=len(replies),
        queries=len(plan.queries),
        shortfalls=len(run.shortfalls),
        took_ms=sum(reply.figures.took_ms for reply in replies) or took,
        short=short,
    )


def compute_plan_metrics(rows: Sequence[PlanRow]) -> Metrics:
    """Compute the metrics of plans; those of the model's work cover the replies that it finished."""
    replies = [row.reply.figures for row in rows if row.reply]
    prompt_tokens = sum(figures.prompt_tokens for figures in replies)
    seconds = sum(figures.took_ms - figures.first_ms for figures in replies) / 1000
    firsts, took = [figures.first_ms for figures in replies], [row.took_ms for row in rows]
    return {
        "valid": compute_mean([row.valid for row in rows]),
        "ended": compute_mean([row.ended for row in rows]),
        "usable": compute_mean([row.usable for row in rows]),
        "mean_queries": compute_mean([row.queries for row in rows], 3),
        "rewritten": compute_mean([row.calls > 1 for row in rows]),
        "shortfalls": compute_mean([row.shortfalls > 0 for row in rows]),
        "calls": compute_mean([row.calls for row in rows], 3),
        "seconds": compute_mean([row.took_ms / 1000 for row in rows], 3),
        "tokens": compute_mean([figures.tokens for figures in replies], 1),
        "tokens_per_s": round(sum(figures.tokens for figures in replies) / seconds, 1) if seconds > 0 else None,
        "prefix_cache": round(1 - sum(f.evaluated for f in replies) / prompt_tokens, 4) if prompt_tokens else None,
        "first_ms_p50": compute_percentile(firsts, 50, 1),
        "first_ms_p95": compute_percentile(firsts, 95, 1),
        "latency_ms_p50": compute_percentile(took, 50, 1),
        "latency_ms_p95": compute_percentile(took, 95, 1),
    }
