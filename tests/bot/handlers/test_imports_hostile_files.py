"""Documents that are no export, or mean harm: one sentence, nothing left behind, the bot goes on."""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from driver import RITA, make_zip, open_archive, say

from bot.handlers.imports import translate_note
from bot.i18n import get_translator
from bot.imports import DocumentRefused, unpack_document
from bot.sandbox import Sandbox
from ingest.exports import import_export
from ingest.json_export import ImportOptions
from rag_core.errors import ImportRefused
from rag_core.storage import channels, posts
from rag_core.types import Channel

CHAT = b'{"name": "Bakery", "type": "private_channel", "id": 77, "messages": [%s]}'
EXPORT = CHAT % b'{"id": 1, "type": "message", "date_unixtime": "1700000000", "text": "Rolls at six."}'
HEAD = CHAT.partition(b"%s")[0] + b'{"id": 1, "type": "message", '

Members = dict[str, bytes]


def claiming(raw: bytes, offset: int, value: bytes) -> bytes:
    """A zip whose central directory says something else of its first member."""
    place = raw.index(b"PK\x01\x02") + offset
    return raw[:place] + value + raw[place + len(value) :]


def with_link() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        info = zipfile.ZipInfo("result.json")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


GOOD = make_zip({"result.json": EXPORT})
ZIPS: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    # packed when they are asked for: every process of the tests reads this table
    "a bomb": (lambda: make_zip({"result.json": b" " * 5 * 2**20}), "import-zip-ratio"),
    "a bomb beside the export": (make_zip({"result.json": EXPORT, "a.txt": b"0" * 2**22}), "import-zip-ratio"),
    "a bomb of crumbs": (lambda: make_zip({f"{n}": b"0" * 60_000 for n in range(100)} | {"result.json": EXPORT}),
                         "import-zip-ratio"),
    "more than 500 MB": (claiming(GOOD, 24, struct.pack("<L", 501 * 2**20)), "import-zip-size"),
    "2001 members": (make_zip({f"{n}.txt": b"" for n in range(2001)}), "import-zip-members"),
    "a zip in a zip": (make_zip({"result.zip": GOOD}), "import-zip-nested"),
    "an archive beside the export": (make_zip({"result.json": EXPORT, "files/a.TAR": b""}), "import-zip-nested"),
    "encrypted": (claiming(GOOD, 8, b"\x01\x00"), "import-zip-encrypted"),
    "up and out": (make_zip({"../result.json": EXPORT}), "import-zip-path"),
    "down, up and out": (make_zip({"a/b/../../../result.json": EXPORT}), "import-zip-path"),
    "from the root": (make_zip({"/tmp/result.json": EXPORT}), "import-zip-path"),
    "Windows' way out": (make_zip({"..\\result.json": EXPORT}), "import-zip-path"),
    "another drive": (make_zip({"C:/result.json": EXPORT}), "import-zip-path"),
    "a harmless export and a way out": (make_zip({"result.json": EXPORT, "../x.css": b""}), "import-zip-path"),
    "a link": (with_link(), "import-zip-path"),
    "two exports": (make_zip({"a/result.json": EXPORT, "b/result.json": EXPORT}), "import-zip-many"),
    "pages of two chats": (make_zip({"a/messages.html": b"<", "b/messages.html": b"<"}), "import-zip-many"),
    "no export": (make_zip({"readme.txt": b"hello"}), "import-zip-empty"),
    "nothing": (make_zip({}), "import-zip-empty"),
    "a folder called result.json": (make_zip({"result.json/": b""}), "import-zip-empty"),
    "half a zip": (GOOD[: len(GOOD) // 2], "import-zip-broken"),
    "only the beginning": (b"PK\x03\x04", "import-zip-broken"),
    "another content than it says": (claiming(GOOD, 16, b"\0\0\0\0"), "import-zip-broken"),
    "longer than it says": (claiming(GOOD, 24, struct.pack("<L", 20)), "import-zip-broken"),
    "an unknown packing": (claiming(GOOD, 10, b"\x63\x00"), "import-zip-broken"),
}  # fmt: skip


@pytest.mark.parametrize("what", ZIPS)
def test_a_zip_that_is_no_export_is_refused(tmp_path, what):
    raw, sentence = ZIPS[what]
    folder = tmp_path / "incoming"
    folder.mkdir()
    (folder / "document").write_bytes(raw() if callable(raw) else raw)
    with pytest.raises(DocumentRefused) as caught:
        unpack_document(folder / "document", folder)
    assert caught.value.sentence == sentence
    said = get_translator("ru")(sentence, file="a.zip", **caught.value.values)
    assert re.search("[а-я]", said) and "\n" not in said
    assert {file.name for file in tmp_path.iterdir()} == {"incoming"}
    assert {file.name for file in folder.iterdir()} <= {"document", "result.json"}


@pytest.mark.parametrize(
    ("members", "file"),
    [
        ({"result.json": EXPORT}, "result.json"),
        ({"Канал/ChatExport_2024-01-01/result.json": EXPORT, "Канал/photos/1.jpg": b"x" * 9}, "result.json"),
        ({"result.json": EXPORT, "messages.html": b"<"}, "result.json"),
        ({"e/messages2.html": b"<2", "e/messages.html": b"<1", "e/css/style.css": b"", "e/": b""}, "messages.html"),
        ({"__MACOSX/._result.json": b"x", "result.json": EXPORT}, "result.json"),
    ],
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_an_export_comes_out_of_its_zip_for_its_owner_only(tmp_path, members, file, method):
    (tmp_path / "document").write_bytes(make_zip(members, method))
    found = unpack_document(tmp_path / "document", tmp_path)
    assert found == tmp_path / file
    assert found.stat().st_mode & 0o777 == 0o600
    assert found.read_bytes() == next(data for name, data in members.items() if Path(name).name == file)


@pytest.mark.parametrize(
    ("raw", "name"),
    [(EXPORT, "result.json"), (b"\xef\xbb\xbf \n<!DOCTYPE html>", "messages.html"), (b"", "result.json")],
)
def test_what_is_no_zip_is_known_by_its_content(tmp_path, raw, name):
    (tmp_path / "document").write_bytes(raw)
    assert unpack_document(tmp_path / "document", tmp_path).name == name


# through the bot

DOCUMENTS: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "a bomb": (ZIPS["a bomb"][0], "Архив канал.zip сжат больше чем в 100 раз"),
    "garbage": (b"\x89PNG\r\n\x1a\n" * 100, "канал.zip — не JSON"),
    "deep": (HEAD + b'"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", "В канал.zip слишком глубокая вложенность"),
    "half": (EXPORT[:-30], "канал.zip обрывается на середине"),
}  # fmt: skip


async def ended(sandbox: Sandbox, message_id: int) -> str:
    """What the message of an import says when the import is over."""
    room = sandbox.world.room(RITA).messages
    assert await sandbox.until(lambda: "reply_markup" not in room[message_id], 60)
    return str(room[message_id]["text"])


async def test_the_bot_says_no_in_russian_and_goes_on(sandbox, live, home):
    async with live(admins=(RITA,)):
        for raw, said in DOCUMENTS.values():
            await sandbox.send_file(RITA, "канал.zip", raw() if callable(raw) else raw, "/import")
            (telling,) = await sandbox.replies(RITA)
            assert (await ended(sandbox, telling["message_id"])).startswith(said)
            assert not (home / "incoming").exists()
        answer = await say(sandbox, RITA, "когда открывается запись на осенний курс керамики?")
    assert "пятого сентября" in answer["text"]


# every refusal and every note has words of its own

WRONG: dict[str, bytes] = {
    "not JSON": b"\x89PNG", "empty": b"", "cut": EXPORT[:40], "no export": b'{"a": 1}', "list": b"[1]",
    "nameless": b'{"name": "x", "type": "public_channel", "messages": []}',
    "private": CHAT.replace(b"private_channel", b"personal_chat") % b"",
    "tdl": b'{"id": 5, "messages": [{"id": 1, "type": "message", "file": ""}]}',
    "deep": HEAD + b'"text": ' + b"[" * 1000, "page": b"<!DOCTYPE html><html></html>",
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
async def test_every_refusal_has_words_for_a_chat(tmp_path, home, what):
    file = tmp_path / ("messages.html" if what == "page" else "result.json")
    file.write_bytes(WRONG[what])
    async with open_archive(home) as archive:
        with pytest.raises(ImportRefused) as caught:
            await import_export(archive, file, ImportOptions())
    assert caught.value.code, caught.value.reason
    for lang in ("ru", "en"):
        said = get_translator(lang)(caught.value.code, file=file.name, tool="tdl", example="/import @channel")
        assert file.name in said and "--" not in said


@pytest.mark.parametrize("chat", ["два слова", "@nowhere_known", "-1001000001"])
async def test_a_channel_that_is_wrongly_named_has_words_too(tmp_path, home, chat):
    page = tmp_path / "messages.html"
    page.write_bytes(b"<html>")
    async with open_archive(home) as archive:
        (tmp_path / "result.json").write_bytes(EXPORT)
        with pytest.raises(ImportRefused) as caught:
            await import_export(archive, tmp_path / "result.json", ImportOptions(chat=chat))
            await import_export(archive, page, ImportOptions(chat=chat))
    assert caught.value.code in {"import-whose", "import-other-chat", "import-no-page"}


async def test_every_note_has_words_for_a_chat(tmp_path, home, make_post):
    entries = [b'{"id": %d, "type": "message", "date_unixtime": "1700000000", "text": "x"}' % n for n in (1, 2, -5)]
    entries += [b'{"id": 3, "type": "message"}', b"5", b'{"id": -999999999, "type": "message"}']
    public = CHAT.replace(b"private_channel", b"public_channel") % b",".join(entries)
    empty = CHAT.replace(b"77", b"78") % b""
    private = CHAT.replace(b"private_channel", b"personal_chat") % b""
    nameless = CHAT.replace(b'"id": 77, ', b"") % b""
    full = b'{"about": "", "chats": {"about": "", "list": [%s]}}' % b",".join((public, empty, private, nameless))
    (tmp_path / "result.json").write_bytes(full)
    async with open_archive(home) as archive:
        await channels.save_channel(archive, Channel(-10077, "Bakery"))
        await posts.save_posts(archive, [make_post(n, "old", chat=-10077) for n in range(1, 100)], source="test")
        report = await import_export(archive, tmp_path / "result.json", ImportOptions())
    assert len(report.notes) >= 4
    for note in report.notes:
        said = translate_note(note, note.code, note.parameters, get_translator("ru"))
        assert re.search("[а-я]", said), note
        assert said.startswith(("Bakery: ", "Пропущен"))


def test_a_note_is_one_short_line_and_shown_as_it_is_without_a_code():
    title = {"title": f"{'я' * 5000}\u202e\n"}
    said = translate_note("", "import-note-empty", title, get_translator("en"))
    assert len(said) < 200 and "\n" not in said and "\u202e" not in said
    assert translate_note("The moon is full.\u202e", "", {}, get_translator("ru")) == "The moon is full."
