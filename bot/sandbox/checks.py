"""Telegram's rules for text and entities: what is cleaned, what is refused.

Entities count UTF-16 units, the length limits count code points
(https://core.telegram.org/api/entities#entity-length; TDLib's `utf8_length`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from urllib.parse import urlsplit

from aiogram.enums import MessageEntityType

from bot.sandbox.detect import found_entities
from bot.sandbox.html_markup import read_html
from bot.sandbox.markdown_markup import read_markdown
from bot.sandbox.refused import bad
from bot.sandbox.rooms import Json

__all__ = ["CAPTION", "QUOTE", "TEXT", "formatted", "quoted", "spot", "units"]

TEXT = 4096
CAPTION = 1024
QUOTE = 1024
_MOST_ENTITIES = 100  # further ones are silently forgotten by the server
# What TDLib takes out of every text and quote that a bot sends, and what it puts in place of a run of direction marks:
# https://github.com/tdlib/td/blob/master/td/telegram/misc.cpp (clean_input_string)
_DROPPED = re.compile("[\r\u2028-\u202e\u030a\u0333\u033f]")
_DIRECTIONS = re.compile("[\u200e\u200f]+(?=[\u200e\u200f])")
_SCHEMES = {"http", "https", "tg"}
_TYPES = frozenset(kind.value for kind in MessageEntityType)
_PARSERS: dict[str, Callable[[str], tuple[str, list[Json]]]] = {
    "html": read_html,
    "markdownv2": read_markdown,
}


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


def spot(text: str, offset: int, length: int) -> str:
    """The piece of text that an entity covers."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def formatted(
    text: str | None,
    entities: list[Json] | None,
    parse_mode: str | None,
    limit: int = TEXT,
    *,
    empty: bool = False,
) -> tuple[str, list[Json]]:
    """The text and entities as a message keeps them; 400 for what Telegram refuses.

    `empty` allows a text with nothing in it (captions, drafts).
    """
    shown, marks = text or "", [dict(entity) for entity in entities or ()]
    if parse_mode and not marks:
        shown, marks = _parsed(shown, parse_mode)
    _check_entities(shown, marks)
    clean, kept = _trimmed(*_cleaned(shown, marks))
    if not clean and not empty:
        raise bad("message text is empty")
    if len(clean) > limit:
        raise bad("message is too long" if limit == TEXT else "message caption is too long")
    return clean, sorted(kept + found_entities(clean, kept), key=_order)[:_MOST_ENTITIES]


def quoted(text: str, entities: list[Json]) -> tuple[str, list[Json], int]:
    """A quote as the server looks for it, cleaned like any text, and how many units went at its start."""
    _check_entities(text, entities)
    plain, moved = _cleaned(text, entities)
    clean, kept = _trimmed(plain, moved)
    return clean, kept, units(plain.rstrip()) - units(clean)


def _order(entity: Json) -> tuple[int, int]:
    return entity["offset"], -entity["length"]


def _parsed(text: str, parse_mode: str) -> tuple[str, list[Json]]:
    parser = _PARSERS.get(parse_mode.lower())
    if parser is None:
        raise bad(f"unsupported parse_mode {parse_mode!r}: the sandbox reads HTML and MarkdownV2")
    return parser(text)


def _check_entities(text: str, entities: list[Json]) -> None:
    """Stricter than Telegram, which drops some of these in silence: a test should notice them."""
    ends = {0, *accumulate(2 if character > "\uffff" else 1 for character in text)}
    total = max(ends)
    for number, entity in enumerate(entities):
        kind, start, end = entity["type"], entity["offset"], entity["offset"] + entity["length"]
        if kind not in _TYPES:
            raise bad(f"can't parse entities: unsupported type {kind!r} of entity {number}")
        if start < 0 or entity["length"] <= 0 or end > total:
            raise bad(f"can't parse entities: entity {number} ({start} to {end}) is not within 0 to {total}")
        if start not in ends or end not in ends:
            raise bad(f"can't parse entities: entity {number} cuts a surrogate pair")
        if kind == "text_link":
            entity["url"] = _link(entity.get("url"), number)
        if kind == "text_mention" and not entity.get("user"):
            raise bad(f"can't parse entities: text_mention {number} has no user")


def _link(url: str | None, number: int) -> str:
    try:
        parts = urlsplit(url or "")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() not in _SCHEMES or not (parts.netloc or parts.path):
        raise bad(f"can't parse entities: URL of entity {number} is not an http, https or tg link")
    plain = parts.scheme != "tg" and not parts.path
    return parts._replace(path="/").geturl() if plain else parts.geturl()


def _cleaned(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """Carriage returns and the like vanish, other control characters become spaces; entities follow."""
    plain = "".join(" " if char < " " and char not in "\n\r" else char for char in text)
    plain = _DIRECTIONS.sub(lambda run: "\u200c" * len(run[0]), plain)
    if not _DROPPED.search(plain):
        return plain, entities
    places = [0, *accumulate(0 if _DROPPED.match(char) else 1 for char in plain for _ in range(units(char)))]
    return _DROPPED.sub("", plain), _moved(entities, lambda place: places[place])


def _trimmed(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """White space goes at the end, and at the start up to the first entity."""
    shorter = text.rstrip()
    first = min((entity["offset"] for entity in entities), default=len(text))
    lead = min(len(shorter) - len(shorter.lstrip()), first)
    end = units(shorter)
    return shorter[lead:], _moved(entities, lambda place: min(place, end) - lead)


def _moved(entities: list[Json], place: Callable[[int], int]) -> list[Json]:
    moved = []
    for entity in entities:
        start, end = place(entity["offset"]), place(entity["offset"] + entity["length"])
        if end > start:
            moved.append(entity | {"offset": start, "length": end - start})
    return moved
