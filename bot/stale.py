"""Buttons that nothing else wanted: of an earlier version, or made up. Telegram shows them as busy until answered."""

from __future__ import annotations

from aiogram import Router
from aiogram.types import CallbackQuery

from bot.words import Words

__all__ = ["routes"]


async def _on_stale(pressed: CallbackQuery, words: Words) -> None:
    await pressed.answer(words("button-stale"), show_alert=True)


def routes() -> Router:
    """The handler of every other button. To be included last."""
    router = Router(name="stale")
    router.callback_query.register(_on_stale)
    return router
