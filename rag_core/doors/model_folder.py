"""A model's folder: its files, and a list of their sizes and checksums that was made when they came.

A folder is filled aside and moved to its place at once, so that it is there whole or not at all.
A folder somebody filled by hand has no list; then only the names of the files are looked at.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rag_core.doors.regular import read_regular
from rag_core.errors import ModelUnavailable, raised_as
from rag_core.models import ModelRow, Role

__all__ = ["Progress", "check", "enough_room", "here", "keep_list", "kept_checksums", "sha256_of", "silent", "size_of",
           "staged", "verify"]  # fmt: skip

Progress = Callable[[int, int], None]  # bytes here, bytes in all

_LIST = "files.json"
_SPARE = 64 << 20  # bytes that stay free: SQLite and logs live on the same disk


def silent(done: int, total: int) -> None:
    """A Progress that tells nobody."""


def here(row: ModelRow, folder: Path) -> bool:
    """Whether the model's files are in the folder and, where a list was kept, are what they were."""
    try:
        check(row, folder)
    except ModelUnavailable:
        return False
    return True


def check(row: ModelRow, folder: Path, whole: str = "") -> None:
    """Compare a model's files with the list kept beside them. Raises ModelUnavailable.

    Content is read only where a file's time says that it may have changed. `whole` is the model it is a part of.
    """
    for part in row.parts:
        check(part, folder / part.name, row.name)
    if row.parts:
        return
    pull = f"run citegram models pull {whole or row.name}"
    if not folder.is_dir():
        raise ModelUnavailable(f"The model {row.name} is not in {folder}: {pull}.")
    kept = _kept_list(folder)
    for name in kept or _needed(row):
        if not (folder / name).is_file():
            raise ModelUnavailable(f"The folder {folder} of the model {row.name} has no {name}: {pull} again.")
        if kept is not None and not _unchanged(folder / name, kept[name]):
            raise ModelUnavailable(f"The file {name} of the model {row.name} is damaged: {pull} again.")


def verify(row: ModelRow, folder: Path) -> None:
    """As `check`, and read every file in full: a second for each GB; blocking. Raises ModelUnavailable."""
    check(row, folder)
    for part in row.parts:
        verify(part, folder / part.name)
    for name, kept in (_kept_list(folder) or {}).items():
        with raised_as(ModelUnavailable, OSError, say=f"The file {name} of the model {row.name} cannot be read: {{}}."):
            now = sha256_of(folder / name)
        if now != kept["sha256"]:
            pull = f"delete {folder / name} and run citegram models pull {row.name}"
            raise ModelUnavailable(f"The file {name} of the model {row.name} is damaged: {pull}.")


def _needed(row: ModelRow) -> tuple[str, ...]:
    return (row.file,) if row.role is Role.WRITER else (row.file, "tokenizer.json", "tokenizer_config.json")


def _kept_list(folder: Path) -> dict[str, dict[str, Any]] | None:
    """The list, None where there is none; a damaged list asks for a file that cannot be there."""
    try:
        text = read_regular(folder / _LIST)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {_LIST + " (readable)": {}}
    try:
        files = json.loads(text)["files"]
        return {str(name): {"bytes": int(f["bytes"]), "sha256": str(f["sha256"]), "time": int(f["time"])}
                for name, f in files.items()}  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {_LIST + " (readable)": {}}


def kept_checksums(folder: Path) -> dict[str, str]:
    """The sha256 of each file as it came, also where a file is damaged or gone; empty where no list is."""
    return {name: str(about["sha256"]) for name, about in (_kept_list(folder) or {}).items() if "sha256" in about}


def _unchanged(file: Path, kept: dict[str, Any]) -> bool:
    try:
        now = file.stat()
        if now.st_size != kept["bytes"]:
            return False
        return bool(now.st_mtime_ns == kept["time"]) or bool(sha256_of(file) == kept["sha256"])
    except OSError:
        return False


def keep_list(folder: Path, **about: str) -> None:
    """Write down size, sha256 and time of every file of the folder, and `about`: where they came from."""
    files = {}
    for file in sorted(f for f in folder.iterdir() if f.is_file() and f.name != _LIST):
        seen = file.stat()
        files[file.name] = {"bytes": seen.st_size, "sha256": sha256_of(file), "time": seen.st_mtime_ns}
    (folder / _LIST).write_text(json.dumps({**about, "files": files}, indent=1), encoding="utf-8")


def sha256_of(file: Path) -> str:
    """The sha256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; 0 where there is none."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # a file may go while we look
            total += file.stat().st_size if file.is_file() else 0
    return total


def enough_room(folder: Path, needed: int, name: str) -> None:
    """Raise ModelUnavailable where the disk of `folder` has no room for `needed` bytes more."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < needed + _SPARE:
        raise ModelUnavailable(
            f"The model {name} needs {needed / 1e6:.0f} MB and the disk of {there} has {free / 1e6:.0f} MB free: "
            "make room, or choose another folder with DATA__DIR."
        )


@contextmanager
def staged(folder: Path, name: str) -> Iterator[Path]:
    """An empty folder that takes the place of `folder`, whole, when the block ends well, and goes otherwise.

    One at a time for each `folder`: what an interrupted one left is removed first.
    """
    fresh, old = (folder.parent / f".{folder.name}~{secrets.token_hex(4)}" for _ in range(2))
    with raised_as(
        ModelUnavailable,
        OSError,
        say=f"The model {name} cannot be written ({{}}): check the disk and the permissions of its folder.",
    ):
        try:
            for left in folder.parent.glob(f".{folder.name}~*"):
                shutil.rmtree(left)
            fresh.mkdir(parents=True)
            yield fresh
            if folder.exists():
                folder.replace(old)
            fresh.replace(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
