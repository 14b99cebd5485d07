"""/privacy: what is kept of a reader, for how long and where, as the settings are now."""

from __future__ import annotations

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import Message

from bot.settings import Settings
from bot.words import Words

__all__ = ["routes"]


async def _on_privacy(message: Message, command: CommandObject, settings: Settings, words: Words) -> None:
    private = message.chat.type == "private"
    if not private and not command.mention:
        return  # in a group a bare command may be meant for another bot
    data, server = settings.data, bool(settings.llm.url or settings.qdrant.url)
    kept = [
        words("privacy-what"),
        words("privacy-questions", days=data.keep_questions_days),
        words("privacy-votes"),
        words("privacy-updates"),
        *([words("privacy-talks", minutes=settings.memory.minutes, new="/new")] if settings.memory.enabled else []),
        words("privacy-memory"),
    ]
    more = [
        words("privacy-backups", count=data.backups),
        words("privacy-not", search="/search"),
        words("privacy-log", texts="yes" if settings.log.texts else "no"),
        words("privacy-where", server="yes" if server else "no"),
        words("privacy-do", mydata="/mydata", forget="/forget"),
    ]
    await message.answer("\n\n".join(["\n".join(kept), *more]))


def routes() -> Router:
    """The handler of /privacy."""
    router = Router(name="privacy_told")
    chats = F.chat.type.in_({"private", "group", "supergroup"})
    router.message.register(_on_privacy, Command("privacy", ignore_case=True), chats)
    return router
