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

from ingest.exports import import_export
from ingest.json_export import ImportOptions
from rag_core.errors import ImportRefused
from rag_core.storage import Archive, channels, posts
from rag_core.storage.posts import StoredPost, fetch_stored_posts
from rag_core.types import PostKey

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
    "tdl": (b'{"id": 5, "messages": [{"id": 1, "type": "message", "file": "", "date": 1, "text": "x"}]}', "no export"),
    "Telethon": (b'[{"_": "Message", "id": 1, "message": "x"}]', "no export"),
    "Discord": (b'{"guild": {}, "channel": {}, "messages": []}', "no export"),
    "updates": (b'{"ok": true, "result": [{"update_id": 1}]}', "no export"),
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


ODD_VALUES = {
    "a number of 5000 digits": ('"id": ' + "9" * 5000, 2),
    "a number over 64 bits": ('"id": -9223372036854775809', 2),
    "a huge fraction": ('"id": 2, "date_unixtime": 1e999', 2),
    "the second half of a pair": (r'"id": 2, "date_unixtime": "1710244800", "text": "\udc1d 12345678901234567890"', 3),
    "the first half of a pair": (r'"id": 2, "date_unixtime": "1710244800", "text": "\ud83d 12345678901234567890"', 3),
    "a value without quotes": (
        '"id": 2, "date_unixtime": "1710244800", "text": [{"type": "custom_emoji", "text": "\ufffd",\n'
        '"document_id": video_files/sticker (2).webm\n}, " 12345678901234567890"]',
        3,
    ),
}


@pytest.mark.parametrize("what", ODD_VALUES)
@pytest.mark.parametrize("gap", ["\n", " " * 70_000])
async def test_an_odd_value_costs_one_message_at_most(
    archive: Archive, written: Write, chat: Make, message: Make, what: str, gap: str
) -> None:
    odd, kept = ODD_VALUES[what]
    raw = json.dumps(chat(message(1, ": 99999999999999999999, \\"), {"here": 1}, message(3, "🍞\U0001f41d" * 9000)))
    export = raw.replace('{"here": 1}', f'{{{gap}"type": "message", {odd}}}').encode()
    report = await import_export(archive, written(export), ImportOptions(username="bread"))
    assert (report.tally.new, report.tally.skipped) == (kept, 3 - kept)
    texts = {key.message_id: one.post.text for key, one in (await stored(archive)).items()}
    assert texts[1] == ": 99999999999999999999, \\"
    assert texts[3] == "🍞\U0001f41d" * 9000
    if kept == 3:
        assert texts[2] == "\ufffd 12345678901234567890"


async def stored(archive: Archive) -> dict[PostKey, StoredPost]:
    chat = -1001234567890
    return await fetch_stored_posts(archive, [PostKey(chat, n) for n in await posts.list_message_ids(archive, chat)])
