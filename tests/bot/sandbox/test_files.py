"""Documents that people send: how the bot gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiogram import Bot
from aiogram.exceptions import TelegramBadRequest
from aiogram.types import Document
from driven_sandbox import DrivenSandbox

from bot.sandbox import Sandbox

READER = 500


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = DrivenSandbox()
    sandbox.world.add_person(READER, "Rita")
    await sandbox.start()
    yield sandbox
    await sandbox.stop()


async def received(sandbox: Sandbox, bot: Bot, name: str, data: bytes, caption: str = "") -> Document:
    await sandbox.send_file(READER, name, data, caption, mime="application/json")
    message = (await bot.get_updates())[-1].message
    assert message is not None and message.document is not None
    assert (message.caption or "") == caption and message.text is None
    return message.document


@pytest.mark.parametrize(
    "name", ["result.json", "экспорт канала.zip", "../../etc/passwd", "a#b?c%20", "no-ending", "x.🦉"]
)
async def test_a_document_is_downloaded_as_it_was_sent(sandbox: Sandbox, bot: Bot, name: str) -> None:
    document = await received(sandbox, bot, name, b"\x00posts" * 1000, "/import @channel")
    assert (document.file_name, document.file_size, document.mime_type) == (name, 6000, "application/json")
    file = await bot.get_file(document.file_id)
    assert file.file_path is not None and file.file_path.startswith("documents/") and ".." not in file.file_path
    content = await bot.download_file(file.file_path)
    assert content is not None and content.read() == b"\x00posts" * 1000


async def test_more_than_20_megabytes_are_not_given(sandbox: Sandbox, bot: Bot) -> None:
    document = await received(sandbox, bot, "result.json", bytes(20 * 2**20 + 1))
    with pytest.raises(TelegramBadRequest, match="file is too big"):
        await bot.get_file(document.file_id)
    largest = await received(sandbox, bot, "result.json", bytes(20 * 2**20))
    assert (await bot.get_file(largest.file_id)).file_size == 20 * 2**20


async def test_a_local_server_gives_a_path_and_files_of_any_size(sandbox: Sandbox, bot: Bot, tmp_path: Path) -> None:
    sandbox.world.local = tmp_path
    document = await received(sandbox, bot, "result.json", bytes(21 * 2**20))
    file = await bot.get_file(document.file_id)
    assert file.file_path is not None and Path(file.file_path).stat().st_size == 21 * 2**20
    with pytest.raises(aiohttp.ClientResponseError, match="404"):
        await bot.download_file(next(iter(sandbox.world.files.values())).path())
