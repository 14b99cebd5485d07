"""Reading of the files of posts: how many wait, were read or failed; the reader of what this machine can read."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bot.i18n import Translator
from bot.settings import Settings
from ingest.media import find_missing_readers
from ingest.media.reader import FileSource, MediaReader
from rag_core.models.active_models import find_speech_model
from rag_core.storage import Archive
from rag_core.storage.media import count_media, is_media_paused
from rag_core.types import DOCUMENT, PICTURE, VOICE

# Seconds for a file and for a second of a recording, on one of two cores beside the bot (deploy/EVALUATION.md).
_SECONDS_PER_FILE = 1.0
_SECONDS_PER_VOICE_SECOND = 0.15
_USUAL_VOICE_SECONDS = 30  # where the length is not known
KINDS = (PICTURE, VOICE, DOCUMENT)


@dataclass(slots=True)
class MediaStatus:
    """Files of one kind; `failed` counts them by their problem, `seconds` is the time that the waiting ones take."""

    waiting: int = 0
    read: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


async def load_media_status(archive: Archive) -> dict[str, MediaStatus]:
    """Status by kind, of all approved channels; kinds without a file are left out."""
    status: dict[str, MediaStatus] = {}
    for count in await count_media(archive):
        one = status.setdefault(count.kind, MediaStatus())
        if count.state == "waiting":
            one.waiting += count.files
            one.seconds += _SECONDS_PER_FILE * count.files
            if count.kind == VOICE:
                one.seconds += _SECONDS_PER_VOICE_SECOND * (count.seconds or _USUAL_VOICE_SECONDS * count.files)
        elif count.state == "read":
            one.read += count.files
        else:
            one.failed[count.problem] = count.files
    return {kind: status[kind] for kind in KINDS if kind in status}


def estimate_minutes(status: Iterable[MediaStatus]) -> int:
    """Whole minutes that reading what waits takes, at least one."""
    return max(1, round(sum(one.seconds for one in status) / 60))


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

    find_model = partial(find_speech_model, settings.rag(), archive)

    async def list_kinds() -> frozenset[str]:
        # in a thread: the first time it asks a program
        return frozenset(KINDS) - (await asyncio.to_thread(find_missing_readers, await find_model())).keys()

    keep = settings.media.files == "keep"
    return MediaReader(archive, sources, list_kinds, wake, speech_model=find_model, keep=keep)
