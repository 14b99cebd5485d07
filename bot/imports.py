"""Import process: unpacks and imports one document of a stranger into the archive, in a confined worker process.

It writes only the archive; the bot updates the indexes. Its messages:

    {"at": [done, all]}                    progress
    {"end": {"tally", "channels", "notes"}}
    {"refused": [id, values]}              the id of a sentence in bot/locales; import-refused has the reason itself
"""

import asyncio
import errno
import json
import lzma
import os
import stat
import sys
import time
import zipfile
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from datetime import UTC
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

from bot.data_folder import open_private_file
from ingest.exports import ImportReport, import_export
from ingest.json_export import ImportOptions
from rag_core.errors import RagError
from rag_core.processes import CONFINED, Message, WorkerExited, WorkerProcess, open_parent_pipes, write_message
from rag_core.storage import Archive


class DocumentRefused(Exception):
    """The document cannot be imported; `sentence` is the id of a message in `locales/*.ftl`."""

    def __init__(self, sentence: str, **values: str | int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.values = values


MAX_MEMBERS = 2_000
MAX_UNPACKED_BYTES = 500 * 2**20  # unpacked, all members together
MAX_COMPRESSION_RATIO = 100  # unpacked to packed; the text of an export compresses to about a tenth
_MIN_RATIO_BYTES = 2**16  # in smaller members the ratio is not meaningful

_JSON_FILE_NAME = "result.json"
_ARCHIVE_SUFFIXES = frozenset(".zip .rar .7z .gz .tgz .bz2 .xz .zst .tar .lz4 .cab .jar".split())
_ENCRYPTED_FLAGS = 0x1 | 0x40  # APPNOTE.TXT 4.4.4
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


def unpack_document(document: Path, folder: Path) -> Path:
    """Extract or rename the export to a file in `folder`, and return its path. Raises DocumentRefused, OSError."""
    file = folder / _JSON_FILE_NAME
    with document.open("rb") as opened:
        head = opened.read(4)
    if head not in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        return document.rename(file)
    try:
        with zipfile.ZipFile(document) as archive:
            _extract_export(archive, document.stat().st_size, file)
    except _ZIP_ERRORS as exc:
        raise DocumentRefused("import-zip-broken") from exc
    return file


def _extract_export(archive: zipfile.ZipFile, packed_bytes: int, file: Path) -> None:
    """Extract the only result.json, after checks of all members. Raises DocumentRefused, and the errors of zipfile."""
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise DocumentRefused("import-zip-members", most=MAX_MEMBERS)
    if any(member.flag_bits & _ENCRYPTED_FLAGS for member in members):
        raise DocumentRefused("import-zip-encrypted")
    for member in members:  # plain files and folders below the zip's own folder
        for name in (member.filename, member.orig_filename):
            parts = name.split("/")
            outside = name.startswith("/") or "\\" in name or ":" in parts[0] or ".." in parts
            if outside or stat.S_ISLNK(member.external_attr >> 16):
                raise DocumentRefused("import-zip-path")
    if nested := next((m for m in members if PurePosixPath(m.filename).suffix.lower() in _ARCHIVE_SUFFIXES), None):
        raise DocumentRefused("import-zip-nested", name=PurePosixPath(nested.filename).name)
    total = sum(member.file_size for member in members)
    if total > MAX_UNPACKED_BYTES:
        raise DocumentRefused("import-zip-size", most=MAX_UNPACKED_BYTES // 2**20)
    swollen = any(m.file_size > max(m.compress_size * MAX_COMPRESSION_RATIO, _MIN_RATIO_BYTES) for m in members)
    if swollen or total > max(packed_bytes * MAX_COMPRESSION_RATIO, _MIN_RATIO_BYTES):
        raise DocumentRefused("import-zip-ratio", most=MAX_COMPRESSION_RATIO)
    paths = [PurePosixPath(member.filename) for member in members]
    exports = [m for m, path in zip(members, paths, strict=True) if path.name == _JSON_FILE_NAME and not m.is_dir()]
    if not exports:
        pages = any(path.suffix == ".html" and path.name.startswith("messages") for path in paths)
        raise DocumentRefused("import-html" if pages else "import-zip-empty")
    if len(exports) > 1:
        raise DocumentRefused("import-zip-many")
    with archive.open(exports[0]) as packed, open_private_file(file) as written:
        left = exports[0].file_size  # never more than was checked
        while left > 0 and (piece := packed.read(min(left, 2**18))):
            written.write(piece)
            left -= len(piece)


_MAX_SECONDS = 900.0
_WORKER_ARGUMENTS = (*CONFINED, "bot.imports")

_PROGRESS_INTERVAL_SECONDS = 0.5
_MAX_CHANNELS, _MAX_NOTES = 200, 20  # a full export may hold thousands of chats; a message shows a few


async def run_import(order: Mapping[str, object]) -> AsyncGenerator[Message, None]:
    """Run the worker and yield its messages; `aclosing` ends it. Raises DocumentRefused if limits or timeout do."""
    worker = await WorkerProcess.start(*_WORKER_ARGUMENTS, json.dumps(order))
    ends = asyncio.get_running_loop().time() + _MAX_SECONDS
    try:
        while True:
            async with asyncio.timeout_at(ends):
                message = await worker.receive()
            yield message
    except TimeoutError:
        raise DocumentRefused("import-too-long") from None
    except WorkerExited as exc:
        if exc.code is None or exc.code < 0:
            raise DocumentRefused("import-too-heavy") from None
    finally:
        worker.kill()
        await worker.stop()


def main(order: str) -> int:
    """Run the order, given as JSON; returns the exit code."""
    os.umask(0o077)
    requests, replies = open_parent_pipes()
    Thread(target=_exit_with_parent, args=(requests.fileno(),), daemon=True).start()
    parameters, write = json.loads(order), partial(write_message, replies)
    try:
        report = asyncio.run(_import_document(parameters, write))
    except DocumentRefused as exc:
        write({"refused": [exc.sentence, exc.values]})
    except RagError as exc:
        reason = exc.reason.replace(f"{parameters['folder']}/", "")
        values = dict(exc.parameters) if exc.code else {"reason": reason}
        write({"refused": [exc.code or "import-refused", values]})
    except (MemoryError, RecursionError):
        write({"refused": ["import-too-heavy", {}]})
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        write({"refused": ["import-disk", {}]})
    else:
        channels = [channel.chat_id for channel in report.channels[:_MAX_CHANNELS]]
        notes = [[note.code, note.parameters] for note in report.notes[:_MAX_NOTES]]
        more = len(report.notes) - len(notes)
        write({"end": {"tally": asdict(report.tally), "channels": channels, "notes": notes, "more": more}})
        return 0
    return 1


async def _import_document(order: Mapping[str, Any], write: Callable[[Message], None]) -> ImportReport:
    folder = Path(order["folder"])
    file = await asyncio.to_thread(unpack_document, folder / order["document"], folder)
    # UTC needs no time zone database, which slim containers lack.
    zone = UTC if order["zone"] == "UTC" else ZoneInfo(order["zone"])
    options = ImportOptions(chat_id=order["chat"], zone=zone)
    said = 0.0

    def report_progress(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _PROGRESS_INTERVAL_SECONDS:
            said = time.monotonic()
            write({"at": [done, total]})

    archive = await Archive.open(Path(order["data"]))
    try:
        return await import_export(archive, file, options, report_progress)
    finally:
        await archive.close()


def _exit_with_parent(requests: int) -> None:
    """Exit when standard input closes: nothing is written to it, so its end means that the bot has died."""
    while os.read(requests, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
