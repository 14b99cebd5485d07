"""Query planning: a question to its intent, topic, period, filters and search queries.

Rules always make the plan; a model adds to it where there is one.
"""

from __future__ import annotations

from rag_core.planning.llm_planner import KnownEntities, is_worth_planning, plan_by_model
from rag_core.planning.rules import build_bare_plan, plan_by_rules, widen_plan

__all__ = ["KnownEntities", "build_bare_plan", "is_worth_planning", "plan_by_model", "plan_by_rules", "widen_plan"]
