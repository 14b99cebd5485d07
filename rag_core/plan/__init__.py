"""Question to plan: what is wanted, about what, from when and where, and the queries to search with.

By rules, always; a model that can only write a plan adds to it where there is one.
"""

from __future__ import annotations

from rag_core.plan.around import Around
from rag_core.plan.by_model import plan_by_model, worth_planning
from rag_core.plan.rules import bare, plan_by_rules, wider

__all__ = ["Around", "bare", "plan_by_model", "plan_by_rules", "wider", "worth_planning"]
