"""Application context: settings, archive, engine and workers, passed to every handler as `context`."""

from dataclasses import dataclass
from datetime import tzinfo

from bot.access import AdminRegistry
from bot.indexing import IndexingWorker, RebuildRunner
from bot.jobs import HistoryService
from bot.settings import Settings
from bot.worker.question_worker import QuestionWorker
from rag_core.engine import Engine
from rag_core.storage import Archive


@dataclass(frozen=True, slots=True)
class AppContext:
    """Application context of the handlers, which only wake workers: they never answer questions or commit posts."""

    settings: Settings
    archive: Archive
    worker: QuestionWorker
    indexing: IndexingWorker
    rag: Engine
    reindexing: RebuildRunner
    admins: AdminRegistry
    history: HistoryService | None = None  # None without HISTORY__API_ID

    async def load_zone(self, chat_id: int) -> tzinfo:
        """Load the time zone of a chat."""
        return await self.worker.load_zone(chat_id)
