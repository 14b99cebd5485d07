"""Telegram Desktop writes control characters as `\\x0B`, which is no JSON: read them as `\\u000B`.

Source: SerializeString in tdesktop's export_output_json.cpp.
"""

from __future__ import annotations

import re
from typing import BinaryIO

__all__ = ["Repaired"]

# An even run of backslashes is made of escaped backslashes; only after an odd one does `x` follow an escape.
_WRONG = re.compile(rb"(?<!\\)((?:\\\\)*)\\x([0-9A-Fa-f]{2})")
_CUT = re.compile(rb"x[0-9A-Fa-f]?")
_BOM = b"\xef\xbb\xbf"


class Repaired:
    """A binary file to read from, repaired on the way; `consumed` counts the bytes read of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = b""
        self.consumed = 0

    def read(self, size: int = -1) -> bytes:
        """About `size` bytes, none only at the end."""
        while True:
            fresh = self._file.read(size)
            if not self.consumed:
                fresh = fresh.removeprefix(_BOM)
            self.consumed += len(fresh)
            data = self._held + fresh
            # What is held back begins with a backslash that starts an escape, so that runs are counted right.
            cut = _open_escape(data) if fresh else 0
            self._held = data[len(data) - cut :]
            if whole := data[: len(data) - cut]:
                return _WRONG.sub(rb"\1\\u00\2", whole) if rb"\x" in whole else whole
            if not fresh:
                return b""


def _open_escape(data: bytes) -> int:
    """How many bytes at the end are an escape that may go on in the next chunk: `\\`, `\\x` or `\\x0`."""
    for after in range(3):
        body = data[: len(data) - after]
        run = len(body) - len(body.rstrip(b"\\"))
        if run % 2 and (not after or _CUT.fullmatch(data[-after:])):
            return after + 1
    return 0
