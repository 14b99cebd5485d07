"""Document download: from Telegram's files to a local file. The URL holds the bot's token and is never shown.

A Bot API server may run with --local: then it gives the path of a file on its own disk.
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

from bot.import_process import DocumentRefused

# Telegram's limit for downloads by bots: https://core.telegram.org/bots/api#getfile
MAX_DOCUMENT_BYTES = 20 * 2**20
_MAX_TRIES = 3
_DOWNLOAD_TIMEOUT_SECONDS = 300  # for the whole file: 20 MB at half a megabit a second
_CHUNK_BYTES = 2**16

log = logging.getLogger(__name__)


async def fetch_document(bot: Bot, document: Document, file: Path) -> None:
    """Download the document into `file`, a new file that only its owner may read. Raises DocumentRefused."""
    if (document.file_size or 0) > MAX_DOCUMENT_BYTES:
        raise DocumentRefused("import-too-big")
    path = await _get_file_path(bot, document)
    if path.startswith("/"):
        await asyncio.to_thread(_copy_local_file, Path(path), file)
        return
    for attempt in range(1, _MAX_TRIES + 1):
        # `from None`: the network exceptions contain the URL with the token.
        try:
            address = bot.session.api.file_url(bot.token, path)
            pieces = bot.session.stream_content(address, timeout=_DOWNLOAD_TIMEOUT_SECONDS, chunk_size=_CHUNK_BYTES)
            async with aclosing(pieces):
                await _write_chunks(pieces, file)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as exc:
            log.warning("a document could not be fetched: %s", type(exc).__name__)
            if attempt == _MAX_TRIES:
                raise DocumentRefused("import-not-fetched") from None
        else:
            return


async def _get_file_path(bot: Bot, document: Document) -> str:
    """Get Telegram's path of the file."""
    try:
        path = (await bot.get_file(document.file_id)).file_path
    except TelegramBadRequest as exc:
        raise DocumentRefused("import-too-big" if "too big" in exc.message else "import-not-fetched") from exc
    except (TelegramAPIError, ClientDecodeError) as exc:
        raise DocumentRefused("import-not-fetched") from exc
    if not path:
        raise DocumentRefused("import-not-fetched")
    return path


async def _write_chunks(pieces: AsyncIterator[bytes], file: Path) -> None:
    """Write the chunks to a file. The size that Telegram reported is not trusted."""
    size = 0
    with _create_private_file(file) as written:
        async for piece in pieces:
            size += len(piece)
            if size > MAX_DOCUMENT_BYTES:
                raise DocumentRefused("import-too-big")
            written.write(piece)


def _copy_local_file(source: Path, file: Path) -> None:
    try:
        # Opening a pipe must not block.
        with os.fdopen(os.open(source, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            status = os.fstat(opened.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise DocumentRefused("import-far")
            if status.st_size > MAX_DOCUMENT_BYTES:
                raise DocumentRefused("import-too-big")
            content = opened.read(MAX_DOCUMENT_BYTES)
    except OSError as exc:  # on another machine, in another container, or not readable by us
        log.warning("the Bot API server's file cannot be read: %s", exc.strerror)
        raise DocumentRefused("import-far") from exc
    with _create_private_file(file) as written:
        written.write(content)


def _create_private_file(file: Path) -> BinaryIO:
    """Create an empty file that only its owner may read; remove the rest of an earlier try."""
    file.unlink(missing_ok=True)
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
