"""Evaluation data indexed as the bot would: a real archive and real indexes in a folder that goes away."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from bot.commands.indexed import embedded
from bot.evaluation.datasets import Dataset
from bot.evaluation.ways import Way
from ingest.desktop_export import ImportOptions, import_export
from ingest.index import Indexer
from rag_core.calibration import Calibration
from rag_core.dense import models_folder
from rag_core.doors.archive import channels, posts
from rag_core.rag import Rag, open_rag
from rag_core.settings import DataSettings, RagSettings
from rag_core.stage import Run
from rag_core.types import PostKey, Viewer, Visibility

__all__ = ["Indexed", "indexed"]


class Indexed:
    """A dataset ready to be asked. `run` is the notebook of the answer before."""

    def __init__(self, rag: Rag, dataset: Dataset, viewer: Viewer) -> None:
        self.run: Run | None = None
        self.rag = replace(rag, traced=self._ran)
        self.dataset = dataset
        self.viewer = viewer

    def id_of(self, key: PostKey) -> str:
        """What the dataset calls a post."""
        return self.dataset.ids.get(key, "")

    def _ran(self, run: Run) -> None:
        self.run = run

    def asked(self, way: Way) -> Indexed:
        """The same archive and indexes, asked in this way."""
        return Indexed(way.over(self.rag), self.dataset, self.viewer)


@asynccontextmanager
async def indexed(dataset: Dataset, settings: RagSettings) -> AsyncIterator[Indexed]:
    """Index a dataset in a temporary folder, with the settings and the calibration of this installation."""
    with tempfile.TemporaryDirectory(prefix="citegram-eval-") as folder:
        models = settings.models.model_copy(update={"dir": models_folder(settings)})
        inside = settings.model_copy(update={"data": DataSettings(dir=Path(folder)), "models": models})
        async with open_rag(inside) as opened:
            rag = replace(opened, calibration=Calibration.load(settings))
            for channel, documents in dataset.posts():
                await channels.put(rag.archive, channel)
                await posts.keep(rag.archive, documents, source="import")
            for export in dataset.exports:
                await _import(rag, dataset, export)
            await _index(rag)
            await embedded(rag)
            viewer = Viewer(0, frozenset(await channels.known(rag.archive)))
            yield Indexed(rag, dataset, viewer)


async def _import(rag: Rag, dataset: Dataset, export: Path) -> None:
    options = ImportOptions(visibility=Visibility.PUBLIC)
    report = await import_export(rag.archive, export, options)
    prefix = f"{export.parent.name}/" if len(dataset.exports) > 1 else ""
    for channel in report.channels:
        for number in await posts.ids(rag.archive, channel.chat_id):
            dataset.ids[PostKey(channel.chat_id, number)] = f"{prefix}msg-{number}"


async def _index(rag: Rag) -> None:
    total = await posts.last_seq(rag.archive)
    with tqdm(total=total, desc="index", unit="post", delay=1, leave=False) as bar:

        def moved(done: int) -> None:
            bar.update(done - bar.n)

        await Indexer(rag.archive, rag.lexical).catch_up(moved)
