"""`parse_mode=HTML`: tags to text and entities, with Telegram's complaints about broken ones.

Source of the rules: https://core.telegram.org/bots/api#html-style
"""

from __future__ import annotations

import re
from html import unescape

from bot.sandbox.refused import Refused, bad
from bot.sandbox.rooms import Json

__all__ = ["read_html"]

_TOKEN = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w-]*)(?P<rest>[^<>]*)>|(?P<open><)")
_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_ESCAPE = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);")
_SIMPLE = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
}


def read_html(markup: str) -> tuple[str, list[Json]]:
    """Text and entities of a piece of Telegram HTML; 400 where a tag is unknown or not closed."""
    reader = _Reader()
    position = 0
    for token in _TOKEN.finditer(markup):
        reader.text(markup[position : token.start()])
        position = token.end()
        byte = len(markup[: token.start()].encode())
        if token["open"]:
            raise _broken(f"Unsupported start tag at byte offset {byte}")
        if token["close"]:
            reader.close(token["name"].lower(), byte)
        else:
            reader.open(token["name"].lower(), token["rest"], byte)
    reader.text(markup[position:])
    return reader.done()


def _broken(what: str) -> Refused:
    return bad(f"can't parse entities: {what}")


class _Reader:
    """The text so far, and the tags that are still open."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._open: list[tuple[str, int, Json | None]] = []
        self._entities: list[Json] = []

    def text(self, raw: str) -> None:
        """Take plain text with Telegram's five escapes."""
        shown = _ESCAPE.sub(lambda match: unescape(match[0]), raw)
        self._pieces.append(shown)
        self._length += len(shown.encode("utf-16-le", "surrogatepass")) // 2

    def open(self, name: str, rest: str, byte: int) -> None:
        """Remember a start tag."""
        values = {m[1].lower(): unescape(m[2] or m[3] or m[4] or "") for m in _ATTRIBUTE.finditer(rest)}
        self._open.append((name, self._length, _entity(name, values, byte)))

    def close(self, name: str, byte: int) -> None:
        """Turn the innermost start tag into an entity."""
        if not self._open:
            raise _broken(f"Unexpected end tag at byte offset {byte}")
        opened, start, entity = self._open.pop()
        if opened != name:
            expected = f'expected "</{opened}>", found "</{name}>"'
            raise _broken(f"Unmatched end tag at byte offset {byte}, {expected}")
        if entity and self._length > start:
            self._entities.append(entity | {"offset": start, "length": self._length - start})

    def done(self) -> tuple[str, list[Json]]:
        """Everything read, if every tag was closed."""
        if self._open:
            raise _broken(f'Can\'t find end tag corresponding to start tag "{self._open[-1][0]}"')
        return "".join(self._pieces), sorted(self._entities, key=lambda e: (e["offset"], -e["length"]))


def _entity(name: str, values: dict[str, str], byte: int) -> Json | None:
    """What a start tag stands for; None for a link that Telegram would not follow."""
    if name in _SIMPLE:
        return {"type": _SIMPLE[name]}
    if name == "blockquote":
        return {"type": "expandable_blockquote" if "expandable" in values else "blockquote"}
    if name == "span" and values.get("class") == "tg-spoiler":
        return {"type": "spoiler"}
    if name == "tg-emoji":
        return {"type": "custom_emoji", "custom_emoji_id": values.get("emoji-id", "")}
    if name == "a":
        url = values.get("href", "")
        return {"type": "text_link", "url": url} if re.match(r"(https?|tg)://", url) else None
    raise _broken(f'Unsupported start tag "{name}" at byte offset {byte}')
