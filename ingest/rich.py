"""Texts with formatting as Telegram gives them, flattened to one string with entities and links.

Offsets of entities are UTF-16 units: https://core.telegram.org/api/entities#entity-length
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ingest.fields import box, words
from rag_core.types import Entity

__all__ = ["entities_of", "flatten", "flatten_blocks", "flatten_list", "links_in"]

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


def flatten_list(value: Mapping[str, Any]) -> str:
    """A poll or checklist: what it asks, then one line "— option" for each."""
    head, _ = flatten(value.get("question") or value.get("title"))
    lists = (value.get(key) for key in ("options", "answers", "tasks"))
    options = next((found for found in lists if isinstance(found, list)), ())
    lines = [f"— {flatten(box(option).get('text'))[0]}" for option in options]
    return "\n".join([head, *lines])


# What a block or a piece of text of a rich message can hold, in reading order.
_INSIDE = ("label", "summary", "text", "alternative_text", "cells", "items", "blocks", "caption", "credit")
_LINES = frozenset({"cells", "items", "blocks"})


def flatten_blocks(value: object) -> str:
    """The text of a rich message's blocks, one line each; formatting is dropped."""
    if isinstance(value, list):
        return "".join(map(flatten_blocks, value))
    if not isinstance(value, dict):
        return words(value) or ""
    parts = [
        "\n".join(filter(None, map(flatten_blocks, value[key])))
        if key in _LINES and isinstance(value[key], list)
        else flatten_blocks(value[key])
        for key in _INSIDE
        if key in value
    ]
    return "\n".join(filter(None, parts))
