"""Files from Telegram: the download of one file, and the files of posts for the media reader.

The URL of a file holds the bot's token and is never shown. A Bot API server may run with --local: then it gives the
path of a file on its own disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import aiohttp
from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest

from bot.data_folder import open_private_file
from ingest.media import UnreadableMedia
from ingest.media.reader import MAX_FILE_BYTES, FileUnavailable
from rag_core.errors import HistoryUnavailable
from rag_core.safe_files import open_regular_file
from rag_core.storage.media import WaitingFile

if TYPE_CHECKING:
    from ingest.mtproto import HistoryClient

TELEGRAM_ERRORS = (TelegramAPIError, ClientDecodeError)
_MAX_TRIES = 3
_DOWNLOAD_TIMEOUT_SECONDS = 300  # for the whole file: 20 MB at half a megabit a second
_CHUNK_BYTES = 2**16
_GONE_ERRORS: Sequence[str] = ("wrong file_id", "file_id doesn't match", "wrong remote file", "file reference")

log = logging.getLogger(__name__)


class FileNotFetched(Exception):
    """A file could not be downloaded: "too-big", "far" (on another machine), "gone", or "not-fetched"."""


async def download_file(bot: Bot, file_id: str, file: Path, most: int) -> None:
    """Download a file of at most `most` bytes into `file`, which only its owner may read. Raises FileNotFetched."""
    try:
        path = (await bot.get_file(file_id)).file_path
    except TELEGRAM_ERRORS as exc:
        said = exc.message if isinstance(exc, TelegramBadRequest) else ""
        gone = any(one in said for one in _GONE_ERRORS)
        raise FileNotFetched("too-big" if "too big" in said else "gone" if gone else "not-fetched") from exc
    if not path:
        raise FileNotFetched("not-fetched")
    if path.startswith("/"):
        await asyncio.to_thread(_copy_local_file, Path(path), file, most)
        return
    for attempt in range(1, _MAX_TRIES + 1):
        # `from None`: the network exceptions contain the URL with the token.
        try:
            address = bot.session.api.file_url(bot.token, path)
            pieces = bot.session.stream_content(address, timeout=_DOWNLOAD_TIMEOUT_SECONDS, chunk_size=_CHUNK_BYTES)
            async with aclosing(pieces):
                # Write the chunks to a file. The size that Telegram reported is not trusted.
                size = 0
                with open_private_file(file) as written:
                    async for piece in pieces:
                        size += len(piece)
                        if size > most:
                            raise FileNotFetched("too-big")
                        written.write(piece)
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as exc:
            log.warning("a file could not be fetched: %s", type(exc).__name__)
            if attempt == _MAX_TRIES:
                raise FileNotFetched("not-fetched") from None
        else:
            return


def _copy_local_file(source: Path, file: Path, most: int) -> None:
    try:
        with open_regular_file(source, most) as opened:
            content = opened.read(most)
    except ValueError as exc:
        raise FileNotFetched("too-big") from exc
    except OSError as exc:  # on another machine, in another container, or not readable by us
        log.warning("the Bot API server's file cannot be read: %s", exc.strerror or type(exc).__name__)
        raise FileNotFetched("far") from exc
    with open_private_file(file) as written:
        written.write(content)


@dataclass(frozen=True, slots=True)
class BotFiles:
    """Files of live posts, over the Bot API: those of its own server up to 20 MB."""

    bot: Bot

    async def fetch(self, waiting: WaitingFile, folder: Path) -> Path:
        """Download a file. Raises FileUnavailable, UnreadableMedia."""
        path = folder / f"file{_get_suffix(waiting)}"
        try:
            await download_file(self.bot, waiting.file.locator, path, MAX_FILE_BYTES)
        except FileNotFetched as exc:
            if str(exc) == "not-fetched":
                raise FileUnavailable("Telegram") from exc
            raise UnreadableMedia("too_large" if str(exc) == "too-big" else "gone") from exc
        return path


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """Files of posts that came from the history, over MTProto."""

    client: HistoryClient

    async def fetch(self, waiting: WaitingFile, folder: Path) -> Path:
        """Download a file. Raises FileUnavailable, UnreadableMedia."""
        path = folder / f"file{_get_suffix(waiting)}"
        try:
            there = await self.client.download_file(*waiting.key, path, MAX_FILE_BYTES)
        except HistoryUnavailable as exc:
            raise FileUnavailable("history") from exc
        if not there:
            raise UnreadableMedia("gone")
        return path


def _get_suffix(waiting: WaitingFile) -> str:
    suffix = PurePath(waiting.name).suffix.lower()
    return suffix if suffix[1:].isalnum() and suffix.isascii() else ""
