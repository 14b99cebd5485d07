"""The jobs of a running bot, put together: what they work on, and whom they tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiogram import Bot

from bot.alarm import alarmed
from bot.indexing import Indexing
from bot.quiet import quiet
from bot.rights import Rights
from bot.settings import Settings
from bot.telling import Telling
from ingest.chores import Chores
from ingest.gaps import Pulse
from ingest.schedule import open_schedule
from rag_core.rag import Rag

__all__ = ["scheduled"]


@asynccontextmanager
async def scheduled(
    settings: Settings, bot: Bot, rag: Rag, indexing: Indexing, pulse: Pulse, admins: Rights
) -> AsyncIterator[None]:
    """Run the jobs until the block ends. Raises ArchiveUnavailable."""
    tell, zone = Telling(bot, settings.bot, rag.archive, admins), settings.bot.zone
    jobs = Chores(rag, indexing.indexer, pulse, indexing.wake, tell).jobs(settings.data, zone)
    with quiet():
        async with alarmed(tell), open_schedule(jobs, indexing.ledger, tell, zone=zone):
            yield
