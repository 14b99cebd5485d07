"""Evaluation index: index a dataset in a temporary folder, with a real archive and real indexes, as the bot does.

Variants are named settings (recipe, plan, retrievers, reranker, rounds) in which the same questions are asked, alone
or side by side.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bot.cli.open_index import catch_up_vectors
from bot.evaluation.datasets import Dataset
from ingest.exports.desktop_export import ImportOptions, import_export
from ingest.indexer import LexicalIndexer
from rag_core.context.calibration import Calibration
from rag_core.engine import Engine, open_engine
from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import ModelRole
from rag_core.models.selection import get_models_folder, select_model
from rag_core.planning.router import HYBRID
from rag_core.recipes import RECIPES
from rag_core.settings import DataSettings, ModelSettings, RagSettings
from rag_core.storage import channels, posts
from rag_core.tracing import Run
from rag_core.types import Channel, Plan, PostKey, Question, Viewer, Visibility

__all__ = ["RECIPES", "VARIANTS", "IndexedDataset", "Variant", "build_variant_settings", "open_indexed_dataset"]

_ON, _OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Variant:
    """How questions are asked; None keeps the setting of this installation. `plan` and `rerank` are "on" or "off"."""

    recipe: str = "direct"
    plan: str = _ON
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
        if self.rerank == _ON:
            _require_model(rag.reranker, "reranker")
        changed: dict[str, Any] = {} if self.rounds is None else {"rounds": self.rounds}
        if self.legs == "dense":
            changed["dense"] = 1.0
        sections: dict[str, Any] = {"retrieval": rag.settings.retrieval.model_copy(update=changed)}
        if self.follow_up is not None:
            sections["council"] = rag.settings.council.model_copy(update={"follow_up": self.follow_up})
        settings = rag.settings.model_copy(update=sections)

        def plan(question: Question, known: Mapping[int, Channel]) -> Plan:
            planned = rag.plan(question, known) if self.plan == _ON else Plan((question.text,))
            # Dense search alone: further queries search for words.
            return replace(planned, queries=planned.queries[:1], legs=HYBRID) if self.legs == "dense" else planned

        return replace(
            rag,
            settings=settings,
            dense=None if self.legs == "lexical" else rag.dense,
            reranker=None if self.rerank == _OFF else rag.reranker,
            plan=plan,
            recipe=self.recipe,
            planner=rag.planner if self.plan == _ON and self.legs != "dense" else None,
        )


# Names for `--compare`; a recipe has its own name.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"recipe": name} for name in RECIPES},
    "council-once": {"recipe": "council", "follow_up": False},  # without the loop that asks for open parts again
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


def build_variant_settings(settings: RagSettings, ways: Collection[Variant]) -> RagSettings:
    """Build settings that open only what these variants need. Raises ModelUnavailable if a model is missing."""
    models: dict[str, str] = {}
    folder = get_models_folder(settings)
    if all(way.legs == "lexical" for way in ways):
        models["embedder"] = "none"
    elif any(way.legs in {"dense", "hybrid"} for way in ways):
        _require_model(select_model(ModelRole.EMBEDDER, settings.models.embedder, folder), "embedding model")
    if all(way.rerank == _OFF for way in ways):
        models["reranker"] = "none"
    elif any(way.rerank == _ON for way in ways):
        _require_model(select_model(ModelRole.RERANKER, settings.models.reranker, folder), "reranker")
    changed: ModelSettings = settings.models.model_copy(update=models)
    return settings.model_copy(update={"models": changed})


def _require_model(row: object, what: str) -> None:
    if row is None:
        raise ModelUnavailable(f"There is no {what} here: run citegram models pull offline first.")


class IndexedDataset:
    """An indexed dataset, ready for questions. `run` is the trace of the latest answer."""

    def __init__(self, rag: Engine, dataset: Dataset, viewer: Viewer) -> None:
        self.run: Run | None = None
        self.rag = replace(rag, traced=self._record_run)
        self.dataset = dataset
        self.viewer = viewer

    def id_of(self, key: PostKey) -> str:
        """Map a post to its id in the dataset."""
        return self.dataset.ids.get(key, "")

    def _record_run(self, run: Run) -> None:
        self.run = run

    def select_variant(self, way: Variant) -> IndexedDataset:
        """Return the same archive and indexes with this variant applied."""
        return IndexedDataset(way.over(self.rag), self.dataset, self.viewer)


@asynccontextmanager
async def open_indexed_dataset(dataset: Dataset, settings: RagSettings) -> AsyncIterator[IndexedDataset]:
    """Index a dataset in a temporary folder, with the settings and the calibration of this installation."""
    with tempfile.TemporaryDirectory(prefix="citegram-eval-") as folder:
        models = settings.models.model_copy(update={"dir": get_models_folder(settings)})
        inside = settings.model_copy(update={"data": DataSettings(dir=Path(folder)), "models": models})
        async with open_engine(inside) as opened:
            rag = replace(opened, calibration=Calibration.load(settings))
            for channel, documents in dataset.posts():
                await channels.save_channel(rag.archive, channel)
                await posts.save_posts(rag.archive, documents, source="import")
            for export in dataset.exports:
                await _import_dataset_export(rag, dataset, export)
            await _index_posts(rag)
            await catch_up_vectors(rag)
            viewer = Viewer(0, frozenset(await channels.load_channels(rag.archive)))
            yield IndexedDataset(rag, dataset, viewer)


async def _import_dataset_export(rag: Engine, dataset: Dataset, export: Path) -> None:
    options = ImportOptions(visibility=Visibility.PUBLIC)
    report = await import_export(rag.archive, export, options)
    prefix = f"{export.parent.name}/" if len(dataset.exports) > 1 else ""
    for channel in report.channels:
        for number in await posts.list_message_ids(rag.archive, channel.chat_id):
            dataset.ids[PostKey(channel.chat_id, number)] = f"{prefix}msg-{number}"


async def _index_posts(rag: Engine) -> None:
    total = await posts.get_last_seq(rag.archive)
    with tqdm(total=total, desc="index", unit="post", delay=1, leave=False, disable=None) as bar:

        def report_progress(done: int) -> None:
            bar.update(done - bar.n)

        await LexicalIndexer(rag.archive, rag.lexical).catch_up(report_progress)
