"""Query planning: the plan of a question, by rules and by a model as well where that is idle; cached by question."""

from __future__ import annotations

from collections.abc import Mapping

from rag_core.caches import make_plan_key
from rag_core.engine import Engine
from rag_core.llm.stage_feasibility import plans_in_keywords
from rag_core.planning.known_entities import KnownEntities
from rag_core.planning.rule_planner import format_plan
from rag_core.planning.spelling_and_aliases import plan_with_spelling_and_aliases
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.storage import channels
from rag_core.storage.post_lookup import PostFacet, detect_channel_languages, list_facet_values
from rag_core.types import Channel, Plan, Question


async def make_plan(question: Question, rag: Engine, run: Run, *, by_model: bool = True) -> Plan:
    """Make the plan of a question, or take it from the cache. Call it in a stage. Raises ArchiveUnavailable.

    `by_model` False: the plan of the rules, which a model does not extend. The time of the model is not part of the
    stage's budget. A plan that the model should have extended but did not is not cached.
    """
    known = await channels.load_channels(rag.archive)
    key, version, before = (by_model, make_plan_key(question, known)), rag.version, len(run.shortfalls)
    plan = rag.caches.plans.get(key, version)
    run.note(cache_hit=float(plan is not None))
    if plan is None:
        plan = await plan_with_spelling_and_aliases(question, known, rag)
        # the recipe for small models makes 2 + N calls at most, and one that understood a follow-up was its first
        small = run.recipe == "mapreduce"
        spent = small and any(span.stage == Stage.FOLLOWUP and "calls" in span.counts for span in run.spans)
        planner = rag.planner if by_model and not spent else None
        if planner:
            from rag_core.planning.llm_planner import is_worth_planning, plan_by_model  # late: only models need it

            planner = planner if is_worth_planning(plan) else None
        busy = planner is not None and planner.waiting
        if planner and not busy:
            entities = await load_known_entities(question, known, rag)
            short = small or plans_in_keywords(planner.rates, rag.settings.budgets)
            async with run.use_separate_budgets():
                plan = await plan_by_model(question, plan, entities, planner, run, short=short)
        if len(run.shortfalls) == before and not busy:
            rag.caches.plans.store(key, version, plan)
    run.plan = plan
    run.show("plan", (f"{name}: {value}" for name, value in format_plan(plan, known).items() if value))
    return plan


async def load_known_entities(question: Question, known: Mapping[int, Channel], rag: Engine) -> KnownEntities:
    """Load channels, authors and languages that the viewer may read, for the planner. Raises ArchiveUnavailable."""
    readable = question.viewer.channels
    authors = await list_facet_values(rag.archive, PostFacet.AUTHOR, readable)
    return KnownEntities(
        {key: channel for key, channel in known.items() if key in readable},
        authors,
        await detect_channel_languages(rag.archive, readable),
    )
