"""For admins behind /why: the stages of an answer with their times and counts, by its trace. No texts stand there."""

from __future__ import annotations

from aiogram.utils.formatting import Bold, Code, ExpandableBlockQuote, Text

from bot.beside.told import staged
from bot.words import Words
from rag_core.doors.archive import Archive
from rag_core.doors.archive.traces import trace_of

__all__ = ["stages_told"]


async def stages_told(trace_id: str, archive: Archive, words: Words) -> Text | None:
    """How an answer was made; None where its trace is not known, or no longer. Raises ArchiveUnavailable."""
    found = await trace_of(archive, trace_id)
    if found is None:
        return None
    head = words("why-trace", recipe=found.recipe)
    return Text(Bold(head), " ", Code(found.trace_id), "\n", ExpandableBlockQuote("\n".join(staged(found.spans))))
