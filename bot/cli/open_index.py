"""Engine opening for commands that hold the data folder alone: the indexes are brought up to date first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tqdm import tqdm

from bot.settings import Settings
from ingest.dedup import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import Engine, open_engine
from rag_core.models.selection import get_models_folder
from rag_core.storage import Archive, channels, posts
from rag_core.storage.backups import ARCHIVE_FILE
from rag_core.storage.db import needs_migration

_DEMO_FOLDER = "demo"  # in the data folder, where `citegram demo` keeps its channels


def is_folder_named(settings: Settings) -> bool:
    """Whether the data folder was named, by --data or DATA__DIR, and is not the default."""
    return "dir" in settings.data.model_fields_set


async def choose_folder_with_channels(settings: Settings) -> Settings:
    """Choose the demo's folder, with the models beside it, where no folder was named and only the demo has channels."""
    folder, demo = settings.data.dir, settings.data.dir / _DEMO_FOLDER
    if is_folder_named(settings) or not (demo / ARCHIVE_FILE).exists() or await _has_channels(folder):
        return settings
    models = settings.models.model_copy(update={"dir": get_models_folder(settings.rag())})
    return settings.model_copy(update={"data": settings.data.model_copy(update={"dir": demo}), "models": models})


async def _has_channels(folder: Path) -> bool:
    if not (folder / ARCHIVE_FILE).exists():
        return False
    if needs_migration(folder):  # left to the bot, which makes a backup first
        return True
    archive = await Archive.open(folder)
    try:
        return bool(await channels.load_channels(archive))
    finally:
        await archive.close()


@asynccontextmanager
async def open_up_to_date_engine(settings: Settings) -> AsyncIterator[Engine]:
    """Open the engine with indexes that cover the whole archive. The caller holds the data folder."""
    async with open_engine(settings.rag()) as rag:
        await catch_up_lexical_index(rag)
        await catch_up_copies(rag)
        await catch_up_vectors(rag)
        yield rag


async def catch_up_lexical_index(rag: Engine) -> None:
    """Index the archive's pending changes in the lexical index, and save it; one of an earlier version is replaced."""
    lexical = rag.lexical.make_empty() if rag.lexical.outdated else rag.lexical
    indexer = LexicalIndexer(rag.archive, lexical)
    behind = await posts.get_last_seq(rag.archive) - lexical.watermark
    with show_progress_bar("index") as moved:
        await indexer.catch_up(lambda done: moved(done, behind), save=lexical is rag.lexical)
    if lexical is rag.lexical:
        await indexer.save()
    else:
        await LexicalIndexer(rag.archive, rag.lexical).put_in_place(lexical)


async def catch_up_copies(rag: Engine) -> None:
    """Find copies among all posts of the archive. Can be interrupted: the next run continues."""
    indexer = CopyIndexer(rag.archive)
    waiting = await indexer.waiting()
    with show_progress_bar("copies") as moved:
        await indexer.catch_up(lambda done: moved(done, waiting))


async def catch_up_vectors(rag: Engine) -> None:
    """Embed the archive's pending posts, if there is a dense index. Can be interrupted: the next run continues."""
    if rag.dense is None:
        return
    indexer = DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder)
    waiting = await indexer.waiting()
    with show_progress_bar("embed") as moved:
        await indexer.catch_up(lambda done: moved(done, waiting))


@contextmanager
def show_progress_bar(name: str, unit: str = "post") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; the callback takes (done, total). Work that takes under a second shows nothing."""
    with tqdm(desc=name, unit=unit, unit_scale=unit == "B", delay=1, leave=False, disable=None) as bar:

        def moved(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield moved
