"""Evaluation variants: named settings (recipe, plan, retrievers, reranker, rounds) in which questions are asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_core.engine import Engine
from rag_core.errors import ModelUnavailable
from rag_core.models.active_models import get_models_folder, select_embedder, select_model
from rag_core.models.catalog import ModelRole
from rag_core.recipes import RECIPES
from rag_core.settings import ModelSettings, RagSettings
from rag_core.types import AUTO_RECIPE, HYBRID, Channel, Plan, Question


@dataclass(frozen=True, slots=True)
class Variant:
    """How questions are asked; None keeps the setting of this installation. `plan` and `rerank` are "on" or "off"."""

    recipe: str = "direct"
    plan: str = "on"
    legs: str | None = None
    rerank: str | None = None
    rounds: int | None = None
    follow_up: bool | None = None

    def apply_name(self, name: str) -> Variant:
        """Return this variant with the change that VARIANTS gives for a name."""
        return replace(self, **VARIANTS[name])

    def over(self, rag: Engine) -> Engine:
        """Apply the variant to an engine. Raises ModelUnavailable if a model it needs is not open."""
        if self.legs in {"dense", "hybrid"}:
            _require_model(rag.dense, "embedding model")
        if self.rerank == "on":
            _require_model(rag.reranker, "reranker")
        changed: dict[str, Any] = {} if self.rounds is None else {"rounds": self.rounds}
        if self.legs == "dense":
            changed["dense"] = 1.0
        sections: dict[str, Any] = {"retrieval": rag.settings.retrieval.model_copy(update=changed)}
        if self.follow_up is not None:
            sections["council"] = rag.settings.council.model_copy(update={"follow_up": self.follow_up})
        settings = rag.settings.model_copy(update=sections)

        def plan(question: Question, known: Mapping[int, Channel]) -> Plan:
            planned = rag.plan(question, known) if self.plan == "on" else Plan((question.text,))
            # Dense search alone: further queries search for words.
            return replace(planned, queries=planned.queries[:1], legs=HYBRID) if self.legs == "dense" else planned

        return replace(
            rag,
            settings=settings,
            dense=None if self.legs == "lexical" else rag.dense,
            reranker=None if self.rerank == "off" else rag.reranker,
            plan=plan,
            expands_plan=self.plan == "on",
            recipe=self.recipe,
            planner=rag.planner if self.plan == "on" and self.legs != "dense" else None,
        )


# Names for `--compare`; a recipe has its own name.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"recipe": name} for name in (*RECIPES, AUTO_RECIPE)},
    "council-once": {"recipe": "council", "follow_up": False},  # without the loop that asks for open parts again
    "plan-on": {"plan": "on"},
    "plan-off": {"plan": "off"},
    "lexical": {"legs": "lexical"},
    "dense": {"legs": "dense"},
    "hybrid": {"legs": "hybrid"},
    "rerank-on": {"rerank": "on"},
    "rerank-off": {"rerank": "off"},
    "rounds-1": {"rounds": 1},
    "rounds-2": {"rounds": 2},
}


def build_variant_settings(settings: RagSettings, ways: Collection[Variant]) -> RagSettings:
    """Build settings that open only what these variants need. Raises ModelUnavailable if a model is missing."""
    models: dict[str, str] = {}
    folder = get_models_folder(settings)
    if all(way.legs == "lexical" for way in ways):
        models["embedder"] = "none"
    elif any(way.legs in {"dense", "hybrid"} for way in ways):
        _require_model(select_embedder(settings), "embedding model")
    if all(way.rerank == "off" for way in ways):
        models["reranker"] = "none"
    elif any(way.rerank == "on" for way in ways):
        _require_model(select_model(ModelRole.RERANKER, settings.models.reranker, folder), "reranker")
    changed: ModelSettings = settings.models.model_copy(update=models)
    return settings.model_copy(update={"models": changed})


def _require_model(row: object, what: str) -> None:
    if row is None:
        raise ModelUnavailable(f"There is no {what} here: run citegram models pull offline first.")
