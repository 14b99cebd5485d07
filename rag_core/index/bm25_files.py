"""BM25 index files: arrays and a vocabulary in a folder of their own, and a small JSON file that names the current one.

The files are read as untrusted input: only regular files are opened, no links are followed, and sizes are checked. A
data folder that was copied from elsewhere holds files that somebody else wrote.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rag_core.errors import IndexUnavailable, translate_errors
from rag_core.untrusted_files import open_regular_file, read_regular_file

# Errors that reading or decoding a damaged index may raise.
INDEX_READ_ERRORS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    EOFError,
    IndexError,
    MemoryError,
    RuntimeError,  # an encrypted archive, JSON that is nested too deeply
    BadZipFile,
    struct.error,
    zlib.error,
)

_MAX_ARRAYS = 64
_MAX_DIRECTORY_BYTES = 1 << 16  # of the zip directory at the end of an archive: an entry has less than 100 bytes
_ZIP_END = struct.Struct("<4s4H2LH")  # zip's end of central directory
_ZIP64_LOCATOR = struct.Struct("<4sLQL")  # the same for archives above 4 GB
_ZIP64_END = struct.Struct("<4sQ2H2L4Q")


def get_lexical_folder(data: Path) -> Path:
    """Folder of the saved lexical index in a data folder."""
    return data / "lexical"


def translate_write_errors() -> AbstractContextManager[None]:
    """Translate OSErrors while an index is written into IndexUnavailable."""
    reason = "The index cannot be written to disk ({said}): free some space."
    return translate_errors(IndexUnavailable, OSError, say=reason, code="index-not-written")


def write_index_files(
    folder: Path, about: Mapping[str, object], arrays: Mapping[str, NDArray[Any]], vocabulary: Iterable[str]
) -> None:
    """Write the files of an index atomically: after a crash either the old or the new ones are complete.

    `about` holds the watermark, which names the folder. Raises IndexUnavailable.
    """
    fresh = folder / f"{about['watermark']}-{secrets.token_hex(4)}"
    with translate_write_errors():
        try:
            fresh.mkdir(parents=True, exist_ok=True)
            with (fresh / "postings.npz").open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            (fresh / "vocabulary.txt").write_text("\n".join(vocabulary), encoding="utf-8")
            staged = folder / "current.tmp"
            staged.write_text(json.dumps({**about, "folder": fresh.name}), encoding="utf-8")
            staged.replace(folder / "current.json")
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)  # on a full disk a partial index must not take space
            raise
        # Remove the folders of older indexes; one that cannot be removed does no harm
        for old in folder.iterdir():
            if old.is_symlink():
                old.unlink(missing_ok=True)
            elif old.is_dir() and old != fresh:
                shutil.rmtree(old, ignore_errors=True)


def read_index_files(
    folder: Path, wanted: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], list[str]] | None:
    """Read the `about`, arrays and vocabulary given to `write_index_files`; None if `about` differs from `wanted`.

    Raises INDEX_READ_ERRORS.
    """
    about = json.loads(read_regular_file(folder / "current.json"))
    if any(about[name] != value for name, value in wanted.items()):
        return None
    name = about["folder"]
    if name != Path(name).name:
        raise ValueError("the index is elsewhere")
    most = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
    with open_regular_file(folder / name / "postings.npz", most) as file:
        arrays = _read_arrays(file)
    vocabulary = read_regular_file(folder / name / "vocabulary.txt", most)
    return about, arrays, vocabulary.split("\n") if vocabulary else []


def _read_arrays(file: IO[bytes]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an archive of `np.savez`: not compressed, so that they cannot be larger than the file."""
    size = file.seek(0, os.SEEK_END)
    _check_zip_directory(file, size)
    with ZipFile(file) as archive:
        members = archive.infolist()
        plain = all(one.compress_type == ZIP_STORED and one.file_size == one.compress_size for one in members)
        if not plain or sum(one.file_size for one in members) > size:
            raise ValueError("the arrays are larger than their file")
        found = {}
        for one in members:
            with archive.open(one) as opened:
                _check_npy_header(opened, one.file_size)
            with archive.open(one) as opened:
                found[one.filename.removesuffix(".npy")] = npy.read_array(opened, allow_pickle=False)
        return found


def _check_zip_directory(file: IO[bytes], size: int) -> None:
    """Raise ValueError if an archive has a long list of members: reading it would take ten times its size in memory."""
    file.seek(max(0, size - _ZIP_END.size - _ZIP64_LOCATOR.size))
    tail = file.read()
    if len(tail) < _ZIP_END.size:
        raise ValueError("the archive is cut short")
    _, _, _, _, members, length, _, _ = _ZIP_END.unpack(tail[-_ZIP_END.size :])
    if tail.startswith(b"PK\x06\x07"):
        file.seek(max(0, size - _ZIP_END.size - _ZIP64_LOCATOR.size - _ZIP64_END.size))
        *_, members, length, _ = _ZIP64_END.unpack(file.read(_ZIP64_END.size))
    if members > _MAX_ARRAYS or length > _MAX_DIRECTORY_BYTES or not tail[-_ZIP_END.size :].startswith(b"PK\x05\x06"):
        raise ValueError("the archive is none of ours")
    file.seek(0)


def _check_npy_header(opened: IO[bytes], size: int) -> None:
    """Raise ValueError if an array has another size than its header says, or is not a vector of numbers."""
    version = npy.read_magic(opened)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read_header is None:
        raise ValueError("an array of another format")
    try:
        shape, _, kind = read_header(opened)
    except (SyntaxError, TokenError) as exc:  # the header is written in Python's literals
        raise ValueError("an array without a header") from exc
    if kind.kind not in "biuf" or len(shape) != 1 or shape[0] * kind.itemsize != size - opened.tell():
        raise ValueError("an array is not what its header says")
