"""Updates stored as the bot stores them, from what a test made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_core.storage import Archive, raw_updates
from rag_core.storage.raw_updates import encode_update


async def save_updates(
    archive: Archive, bot_id: int, raws: Sequence[Mapping[str, Any]], wrong: Mapping[int, str] | None = None
) -> None:
    """Save raw updates; those with an error in `wrong` are quarantined."""
    await raw_updates.save_updates(archive, bot_id, [encode_update(raw) for raw in raws])
    await raw_updates.quarantine_updates(archive, bot_id, wrong or {})
