"""Before the checks: who has the folder, the archive opened, and what is known of its indexes.

The doctor changes nothing: an archive of an earlier version is left to the bot, which makes a backup first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from bot.beside.client import Owner, alone_or_beside
from bot.beside.facts import Facts, facts
from bot.doctor.findings import Case, Finding
from rag_core.doors.archive import Archive
from rag_core.doors.archive.connection import waits_for_update
from rag_core.errors import RagError
from rag_core.rag import open_rag
from rag_core.settings import RagSettings

__all__ = ["admitted"]

_FACTS_S = 120.0  # models are opened and measured

_OLD = (
    "The archive is that of an earlier version of Citegram: start the bot, which makes a backup and brings it up to "
    "date, and look again."
)
_SLOW = "The indexes and models could not be looked at within {seconds:g} s: look whether the disk and LLM__URL answer."


@asynccontextmanager
async def admitted(case: Case) -> AsyncIterator[tuple[Case, list[Finding]]]:
    """The case with all that could be opened, and what was found on the way."""
    settings, found = case.settings.rag(), list[Finding]()
    if await asyncio.to_thread(waits_for_update, settings.data.dir):
        yield case, [Finding(None, _OLD)]
        return
    owner, known = await _indexes(settings, found)
    archive = await _archive(settings, found)
    try:
        yield replace(case, archive=archive, facts=known, runs=owner is not None), found
    finally:
        if archive:
            await archive.close()


async def _archive(settings: RagSettings, found: list[Finding]) -> Archive | None:
    try:
        return await Archive.open(settings.data.dir)
    except RagError as exc:
        if all(exc.reason != said.what for said in found):
            found.append(Finding(False, exc.reason))
        return None


async def _indexes(settings: RagSettings, found: list[Finding]) -> tuple[Owner | None, Facts | None]:
    """The bot that holds the folder, if one does; and what is known of the indexes, by it or by looking."""
    owner: Owner | None = None
    try:
        async with asyncio.timeout(_FACTS_S), alone_or_beside(settings.data.dir) as owner:
            if owner is not None:
                return owner, await _asked(owner, found)
            async with open_rag(settings) as rag:
                return None, await facts(rag)
    except RagError as exc:
        found.append(Finding(False, exc.reason))
    except TimeoutError:
        found.append(Finding(False, _SLOW.format(seconds=_FACTS_S)))
    return owner, None


async def _asked(owner: Owner, found: list[Finding]) -> Facts:
    known, seconds = await owner.doctor()
    hours, minutes = divmod(seconds // 60, 60)
    runs = f"for {hours} h {minutes} min" if seconds >= 60 else f"for {seconds} s"
    found.append(Finding(True, f"a bot runs here: process {owner.process}, Citegram {owner.version}, {runs}"))
    return known
