"""Files of posts, from the channel to the answer: read, cited with their place, kept apart, told of where unread."""

import asyncio
import io
import re
import shutil
from secrets import token_urlsafe

import pytest
from driver import ADMIN, HARBOUR, OTTO, SAFE, current, open_archive, say_text
from model_check.spoken_notes import can_speak, record_note, speak
from PIL import Image, ImageDraw, ImageFont

from bot.sandbox.state import UploadedFile
from rag_core.storage import media

pytestmark = pytest.mark.slow

needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")
PRICES = "Rowing boat for an hour: 18 euros\nPedal boat for an hour: 22 euros\nDeposit: 50 euros\n"
BOATS = "How much is a rowing boat for an hour?"


def draw(text):
    picture = Image.new("RGB", (900, 300), "white")
    ImageDraw.Draw(picture).text((40, 40), text, fill="black", font=ImageFont.load_default(38), spacing=24)
    stored = io.BytesIO()
    picture.save(stored, "PNG")
    return stored.getvalue()


@pytest.fixture(autouse=True)
def look_often(monkeypatch):
    monkeypatch.setattr("bot.app._MEDIA_SECONDS", 0.2)


@pytest.fixture
def post_file(sandbox):
    """Posts a file with a caption as a channel."""

    async def post(chat_id, name, data, caption=""):
        upload = UploadedFile(token_urlsafe(12), name, "application/octet-stream", data)
        sandbox.world.files[upload.file_id] = upload
        fields = {"document": upload.wire()}
        if name.endswith("photo"):
            fields = {"photo": [upload.wire() | {"width": 900, "height": 300}]}
        return await sandbox.post(chat_id, "", extra=fields | {"text": None, "caption": caption})

    return post


async def until_read(archive, files):
    async with asyncio.timeout(60):
        while sum(one.files for one in await media.count_media(archive) if one.state != "waiting") < files:  # noqa: ASYNC110 - the archive rings no bell
            await asyncio.sleep(0.1)


async def test_a_price_list_is_asked_about_and_its_answer_says_where_it_stands(sandbox, live, ask, home, post_file):
    async with live(), open_archive(home) as archive:
        sent = await post_file(HARBOUR, "prices.txt", PRICES.encode(), "Boat hire, summer")
        await until_read(archive, 1)
        told = await ask(OTTO, BOATS)
        assert "Rowing boat for an hour: 18 euros" in told["text"]
        assert "in the file" in told["text"]
        links = [one["url"] for one in told["entities"] if one["type"] == "text_link"]
        assert f"https://t.me/harbour_news/{sent['message_id']}" in links


@needs_tesseract
async def test_a_picture_is_asked_about(sandbox, live, ask, home, post_file):
    async with live(), open_archive(home) as archive:
        await post_file(HARBOUR, "photo", draw(PRICES), "Boat hire")
        await until_read(archive, 1)
        told = await ask(OTTO, BOATS)
        assert "18 euros" in told["text"]
        assert "in the picture" in told["text"]


async def test_a_voice_note_is_asked_about(sandbox, live, ask, home, post_file, speech_model, tmp_path):
    if not can_speak("en"):
        pytest.skip("espeak-ng is not installed")
    (home / "models").mkdir(exist_ok=True)
    (home / "models" / speech_model.name).symlink_to(speech_model)
    said = ("Good evening to all our readers.", "The chess club meets in the old mill on Thursdays.")
    wavs = [speak(text, "en", tmp_path / f"{n}.wav") for n, text in enumerate(said)]
    record_note(wavs, note := tmp_path / "note.oga")
    async with live(), open_archive(home) as archive:
        await post_file(HARBOUR, "note.oga", note.read_bytes())
        await until_read(archive, 1)
        told = await ask(OTTO, "Where does the chess club meet?")
        assert "in the old mill" in told["text"]
        assert re.search("in the recording, at 0:0[23]", told["text"])
        assert told["text"].startswith("The answer is probably here")


async def test_the_file_of_a_closed_channel_is_for_its_readers(sandbox, live, ask, home, post_file):
    async with live(), open_archive(home) as archive:
        await post_file(SAFE, "prices.txt", PRICES.encode())
        await until_read(archive, 1)
        assert "18 euros" not in (await ask(OTTO, BOATS))["text"]
        assert "18 euros" in (await ask(ADMIN, BOATS))["text"]


async def test_a_deleted_post_takes_the_text_of_its_file_along(sandbox, live, ask, home, post_file):
    async with live(), open_archive(home) as archive:
        sent = await post_file(HARBOUR, "prices.txt", PRICES.encode())
        await until_read(archive, 1)
        confirm = await ask(ADMIN, f"/delete https://t.me/harbour_news/{sent['message_id']}")
        button = confirm["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
        await sandbox.press(ADMIN, ADMIN, confirm["message_id"], button)
        assert "18 euros" not in (await ask(OTTO, BOATS))["text"]
        assert not await archive.value("SELECT count(*) FROM posts WHERE media_text IS NOT NULL")


@needs_tesseract
async def test_a_picture_that_is_hidden_as_a_spoiler_later_is_quoted_no_more(
    sandbox, live, ask, home, post_file, monkeypatch
):
    monkeypatch.setattr("bot.notifications._DEBOUNCE_SECONDS", 0.3)
    monkeypatch.setattr("bot.notifications._ANSWER_INTERVAL_SECONDS", 0.1)
    async with live(), open_archive(home) as archive:
        sent = await post_file(HARBOUR, "photo", draw(PRICES), "Boat hire")
        await until_read(archive, 1)
        told = await ask(OTTO, BOATS)
        assert "18 euros" in told["text"]
        edited = {"has_media_spoiler": True, "edit_date": sent["date"] + 60}
        message = sandbox.world.change(sandbox.world.room(HARBOUR), sent["message_id"], **edited)
        sandbox.world.queue.push("edited_channel_post", message)
        assert await sandbox.until(lambda: "18 euros" not in current(sandbox, told)["text"])
        assert "18 euros" not in (await ask(OTTO, BOATS))["text"]
        assert "18 euros" not in await say_text(sandbox, OTTO, "/why", reply_to=told["message_id"])
        assert not await media.count_media(archive)


async def test_what_cannot_be_read_is_told_in_one_sentence_and_can_be_tried_again(sandbox, live, ask, home, post_file):
    async with live(), open_archive(home) as archive:
        await post_file(HARBOUR, "broken.pdf", b"%PDF-1.7 nothing more")
        gone = await post_file(HARBOUR, "gone.txt", PRICES.encode())
        del sandbox.world.files[gone["document"]["file_id"]]
        await until_read(archive, 2)
        told = await ask(ADMIN, "/media")
        assert "Documents: 0 read, 0 waiting" in told["text"]
        assert "1 not read: the file is gone." in told["text"]
        (row,) = told["reply_markup"]["inline_keyboard"]
        await sandbox.press(ADMIN, ADMIN, told["message_id"], row[0]["callback_data"])
        await until_read(archive, 2)


async def test_reading_can_be_paused_and_goes_on(sandbox, live, ask, home, post_file):
    async with live(), open_archive(home) as archive:
        await media.set_media_paused(archive, True)
        await post_file(HARBOUR, "prices.txt", PRICES.encode())
        async with asyncio.timeout(30):
            while not await media.count_media(archive):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        told = await ask(ADMIN, "/media")
        assert "Paused" in told["text"]
        (row,) = told["reply_markup"]["inline_keyboard"]
        await sandbox.press(ADMIN, ADMIN, told["message_id"], row[0]["callback_data"])
        await until_read(archive, 1)
        assert "18 euros" in (await ask(OTTO, BOATS))["text"]
