"""Application context: settings, archive, engine and workers, passed to every handler as `context`.

Handlers never answer questions or commit posts themselves: they wake the worker that does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Protocol

from bot.access import AdminRegistry
from bot.i18n import load_zone
from bot.indexing import IndexingWorker, RebuildRunner
from bot.jobs import HistoryService
from bot.settings import Settings
from bot.worker.known_answers import QuestionSuggester
from bot.worker.rate_limits import RateLimiter
from rag_core.engine import Engine
from rag_core.storage import Archive


class QuestionQueue(Protocol):
    """Question queue as handlers use it; the bot has a `QuestionWorker` here, which answers what is queued."""

    limits: RateLimiter

    async def start(self) -> None:
        """Start the workers."""

    async def stop(self) -> None:
        """Stop the workers: what is queued is answered after the next start."""

    def wake(self) -> None:
        """Wake the workers: a question has been queued."""

    async def halt(self, chat_id: int, reader: int, question: int | None = None) -> tuple[int, int]:
        """Stop this reader's questions in a chat, or one of them; returns how many were running and how many waited."""

    def forget_answers(self) -> None:
        """Drop all cached answers."""


@dataclass(frozen=True, slots=True)
class AppContext:
    """Application context of the handlers, which only wake workers: they never answer questions or commit posts."""

    settings: Settings
    archive: Archive
    queue: QuestionQueue
    indexing: IndexingWorker
    rag: Engine
    reindexing: RebuildRunner
    admins: AdminRegistry
    suggestions: QuestionSuggester
    history: HistoryService | None = None  # None without HISTORY__API_ID

    async def load_zone(self, chat_id: int) -> tzinfo:
        """Load the time zone of a chat; the bot's where it chose none."""
        return await load_zone(self.archive, chat_id, self.settings.bot.zone)
