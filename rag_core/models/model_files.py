"""Model files: the folder of a model on the disk, its manifest and checksums, and the disk space it needs.

A folder is filled under a temporary name and renamed, so that it is either complete or absent; its manifest holds the
sizes and checksums of the files. Of one that was filled by hand, without a manifest, only the names are checked.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rag_core.errors import ModelUnavailable, translate_errors
from rag_core.models.catalog import ModelRole, ModelSpec
from rag_core.untrusted_files import read_regular_file

_MANIFEST_NAME = "files.json"
# Needed beside the weights where there is no manifest.
_OTHER_FILES = {ModelRole.WRITER: (), ModelRole.SPEECH: ("config.json", "tokenizer.json", "vocabulary.txt")}
_SPARE_DISK_BYTES = 64 << 20  # stays free: SQLite and logs are on the same disk


def is_model_present(row: ModelSpec, folder: Path) -> bool:
    """Whether the model's files are in the folder and, where it has a manifest, match it."""
    try:
        check_model_files(row, folder)
    except ModelUnavailable:
        return False
    return True


def check_model_files(row: ModelSpec, folder: Path, whole: str = "") -> None:
    """Compare a model's files, read where their time has changed, with its manifest. Raises ModelUnavailable."""
    for part in row.parts:
        check_model_files(part, folder / part.name, row.name)
    if row.parts:
        return
    about = {"model": row.name, "folder": folder, "pulled": whole or row.name}
    if not folder.is_dir():
        raise ModelUnavailable(
            "The model {model} is not in {folder}: run citegram models pull {pulled}.", code="model-missing", **about
        )
    kept = _read_manifest(folder)
    for name in kept or (row.file, *_OTHER_FILES.get(row.role, ("tokenizer.json", "tokenizer_config.json"))):
        if not (folder / name).is_file():
            raise ModelUnavailable(
                "The folder {folder} of the model {model} has no {part}: run citegram models pull {pulled} again.",
                code="model-incomplete",
                part=name,
                **about,
            )
        unchanged = kept is None
        with suppress(OSError):
            status, known = (folder / name).stat(), (kept or {}).get(name, {})
            unchanged = unchanged or (
                status.st_size == known["bytes"]
                and (status.st_mtime_ns == known["time"] or compute_sha256(folder / name) == known["sha256"])
            )
        if not unchanged:
            raise ModelUnavailable(
                "The file {part} of the model {model} is damaged: run citegram models pull {pulled} again.",
                code="model-damaged",
                part=name,
                **about,
            )


def verify_model_checksums(row: ModelSpec, folder: Path) -> None:
    """Check the files and their full checksums: a second for each GB, blocking. Raises ModelUnavailable."""
    check_model_files(row, folder)
    for part in row.parts:
        verify_model_checksums(part, folder / part.name)
    for name, kept in (_read_manifest(folder) or {}).items():
        with translate_errors(
            ModelUnavailable,
            OSError,
            say=f"The file {name} of the model {row.name} cannot be read ({{}}): check the disk and its permissions.",
        ):
            now = compute_sha256(folder / name)
        if now != kept["sha256"]:
            pull = f"delete {folder / name} and run citegram models pull {row.name}"
            raise ModelUnavailable(f"The file {name} of the model {row.name} is damaged: {pull}.")


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]] | None:
    """Read the manifest; None where there is none. For a damaged one, require a file that cannot exist."""
    try:
        files = json.loads(read_regular_file(folder / _MANIFEST_NAME))["files"]
        return {str(name): {"bytes": int(f["bytes"]), "sha256": str(f["sha256"]), "time": int(f["time"])}
                for name, f in files.items()}  # fmt: skip
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return {_MANIFEST_NAME + " (readable)": {}}


def read_kept_checksums(folder: Path) -> dict[str, str]:
    """Read the sha256 of each file from the manifest, also of damaged or missing files; empty without a manifest."""
    return {name: str(about["sha256"]) for name, about in (_read_manifest(folder) or {}).items() if "sha256" in about}


def read_origin(folder: Path) -> dict[str, str]:
    """Read what the manifest says of the model besides its files; empty without a readable one."""
    with suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):
        about = json.loads(read_regular_file(folder / _MANIFEST_NAME))
        return {str(name): str(value) for name, value in about.items() if name != "files"}
    return {}


def write_manifest(folder: Path, **about: str) -> None:
    """Write the manifest: size, sha256 and time of every file of the folder, and `about`, their source."""
    files = {}
    for file in sorted(f for f in folder.iterdir() if f.is_file() and f.name != _MANIFEST_NAME):
        status = file.stat()
        files[file.name] = {"bytes": status.st_size, "sha256": compute_sha256(file), "time": status.st_mtime_ns}
    (folder / _MANIFEST_NAME).write_text(json.dumps({**about, "files": files}, indent=1), encoding="utf-8")


def compute_sha256(file: Path) -> str:
    """Compute the sha256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def name_vector_space(row: ModelSpec) -> str:
    """Name of the space of an embedder's vectors: with another adapter it is another one, and they are made anew."""
    return f"{row.name}-{compute_sha256(Path(__file__).with_name(row.adapter))[:8]}" if row.adapter else row.name


def measure_folder_size(folder: Path) -> int:
    """Count the bytes of all files below a folder; 0 where there is none."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # a file may be deleted meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total


def check_disk_space(folder: Path, needed: int, name: str) -> None:
    """Raise ModelUnavailable where the disk of `folder` lacks space for `needed` bytes more."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed + _SPARE_DISK_BYTES:
        raise ModelUnavailable(
            f"The model {name} needs {needed / 1e6:.0f} MB and the disk of {existing} has {free / 1e6:.0f} MB free: "
            "make room, or choose another folder with DATA__DIR."
        )


@contextmanager
def stage_model_folder(folder: Path, name: str) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block succeeds; leftovers are removed first."""
    fresh, old = (folder.parent / f".{folder.name}~{secrets.token_hex(4)}" for _ in range(2))
    with translate_errors(
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
