"""An index on disk: arrays and a vocabulary in a folder of their own, and one small file that names the current one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from rag_core.errors import IndexUnavailable, raised_as

__all__ = ["UNREADABLE", "Arrays", "read", "write"]

Arrays = Mapping[str, NDArray[Any]]

# What reading a damaged index may raise, and making sense of it.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, IndexError, BadZipFile, zlib.error)


def write(folder: Path, about: Mapping[str, object], arrays: Arrays, vocabulary: Iterable[str]) -> None:
    """Write an index so that either the old or the new one is there, whole, whatever happens.

    `about` holds its watermark, by which its folder is named. Raises IndexUnavailable.
    """
    fresh = folder / f"{about['watermark']}-{secrets.token_hex(4)}"
    with raised_as(IndexUnavailable, OSError, say="The index cannot be written to disk ({}): free some space."):
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
            shutil.rmtree(fresh, ignore_errors=True)  # a disk that is full has no room for half an index
            raise
        for old in folder.iterdir():
            if old.is_dir() and old != fresh:
                shutil.rmtree(old)


def read(
    folder: Path, wanted: Mapping[str, object]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], list[str]] | None:
    """What `write` was given, where its `about` says what is `wanted`; None for another. Raises UNREADABLE."""
    about = json.loads((folder / "current.json").read_text(encoding="utf-8"))
    if any(about[name] != value for name, value in wanted.items()):
        return None
    home = folder / about["folder"]
    # opened by ourselves: numpy leaves a file open that is no archive
    with (home / "postings.npz").open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    vocabulary = (home / "vocabulary.txt").read_text(encoding="utf-8")
    return about, arrays, vocabulary.split("\n") if vocabulary else []
