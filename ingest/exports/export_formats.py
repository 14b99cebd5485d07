"""Formats of exports: finds result.json or messages.html, and imports it with the reader of its format."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from ingest.exports.export_checks import ImportOptions
from ingest.exports.html_export import HtmlExport, find_pages
from ingest.exports.importer import ExportSource, ImportProgress, ImportReport, import_source
from ingest.exports.json_export import JsonExport
from ingest.exports.json_repair import BYTE_ORDER_MARK
from rag_core.errors import ImportRefused
from rag_core.storage import Archive, channels
from rag_core.types import Channel

_EXPORT_FILE_NAMES = ("result.json", "messages.html")


async def import_export(
    archive: Archive, path: Path, options: ImportOptions, progress: ImportProgress | None = None
) -> ImportReport:
    """Import a result.json or messages.html, or a folder with one of them (result.json first).

    Raises `ImportRefused`, then nothing was changed. `progress` is called with bytes done and bytes in all, from the
    event loop.
    """
    known = await channels.load_channels(archive)
    source = await asyncio.to_thread(_open_source, path, options, known)
    return await import_source(archive, source, options, known, progress or (lambda done, total: None))


def _open_source(path: Path, options: ImportOptions, known: Mapping[int, Channel]) -> ExportSource:
    file, head, size = _find_export_file(path)
    if head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<"):
        return HtmlExport(find_pages(file), options, known)
    return JsonExport(file, size)


def _find_export_file(path: Path) -> tuple[Path, bytes, int]:
    """Find the file to read; return it with its first bytes and its size in bytes."""
    file = path
    try:
        if path.is_dir():
            inside = [path / name for name in _EXPORT_FILE_NAMES]
            file = next((found for found in inside if found.exists()), inside[0])
        if not file.is_file():
            raise ImportRefused(
                "There is no file {file}. Give the result.json or messages.html of an export, or its folder.", file=file
            )
        with file.open("rb") as opened:
            head = opened.read(256)
        size = file.stat().st_size
    except OSError as exc:
        raise ImportRefused(f"{file} cannot be read ({exc.strerror}). Check its permissions.") from exc
    if not head:
        raise ImportRefused(
            "{file} is empty. Export the chat again, or copy the whole file.", code="import-empty", file=file
        )
    if head.startswith(b"PK"):
        raise ImportRefused(f"{file} is a zip archive. Unpack it and give the result.json inside.")
    return file, head, size
