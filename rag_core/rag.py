"""The tray of opened doors, and the one place that opens them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rag_core.calibration import Calibration
from rag_core.doors.archive import Archive
from rag_core.doors.lexical import Lexical
from rag_core.settings import RagSettings
from rag_core.stage import Run

__all__ = ["Rag", "open_rag"]

log = logging.getLogger(__name__)


def _logged(run: Run) -> None:
    log.info("answered %s", run.line())


@dataclass(frozen=True, slots=True)
class Rag:
    """What every stage may need. `traced` gets each finished run: tests and metrics hang on it."""

    settings: RagSettings
    archive: Archive
    lexical: Lexical
    calibration: Calibration
    traced: Callable[[Run], None] = _logged


@asynccontextmanager
async def open_rag(settings: RagSettings) -> AsyncIterator[Rag]:
    """Open the archive and load the saved index; what came since is added by `ingest.index`.

    Raises ArchiveUnavailable. A missing or damaged index is no error: it begins empty, at watermark 0.
    """
    archive = await Archive.open(settings.data.dir)
    try:
        lexical = await asyncio.to_thread(Lexical.load, settings.data.dir / "lexical")
        if lexical is None:
            log.info("no saved index: it is built from the archive")
        yield Rag(settings, archive, lexical or Lexical(), Calibration.load(settings))
    finally:
        await archive.close()
