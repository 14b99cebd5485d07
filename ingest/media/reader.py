"""Media reader: fetches the files of posts from the queue one after the other, has them read, and saves their text.

Nothing waits for it: a post is found by its own words at once. A file is fetched into a folder of its own, hashed, and
read in a worker process only if no post has the same bytes; then it is deleted, unless the owner keeps files. What was
read is saved in one transaction, so that a kill at any moment leaves the file in the queue or read.
"""

import asyncio
import logging
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from ingest.media import UnreadableMedia
from rag_core.models.catalog import compute_sha256
from rag_core.processes import Message, WorkerExited, WorkerProcess
from rag_core.storage import Archive, media
from rag_core.storage.media import WaitingFile
from rag_core.types import DOCUMENT, PICTURE, VOICE, MediaText

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 200 * 2**20  # of Telegram's own server 20 MB can be had, of an own one 2 GB
_MAX_TRIES = 3  # of a file that the worker did not survive, or that could not be fetched
_RETRY_SECONDS = 300  # before the second try; it doubles
_WORKER_IDLE_SECONDS = 60.0  # then its memory is returned, that of a speech model too
_FOLDER_PREFIX = ".reading-"  # a name that nobody gives to a folder of their own, such as a copy of data/media
_SECONDS_BY_KIND = {PICTURE: 90.0, DOCUMENT: 180.0, VOICE: 60.0}
_SECONDS_PER_VOICE_SECOND, _MAX_VOICE_SECONDS = 3.0, 1800


class FileUnavailable(Exception):
    """A file cannot be fetched now; it is tried again."""


class FileSource(Protocol):
    """Source of files, by the part of their ids before the colon."""

    async def fetch(self, waiting: WaitingFile, folder: Path) -> Path:
        """Fetch a file into a folder, or name where it is; raises FileUnavailable, UnreadableMedia."""


class ExportFiles:
    """Files in the folder of an export, read where they are."""

    async def fetch(self, waiting: WaitingFile, folder: Path) -> Path:
        """The file's own path. Raises UnreadableMedia where the folder was moved or deleted."""
        path = Path(waiting.file.locator)
        if not await asyncio.to_thread(path.is_file):
            raise UnreadableMedia("gone")
        return path


class MediaReader:
    """Reader of the queue; one for each archive. `kinds` says which kinds can be read now; `wake` tells the indexes."""

    def __init__(
        self,
        archive: Archive,
        sources: Mapping[str, FileSource],
        kinds: Callable[[], Awaitable[frozenset[str]]],
        wake: Callable[[], None] = lambda: None,
        *,
        speech_model: Callable[[], Awaitable[Path | None]],
        keep: bool = False,
    ) -> None:
        self._archive, self._sources, self._kinds, self._wake = archive, sources, kinds, wake
        self._speech_model, self._keep = speech_model, keep
        self._worker: WorkerProcess | None = None
        self._used = 0.0

    async def catch_up(self, progress: Callable[[int], None] = lambda done: None) -> None:
        """Read all files that wait, and end a worker that has been idle for a minute. Raises ArchiveUnavailable."""
        done = 0
        while await self.read_next():
            done += 1
            self._used = time.monotonic()
            progress(done)
        if time.monotonic() - self._used > _WORKER_IDLE_SECONDS:
            await self.close()

    async def close(self) -> None:
        """End the worker process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            await worker.stop()

    async def read_next(self) -> bool:
        """Read the next file, if any; whether there was one. Raises ArchiveUnavailable."""
        if await media.is_media_paused(self._archive):
            return False
        waiting = await media.take_next_file(self._archive, await self._kinds(), bot="bot" in self._sources)
        if waiting is None:
            return False
        file = waiting.file
        try:
            digest, texts = await self._read(waiting)
            count = await media.save_media_text(self._archive, waiting, digest, texts)
            log.info("read a file: %s, %d posts, %d lines", file.kind, count, len(texts))
            self._wake()
        except UnreadableMedia as exc:
            await media.save_media_failure(self._archive, waiting, str(exc))
        except (FileUnavailable, WorkerExited, TimeoutError) as exc:
            await self.close()
            problem = "unavailable" if isinstance(exc, FileUnavailable) else "too_heavy"
            log.warning("a file could not be read (%s): %s", file.kind, exc or type(exc).__name__)
            again = waiting.tries + 1 < _MAX_TRIES
            retry = _RETRY_SECONDS * 2**waiting.tries if again else None
            await media.save_media_failure(self._archive, waiting, problem, retry)
        return True

    async def _read(self, waiting: WaitingFile) -> tuple[bytes, list[MediaText]]:
        scheme = waiting.file.id.partition(":")[0]
        if scheme != "path" and (known := await media.find_known_text(self._archive, file_id=waiting.file.id)):
            return known
        source = self._sources.get(scheme)
        if source is None:
            raise UnreadableMedia("no_source")
        if waiting.file.size > MAX_FILE_BYTES:
            raise UnreadableMedia("too_large")
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=_FOLDER_PREFIX, dir=self._archive.folder))
        try:
            path = await source.fetch(waiting, folder)
            digest = bytes.fromhex(await asyncio.to_thread(compute_sha256, path))
            if known := await media.find_known_text(self._archive, digest=digest):
                return known
            texts = await self._extract(waiting, path)
            if self._keep and path.parent == folder:
                kept = self._archive.folder / "media"
                kept.mkdir(mode=0o700, exist_ok=True)
                path.rename(kept / f"{digest.hex()[:32]}{path.suffix}")
            return digest, texts
        except OSError as exc:
            raise FileUnavailable(exc.strerror) from exc
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _extract(self, waiting: WaitingFile, path: Path) -> list[MediaText]:
        """Have the worker read a file. Raises UnreadableMedia, WorkerExited, TimeoutError."""
        if self._worker is None or self._worker.exited:
            self._worker = await WorkerProcess.start("-m", "ingest.media.worker")
        file = waiting.file
        order: Message = {"kind": file.kind, "path": str(path), "name": waiting.name or path.name}
        if file.kind == VOICE:
            order["model"] = str(await self._speech_model() or "")
        self._worker.send(order)
        length = min(file.seconds or _MAX_VOICE_SECONDS, _MAX_VOICE_SECONDS) if file.kind == VOICE else 0
        async with asyncio.timeout(_SECONDS_BY_KIND[file.kind] + _SECONDS_PER_VOICE_SECOND * length):
            reply = await self._worker.receive()
        if problem := reply.get("problem"):
            if error := reply.get("error"):
                log.warning("a file is broken: %s", error)
            raise UnreadableMedia(problem)
        return [MediaText(*values) for values in reply["texts"]]


def remove_left_folders(folder: Path) -> None:
    """Remove what a killed reader left in the data folder."""
    for left in folder.glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):
            shutil.rmtree(left)
