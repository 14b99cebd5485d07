"""Cleaning and shortening of untrusted text, for chat and terminal. Imports no aiogram, which loads slowly."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TypeVar

from bot.i18n import Translator

T = TypeVar("T")

# Embeddings, overrides and isolates of writing direction: they could reorder the words around them.
_DIRECTION_MARKS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Category Cc but for the line break, and the separators at which some terminals break a line.
_CONTROL_CHARACTERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_control_characters(text: str) -> str:
    """Strip control characters and direction marks from an untrusted text; line breaks are kept."""
    return _CONTROL_CHARACTERS.sub(" ", _DIRECTION_MARKS.sub("", text)).strip()


def dump_json(value: object) -> str:
    """Serialize to JSON that a terminal can show: readable, but for escapes of what would control it."""
    dumped = json.dumps(value, ensure_ascii=False)
    return _ESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", dumped)


def join_lines(text: str) -> str:
    """Put an untrusted text on one line, without control characters."""
    return " ".join(strip_control_characters(text).split())


def shorten(text: str, longest: int) -> str:
    """Cut a text that is longer, with an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def shorten_at_word(text: str, longest: int) -> str:
    """Cut a text that is longer between two words, with an ellipsis."""
    return text if len(text) <= longest else f"{text[:longest].rsplit(' ', 1)[0].rstrip(' ,.;:·•–—-')}…"


def cut_lines(lines: Sequence[T], most: int, words: Translator) -> list[T | str]:
    """Cut a list that has more lines than `most`; a last line counts the rest."""
    more = len(lines) - most
    return [*lines[:most], *([words("titles-more", more=more)] if more > 0 else [])]
