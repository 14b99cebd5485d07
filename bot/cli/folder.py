"""The data folder of a command: which one, its archive, its indexes brought up to date; progress bars."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

from bot.settings import Settings
from ingest.copies import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import Engine, open_engine
from rag_core.errors import RagError
from rag_core.models.active_models import get_models_folder
from rag_core.storage import Archive, channels, posts
from rag_core.storage.backups import ARCHIVE_FILE
from rag_core.storage.db import needs_migration
from rag_core.types import Channel

_NO_ARCHIVE_TEXT = (
    "There are no posts in the folder {folder}: load a channel's history (citegram import result.json), or check "
    "--data (or DATA__DIR)."
)


def is_folder_named(settings: Settings) -> bool:
    """Whether the data folder was named, by --data or DATA__DIR, and is not the default."""
    return "dir" in settings.data.model_fields_set


def require_archive(folder: Path) -> None:
    """Raise RagError if the folder has no archive: opening it would make an empty one in a folder that was mistyped."""
    if not (folder / ARCHIVE_FILE).exists():
        raise RagError(_NO_ARCHIVE_TEXT, code="no-archive", folder=folder.resolve())


async def choose_folder_with_channels(settings: Settings) -> Settings:
    """Choose the demo's folder, with the models beside it, where no folder was named and only the demo has channels.

    Raises RagError if the chosen folder has no archive.
    """
    folder, demo = settings.data.dir, settings.data.dir / "demo"  # where `citegram demo` keeps its channels
    if is_folder_named(settings) or not (demo / ARCHIVE_FILE).exists() or await _has_channels(folder):
        require_archive(folder)
        return settings
    models = settings.models.model_copy(update={"dir": get_models_folder(settings.rag())})
    return settings.model_copy(update={"data": settings.data.model_copy(update={"dir": demo}), "models": models})


async def _has_channels(folder: Path) -> bool:
    if not (folder / ARCHIVE_FILE).exists():
        return False
    if needs_migration(folder):  # left to the bot, which makes a backup first
        return True
    async with open_archive(folder) as archive:
        return bool(await channels.load_channels(archive))


@asynccontextmanager
async def open_archive(folder: Path) -> AsyncIterator[Archive]:
    """Open the archive alone, without indexes: this is possible while the bot runs, too."""
    archive = await Archive.open(folder)
    try:
        yield archive
    finally:
        await archive.close()


async def require_channel(archive: Archive, name: str) -> Channel:
    """Find a channel by its @name, link, id or title. Raises RagError."""
    channel = channels.find_channel(name, await channels.load_channels(archive))
    if channel is None:
        raise RagError(f"There is no channel {name or 'without a name'} here: check its @name, link, id or title.")
    return channel


@asynccontextmanager
async def open_up_to_date_engine(settings: Settings) -> AsyncIterator[Engine]:
    """Open the engine with indexes that cover the whole archive. The caller holds the data folder."""
    async with open_engine(settings.rag()) as rag:
        await catch_up_indexes(rag)
        yield rag


async def catch_up_indexes(rag: Engine) -> None:
    """Bring all indexes up to date with the archive. Can be interrupted: the next run continues."""
    await catch_up_lexical_index(rag)
    await catch_up_copies(rag)
    await catch_up_vectors(rag)


async def catch_up_lexical_index(rag: Engine) -> None:
    """Index the archive's pending changes in the lexical index, and save it."""
    indexer = LexicalIndexer(rag.archive, rag.lexical)
    if behind := await posts.get_last_seq(rag.archive) - rag.lexical.watermark:
        with show_progress_bar("index") as moved:
            await indexer.catch_up(lambda done: moved(done, behind))
    await indexer.save()


async def catch_up_copies(rag: Engine) -> None:
    """Find copies among all posts of the archive. Can be interrupted: the next run continues."""
    await _catch_up(CopyIndexer(rag.archive), "copies")


async def catch_up_vectors(rag: Engine) -> None:
    """Embed the archive's pending posts, if there is a dense index. Can be interrupted: the next run continues."""
    if rag.dense:
        await _catch_up(DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder), "embed")


async def _catch_up(indexer: CopyIndexer | DenseIndexer, name: str) -> None:
    if waiting := await indexer.waiting():
        with show_progress_bar(name) as moved:
            await indexer.catch_up(lambda done: moved(done, waiting))


T = TypeVar("T")


@contextmanager
def show_progress_bar(name: str, unit: str = "post") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; the callback takes (done, total). Work that takes under a second shows nothing."""
    from tqdm import tqdm

    with tqdm(desc=name, unit=unit, unit_scale=unit == "B", delay=1, leave=False, disable=None) as bar:

        def moved(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield moved


def iterate_with_progress_bar(items: Sequence[T], name: str) -> Iterator[T]:
    """Iterate over the items with a progress bar, as above."""
    with show_progress_bar(name, "it") as moved:
        for done, item in enumerate(items, 1):
            yield item
            moved(done, len(items))
