"""The servers that were set besides Telegram's. A model's server is measured with the models, in the facts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout

from bot.doctor.findings import Case, Finding

__all__ = ["servers"]

_PATIENCE_S = 8.0

_SILENT = "The Qdrant server {place} does not answer: start it, or correct QDRANT__URL."
_REFUSED = "The Qdrant server {place} refuses the key: correct QDRANT__KEY."
_ILL = "The Qdrant server {place} answers with the error {status}: look at its log."


async def servers(case: Case) -> AsyncIterator[Finding]:
    """The Qdrant server, where one is set."""
    qdrant = case.settings.qdrant
    if not qdrant.url:
        return
    place, key = urlsplit(qdrant.url).netloc.rpartition("@")[2], qdrant.key.get_secret_value()
    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=_PATIENCE_S), headers={"api-key": key} if key else {}) as session,
            session.get(f"{qdrant.url.rstrip('/')}/collections") as answer,
        ):
            status = answer.status
    except (ClientError, OSError, TimeoutError, ValueError):
        yield Finding(False, _SILENT.format(place=place))
        return
    if status in (401, 403):
        yield Finding(False, _REFUSED.format(place=place))
    elif status != 200:
        yield Finding(False, _ILL.format(place=place, status=status))
    else:
        yield Finding(True, f"the Qdrant server {place} answers")
