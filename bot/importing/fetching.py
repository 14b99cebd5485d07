"""A document from Telegram's files to ours. The address of a file holds the bot's token: it is never said.

A Bot API server of one's own may run with --local: then it gives the path of a file on its own disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import BinaryIO

import aiohttp
from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest
from aiogram.types import Document

from bot.importing.refusal import Refusal

__all__ = ["MOST_BYTES", "fetched"]

# What Telegram lets bots download: https://core.telegram.org/bots/api#getfile
MOST_BYTES = 20 * 2**20
_TRIES = 3
_PATIENCE_S = 300  # for the whole file: 20 MB over half a megabit a second
_PIECE = 2**16

log = logging.getLogger(__name__)


async def fetched(bot: Bot, document: Document, file: Path) -> None:
    """Put the document into `file`, which is new and for its owner only. Raises `Refusal`."""
    if (document.file_size or 0) > MOST_BYTES:
        raise Refusal("import-too-big")
    place = await _place(bot, document)
    if place.startswith("/"):
        await asyncio.to_thread(_copied, Path(place), file)
        return
    for attempt in range(1, _TRIES + 1):
        # From None: the exceptions of the wire hold the address.
        try:
            await _downloaded(bot, place, file)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as exc:
            log.warning("a document could not be fetched: %s", type(exc).__name__)
            if attempt == _TRIES:
                raise Refusal("import-not-fetched") from None
        else:
            return


async def _place(bot: Bot, document: Document) -> str:
    """Telegram's path of the file."""
    try:
        place = (await bot.get_file(document.file_id)).file_path
    except TelegramBadRequest as exc:
        raise Refusal("import-too-big" if "too big" in exc.message else "import-not-fetched") from exc
    except (TelegramAPIError, ClientDecodeError) as exc:
        raise Refusal("import-not-fetched") from exc
    if not place:
        raise Refusal("import-not-fetched")
    return place


async def _downloaded(bot: Bot, place: str, file: Path) -> None:
    address = bot.session.api.file_url(bot.token, place)
    pieces = bot.session.stream_content(address, timeout=_PATIENCE_S, chunk_size=_PIECE)
    async with aclosing(pieces):
        await _written(pieces, file)


async def _written(pieces: AsyncIterator[bytes], file: Path) -> None:
    """The pieces as a file. What Telegram said of its size was only said."""
    size = 0
    with _created(file) as written:
        async for piece in pieces:
            size += len(piece)
            if size > MOST_BYTES:
                raise Refusal("import-too-big")
            written.write(piece)


def _copied(source: Path, file: Path) -> None:
    try:
        # A pipe must not be waited for.
        with os.fdopen(os.open(source, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            known = os.fstat(opened.fileno())
            if not stat.S_ISREG(known.st_mode):
                raise Refusal("import-far")
            if known.st_size > MOST_BYTES:
                raise Refusal("import-too-big")
            content = opened.read(MOST_BYTES)
    except OSError as exc:  # on another machine, in another container, or not ours to read
        log.warning("the Bot API server's file cannot be read: %s", exc.strerror)
        raise Refusal("import-far") from exc
    with _created(file) as written:
        written.write(content)


def _created(file: Path) -> BinaryIO:
    """An empty file that only its owner may read; what an earlier try left of it is gone."""
    file.unlink(missing_ok=True)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
