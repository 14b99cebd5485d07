"""What handlers ask for by name: one tray with the settings, the opened doors and the workers."""

from __future__ import annotations

from dataclasses import dataclass

from bot.indexing import Indexing
from bot.reindexing import Reindexing
from bot.rights import Rights
from bot.settings import Settings
from bot.turns import Turns
from rag_core.doors.archive import Archive
from rag_core.rag import Rag

__all__ = ["Desk"]


@dataclass(frozen=True, slots=True)
class Desk:
    """The tray. Handlers never answer questions or commit posts themselves: they wake who does."""

    settings: Settings
    archive: Archive
    turns: Turns
    indexing: Indexing
    rag: Rag
    reindexing: Reindexing
    rights: Rights

    @property
    def admins(self) -> Rights:
        """The numeric ids of the admins, as they are now."""
        return self.rights
