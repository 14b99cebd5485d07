"""Control socket protocol, as client and server speak it: the socket's path, its peer, and messages of one line each.

The server speaks first: {"citegram": 1, "version": "0.1.0", "process": 4711}, with an "error" where it refuses. The
caller writes one request, {"citegram": 1, "version": "0.1.0", "do": "ask", ...}, and reads {"at": [done, total]} and
{"still": true} (heartbeat) until {"end": {...}} or {"error": "a sentence"}. Then the server closes the connection.
When the caller closes its side, the server stops working for it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_core.errors import RagError

# Incremented with every change that an older side would misunderstand.
PROTOCOL_VERSION = 1
HEARTBEAT_SECONDS = 5.0
MAX_REQUEST_BYTES = 1 << 16  # bytes: a question has 1000 characters at most
MAX_LINE_BYTES = 1 << 22  # bytes: the longest answer with its trace has some ten thousand
ROOT_USER_ID = 0

_SOCKET_FILE_NAME = "citegram.sock"
_MAX_PATH_BYTES = 100  # bytes; the kernel takes 107, macOS 103

_OTHER_VERSION_TEXT = (
    "The bot that runs here is Citegram {theirs}, this command is Citegram {ours}, and they do not understand each "
    "other: restart the bot."
)


@contextmanager
def open_socket_path(folder: Path) -> Iterator[str]:
    """Yield a path to the folder's socket that fits the kernel's length limit. Raises OSError."""
    path = folder / _SOCKET_FILE_NAME
    if len(os.fsencode(path)) <= _MAX_PATH_BYTES:
        yield str(path)
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{_SOCKET_FILE_NAME}"
    finally:
        os.close(opened)


def get_peer_user(connected: socket.socket) -> int | None:
    """Get the user id of the peer of a local socket; None if the system does not provide it."""
    if not hasattr(socket, "SO_PEERCRED"):  # not Linux
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", raw)
    return int(user)


def read_version() -> str:
    """Read the version of this program from the metadata of its package."""
    from importlib.metadata import version  # takes 0.03 s; where no bot runs, nobody is greeted

    return version("citegram")


def build_greeting(**more: object) -> dict[str, object]:
    """Build the greeting: protocol number, version of this program, and further fields."""
    return {"citegram": PROTOCOL_VERSION, "version": read_version(), **more}


def encode_message(message: Mapping[str, object]) -> bytes:
    """Encode a message as one line."""
    # ASCII keeps lone surrogates, which a terminal can type and UTF-8 cannot encode.
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def decode_message(raw: bytes) -> dict[str, Any] | None:
    """Decode the message on a line; None if it is malformed."""
    try:
        message = json.loads(raw) if raw.endswith(b"\n") else None
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def require_same_protocol(message: Mapping[str, Any], *, asked: bool) -> None:
    """Raise RagError if the other side speaks another protocol; `asked`: the other side is the command."""
    if message.get("citegram") == PROTOCOL_VERSION:
        return
    ours, theirs = read_version(), str(message.get("version", "unknown"))[:40]
    bot, command = (ours, theirs) if asked else (theirs, ours)
    raise RagError(_OTHER_VERSION_TEXT.format(theirs=bot, ours=command))
