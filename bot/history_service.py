"""History of the bot's channels: its client, its backfills, its hourly looks, and the look before a post is cited.

All of it is off without HISTORY__API_ID; the client library is imported only where it is on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.scheduled_jobs import FixedDelayTrigger, ScheduledJob
from bot.settings import Settings
from ingest.history.backfill import BackfillRunner, PacedSource
from ingest.history.look_at_posts import look_before_citing, sweep_channels
from ingest.times_out_of_touch import NotifyAdmins
from rag_core.errors import SettingsWrong
from rag_core.storage import Archive
from rag_core.types import PostKey

if TYPE_CHECKING:
    from ingest.history.mtproto_client import HistoryClient

_SWEEP_SECONDS, _FIRST_SWEEP_SECONDS = 3600.0, 120.0

_KEY_TEXT = "HISTORY__SERVER_PEM names no key file that can be read: {problem}."


@dataclass(frozen=True, slots=True)
class HistoryService:
    """History service of a running bot. `wake` tells the indexes of changes."""

    archive: Archive
    client: HistoryClient
    wake: Callable[[], None]
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def source(self) -> PacedSource:
        """The client at a rate that leaves room for the bot's other calls."""
        return PacedSource(self.client)

    async def run(self) -> None:
        """Run backfills until cancelled, and the tasks that show their progress."""
        try:
            await BackfillRunner(self.archive, self.source, self.wake).run()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def spawn(self, showing: Coroutine[Any, Any, None]) -> None:
        """Run a task that shows progress; it ends with the bot."""
        task = asyncio.create_task(showing)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def confirm_posts(self, keys: Iterable[PostKey]) -> bool:
        """Look at posts that an answer is about to cite; True where one of them changed or is gone."""
        changed = await look_before_citing(self.archive, self.client, keys)
        if changed:
            self.wake()
        return changed

    def build_sweep_job(self, tell: NotifyAdmins) -> ScheduledJob:
        """Build the hourly job that looks for deletions and missed edits."""

        async def sweep() -> str:
            said = await sweep_channels(self.archive, self.source, tell)
            self.wake()
            return said

        return ScheduledJob("history", sweep, FixedDelayTrigger(_SWEEP_SECONDS, _FIRST_SWEEP_SECONDS))


@asynccontextmanager
async def open_history_client(settings: Settings) -> AsyncIterator[HistoryClient | None]:
    """Open the client, which connects when it is first asked; None without HISTORY__API_ID. Raises SettingsWrong."""
    chosen = settings.history
    if not chosen.api_id:
        yield None
        return
    from ingest.history.mtproto_client import HistoryAccount, HistoryClient

    try:
        key = Path(chosen.server_pem).read_text(encoding="utf-8") if chosen.server_pem else ""
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsWrong(_KEY_TEXT.format(problem=exc)) from None
    token = settings.bot.token.get_secret_value()
    secret = chosen.api_hash.get_secret_value()
    client = HistoryClient(HistoryAccount(chosen.api_id, secret, token, chosen.address, key), settings.data.dir)
    try:
        yield client
    finally:
        await client.close()
