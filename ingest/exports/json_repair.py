r"""JSON repair: what known writers of exports get wrong is put right while the file is read, in bounded memory.

- Telegram Desktop writes control characters as `\x0b` (SerializeString in tdesktop's export_output_json.cpp).
- Half a surrogate pair, `\udc1d`, is no character; it is read as U+FFFD.
- Telegram Desktop 4.1 wrote `"document_id": video_files/sticker (2).webm`, without quotes.
- A number beyond 64 bits, which the parser refuses, becomes null: then only its message is left out.

The latter two need to know what is inside a string, which takes longer; they are for files that cannot be parsed as
they are (`thorough`).
"""

from __future__ import annotations

import json
import math
import re
from typing import BinaryIO

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# An even run of backslashes is made of escaped backslashes; only after an odd one does a letter follow an escape.
_WRONG_ESCAPE_PATTERN = re.compile(rb"(?<!\\)((?:\\\\)*)\\x([0-9A-Fa-f]{2})")
_SURROGATE_PATTERN = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u[dD](?:(?P<pair>[89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2})|[89a-fA-F][0-9A-Fa-f]{2})"
)
_OPEN_ESCAPE_PATTERN = re.compile(
    rb"\\(?:x[0-9A-Fa-f]?|u[0-9A-Fa-f]{0,3}|u[dD][89abAB][0-9A-Fa-f]{2}(?:\\(?:u[0-9A-Fa-f]{0,3})?)?)?\Z"
)
_ESCAPE_LENGTH = 12  # of a whole surrogate pair
# Strings are skipped whole; a value without quotes ends with its line.
_TOKEN_PATTERN = re.compile(
    rb'"(?:[^"\\]+|\\.)*+(?P<end>")?|-?[0-9](?:[0-9.eE+-]{18,}|[0-9.]*[eE][+-]?[0-9]{3,})'
    rb'|(?<=:)(?P<blank> *)(?!true\b|false\b|null\b)(?P<bare>[^\s"{}\[\],:0-9-][^\n"]*?)(?=,?\r?\n)',
    re.DOTALL,
)
_INT64_LIMIT, _INT64_DIGITS = 2**63, 20
_FRACTION_PATTERN = re.compile(rb"-?[0-9]{1,20}(?:\.[0-9]{1,100})?(?:[eE][+-]?[0-9]{1,4})?")
_STRING_END_PATTERN = re.compile(rb'(?:[^"\\]+|\\.)*+(?P<end>")?', re.DOTALL)
_MAX_LINE_BYTES = 2**16  # a longer one is repaired in parts
_NUMBER_BYTES = b"0123456789.eE+-"


class RepairedJsonReader:
    """Binary reader that repairs what is no JSON; `bytes_read` counts the bytes read from the file."""

    def __init__(self, file: BinaryIO, *, thorough: bool = False) -> None:
        self._file = file
        self._thorough = thorough
        self._held = b""
        self._line = b""
        self._in_string = False
        self.bytes_read = 0

    def read(self, size: int = -1) -> bytes:
        """Read about `size` bytes; empty only at the end."""
        while True:
            fresh = self._file.read(size)
            if not self.bytes_read:
                fresh = fresh.removeprefix(BYTE_ORDER_MARK)
            self.bytes_read += len(fresh)
            data = self._held + fresh
            # The part held back begins with the backslash of an escape, so that runs are counted right.
            cut = _find_open_escape(data) if fresh else len(data)
            self._held, whole = data[cut:], _repair_escapes(data[:cut])
            if self._thorough:
                whole = self._repair_lines(whole, last=not fresh)
            if whole or not fresh:
                return whole

    def _repair_lines(self, data: bytes, *, last: bool) -> bytes:
        """Repair the values of whole lines; the rest of the data is held back."""
        line = self._line + data
        cut = line.rfind(b"\n") + 1
        if last:
            cut = len(line)
        elif not cut and len(line) > _MAX_LINE_BYTES:
            cut = len(line.rstrip(_NUMBER_BYTES))
        whole, self._line = line[:cut], line[cut:]
        end = _STRING_END_PATTERN.match(whole) if self._in_string else None
        self._in_string = end is not None and end["end"] is None
        start = end.end() if end else 0
        return whole[:start] + _TOKEN_PATTERN.sub(self._repair_token, whole[start:])

    def _repair_token(self, found: re.Match[bytes]) -> bytes:
        token = found[0]
        if found["bare"] is not None:
            return found["blank"] + json.dumps(found["bare"].decode(errors="replace")).encode()
        if token.startswith(b'"'):
            self._in_string = found["end"] is None
            return token
        if token.removeprefix(b"-").isdigit():
            fits = len(token) <= _INT64_DIGITS and -_INT64_LIMIT <= int(token) < _INT64_LIMIT
        else:
            fits = _FRACTION_PATTERN.fullmatch(token) is not None and math.isfinite(float(token))
        return token if fits else b"null"


def _repair_escapes(data: bytes) -> bytes:
    if rb"\x" in data:
        data = _WRONG_ESCAPE_PATTERN.sub(rb"\1\\u00\2", data)
    if rb"\ud" in data or rb"\uD" in data:
        data = _SURROGATE_PATTERN.sub(_replace_half, data)
    return data


def _replace_half(found: re.Match[bytes]) -> bytes:
    return found[0] if found["pair"] else found[1] + rb"\ufffd"


def _find_open_escape(data: bytes) -> int:
    r"""Find where an unfinished escape begins, such as `\`, `\x0` or the first half of a pair; else the end."""
    for start in range(max(0, len(data) - _ESCAPE_LENGTH), len(data)):
        if data[start : start + 1] == b"\\" and _OPEN_ESCAPE_PATTERN.match(data, start):
            before = data[:start]
            if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
                return start
    return len(data)
