"""What a reader can do after an answer: vote, see its sources, have it shorter or deeper, hand on a link to it."""

from __future__ import annotations

from aiogram import Router

from bot.after import deep_links, presses, sources

__all__ = ["routes"]


def routes() -> Router:
    """Handlers of the buttons under answers, of /sources and /link, and of links that ask. Before /start."""
    router = Router(name="after")
    router.include_routers(presses.routes(), sources.routes(), deep_links.routes())
    return router
