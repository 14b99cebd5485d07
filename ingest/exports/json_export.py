"""JSON export of Telegram Desktop: result.json of one chat, or of all chats, read as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from pathlib import Path

import ijson

from ingest.exports.export_checks import NOT_JSON, ExportedChat, refuse_broken_json, scan_export
from ingest.exports.importer import ExportSource
from ingest.exports.json_repair import RepairedJsonReader
from rag_core.errors import ImportRefused


class JsonExport(ExportSource):
    """Export in JSON (result.json): one chat, or a full export with many."""

    def __init__(self, file: Path, size: int) -> None:
        self.path = file
        self.size = size
        self._scanned: RepairedJsonReader | None = None
        self._thorough = False
        self._streams: dict[str, Iterator[object]] = {}

    @property
    def bytes_read(self) -> int:
        """Bytes scanned so far."""
        return self._scanned.bytes_read if self._scanned else 0

    def survey(self) -> list[ExportedChat]:
        """Scan the file for its chats, without keeping it in memory; what is no JSON is scanned again with repairs."""
        try:
            return self._scan()
        except ImportRefused as exc:
            if exc.code != NOT_JSON:
                raise
            self._thorough = True
            return self._scan()

    def _scan(self) -> list[ExportedChat]:
        with self.path.open("rb") as file:
            self._scanned = RepairedJsonReader(file, thorough=self._thorough)
            return scan_export(self.path, self._scanned)

    def messages(self, chat: ExportedChat, opened: ExitStack) -> Iterator[object]:
        """Stream the messages; the file is never in memory as a whole."""
        if chat.place not in self._streams:
            opened_file = opened.enter_context(self.path.open("rb"))
            file = RepairedJsonReader(opened_file, thorough=self._thorough)
            self._streams[chat.place] = ijson.items(file, chat.place, use_float=True)
        return islice(self._streams[chat.place], chat.messages)

    def reading(self) -> AbstractContextManager[None]:
        """Context for the second read: broken JSON becomes one sentence."""
        return refuse_broken_json(self.path)
