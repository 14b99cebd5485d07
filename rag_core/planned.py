"""Question to plan, or the plan of the same question a moment ago: by rules, and by the model where it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rag_core.caches import plan_key
from rag_core.doors.archive import channels
from rag_core.doors.archive.facets import Facet, names
from rag_core.doors.archive.languages import languages
from rag_core.plan import Around, plan_by_model, worth_planning
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.types import Channel, Plan, Question

__all__ = ["planned"]


async def planned(question: Question, rag: Rag, run: Run) -> Plan:
    """The plan of a question. To be called in a stage, which notes whether it was known. Raises ArchiveUnavailable.

    What the model takes for it is no part of that stage's budget. A plan that lacks what the model could have added
    is not kept.
    """
    known = await channels.known(rag.archive)
    key, version, before = plan_key(question, known), rag.version, len(run.shortfalls)
    plan = rag.caches.plans.get(key, version)
    run.note(cache_hit=float(plan is not None))
    if plan is None:
        plan = await asyncio.to_thread(rag.plan, question, known)  # a long question takes the rules 20 ms
        planner = rag.planner if rag.planner and worth_planning(plan) else None
        idle = planner is not None and not planner.waiting
        if planner and idle:
            around = await _around(question, known, rag)
            async with run.apart():
                plan = await plan_by_model(question, plan, around, planner, run)
        if len(run.shortfalls) == before and (idle or planner is None):
            rag.caches.plans.put(key, version, plan)
    return plan


async def _around(question: Question, known: Mapping[int, Channel], rag: Rag) -> Around:
    """What the asker may name. Raises ArchiveUnavailable."""
    readable = question.viewer.channels
    authors = await names(rag.archive, Facet.AUTHOR, readable)
    return Around(
        {key: channel for key, channel in known.items() if key in readable},
        authors,
        await languages(rag.archive, readable),
    )
