"""A first look through a whole export before anything is kept: is it whole, is it one, what chats are in it.

Cheap (a second for 100 MB) and worth it: a file that ends in the middle is refused before its first post
is in the archive, whatever the order of its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path

import ijson

from ingest.repair import Repaired
from rag_core.errors import ImportRefused

__all__ = ["Chat", "parsing", "survey"]

# A message in a full export is six levels deep and holds a few more.
_DEEPEST = 64
_INT64 = 2**63
_SINGLE = "messages.item"
_LISTS = ("chats", "left_chats")


@dataclass(slots=True)
class Chat:
    """What an export says about one chat.

    `place` is the ijson prefix of its messages, `old` the format of 2019-21, `whole` says that the file
    is of this chat alone: then it holds all messages between its first and last.
    Not frozen: it is filled while the file is read.
    """

    place: str
    whole: bool = False
    name: object = None
    type: object = None
    id: object = None
    messages: int = 0
    listed: bool = False
    old: bool = False


@contextmanager
def parsing(file: Path) -> Iterator[None]:
    """Say in one sentence what is wrong with a file that is not the JSON it should be."""
    try:
        yield
    # The pure Python backend of ijson lets the latter two through.
    except (ijson.JSONError, JSONDecodeError, UnicodeDecodeError) as exc:
        raise ImportRefused(_sentence(file, str(exc))) from exc


def _sentence(file: Path, error: str) -> str:
    if "premature EOF" in error or "Incomplete" in error:
        return f"{file} ends in the middle. Export the chat again, or copy the whole file."
    if "overflow" in error:
        return f"{file} holds a number that is too big. Export the chat again."
    return (
        f"{file} is not JSON. Give the result.json that Telegram Desktop writes as “machine-readable JSON”, "
        "or its messages.html."
    )


def survey(file: Path, source: Repaired) -> list[Chat]:
    """Read the whole export once. Raises `ImportRefused`; blocks, so run it in a thread."""
    chats: list[Chat] = []
    lists = 0
    with parsing(file):
        keys = [""] * (_DEEPEST + 1)
        depth = 0
        for event, value in ijson.basic_parse(source, use_float=True):
            if event == "map_key":
                keys[depth] = value
                continue
            if event in ("end_map", "end_array"):
                depth -= 1
                continue
            if depth < 7:
                lists += _note(chats, keys, depth, event, value)
            if event in ("start_map", "start_array"):
                depth += 1
                if depth > _DEEPEST:
                    raise ImportRefused(f"{file} is nested too deeply to be an export of Telegram Desktop.")
                keys[depth] = "item" if event == "start_array" else ""
            elif event == "number" and not -_INT64 <= value < _INT64:
                raise ImportRefused(_sentence(file, "overflow"))
    found = [chat for chat in chats if chat.listed or not chat.whole]
    if not found and not lists:
        raise ImportRefused(
            f"{file} is JSON, but no export of Telegram Desktop. Give the result.json of an exported chat."
        )
    return found


def _note(chats: list[Chat], keys: list[str], depth: int, event: str, value: object) -> int:
    """Take what a value says about its chat; 1 where it is the list of chats of a full export."""
    if depth == 2 and keys[1] in _LISTS and keys[2] == "list" and event == "start_array":
        return 1
    if depth == 0 and event == "start_map":
        chats.append(Chat(_SINGLE, whole=True))
        return 0
    level = 1
    if keys[1] in _LISTS and keys[2] == "list" and keys[3] == "item" and depth >= 3:
        level = 4
        if depth == 3:
            chats.append(Chat(f"{keys[1]}.list.item.messages.item"))
    if depth >= level and chats:
        _fill(chats[-1] if level == 4 else chats[0], keys[level : depth + 1], event, value)
    return 0


def _fill(chat: Chat, path: list[str], event: str, value: object) -> None:
    match path:
        case ["name" | "type" | "id" as field]:
            setattr(chat, field, value)
        case ["messages"]:
            chat.listed = chat.listed or event == "start_array"
        case ["messages", "item"]:
            chat.messages += 1
        case ["messages", "item", "from_id"]:
            # Later versions write "user123", "channel123".
            chat.old = chat.old or event == "number"
