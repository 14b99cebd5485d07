"""Rich messages: nested blocks and formatted texts become one text with its spoilers and links, in linear time.

Three forms are read: the Bot API's (https://core.telegram.org/bots/api#richmessage), MTProto's page blocks, and
whatever an export holds in their place. Every leaf that is a text is read, so that a new kind of block is not lost.
Nothing here is recursive: depth and size are those that a stranger chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.json_values import count_utf16_units, parse_text
from rag_core.types import Entity

# Fields with formatted text, whose parts are joined without a separator; then fields with blocks, a line each.
_INLINE_FIELDS = (
    "label", "performer", "title", "summary", "text", "texts", "expression", "source", "alternative_text", "alt",
    "question",
)  # fmt: skip
_BLOCK_FIELDS = ("cells", "rows", "items", "blocks", "buttons", "caption", "credit")
_ORDERED_FIELDS = (*_INLINE_FIELDS, "button", *_BLOCK_FIELDS)
_RANK_BY_SEPARATOR = {"": 0, " ": 1, " | ": 2, "\n": 3}


@dataclass(slots=True)
class RichText:
    """Text of a rich message; `files` are the names of the files in it. Mutable: filled while blocks are read."""

    pieces: list[str] = field(default_factory=list)
    entities: list[Entity] = field(default_factory=list)
    links: dict[str, None] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)
    units: int = 0
    _separator: str = ""

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)

    def separate(self, separator: str) -> None:
        """Ask for a separator before the next piece; of several the strongest counts."""
        if self.pieces and _RANK_BY_SEPARATOR[separator] > _RANK_BY_SEPARATOR[self._separator]:
            self._separator = separator

    def add(self, piece: str) -> None:
        """Add a piece of text."""
        if self._separator and piece:
            self.pieces.append(self._separator)
            self.units += len(self._separator)
            self._separator = ""
        self.pieces.append(piece)
        self.units += count_utf16_units(piece)

    @property
    def next_unit(self) -> int:
        """Offset of the next piece, behind its separator."""
        return self.units + len(self._separator)

    def close(self, kind: str, start: int, url: str | None) -> None:
        """Add the entity of what was read from the unit `start`."""
        if self.units > start:
            self.entities.append(Entity(kind, start, self.units - start, url))


def read_rich_message(value: object) -> RichText:
    """Read a rich message: one line for each block, the cells of a row side by side."""
    read = RichText()
    # steps still to take, the next one last: a separator, an address, the end of a span, or (value, inline)
    steps: list[Any] = [(value, False)]
    while steps:
        step = steps.pop()
        if isinstance(step, str):
            read.separate(step)
        elif isinstance(step, _Span):
            read.close(step.kind, step.start, step.url)
        elif isinstance(step, _Address):
            read.entities.append(Entity("url", read.units + 2, count_utf16_units(step.url)))
            read.add(f": {step.url}")
        else:
            inside, inline = step
            if isinstance(inside, dict):
                steps += reversed(list(_list_object_steps(inside, inline, read)))
            elif isinstance(inside, list):
                steps += reversed(list(_join_steps(inside, "" if inline else "\n", inline)))
            elif text := parse_text(inside):
                read.add(text)
    return read


@dataclass(frozen=True, slots=True)
class _Span:
    kind: str
    start: int
    url: str | None


@dataclass(frozen=True, slots=True)
class _Address:
    url: str


def _join_steps(values: list[object], separator: str, inline: bool) -> Iterator[Any]:
    for place, value in enumerate(values):
        yield separator if place else ""
        yield value, inline


def _list_object_steps(value: Mapping[str, Any], inline: bool, read: RichText) -> Iterator[Any]:
    """List the steps through an object: its fields in reading order, then the span or the address that it makes."""
    kind = parse_text(value.get("type") or value.get("_")) or ""
    url = parse_text(value.get("url") or value.get("href"))
    if url:
        read.links[url] = None
    if name := parse_text(value.get("file_name")):
        read.files[name] = None
    # what stands beside formatted text describes it (a person, a date); beside blocks it may be a block
    more = () if inline else (k for k, held in value.items() if k not in _ORDERED_FIELDS and _is_container(held))
    separator = ""
    span = (
        "text_link"
        if url and kind
        else {"spoiler": "spoiler", "TextSpoiler": "spoiler", "TextAutoUrl": "url"}.get(kind)
    )
    start = read.next_unit
    for name in (*(key for key in _ORDERED_FIELDS if key in value), *more):
        yield separator
        held = value[name]
        if name in ("cells", "rows") and isinstance(held, list):
            for place, row in enumerate(held):
                between = "\n" if isinstance(row, list) or name == "rows" else " | "
                yield between if place else ""
                yield from _join_steps(row, " | ", True) if isinstance(row, list) else [(row, name == "cells")]
        else:
            yield held, name in _INLINE_FIELDS or name == "button"
        separator = " " if name == "label" else "\n"
    if span:
        yield _Span(span, start, url if span == "text_link" else None)
    elif url and "text" in value:
        yield _Address(url)


def _is_container(value: object) -> bool:
    return isinstance(value, dict | list)
