"""Plan and trace: what a question is searched by and what it finds, and the stages of a run, as lines for admins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bot.control.schemas import AnswerJson, PlanJson
from bot.views.clean_and_shorten_text import dump_json, join_lines, strip_control_characters
from rag_core.engine import Engine
from rag_core.planning.make_plan import make_plan
from rag_core.planning.rule_planner import format_plan
from rag_core.retrieval.hybrid import search_dense, search_lexical
from rag_core.retrieval.search import search_passages
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.storage import channels
from rag_core.types import PostKey, Question, format_channel_post_link

_SHOWN_RANKS = 10


async def plan_as_json(question: Question, rag: Engine) -> PlanJson:
    """Plan a question, search, and rank; nothing is answered. Raises RagError."""
    run, known = Run(rag.settings.budgets, "plan"), await channels.load_channels(rag.archive)
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
    readable = {chat: channel for chat, channel in known.items() if chat in question.viewer.channels}
    hits = await search_passages(plan, question, rag, run)
    ranks: dict[str, dict[PostKey, int]] = {"lexical": {}, "dense": {}}
    if hits:
        only = await run.require(Stage.FILTER, resolve_filter(plan, question.viewer, rag))
        lexical = search_lexical(plan.queries[0], only, plan.k, rag, plan.aliases)
        found = (
            await run.require(Stage.LEXICAL, lexical),
            (await run.attempt(Stage.DENSE, search_dense(plan.queries[0], only, plan.k, rag.dense), ([], None)))[0],
        )
        for of_leg, ranked in zip(ranks.values(), found, strict=True):
            for n, (place, _) in enumerate(ranked, 1):
                of_leg.setdefault(place.key, n)
    fused = [
        {"link": format_channel_post_link(hit.passage.key, readable.get(hit.passage.key.chat_id)),
         "score": round(hit.score, 3)} | {leg: of_leg.get(hit.passage.key) for leg, of_leg in ranks.items()}
        for hit in hits[:_SHOWN_RANKS]
    ]  # fmt: skip
    return PlanJson(plan=format_plan(plan, readable), legs=plan.legs, reasons=list(plan.reasons), fused=fused)


def format_plan_lines(found: PlanJson) -> list[str]:
    """Format a plan and its ranks, one line each."""
    lines = [f"{name}: {dump_json(value)}" for name, value in found["plan"].items() if value]
    lines += [f"legs: {found['legs']}", *(f"route: {reason}" for reason in found["reasons"])]
    for n, row in enumerate(found["fused"], 1):
        ranks = " ".join(f"{leg}={row[leg] or '-'}" for leg in ("lexical", "dense"))
        lines.append(f"{n:2}. {row['score']:.3f} {ranks}  {row['link']}")
    return [strip_control_characters(line) for line in lines]


def format_answer_trace(found: AnswerJson) -> list[str]:
    """Format the stages of the answer, one line each, and below them what each of them found."""
    lines = format_stages(found["trace"])
    for stage, result in found["results"]:
        lines += [f"--- {stage}", *(f"  {join_lines(line)}" for line in result)]
    return lines


def format_stages(spans: Iterable[Mapping[str, Any]]) -> list[str]:
    """Format the stages of a run, one line each."""
    lines = []
    for span in spans:
        counts = " ".join(f"{name}={value}" for name, value in span["counts"].items())
        error = f"  {span['error']}" if span["error"] else ""
        lines.append(f"{span['stage']:10} {span['took_ms']:8.1f} ms  {counts}{error}")
    return lines
