"""Data folder: its lock, files and disk usage; which one a command works in, its archive, its indexes, and progress.

The data folder belongs to one process, which holds its lock file; the kernel releases the lock however the process
ends. Files that others on this machine may read are reported and not changed, as their owner may want it so.
"""

import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from bot.settings import Settings
from ingest.copies import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core.engine import Engine, open_engine
from rag_core.errors import ArchiveUnavailable, RagError, translate_errors
from rag_core.models.active_models import get_models_folder
from rag_core.safe_files import LockHeld, hold_lock_file, measure_size, open_lock_file
from rag_core.storage import Archive, channels, posts
from rag_core.storage.backups import ARCHIVE_FILE, get_backups_folder
from rag_core.storage.db import needs_migration
from rag_core.types import Channel

T = TypeVar("T")


def find_exposed_files(env_file: Path, folder: Path) -> Iterator[str]:
    """Warnings for `.env` and for the data folder's archive, where other users may read or change them."""
    if is_open_to_others(env_file):
        yield f"{env_file} holds the bot's token and others on this machine may read it: chmod 600 {env_file}"
    archive = folder / ARCHIVE_FILE
    if is_open_to_others(archive) and is_open_to_others(folder):
        yield f"{folder} holds what channels say and others on this machine may read it: chmod 700 {folder}"


def is_open_to_others(path: Path) -> bool:
    """Check whether anybody but the owner may read or change a file; false for a missing file."""
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def open_private_file(file: Path) -> BinaryIO:
    """Open an empty file that only its owner may read, in place of an earlier one."""
    file.unlink(missing_ok=True)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


class DiskUsage(NamedTuple):
    """Disk usage in bytes: archive, indexes, backups, and free space."""

    archive: int
    indexes: int
    backups: int
    free: int


def measure_disk_usage(folder: Path) -> DiskUsage:
    """Measure the disk usage of the data folder. Blocking."""
    archive = sum(map(measure_size, folder.glob(f"{ARCHIVE_FILE}*")))
    indexes = sum(map(measure_size, (*folder.glob("lexical*"), *folder.glob("vectors"))))
    backups = measure_size(get_backups_folder(folder))
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return DiskUsage(archive, indexes, backups, shutil.disk_usage(there).free)


class FolderLocked(ArchiveUnavailable):
    """Another process holds the data folder: `process` is its id as it wrote it ("unknown" while it starts)."""

    def __init__(self, folder: Path, process: str) -> None:
        super().__init__(
            f"Another Citegram (process {process}) works in the folder {folder}: stop it first, "
            "or choose another folder with DATA__DIR."
        )
        self.process = process


@contextmanager
def lock_data_folder(folder: Path) -> Iterator[None]:
    """Lock the data folder, made where missing. Raises FolderLocked (another holds it), else ArchiveUnavailable."""
    refusal = f"The folder {folder} cannot be used ({{}}): check it, or choose another one with --data."
    with translate_errors(ArchiveUnavailable, OSError, say=refusal):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # channel texts are for their readers only
        lock = open_lock_file(folder / "citegram.lock")
    with lock:
        try:
            hold_lock_file(lock)  # the kernel releases it however the process ends
        except LockHeld as exc:
            raise FolderLocked(folder, str(exc)) from None
        yield


def is_folder_named(settings: Settings) -> bool:
    """Whether the data folder was named, by --data or DATA__DIR, and is not the default."""
    return "dir" in settings.data.model_fields_set


def require_archive(folder: Path) -> None:
    """Raise RagError if the folder has no archive: opening it would make an empty one in a folder that was mistyped."""
    if not (folder / ARCHIVE_FILE).exists():
        raise RagError(
            "There are no posts in the folder {folder}: load a channel's history (citegram import result.json), or "
            "check --data (or DATA__DIR).",
            code="no-archive",
            folder=folder.resolve(),
        )


async def choose_folder_with_channels(settings: Settings) -> Settings:
    """Choose the demo's folder and models where none was named and only the demo has channels. Raises RagError."""
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
