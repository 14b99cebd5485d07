"""Files that are no export, or a broken one: one sentence, and the archive as it was."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest.exports.export_checks import ImportOptions
from ingest.exports.export_formats import import_export
from rag_core.errors import ImportRefused
from rag_core.storage import Archive, channels, posts

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


async def refused(archive: Archive, path: Path) -> str:
    with pytest.raises(ImportRefused) as caught:
        await import_export(archive, path, ImportOptions())
    assert await posts.get_last_seq(archive) == 0
    assert await channels.load_channels(archive) == {}
    sentence = caught.value.reason
    assert "\n" not in sentence and sentence.endswith(".") and str(path) in sentence
    return sentence


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("result.json", "{}")
    return file.getvalue()


HEAD = b'{"name": "x", "type": "public_channel", "id": 5, "messages": [{"id": 1, "type": "message", '
WRONG = {
    "a picture": (b"\x89PNG\r\n\x1a\n" * 100, "not JSON"),
    "words": ("просто текст".encode(), "not JSON"),
    "a page": (b"<!DOCTYPE html><html></html>", "no chat that Telegram Desktop exported"),
    "a page with white space before it": (b"\xef\xbb\xbf\n <html></html>", "no chat that Telegram Desktop exported"),
    "a zip": (zipped(), "zip archive"),
    "nothing": (b"", "is empty"),
    "white space": (b" \n ", "ends in the middle"),
    "a list": (b'[{"id": 1}]', "no export"),
    "a number": (b"5", "no export"),
    "an object of something else": (b'{"name": "x", "version": 2, "packages": {"list": []}}', "no export"),
    "messages that are no list": (b'{"name": "x", "type": "public_channel", "id": 5, "messages": 5}', "no export"),
    "a chat without an id": (b'{"name": "x", "type": "public_channel", "messages": []}', "which chat"),
    "a full export without chats": (b'{"chats": {"about": "", "list": []}}', "which chat"),
    "deep nesting": (HEAD + b'"text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}]}", "nested too deeply"),
    "deep nesting from the start": (b"[" * 2_000_000, "nested too deeply"),
    "a number of 5000 digits": (HEAD + b'"date_unixtime": ' + b"9" * 5000 + b"}]}", "too big"),
    "a number over 64 bits": (HEAD + b'"date_unixtime": 99999999999999999999}]}', "too big"),
    "a huge fraction": (HEAD + b'"date_unixtime": 1e999}]}', "too big"),
    "not a number": (HEAD + b'"date_unixtime": NaN}]}', "not JSON"),
    "bytes that are no UTF-8": (HEAD + b'"text": "\xff\xfe"}]}', "not JSON"),
    "UTF-16": ('{"chats": {"list": []}}'.encode("utf-16"), "not JSON"),
    "two exports in one file": (b'{"name": "x", "type": "public_channel", "id": 5, "messages": []}' * 2, "not JSON"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_file_is_refused_in_one_sentence(archive: Archive, written: Write, what: str) -> None:
    content, said = WRONG[what]
    assert said in await refused(archive, written(content))


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.99])
async def test_of_a_truncated_export_nothing_is_kept(
    archive: Archive, written: Write, chat: Make, message: Make, keep: float
) -> None:
    raw = json.dumps(chat(*(message(n) for n in range(1, 2001)))).encode()
    assert "ends in the middle" in await refused(archive, written(raw[: int(len(raw) * keep)]))


async def test_a_folder_without_an_export_is_refused(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "There is no file" in await refused(archive, tmp_path / "empty")


async def test_a_file_that_does_not_exist_is_refused(archive: Archive, tmp_path: Path) -> None:
    assert "There is no file" in await refused(archive, tmp_path / "nowhere.json")


async def test_a_pipe_is_refused_and_not_waited_for(archive: Archive, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "There is no file" in await refused(archive, tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_one_may_not_read_is_refused(archive: Archive, written: Write) -> None:
    file = written({})
    file.chmod(0)
    assert "cannot be read" in await refused(archive, file)


@pytest.mark.parametrize("username", ["", "два слова", "a", "https://example.org/bread"])
async def test_a_username_that_can_be_none_is_refused(
    archive: Archive, written: Write, chat: Make, message: Make, username: str
) -> None:
    with pytest.raises(ImportRefused, match="username"):
        await import_export(archive, written(chat(message(1))), ImportOptions(username=username))
    assert await posts.get_last_seq(archive) == 0
