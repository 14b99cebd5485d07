"""A document as it came, made into a file that can be imported: a zip is looked through first, then unpacked.

Nothing of a zip is believed: neither names nor sizes. Only the export itself is taken out of it, under names of
our own. Runs in the confined child: a list of members alone may be a bomb.
"""

from __future__ import annotations

import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from bot.importing.refusal import Refusal

__all__ = ["MOST_BYTES", "MOST_MEMBERS", "MOST_RATIO", "unpacked"]

MOST_MEMBERS = 2_000
MOST_BYTES = 500 * 2**20  # unpacked, all members together
MOST_RATIO = 100  # unpacked to packed; the text of an export is packed to a tenth
_RATIO_FROM = 2**16  # bytes; in smaller members a ratio says nothing

_JSON, _PAGE = "result.json", re.compile(r"messages[0-9]{0,4}\.html", re.ASCII)
_ARCHIVES = frozenset(".zip .rar .7z .gz .tgz .bz2 .xz .zst .tar .lz4 .cab .jar".split())
_ENCRYPTED = 0x1 | 0x40  # APPNOTE.TXT 4.4.4
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


def unpacked(document: Path, folder: Path) -> Path:
    """The file to import, in `folder`. Raises `Refusal`, OSError."""
    with document.open("rb") as opened:
        head = opened.read(512)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _taken_out(document, folder)
    page = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
    file = folder / ("messages.html" if page else _JSON)
    document.rename(file)
    return file


def _taken_out(document: Path, folder: Path) -> Path:
    with _readable(), zipfile.ZipFile(document) as archive:
        members = archive.infolist()
        _check(members, document.stat().st_size)
        files = [_extracted(archive, member, folder) for member in _wanted(members)]
    return min(files, key=lambda file: (len(file.name), file.name))  # messages.html before messages2.html


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except _BROKEN as exc:
        raise Refusal("import-zip-broken") from exc


def _check(members: Sequence[zipfile.ZipInfo], packed: int) -> None:
    """Refuse what an export never is. `packed`: bytes of the zip."""
    if len(members) > MOST_MEMBERS:
        raise Refusal("import-zip-members", most=MOST_MEMBERS)
    if any(member.flag_bits & _ENCRYPTED for member in members):
        raise Refusal("import-zip-encrypted")
    if any(not _inside(member) for member in members):
        raise Refusal("import-zip-path")
    if nested := next((m for m in members if PurePosixPath(m.filename).suffix.lower() in _ARCHIVES), None):
        raise Refusal("import-zip-nested", name=PurePosixPath(nested.filename).name)
    total = sum(member.file_size for member in members)
    if total > MOST_BYTES:
        raise Refusal("import-zip-size", most=MOST_BYTES // 2**20)
    swollen = any(m.file_size > max(m.compress_size * MOST_RATIO, _RATIO_FROM) for m in members)
    if swollen or total > max(packed * MOST_RATIO, _RATIO_FROM):
        raise Refusal("import-zip-ratio", most=MOST_RATIO)


def _inside(member: zipfile.ZipInfo) -> bool:
    """Whether the member is a plain file or folder below the zip's own folder."""
    if stat.S_ISLNK(member.external_attr >> 16):
        return False
    names = (member.filename, member.orig_filename)
    return not any(n.startswith("/") or "\\" in n or ":" in n.split("/")[0] or ".." in n.split("/") for n in names)


def _wanted(members: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The one result.json, else the pages of one chat."""
    named = [(PurePosixPath(member.filename), member) for member in members if not member.is_dir()]
    found = [member for path, member in named if path.name == _JSON]
    if not found:
        pages = [(path, member) for path, member in named if _PAGE.fullmatch(path.name)]
        if len({path for path, _ in pages}) < len(pages) or len({path.parent for path, _ in pages}) > 1:
            raise Refusal("import-zip-many")
        return [member for _, member in pages] or _none()
    if len(found) > 1:
        raise Refusal("import-zip-many")
    return found


def _none() -> list[zipfile.ZipInfo]:
    raise Refusal("import-zip-empty")


def _extracted(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> Path:
    """The member as a file of ours; never longer than it says, which has been checked."""
    file = folder / PurePosixPath(member.filename).name
    with archive.open(member) as packed, _created(file) as written:
        left = member.file_size
        while left > 0 and (piece := packed.read(min(left, 2**18))):
            written.write(piece)
            left -= len(piece)
    return file


def _created(file: Path) -> BinaryIO:
    """A new file that only its owner may read."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
