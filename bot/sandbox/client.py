"""aiogram's Bot, connected to a server on this machine."""

from __future__ import annotations

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer

__all__ = ["LoopbackSession", "make_local_bot"]


class LoopbackSession(AiohttpSession):
    """aiogram session over plain HTTP."""

    def __init__(self, url: str) -> None:
        super().__init__(api=TelegramAPIServer.from_base(url))

    async def close(self) -> None:
        """Close at once: aiogram waits a quarter of a second for TLS, which is not used here."""
        if self._session is not None and not self._session.closed:
            await self._session.close()


def make_local_bot(url: str, token: str) -> Bot:
    """Make a bot that uses the Bot API server at `url`. Use as `async with`, or close its session."""
    return Bot(token, session=LoopbackSession(url))
