"""Reading of the files of posts: the reader of a bot or a command, with what can be read on this machine."""

import asyncio
from collections.abc import Callable, Mapping

from bot.i18n import Translator
from bot.settings import Settings
from ingest.media import find_missing_readers
from ingest.media.reader import FileSource, MediaReader
from ingest.media.status import KINDS, MediaStatus, estimate_minutes
from rag_core.models.active_models import find_speech_model
from rag_core.storage import Archive
from rag_core.storage.media import is_media_paused


async def describe_media(
    status: Mapping[str, MediaStatus], archive: Archive, settings: Settings, words: Translator
) -> list[str]:
    """Lines with the number of files by kind, what is missing to read them, and how long the rest takes."""
    if not status or settings.media.files == "off":
        return [words("media-off" if settings.media.files == "off" else "media-none")]
    model = await find_speech_model(settings.rag(), archive)
    missing, lines = await asyncio.to_thread(find_missing_readers, model), []
    for kind, one in status.items():
        lines.append(words("media-count", kind=kind, read=one.read, waiting=one.waiting))
        lines += [words("media-missing", what=missing[kind])] if one.waiting and kind in missing else []
        lines += [
            words("media-failed", count=n, reason=words("media-problem", problem=p)) for p, n in one.failed.items()
        ]
    if readable := [one for kind, one in status.items() if one.waiting and kind not in missing]:
        paused = await is_media_paused(archive)
        lines.append(words("media-paused" if paused else "media-estimate", minutes=estimate_minutes(readable)))
    return lines


def open_media_reader(
    archive: Archive, settings: Settings, sources: Mapping[str, FileSource], wake: Callable[[], None] = lambda: None
) -> MediaReader:
    """Open a reader of the kinds that can be read here; what is installed meanwhile is read too."""

    async def list_kinds() -> frozenset[str]:
        model = await find_speech_model(settings.rag(), archive)
        # in a thread: the first time it asks a program
        return frozenset(KINDS) - (await asyncio.to_thread(find_missing_readers, model)).keys()

    return MediaReader(
        archive,
        sources,
        list_kinds,
        wake,
        speech_model=lambda: find_speech_model(settings.rag(), archive),
        keep=settings.media.files == "keep",
    )
