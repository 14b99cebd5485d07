"""How much one reader and one chat may ask. Counted in the archive's own rows: a restart forgets nothing, memory
does not grow with readers, and what is counted is what was really queued. A limiter from a library would count in
memory, or need a server for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from bot.rights import Rights
from bot.settings import BotSettings
from bot.words import Words
from rag_core.doors.archive import Archive, line

__all__ = ["Limits", "too_much"]

_SPAN = timedelta(hours=1)
# Whoever goes on writing is told again after so long, and hears nothing in between.
_TOLD_EVERY = timedelta(minutes=1)


class Limits:
    """The limits of readers and chats in the last hour. Admins have none."""

    def __init__(self, archive: Archive, settings: BotSettings, rights: Rights) -> None:
        self._archive = archive
        self._settings = settings
        self._rights = rights
        self._told: dict[int, datetime] = {}
        self._counting = asyncio.Lock()

    @asynccontextmanager
    async def counted(self, reader: int, chat_id: int) -> AsyncIterator[timedelta | None]:
        """How long until this reader may ask again in this chat; None: now. Raises ArchiveUnavailable.

        What is queued within counts for whoever asks at the same moment.
        """
        async with self._counting:
            yield await self._wait(reader, chat_id)

    async def _wait(self, reader: int, chat_id: int) -> timedelta | None:
        if reader in self._rights:
            return None
        now = datetime.now(UTC)
        limits = [("user_id", reader, self._settings.reader_limit)]
        if chat_id != reader:
            limits.append(("chat_id", chat_id, self._settings.chat_limit))
        moments = [await line.nth_newest(self._archive, *limit, now - _SPAN) for limit in limits]
        waits = [moment + _SPAN - now for moment in moments if moment]
        return max(waits, default=None)

    def said(self, wait: timedelta, reader: int, words: Words) -> str | None:
        """What to tell a reader who has to wait; None where they have just been told."""
        now = datetime.now(UTC)
        self._told = {one: then for one, then in self._told.items() if now - then < _TOLD_EVERY}
        if reader in self._told:
            return None
        self._told[reader] = now
        return too_much(wait, words)


def too_much(wait: timedelta, words: Words) -> str:
    """The sentence for whoever has to wait so long."""
    return words("ask-limit", minutes=max(1, -(-int(wait.total_seconds()) // 60)))
