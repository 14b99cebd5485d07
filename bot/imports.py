"""Import process: imports one document of a stranger into the archive, in a confined worker process.

It writes only the archive; the bot updates the indexes. Its messages:

    {"at": [done, all]}                    progress
    {"end": {"tally", "channels", "notes"}}
    {"refused": [id, values]}              the id of a sentence in bot/locales; import-refused has the reason itself
"""

import asyncio
import errno
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from datetime import UTC
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

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
        reason = exc.reason.replace(f"{Path(parameters['file']).parent}/", "")
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
        return await import_export(archive, Path(order["file"]), options, report_progress)
    finally:
        await archive.close()


def _exit_with_parent(requests: int) -> None:
    """Exit when standard input closes: nothing is written to it, so its end means that the bot has died."""
    while os.read(requests, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
