"""Import child process: unpacks and imports one document into the archive, and reports in lines of JSON.

It writes only the archive; the bot updates the indexes. It runs confined (resource limits, low priority). Its lines:

    {"at": [done, all]}                    progress
    {"end": {"tally", "channels", "notes"}}
    {"refused": [id, values]}              the id of a sentence in bot/locales; import-refused has the reason itself
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

from bot.imports.unpack import DocumentRefused, unpack_document
from ingest.exports.desktop_export import ImportOptions, ImportReport, import_export
from rag_core.errors import RagError
from rag_core.storage import Archive

__all__ = ["main"]

_PROGRESS_INTERVAL_SECONDS = 0.5
# A full export may hold thousands of chats; a message shows a few.
_MAX_CHANNELS, _MAX_NOTES = 200, 20


def main(order: str) -> int:
    """Run the order, given as JSON; returns the exit code."""
    os.umask(0o077)
    Thread(target=_exit_with_parent, daemon=True).start()
    parameters = json.loads(order)
    try:
        report = asyncio.run(_import_document(parameters))
    except DocumentRefused as exc:
        _write_message({"refused": [exc.sentence, exc.values]})
    except RagError as exc:
        reason = exc.reason.replace(f"{parameters['folder']}/", "")
        values = dict(exc.parameters) if exc.code else {"reason": reason}
        _write_message({"refused": [exc.code or "import-refused", values]})
    except (MemoryError, RecursionError):
        _write_message({"refused": ["import-too-heavy", {}]})
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _write_message({"refused": ["import-disk", {}]})
    else:
        _write_message({"end": _build_report(report)})
        return 0
    return 1


async def _import_document(order: Mapping[str, Any]) -> ImportReport:
    folder = Path(order["folder"])
    file = await asyncio.to_thread(unpack_document, folder / order["document"], folder)
    # UTC needs no time zone database, which slim containers lack.
    zone = UTC if order["zone"] == "UTC" else ZoneInfo(order["zone"])
    options = ImportOptions(chat=order["chat"], zone=zone)
    said = 0.0

    def moved(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _PROGRESS_INTERVAL_SECONDS:
            said = time.monotonic()
            _write_message({"at": [done, total]})

    archive = await Archive.open(Path(order["data"]))
    try:
        return await import_export(archive, file, options, moved)
    finally:
        await archive.close()


def _exit_with_parent() -> None:
    """Exit when standard input closes: nothing is written to it, so its end means that the bot has died."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _build_report(report: ImportReport) -> dict[str, object]:
    channels = [channel.chat_id for channel in report.channels[:_MAX_CHANNELS]]
    notes = [[note, note.code, note.parameters] for note in report.notes[:_MAX_NOTES]]
    more = len(report.notes) - len(notes)
    return {"tally": asdict(report.tally), "channels": channels, "notes": notes, "more": more}


def _write_message(line: Mapping[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
