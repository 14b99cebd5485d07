"""Formatted text cut into messages that Telegram takes: by length and by number of entities, never inside a link.

Limits: https://core.telegram.org/bots/api#sendmessage (4096 characters). Entities count in UTF-16 units;
4096 of those are never more than 4096 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiogram.enums import MessageEntityType
from aiogram.types import MessageEntity
from aiogram.utils.formatting import Text

__all__ = ["LIMIT", "MOST_ENTITIES", "Page", "pages"]

LIMIT = 4096
# Telegram silently drops formatting after about a hundred entities of one message.
MOST_ENTITIES = 100
# Where a cut reads best, best first: between paragraphs, lines, words.
_SEAMS = ("\n\n", "\n", " ")
# What Telegram may make an entity of by itself: links, mentions, hashtags, commands. They count as well.
_FOUND = re.compile(r"(?<!\w)[@#$/]\w|\w\.\w|://")
_QUOTES = {MessageEntityType.BLOCKQUOTE, MessageEntityType.EXPANDABLE_BLOCKQUOTE}


@dataclass(frozen=True, slots=True)
class Page:
    """One message: its text and entities, ready for `sendMessage`."""

    text: str
    entities: tuple[MessageEntity, ...]


def pages(content: Text, limit: int = LIMIT) -> list[Page]:
    """Cut `content` into messages of at most `limit` UTF-16 units, none of them blank.

    A quote that goes over a cut becomes two quotes; any other entity is cut only when it alone is too long.
    """
    text, entities = content.render()
    ruler = _Ruler(text, entities)
    cut: list[Page] = []
    start = 0
    while start < len(text):
        end = ruler.cut(start, limit)
        if page := ruler.page(start, end):
            cut.append(page)
        start = end
    return cut


class _Ruler:
    """A text with both ways to measure it: code points, by which it is cut, and UTF-16 units."""

    def __init__(self, text: str, entities: Sequence[MessageEntity]) -> None:
        self.text = text
        self.entities = entities
        self.units = [0]
        for letter in text:
            self.units.append(self.units[-1] + (2 if ord(letter) > 0xFFFF else 1))
        self.points = {unit: point for point, unit in enumerate(self.units)}
        self.found = [self.units[match.start()] for match in _FOUND.finditer(text)]

    def cut(self, start: int, limit: int) -> int:
        """Where the message that begins at `start` ends."""
        end = self._furthest(start, limit)
        if end == len(self.text):
            return end
        kept = [e for e in self.entities if e.type not in _QUOTES and e.length <= limit]
        # The second half only: a short message followed by a long one reads worse than a plain cut.
        for place in self._seams(start, end):
            if not any(e.offset < self.units[place] < e.offset + e.length for e in kept):
                return place
        return end

    def _furthest(self, start: int, limit: int) -> int:
        end = start
        while end < len(self.text) and self.units[end + 1] - self.units[start] <= limit:
            end += 1
        begun = self.units[start]
        inside = [e.offset for e in self.entities if begun < e.offset + e.length]
        inside = sorted([*inside, *(place for place in self.found if begun <= place)])
        if len(inside) > MOST_ENTITIES:
            end = min(end, max(start + 1, self.points[inside[MOST_ENTITIES]]))
        return max(end, start + 1)

    def _seams(self, start: int, end: int) -> Iterator[int]:
        """Places to cut, best first: seams of the second half, seams of the first, then any place."""
        middle = (start + end) // 2
        for low, high in ((middle, end), (start, middle)):
            for seam in _SEAMS:
                found = self.text.rfind(seam, low, high)
                while found >= 0 and found + len(seam) > start:
                    yield found + len(seam)
                    found = self.text.rfind(seam, low, found) if found > low else -1
        yield from range(end, start, -1)

    def page(self, start: int, end: int) -> Page | None:
        """The message between two places, without blank ends; None where nothing is left."""
        raw = self.text[start:end]
        if not raw.strip():
            return None
        first = self.units[start + len(raw) - len(raw.lstrip())]
        last = self.units[start + len(raw.rstrip())]
        shown = (self._moved(e, first, last) for e in self.entities)
        return Page(raw.strip(), tuple(e for e in shown if e))

    def _moved(self, entity: MessageEntity, first: int, last: int) -> MessageEntity | None:
        begin, end = max(entity.offset, first), min(entity.offset + entity.length, last)
        if begin >= end or not self.text[self.points[begin] : self.points[end]].strip():
            return None
        return entity.model_copy(update={"offset": begin - first, "length": end - begin})
