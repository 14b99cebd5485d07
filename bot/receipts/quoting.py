"""What of a post Telegram takes as a native quote: an exact part of its text, with the styles it has there. Pure.

Rules: https://core.telegram.org/bots/api#replyparameters. A bot's quote is cleaned before it is compared with the
message, so that a part with signs that do not survive this can never be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from aiogram.types import MessageEntity

from rag_core.types import Entity

__all__ = ["LONGEST", "Quote", "quotable", "units"]

LONGEST = 1024  # characters; counted here in UTF-16 units, which are never fewer

# Taken out or replaced by the server (TDLib's clean_input_string): control characters, turns of writing direction,
# three combining lines and the ring; of direction marks those in a row. With its word, as half a word misleads.
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\u2028\u2029]|\S*(?:[\u202a-\u202e\u030a\u0333\u033f]|[\u200e\u200f]{2})\S*")
_STYLES = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
# Must be repeated with what they stand for, which the archive does not keep, and most bots may not send.
_UNKNOWN = frozenset({"custom_emoji", "date_time"})
_SPACE = re.compile(r"\s")
# What belongs to the sign before it: combining marks, joiners, variation selectors, skin tones.
_JOINED = re.compile("[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u064b-\u065f\u200d\u20d0-\u20ff\ufe00-\ufe0f🏻-🏿]")


@dataclass(frozen=True, slots=True)
class Quote:
    """Ready for `ReplyParameters`: `position` and the entities are in UTF-16 units."""

    text: str
    position: int
    entities: tuple[MessageEntity, ...] = ()


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(letter > "\uffff" for letter in text)


def quotable(text: str, start: int, end: int, entities: Iterable[Entity]) -> Quote | None:
    """The longest piece between two places of a post's text (code points) that can be quoted; None where none can."""
    known = tuple(entities)
    pieces = [_shortened(text, *piece) for piece in _pieces(text, start, end, known)]
    first, last = max(pieces, key=lambda piece: piece[1] - piece[0], default=(start, start))
    if first >= last:
        return None
    said, position = text[first:last], units(text[:first])
    return Quote(said, position, tuple(_styles(known, position, units(said))))


def _pieces(text: str, start: int, end: int, entities: tuple[Entity, ...]) -> Iterator[tuple[int, int]]:
    """What is left between the places where a quote would break, without white space around it."""
    breaks = [match.span() for match in _UNSAFE.finditer(text, start, end)]
    if any(entity.type in _UNKNOWN for entity in entities):
        points = _points(text)
        spans = ((e.offset, e.offset + e.length) for e in entities if e.type in _UNKNOWN)
        breaks += [(points[a], points[b]) for a, b in spans if a in points and b in points]
    at = start
    for left, right in [*sorted(breaks), (end, end)]:
        piece = text[at : max(at, min(left, end))]
        yield at + len(piece) - len(piece.lstrip()), at + len(piece.rstrip())
        at = max(at, right)


def _points(text: str) -> dict[int, int]:
    """UTF-16 place -> place in code points."""
    places = accumulate((2 if letter > "\uffff" else 1 for letter in text), initial=0)
    return {unit: point for point, unit in enumerate(places)}


def _shortened(text: str, start: int, end: int) -> tuple[int, int]:
    """The piece, cut between words where it is too long; between signs where it is one word."""
    if units(text[start:end]) <= LONGEST:
        return start, end
    sizes = accumulate(2 if letter > "\uffff" else 1 for letter in text[start:end])
    fitting = start + sum(size <= LONGEST for size in sizes)
    for cut in range(fitting, start, -1):
        if _SPACE.match(text, cut):
            return start, start + len(text[start:cut].rstrip())
    while fitting > start and (_JOINED.match(text, fitting) or text[fitting - 1] == "\u200d"):
        fitting -= 1
    return start, fitting


def _styles(entities: Iterable[Entity], start: int, length: int) -> Iterator[MessageEntity]:
    """The styles that Telegram compares, as far as they lie in the quote."""
    for entity in entities:
        left = max(entity.offset, start) - start
        right = min(entity.offset + entity.length, start + length) - start
        if entity.type in _STYLES and right > left:
            yield MessageEntity(type=entity.type, offset=left, length=right - left)
