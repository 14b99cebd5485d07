"""Evaluation index: index a dataset in a temporary folder, with a real archive and real indexes, as the bot does."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bot.cli.open_up_to_date_indexes import catch_up_vectors
from bot.cli.progress_bar import show_progress_bar
from bot.evaluation.datasets import Dataset
from bot.evaluation.evaluation_variants import Variant
from bot.evaluation.recorded_replies import Recording
from ingest.exports import import_export
from ingest.indexer import LexicalIndexer
from ingest.json_export import ImportOptions
from rag_core.calibration import Calibration
from rag_core.engine import Engine, open_engine
from rag_core.models.active_models import get_models_folder
from rag_core.settings import DataSettings, RagSettings
from rag_core.stage_runner import Run
from rag_core.storage import channels, posts
from rag_core.types import PostKey, Viewer, Visibility


class IndexedDataset:
    """An indexed dataset, ready for questions. `run` is the trace of the latest answer."""

    def __init__(
        self, rag: Engine, dataset: Dataset, viewer: Viewer, recording: Recording | None = None, name: str = ""
    ) -> None:
        """`name`: of the variant, in the recording."""
        self.run: Run | None = None
        self.rag = replace(rag, traced=self._record_run)
        self.dataset, self.viewer, self.recording, self.name = dataset, viewer, recording, name

    def id_of(self, key: PostKey) -> str:
        """Map a post to its id in the dataset."""
        return self.dataset.ids.get(key, "")

    def _record_run(self, run: Run) -> None:
        self.run = run

    def select_variant(self, way: Variant) -> IndexedDataset:
        """Return the same archive and indexes with this variant applied."""
        return IndexedDataset(way.over(self.rag), self.dataset, self.viewer, self.recording, f"{way}")


@asynccontextmanager
async def open_indexed_dataset(
    dataset: Dataset, settings: RagSettings, recording: Recording | None = None
) -> AsyncIterator[IndexedDataset]:
    """Index a dataset in a temporary folder, with the settings and the calibration of this installation.

    With a recording its models are recorded or, where it is replayed, none are opened.
    """
    with tempfile.TemporaryDirectory(prefix="citegram-eval-") as folder:
        models = settings.models.model_copy(update={"dir": get_models_folder(settings)})
        inside = settings.model_copy(update={"data": DataSettings(dir=Path(folder)), "models": models})
        async with open_engine(inside, language=not (recording and recording.replaying)) as opened:
            rag = replace(opened, calibration=Calibration.load(settings))
            rag = recording.wrap(rag) if recording else rag
            for channel, documents in dataset.posts():
                await channels.save_channel(rag.archive, channel)
                await posts.save_posts(rag.archive, documents, source="import")
            for export in dataset.exports:
                options = ImportOptions(visibility=Visibility.PUBLIC)
                report = await import_export(rag.archive, export, options)
                prefix = f"{export.parent.name}/" if len(dataset.exports) > 1 else ""
                for channel in report.channels:
                    for number in await posts.list_message_ids(rag.archive, channel.chat_id):
                        dataset.ids[PostKey(channel.chat_id, number)] = f"{prefix}msg-{number}"
            total = await posts.get_last_seq(rag.archive)
            with show_progress_bar("index") as moved:
                await LexicalIndexer(rag.archive, rag.lexical).catch_up(lambda done: moved(done, total))
            await catch_up_vectors(rag)
            viewer = Viewer(0, frozenset(await channels.load_channels(rag.archive)))
            yield IndexedDataset(rag, dataset, viewer, recording)
