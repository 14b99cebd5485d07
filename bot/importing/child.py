"""The child process: unpacks and imports one document into the archive, and says so in lines of JSON.

`python -m bot.confined bot.importing.child ORDER`. It writes only the archive: the bot keeps the indexes.
    {"at": [done, all]}                    on the way
    {"end": {"tally", "channels", "notes"}}
    {"refused": [id, values]}              or {"error": sentence} where there is no id for it
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

from bot.importing.refusal import Refusal
from bot.importing.unpacking import unpacked
from ingest.desktop_export import ImportOptions, ImportReport, import_export
from rag_core.doors.archive import Archive
from rag_core.errors import RagError

__all__ = ["main"]

_SAY_EVERY_S = 0.5
# A full export may hold thousands of chats; a message shows a few.
_MOST_CHANNELS, _MOST_NOTES = 200, 20


def main(order: str) -> int:
    """Do what was ordered; returns the exit code."""
    os.umask(0o077)
    Thread(target=_end_with_the_bot, daemon=True).start()
    asked = json.loads(order)
    try:
        report = asyncio.run(_imported(asked))
    except Refusal as exc:
        _say({"refused": [exc.sentence, exc.values]})
    except RagError as exc:
        _say({"error": exc.reason.replace(f"{asked['folder']}/", "")})
    except (MemoryError, RecursionError):
        _say({"refused": ["import-too-heavy", {}]})
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _say({"refused": ["import-disk", {}]})
    else:
        _say({"end": _told(report)})
        return 0
    return 1


async def _imported(order: Mapping[str, Any]) -> ImportReport:
    folder = Path(order["folder"])
    file = await asyncio.to_thread(unpacked, folder / order["document"], folder)
    # UTC needs no time zone database, which slim containers lack.
    zone = UTC if order["zone"] == "UTC" else ZoneInfo(order["zone"])
    options = ImportOptions(chat=order["chat"], zone=zone)
    said = 0.0

    def moved(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _SAY_EVERY_S:
            said = time.monotonic()
            _say({"at": [done, total]})

    archive = await Archive.open(Path(order["data"]))
    try:
        return await import_export(archive, file, options, moved)
    finally:
        await archive.close()


def _end_with_the_bot() -> None:
    """Nobody writes to our standard input: that it ends says that the bot has died."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _told(report: ImportReport) -> dict[str, object]:
    channels = [channel.chat_id for channel in report.channels[:_MOST_CHANNELS]]
    notes = report.notes[:_MOST_NOTES]
    more = len(report.notes) - len(notes)
    return {"tally": asdict(report.tally), "channels": channels, "notes": notes, "more": more}


def _say(line: Mapping[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
