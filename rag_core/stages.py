"""Stages of a question: their names, and the budget that limits each."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Stage(StrEnum):
    """Stage of a question. `budget` is the field of `Budgets` that limits it."""

    budget: str

    def __new__(cls, name: str, budget: str = "") -> Self:
        """Make a member from its name in traces and its budget."""
        stage = str.__new__(cls, name)
        stage._value_, stage.budget = name, budget
        return stage

    PLAN = "plan", "plan"
    SEARCH = "search", "search"
    CHRONICLE = "chronicle", "search"
    AGAIN = "again", "search"
    QUERIES = "queries", "search"
    FOLLOW = "follow", "search"
    LEXICAL = "lexical", "search"
    DENSE = "dense", "search"
    ORDER = "order", "fusion"
    DIVERSE = "diverse", "fusion"
    FETCH = "fetch", "fetch"
    MEMORY = "memory", "fetch"
    CHOOSE = "choose", "fetch"
    FILTER = "filter", "fetch"
    RECALL = "recall", "fetch"
    CITE = "cite", "fetch"
    COPIES = "copies", "fetch"
    SUCCESSOR = "successor", "fetch"
    NEAREST = "nearest", "fetch"
    RERANK = "rerank", "rerank"
    COMPARE = "compare", "rerank"
    WRITE = "write", "write"
    RANK = "rank", "write"
    EXTRACT = "extract", "write"
    VERIFY = "verify", "verify"
    CONFLICTS = "conflicts", "verify"
    REWRITE = "rewrite", "rewrite"
    HYDE = "hyde", "rewrite"
    FOLLOWUP = "followup", "rewrite"
    MAP = "map", "map"
    PREDICT = "predict", "map"
    JUDGE = "judge", "judge"
    STEP = "step", "judge"
    REFLECT = "reflect", "judge"
    PARTS = "parts", "judge"


# Stages that do what a tool does; the others are parts of them.
ACTION_STAGES = frozenset(
    {Stage.PLAN, Stage.REWRITE, Stage.HYDE, Stage.LEXICAL, Stage.DENSE, Stage.QUERIES, Stage.FOLLOW, Stage.RERANK,
     Stage.MAP, Stage.JUDGE, Stage.PREDICT, Stage.EXTRACT, Stage.WRITE, Stage.VERIFY, Stage.PARTS, Stage.REFLECT}
)  # fmt: skip

RETRIEVER_STAGES = frozenset({Stage.LEXICAL, Stage.DENSE})  # one that was late is not one that is down

# Stages that may wait long for a model, and the search for what it doubted: others come after them.
MODEL_STAGES = frozenset(
    {Stage.PLAN, Stage.REWRITE, Stage.HYDE, Stage.FOLLOWUP, Stage.MAP, Stage.PREDICT, Stage.JUDGE, Stage.STEP,
     Stage.REFLECT, Stage.PARTS, Stage.WRITE, Stage.FOLLOW}
)  # fmt: skip
