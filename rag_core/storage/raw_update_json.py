"""JSON of raw updates: a batch is split without being decoded, and one update is decoded within bounds.

An update is kept as the text that came: what it holds may be too much for a decoder or a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# A rich message of 32,768 characters, each with its own markup, in reply to another: two or three million bytes and
# 200,000 values.
_MAX_CHARACTERS = 1 << 22
_MAX_VALUES = 300_000
# A rich message may nest 16 lists, of four levels of JSON each, and 16 formats, of two; a message holds it in six.
_MAX_DEPTH = 128
CONTAINERS = (dict, list)
_MAX_INTEGER = 2**63  # that of SQLite; ids of Telegram have at most 52 bits

_BATCH_START = re.compile(r'\s*\{\s*"ok"\s*:\s*true\s*,\s*"result"\s*:\s*\[\s*')
# A quotation mark within a string is escaped: this is found only where an object begins.
_UPDATE_START = re.compile(r'\{\s*"update_id"\s*:\s*(\d{1,18})\s*[,}](?:\s*"(\w+)")?')


class UpdateOutOfBounds(Exception):
    """An update is longer, deeper or larger than any of Telegram's, or holds a number of more than 64 bits.

    No ValueError: pydantic would take that for a finding of its own, and go on.
    """


class RawUpdate(NamedTuple):
    """Raw update: its number, its kind ("" where it has none) and the JSON that came."""

    update_id: int
    kind: str
    text: str


def split_updates(answer: str) -> list[RawUpdate] | None:
    """Split the answer to getUpdates into its updates; None where it holds none that way (as an error)."""
    start, heads = _BATCH_START.match(answer), list(_UPDATE_START.finditer(answer))
    if not start or not heads or heads[0].start() != start.end():  # none, or in another order than Telegram's
        return _decode_batch(answer)
    ends = [*(head.start() for head in heads[1:]), answer.rindex("]")]
    return [_make_raw_update(head, answer[head.start() : end]) for head, end in zip(heads, ends, strict=True)]


def _decode_batch(answer: str) -> list[RawUpdate] | None:
    try:
        decoded = json.loads(answer)
    except ValueError:
        return None
    batch = decoded.get("result") if isinstance(decoded, dict) and decoded.get("ok") is True else None
    return [encode_update(raw) for raw in batch] if isinstance(batch, list) else None


def read_update(text: str) -> RawUpdate:
    """Read number and kind of one update. Raises ValueError where it is no JSON, or has no number."""
    head = _UPDATE_START.match(text := text.strip())
    try:
        raw = decode_update(text)
    except (UpdateOutOfBounds, RecursionError):
        if head:
            return _make_raw_update(head, text)
        raise ValueError("an update without a number") from None
    return _make_raw_update(head, text) if head else encode_update(raw)


def _make_raw_update(head: re.Match[str], text: str) -> RawUpdate:
    return RawUpdate(int(head[1]), head[2] or "", text.rstrip(", \t\r\n"))


def encode_update(raw: Mapping[str, Any]) -> RawUpdate:
    """Encode an update that was decoded. Raises ValueError where it has no number."""
    number = raw.get("update_id") if isinstance(raw, Mapping) else None
    if type(number) is not int or not 0 <= number < _MAX_INTEGER:
        raise ValueError("an update without a number")
    kind = next((key for key in raw if key != "update_id"), "")
    # ASCII output: half a surrogate pair, which JSON can hold and UTF-8 cannot, is preserved.
    return RawUpdate(number, kind, json.dumps({"update_id": number} | dict(raw), separators=(",", ":")))


def decode_update(text: str) -> dict[str, Any]:
    """Decode one update that is not too long. Raises ValueError, UpdateOutOfBounds, RecursionError."""
    if len(text) > _MAX_CHARACTERS or sum(map(text.count, ",{[")) > _MAX_VALUES:
        raise UpdateOutOfBounds("too long")
    raw = json.loads(text)
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    return raw


def check_bounds(raw: Mapping[str, Any]) -> None:
    """Check depth, number of values and size of integers. Raises UpdateOutOfBounds."""
    level: list[Any] = [dict(raw)]
    depth = count = 0
    while level:
        inner = [value for outer in level for value in (outer.values() if isinstance(outer, dict) else outer)]
        numbers = [value for value in inner if type(value) is int]
        if numbers and not -_MAX_INTEGER <= min(numbers) <= max(numbers) < _MAX_INTEGER:
            raise UpdateOutOfBounds("a number of more than 64 bits")
        depth, count = depth + 1, count + len(inner)
        if depth > _MAX_DEPTH or count > _MAX_VALUES:
            raise UpdateOutOfBounds("nested too deeply" if depth > _MAX_DEPTH else "too many values")
        level = [value for value in inner if isinstance(value, CONTAINERS)]
