"""How far a rebuild is, edited into the message in which it was asked for; after a restart into the same one."""

from __future__ import annotations

import logging
import time

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest

from bot.reindex_chat import stop_button
from bot.reindexing import Reindexing
from bot.titles import title_of
from bot.words import Words, words_for
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.rebuilds import Rebuild, Tell
from rag_core.errors import RagError

__all__ = ["tell"]

_EVERY_S = 3.0  # Telegram slows down who edits much oftener

log = logging.getLogger(__name__)


async def tell(bot: Bot, reindexing: Reindexing, archive: Archive) -> None:
    """Tell of every rebuild that has a message, one after the other."""
    last = 0
    while True:
        last = (await reindexing.begun(last)).id
        try:
            await _followed(bot, reindexing, archive)
        except RagError as exc:  # the archive; the rebuild goes on without being told of
            log.warning("the progress of rebuild %d is not told: %s", last, exc.reason)


async def _followed(bot: Bot, reindexing: Reindexing, archive: Archive) -> None:
    told = -_EVERY_S
    async for rebuild in reindexing.states():
        over = rebuild.state != "running"
        if rebuild.tell and (over or time.monotonic() - told >= _EVERY_S):
            words = words_for(rebuild.tell.lang)
            await _edited(bot, rebuild, rebuild.tell, await _said(rebuild, archive, words), words)
            told = time.monotonic()


async def _edited(bot: Bot, rebuild: Rebuild, tell: Tell, said: str, words: Words) -> None:
    """Edit the message; where it is gone or too old, the end is told in a new one."""
    over = rebuild.state != "running"
    buttons = None if over else stop_button(rebuild.id, words)
    try:
        try:
            await bot.edit_message_text(said, chat_id=tell.chat_id, message_id=tell.message_id, reply_markup=buttons)
        except TelegramBadRequest as exc:
            if over and "not modified" not in exc.message:
                await bot.send_message(tell.chat_id, said)
    except (TelegramAPIError, ClientDecodeError) as exc:  # blocked, or out of reach for longer than the session tries
        log.warning("the progress of rebuild %d was not told: %s", rebuild.id, exc)


async def _said(rebuild: Rebuild, archive: Archive, words: Words) -> str:
    what = words("reindex-what-all")
    if rebuild.chat_id is not None:
        channel = (await channels.known(archive)).get(rebuild.chat_id)
        what = title_of(channel, words) if channel else words("unnamed-channel")
    if rebuild.state == "running":
        return "\n".join([words("reindex-running", what=what), *_progress(rebuild, words)])
    if rebuild.state == "cancelled":
        return words("reindex-cancelled")
    if rebuild.state == "failed":
        return words("reindex-failed", reason=rebuild.reason)
    count = await posts.count(archive, rebuild.chat_id)
    renewed = [words("reindex-renewed", count=rebuild.renewed)] if rebuild.renewed else []
    return "\n".join([words("reindex-done", what=what, count=count), *renewed])


def _progress(rebuild: Rebuild, words: Words) -> list[str]:
    if not rebuild.total:
        return [words("reindex-preparing")]
    percent = 100 * rebuild.done // rebuild.total
    lines = [words("reindex-progress", done=rebuild.done, total=rebuild.total, percent=percent)]
    if rebuild.left_s is not None and rebuild.done < rebuild.total:
        lines.append(words("reindex-left", minutes=round(rebuild.left_s / 60)))
    return lines
