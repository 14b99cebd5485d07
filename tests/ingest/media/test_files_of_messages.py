"""Which files of messages are read, live, exported and from the history; and the preview of a linked page."""

import os

import pytest
from fake_mtproto_server import CHANNEL, CHAT_ID, START, make_message, serve
from telethon import TelegramClient, functions, types

from ingest.messages import parse_exported_post, parse_live_post
from ingest.mtproto import HistoryClient, convert_message
from rag_core.types import DOCUMENT, PAGE, PICTURE, VOICE, MediaFile, MediaText

UNIX = int(START.timestamp())
IDS = {"file_id": "f", "file_unique_id": "u"}


def live(**fields):
    message = {"chat": {"id": CHAT_ID, "title": "Пекарня", "type": "channel"}, "message_id": 7, "date": UNIX, **fields}
    media = parse_live_post(message)[1].media
    return media.file if media else None


def exported(folder, **fields):
    message = {"id": 7, "type": "message", "date_unixtime": str(UNIX), "text": "", **fields}
    post = parse_exported_post(message, CHAT_ID, folder=folder)
    return post.media.file if post and post.media else None


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"photo": [IDS | {"file_unique_id": "small"}, IDS | {"file_size": 9}]}, PICTURE),
        ({"voice": IDS | {"duration": 12}}, VOICE),
        ({"video_note": IDS | {"duration": 12}}, VOICE),
        ({"audio": IDS | {"duration": 12, "file_name": "talk.mp3"}}, VOICE),
        ({"video": IDS | {"duration": 59}}, VOICE),
        ({"video": IDS | {"duration": 5400}}, None),
        ({"document": IDS | {"file_name": "Прайс.PDF"}}, DOCUMENT),
        ({"document": IDS | {"file_name": "menu.jpeg"}}, PICTURE),
        ({"document": IDS | {"file_name": "setup.exe"}}, None),
        ({"document": IDS}, None),
        ({"sticker": IDS}, None),
        ({"photo": [IDS], "has_media_spoiler": True}, None),
        ({"photo": []}, None),
        ({"photo": "AgAD"}, None),
        ({"voice": {"file_id": 7, "file_unique_id": None, "duration": "12"}}, None),
    ],
)
def test_which_live_files_are_read(fields, kind):
    found = live(**fields)
    assert (found.kind if found else None) == kind
    if found:
        assert (found.id, found.locator) == ("bot:u", "f")


def test_an_exported_file_is_found_in_the_folder_of_the_export(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/photo_1.jpg").write_bytes(b"1234")
    found = exported(tmp_path, photo="photos/photo_1.jpg")
    assert found == MediaFile(PICTURE, "path:4:photos/photo_1.jpg", str(tmp_path / "photos/photo_1.jpg"), 4)


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "/etc/hostname",
        "link.txt",
        "(File not included. Change data exporting settings to download.)",
        "files/none.txt",
        "files",
        "a\0b.txt",
        "x" * 5000 + ".txt",
    ],
)
def test_no_file_outside_the_export_is_read(tmp_path, path):
    folder = tmp_path / "export"
    (folder / "files").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert exported(folder, file=path) is None


def test_the_posts_of_a_folder_whose_name_is_no_text_come_in_without_their_files(tmp_path):
    folder = tmp_path / os.fsdecode(b"export\xff")
    folder.mkdir()
    (folder / "list.txt").write_text("Чай 55")
    assert exported(folder, file="list.txt") is None


PAGE_PREVIEW = types.WebPage(
    1, "https://bread.example/x", "bread.example/x", 0, site_name="Хлебный сайт", title="Мука подорожала",
    description="С мая мешок\n\nстоит 1 900 ₽.",
)  # fmt: skip


def test_the_preview_of_a_page_is_read_from_the_history():
    message = make_message(7, "https://bread.example/x", media=types.MessageMediaWebPage(PAGE_PREVIEW))
    post = convert_message(message, CHANNEL, {})
    assert post and post.media is None
    assert post.media_text == (MediaText(PAGE, "Хлебный сайт: Мука подорожала\nС мая мешок\nстоит 1 900 ₽."),)
    assert post.text == "https://bread.example/x"


SIZES = [types.PhotoSize("x", 800, 600, 9)]
PHOTO = types.MessageMediaPhoto(photo=types.Photo(555, 2, b"r", START, SIZES, 2))


async def test_a_file_of_the_history_is_downloaded(tmp_path, monkeypatch):
    server = serve(monkeypatch)
    server.messages = {7: make_message(7, media=PHOTO), 8: make_message(8)}

    async def send(_, __, request, **___):
        assert isinstance(request, functions.upload.GetFileRequest)
        return types.upload.File(types.storage.FileJpeg(), UNIX, b"\xff\xd8picture" if request.offset == 0 else b"")

    monkeypatch.setattr(TelegramClient, "_call", send)
    post = convert_message(server.messages[7], CHANNEL, {})
    assert post and post.media and post.media.file == MediaFile(PICTURE, "mtproto:555", "")
    client = HistoryClient(1, "hash", "42:token", tmp_path)
    assert await client.download_file(CHAT_ID, 7, tmp_path / "file", 100)
    assert (tmp_path / "file").read_bytes() == b"\xff\xd8picture"
    assert not await client.download_file(CHAT_ID, 8, tmp_path / "none", 100)
    assert not await client.download_file(CHAT_ID, 9, tmp_path / "none", 100)
