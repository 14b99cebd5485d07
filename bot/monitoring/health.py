"""Readiness check: which parts of the bot work, for /readyz.

It names the part that does not work in fixed words, because the reasons of errors may name files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.app_context import AppContext
from bot.monitoring.metrics import TelegramCallMetrics
from rag_core.errors import RagError
from rag_core.storage import monitoring_stats

_OK, _OFF = "ok", "off"
WORKING_STATES = {_OK, _OFF}
# A getUpdates request is held for 30 s, and is repeated after a pause if it failed. With a webhook, getWebhookInfo is
# called every minute.
_MAX_SILENCE_SECONDS, _MAX_WEBHOOK_SILENCE_SECONDS = 90.0, 200.0
_CHECK_TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """Readiness check of the bot's parts. `context` returns its AppContext, None before it exists."""

    context: Callable[[], AppContext | None]
    wire: TelegramCallMetrics

    async def look(self) -> dict[str, str]:
        """Check each part: "ok", "off" (started without it, which is fine too), or what is wrong."""
        context = self.context()
        telegram = self._check_telegram()
        if context is None:
            return dict.fromkeys(("archive", "words", "vectors"), "starting") | {"telegram": telegram}
        archive, vectors = await asyncio.gather(
            _try_part(monitoring_stats.check_writable(context.archive), "cannot be written"), _check_vectors(context)
        )
        jobs = context.indexing.job_log.jobs
        words = "cannot be brought up to date" if "lexical" in jobs and jobs["lexical"].failing else _OK
        return {"archive": archive, "words": words, "vectors": vectors, "telegram": telegram}

    def _check_telegram(self) -> str:
        silence = self.wire.silence
        most = _MAX_WEBHOOK_SILENCE_SECONDS if self.wire.by_webhook else _MAX_SILENCE_SECONDS
        if silence is None:
            return "not reached yet"
        return _OK if silence < most else f"silent for {silence:.0f} s"


async def _check_vectors(context: AppContext) -> str:
    # Without a model vectors are not wanted; if wanted and not opened, there is a shortfall.
    if context.rag.dense is None:
        return "not opened" if any(short.stage == "dense" for short in context.rag.without) else _OFF
    return await _try_part(context.rag.dense.vectors.count(), "cannot be searched")


async def _try_part(work: Awaitable[object], otherwise: str) -> str:
    try:
        async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
            await work
    except TimeoutError:
        return "busy"
    except RagError as exc:
        log.warning("not ready: %s", exc)
        return otherwise
    return _OK
