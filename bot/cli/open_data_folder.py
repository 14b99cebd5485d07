"""Opening of the data folder, for the commands of the terminal: which folder, its archive, and a channel in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bot.settings import Settings
from rag_core.errors import RagError
from rag_core.models.active_models import get_models_folder
from rag_core.storage import Archive, channels
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
