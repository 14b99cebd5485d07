"""Spoilers in outgoing calls: what a call shows of hidden words gets the spoiler format, or is covered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiogram.types import MessageEntity
from pydantic import BaseModel

from bot.views.message_formatting import MAX_ENTITIES, list_utf16_offsets
from rag_core.text.spoilers import Spoiler, cover_spans, cover_spoilers, find_spoiler_spans

_ENTITIES_BY_TEXT = {"text": "entities", "caption": "caption_entities", "message_text": "entities"}
_UNFORMATTED = frozenset({"text", "caption", "message_text", "title", "description"})
_CODE = frozenset({"code", "pre"})  # no other format can be combined with them


def hide_spoilers(value: Any, spoilers: Sequence[Spoiler]) -> Any:
    """Hide spoilers in a Bot API method or object, in all objects within it; labels and alerts are covered."""
    if isinstance(value, list):
        return [hide_spoilers(one, spoilers) for one in value]
    if not isinstance(value, BaseModel) or isinstance(value, MessageEntity):
        return value
    changed: dict[str, Any] = {}
    for name in type(value).model_fields:
        held = getattr(value, name)
        if isinstance(held, list | BaseModel):
            changed.setdefault(name, hide_spoilers(held, spoilers))
        elif isinstance(held, str) and name in _UNFORMATTED:
            entities = _ENTITIES_BY_TEXT.get(name, "")
            if entities in type(value).model_fields:
                changed[name], changed[entities] = _format_text(held, getattr(value, entities) or [], spoilers)
            else:
                changed[name] = cover_spoilers(held, spoilers)
    return value.model_copy(update=changed)


def _format_text(
    text: str, entities: Sequence[MessageEntity], spoilers: Sequence[Spoiler]
) -> tuple[str, list[MessageEntity]]:
    """Add spoiler entities; covered is what stands in code, and all where there are too many entities."""
    places, formatted, covered = list_utf16_offsets(text), list[MessageEntity](), list[tuple[int, int]]()
    code = [(one.offset, one.offset + one.length) for one in entities if one.type in _CODE]
    spans = find_spoiler_spans(text, spoilers)
    for start, end in spans:
        first, last = places[start], places[end]
        if any(first < b and a < last for a, b in code):
            covered.append((start, end))
        else:
            formatted.append(MessageEntity(type="spoiler", offset=first, length=last - first))
    if len(entities) + len(formatted) > MAX_ENTITIES:
        covered, formatted = spans, []
    return cover_spans(text, covered), sorted((*entities, *formatted), key=lambda one: (one.offset, -one.length))
