"""Texts with formatting as Telegram gives them, flattened to one string with entities and links.

Offsets of entities are UTF-16 units: https://core.telegram.org/api/entities#entity-length
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ingest.fields import box, words
from rag_core.types import Entity

__all__ = [
    "entities_of",
    "files_in",
    "flatten",
    "flatten_blocks",
    "links_in",
    "links_of",
]

# Telegram Desktop's names -> the Bot API's; names not listed are the same in both.
_NAMES = {
    "link": "url",
    "phone": "phone_number",
    "mention_name": "text_mention",
    "bank_card": "bank_card_number",
}
_PLAIN = frozenset({"plain", "unknown", ""})


def flatten(value: object) -> tuple[str, tuple[Entity, ...]]:
    """The text and entities of an export's `text_entities` or `text`: a string, or a list of strings and objects."""
    if isinstance(value, str):
        return words(value) or "", ()
    pieces: list[str] = []
    entities: list[Entity] = []
    offset = 0
    for part in value if isinstance(value, list) else ():
        piece = words(part if isinstance(part, str) else box(part).get("text")) or ""
        length = len(piece) if piece.isascii() else len(piece.encode("utf-16-le")) // 2
        kind = _kind(part) if isinstance(part, dict) else ""
        if kind not in _PLAIN and length:
            entities.append(Entity(kind, offset, length, words(part.get("href"))))
        pieces.append(piece)
        offset += length
    return "".join(pieces), tuple(entities)


def _kind(part: Mapping[str, Any]) -> str:
    name = words(part.get("type")) or ""
    if name == "blockquote" and part.get("collapsed") is True:
        return "expandable_blockquote"
    return _NAMES.get(name, name)


def entities_of(value: object) -> tuple[Entity, ...]:
    """The entities of a live message; one that is not whole is left out."""
    found = []
    for item in value if isinstance(value, list) else ():
        kind, offset, length = (box(item).get(key) for key in ("type", "offset", "length"))
        if isinstance(kind, str) and isinstance(offset, int) and isinstance(length, int):
            found.append(Entity(kind, offset, length, words(item.get("url"))))
    return tuple(found)


def links_in(text: str, entities: Iterable[Entity]) -> tuple[str, ...]:
    """The addresses a text shows or hides, each once, in their order."""
    units = b""
    found: dict[str, None] = {}
    for entity in entities:
        if entity.type == "text_link" and entity.url:
            found[entity.url] = None
        elif entity.type == "url":
            units = units or text.encode("utf-16-le")
            shown = units[2 * entity.offset : 2 * (entity.offset + entity.length)]
            found[shown.decode("utf-16-le", "replace")] = None
    return tuple(found)


# What a block or a piece of text of a rich message can hold, in reading order:
# https://core.telegram.org/bots/api#richblock
_INSIDE = ("summary", "text", "expression", "alternative_text", "cells", "items", "blocks", "caption", "credit")
_FILES = ("document", "audio", "video", "animation")


def flatten_blocks(value: object) -> str:
    """The text of a rich message's blocks, one line each, with the cells of a row side by side. No formatting."""
    if isinstance(value, list):
        return "".join(map(flatten_blocks, value))
    if not isinstance(value, dict):
        return words(value) or ""
    body = "\n".join(filter(None, (_flattened(key, value[key]) for key in _INSIDE if key in value)))
    return " ".join(filter(None, (words(value.get("label")), body)))


def _flattened(key: str, value: object) -> str:
    if key == "cells" and isinstance(value, list):
        rows = ((flatten_blocks(cell) for cell in row) for row in value if isinstance(row, list))
        return "\n".join(filter(None, (" | ".join(filter(None, row)) for row in rows)))
    if key in ("items", "blocks") and isinstance(value, list):
        return "\n".join(filter(None, map(flatten_blocks, value)))
    return flatten_blocks(value)


def links_of(value: object) -> tuple[str, ...]:
    """The addresses that the texts and buttons of a rich message hide, each once, in their order."""
    found = (words(part.get("url")) for part in _parts(value))
    return tuple(dict.fromkeys(filter(None, found)))


def files_in(value: object) -> tuple[str, ...]:
    """The names of the files that a rich message shows."""
    files = (box(part.get(kind)).get("file_name") for part in _parts(value) for kind in _FILES)
    return tuple(dict.fromkeys(filter(None, map(words, files))))


def _parts(value: object) -> Iterator[Mapping[str, Any]]:
    """Every object inside, the outer before the inner."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)
