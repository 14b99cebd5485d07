"""How questions were answered: stages, timings, counts and errors by trace id, never a text of readers or posts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_core.doors.archive.connection import Archive
from rag_core.doors.archive.rows import from_seconds, now

__all__ = ["Trace", "keep_trace", "trace_of"]

_MOST = 5000  # traces kept: weeks of a busy bot, a few megabytes


@dataclass(frozen=True, slots=True)
class Trace:
    """One answer: its recipe, when it ended, its stages as objects (stage, took_ms, counts, error), what it lacked."""

    trace_id: str
    recipe: str
    ended_at: datetime
    spans: tuple[dict[str, Any], ...]
    without: tuple[str, ...]


async def keep_trace(
    archive: Archive, trace_id: str, recipe: str, spans: Sequence[dict[str, Any]], without: Sequence[str]
) -> None:
    """Keep a trace; the oldest make room. Raises ArchiveUnavailable."""
    async with archive.writing() as connection:
        cursor = await connection.execute(
            "INSERT OR REPLACE INTO traces (trace_id, recipe, ended_at, spans, without) VALUES (?, ?, ?, ?, ?)",
            (trace_id, recipe, now(), json.dumps(list(spans)), json.dumps(list(without))),
        )
        await connection.execute("DELETE FROM traces WHERE id <= ?", ((cursor.lastrowid or 0) - _MOST,))


async def trace_of(archive: Archive, trace_id: str) -> Trace | None:
    """The trace of this id; None where it is not known, or no longer. Raises ArchiveUnavailable."""
    rows = await archive.rows("SELECT * FROM traces WHERE trace_id = ?", (trace_id,))
    if not rows:
        return None
    row = rows[0]
    spans, without = tuple(json.loads(row["spans"])), tuple(json.loads(row["without"]))
    return Trace(row["trace_id"], row["recipe"], from_seconds(row["ended_at"]), spans, without)
