"""What is kept of a reader: told, sent to them, erased."""

from __future__ import annotations

from aiogram import Router

from bot.privacy import export, forgetting, told

__all__ = ["routes"]


def routes() -> Router:
    """Handlers of /privacy, /mydata and /forget."""
    router = Router(name="privacy")
    router.include_routers(told.routes(), export.routes(), forgetting.routes())
    return router
