"""How an answer is made: one async function per recipe, all made of the same stages.

A recipe gives a draft and the evidence it stands on; a draft without sentences is a refusal. It raises RagError where
it does not come to its end. Another recipe is a file here and a line below.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rag_core.rag import Rag
from rag_core.recipes.agent import agent
from rag_core.recipes.council import council
from rag_core.recipes.direct import direct
from rag_core.recipes.mapreduce import mapreduce
from rag_core.recipes.react import react
from rag_core.stage import Run
from rag_core.types import Draft, Evidence, Question

__all__ = ["RECIPES", "Recipe"]

Recipe = Callable[[Question, Rag, Run], Awaitable[tuple[Draft, Evidence]]]

RECIPES: dict[str, Recipe] = {
    "direct": direct,
    "agent": agent,
    "mapreduce": mapreduce,
    "council": council,
    "react": react,
}
