"""BM25 index files: raw arrays and a vocabulary in a folder of their own, and a small JSON file that names the current
one.

The files are read as untrusted input: only regular files are opened, no links are followed, and sizes are checked. A
data folder that was copied from elsewhere holds files that somebody else wrote.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rag_core.errors import IndexUnavailable, translate_errors
from rag_core.untrusted_files import open_regular_file, read_regular_file

# Errors that reading or decoding a damaged index may raise; RuntimeError: JSON that is nested too deeply.
INDEX_READ_ERRORS = (OSError, ValueError, LookupError, TypeError, ArithmeticError, MemoryError, RuntimeError)


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
            for name, array in arrays.items():
                with (fresh / f"{name}.bin").open("wb") as file:
                    array.tofile(file)
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
    folder: Path, wanted: Mapping[str, object], kinds: Mapping[str, DTypeLike]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], list[str]] | None:
    """Read an index with arrays of these kinds; None if `about` differs from `wanted`. Raises INDEX_READ_ERRORS."""
    about = json.loads(read_regular_file(folder / "current.json"))
    if any(about[name] != value for name, value in wanted.items()):
        return None
    name = about["folder"]
    if name != Path(name).name:
        raise ValueError("the index is elsewhere")
    left = (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
    arrays: dict[str, NDArray[Any]] = {}
    for array, kind in kinds.items():
        with open_regular_file(folder / name / f"{array}.bin", left) as file:
            arrays[array] = np.fromfile(file, kind)
        left -= arrays[array].nbytes
    vocabulary = read_regular_file(folder / name / "vocabulary.txt", left)
    return about, arrays, vocabulary.split("\n") if vocabulary else []
