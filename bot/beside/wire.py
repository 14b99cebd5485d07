"""What goes over the socket: where it lies, and lines of JSON in both directions.

The server speaks first: {"citegram": 1, "version": "0.1.0", "process": 4711}, with an "error" where it will not listen.
The caller writes one request,
{"citegram": 1, "version": "0.1.0", "do": "ask", ...}, and reads {"at": [done, total]} and {"still": true} (a sign
of life) until {"end": {...}} or {"error": "a sentence"}. Then the server closes. A caller that closes its side has
gone, and nobody works for it any longer.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rag_core.errors import RagError

__all__ = [
    "LONGEST_LINE",
    "LONGEST_REQUEST",
    "PROTOCOL",
    "STILL_EVERY_S",
    "address",
    "greeting",
    "line",
    "peer_user",
    "read",
    "same",
]

# Raised with every change that an older side would misunderstand.
PROTOCOL = 1
STILL_EVERY_S = 5.0
LONGEST_REQUEST = 1 << 16  # bytes: a question has 1000 characters at most
LONGEST_LINE = 1 << 22  # bytes: the longest answer with its trace has some ten thousand

_FILE = "citegram.sock"
_LONGEST_PATH = 100  # bytes; the kernel takes 107, macOS 103

_OTHER_VERSION = (
    "The bot that runs here is Citegram {theirs}, this command is Citegram {ours}, and they do not understand each "
    "other: restart the bot."
)


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """A path to the folder's socket that the kernel takes, however long the folder's own is. Raises OSError."""
    path = folder / _FILE
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{_FILE}"
    finally:
        os.close(opened)


def peer_user(connected: socket.socket) -> int | None:
    """The user id of the process at the other end of a local socket; None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", raw)
    return int(user)


def greeting(**more: object) -> dict[str, object]:
    """Who speaks: the protocol's number, this program's version, and more."""
    return {"citegram": PROTOCOL, "version": version("citegram"), **more}


def line(message: Mapping[str, object]) -> bytes:
    """A message as one line."""
    # ASCII: half a surrogate pair, which a terminal can type and UTF-8 cannot hold, survives.
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def read(raw: bytes) -> dict[str, Any] | None:
    """The message on a line; None where it is none."""
    try:
        message = json.loads(raw) if raw.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def same(message: Mapping[str, Any], *, asked: bool) -> None:
    """Raise RagError where the other side speaks another protocol; `asked`: it is the command, we are the bot."""
    if message.get("citegram") == PROTOCOL:
        return
    ours, theirs = version("citegram"), str(message.get("version", "unknown"))[:40]
    bot, command = (ours, theirs) if asked else (theirs, ours)
    raise RagError(_OTHER_VERSION.format(theirs=bot, ours=command))
