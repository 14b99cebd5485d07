"""The ways in which questions can be searched and answered, by name: measured alone, or beside each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_core.dense import chosen, models_folder
from rag_core.errors import ModelUnavailable
from rag_core.models import Role
from rag_core.rag import Rag
from rag_core.recipes import RECIPES
from rag_core.route import HYBRID
from rag_core.settings import ModelSettings, RagSettings
from rag_core.types import Channel, Plan, Question

__all__ = ["RECIPES", "WAYS", "Way", "opening"]

_ON, _OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Way:
    """How questions are asked; None is as this installation has it. `plan` and `rerank` are "on" or "off"."""

    recipe: str = "direct"
    plan: str = _ON
    legs: str | None = None
    rerank: str | None = None
    rounds: int | None = None
    follow_up: bool | None = None

    def named(self, name: str) -> Way:
        """This way with the one thing changed that a name of WAYS stands for."""
        return replace(self, **WAYS[name])

    def over(self, rag: Rag) -> Rag:
        """The same doors, used in this way. Raises ModelUnavailable where a model it needs could not be opened."""
        if self.legs in {"dense", "hybrid"}:
            _require(rag.dense, "embedding model")
        if self.rerank == _ON:
            _require(rag.reranker, "reranker")
        changed: dict[str, Any] = {} if self.rounds is None else {"rounds": self.rounds}
        if self.legs == "dense":
            changed["dense"] = 1.0
        sections: dict[str, Any] = {"retrieval": rag.settings.retrieval.model_copy(update=changed)}
        if self.follow_up is not None:
            sections["council"] = rag.settings.council.model_copy(update={"follow_up": self.follow_up})
        settings = rag.settings.model_copy(update=sections)

        def plan(question: Question, known: Mapping[int, Channel]) -> Plan:
            made = rag.plan(question, known) if self.plan == _ON else Plan((question.text,))
            # by meaning alone: further queries look for words
            return replace(made, queries=made.queries[:1], legs=HYBRID) if self.legs == "dense" else made

        return replace(
            rag,
            settings=settings,
            dense=None if self.legs == "lexical" else rag.dense,
            reranker=None if self.rerank == _OFF else rag.reranker,
            plan=plan,
            recipe=self.recipe,
            planner=rag.planner if self.plan == _ON and self.legs != "dense" else None,
        )


# What `--compare` can name; a recipe goes by its own name.
WAYS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"recipe": name} for name in RECIPES},
    "council-once": {"recipe": "council", "follow_up": False},  # before the loop that asks for open parts again
    "plan-on": {"plan": _ON},
    "plan-off": {"plan": _OFF},
    "lexical": {"legs": "lexical"},
    "dense": {"legs": "dense"},
    "hybrid": {"legs": "hybrid"},
    "rerank-on": {"rerank": _ON},
    "rerank-off": {"rerank": _OFF},
    "rounds-1": {"rounds": 1},
    "rounds-2": {"rounds": 2},
}


def opening(settings: RagSettings, ways: Collection[Way]) -> RagSettings:
    """Settings that open what these ways need and no more. Raises ModelUnavailable where a model is not here."""
    models: dict[str, str] = {}
    folder = models_folder(settings)
    if all(way.legs == "lexical" for way in ways):
        models["embedder"] = "none"
    elif any(way.legs in {"dense", "hybrid"} for way in ways):
        _require(chosen(Role.EMBEDDER, settings.models.embedder, folder), "embedding model")
    if all(way.rerank == _OFF for way in ways):
        models["reranker"] = "none"
    elif any(way.rerank == _ON for way in ways):
        _require(chosen(Role.RERANKER, settings.models.reranker, folder), "reranker")
    changed: ModelSettings = settings.models.model_copy(update=models)
    return settings.model_copy(update={"models": changed})


def _require(row: object, what: str) -> None:
    if row is None:
        raise ModelUnavailable(f"There is no {what} here: run citegram models pull offline first.")
