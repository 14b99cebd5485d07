"""Recipes: one async function for each way to make an answer, built from the same steps.

A recipe returns a draft and its evidence; a draft without sentences is a refusal. It raises RagError where it fails.
A new recipe is a module here and a line in `RECIPES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rag_core.engine import Engine
from rag_core.recipes.agent import run_agent
from rag_core.recipes.council import run_council
from rag_core.recipes.direct import run_direct
from rag_core.recipes.mapreduce import run_mapreduce
from rag_core.recipes.react import run_react
from rag_core.tracing import Run
from rag_core.types import Draft, Evidence, Question

__all__ = ["RECIPES", "Recipe"]

Recipe = Callable[[Question, Engine, Run], Awaitable[tuple[Draft, Evidence]]]

RECIPES: dict[str, Recipe] = {
    "direct": run_direct,
    "agent": run_agent,
    "mapreduce": run_mapreduce,
    "council": run_council,
    "react": run_react,
}
