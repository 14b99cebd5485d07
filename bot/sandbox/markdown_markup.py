"""`parse_mode=MarkdownV2`: the marks to text and entities, with Telegram's complaints about unescaped ones.

Source of the rules: https://core.telegram.org/bots/api#markdownv2-style
"""

from __future__ import annotations

import re

from bot.sandbox.refused import Refused, bad
from bot.sandbox.rooms import Json

__all__ = ["read_markdown"]

_MARKS = {
    "*": "bold",
    "_": "italic",
    "__": "underline",
    "~": "strikethrough",
    "||": "spoiler",
    "`": "code",
    "```": "pre",
}
_RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
_LINK_END = re.compile(r"\]\(((?:\\.|[^\\)])*)\)", re.DOTALL)
_QUOTE_END = re.compile(r"\|\|(?:\n(?!>)|\Z)")


def read_markdown(markup: str) -> tuple[str, list[Json]]:
    """Text and entities of a piece of MarkdownV2; 400 for a reserved character without a backslash."""
    return _Reader(markup).read()


class _Reader:
    """One pass over the characters, with the marks that are still open."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._at = 0
        self._text: list[str] = []
        self._length = 0
        self._open: list[tuple[str, int]] = []
        self._entities: list[Json] = []
        self._quote: int | None = None

    def read(self) -> tuple[str, list[Json]]:
        """Read to the end."""
        while self._at < len(self._markup):
            self._step()
        if self._open:
            kind = _MARKS.get(self._open[-1][0], "text link").capitalize()
            raise self._broken(f"Can't find end of {kind} entity at byte offset {self._byte()}")
        self._end_quote(expandable=False)
        return "".join(self._text), sorted(self._entities, key=lambda e: (e["offset"], -e["length"]))

    def _step(self) -> None:
        rest = self._markup[self._at :]
        inside = self._open[-1][0] if self._open else ""
        if rest[0] == "\\" and len(rest) > 1 and ord(rest[1]) < 127:
            self._take(rest[1], 2)
        elif inside in {"`", "```"} and not rest.startswith(inside):
            self._take(rest[0], 1)
        elif rest[0] == ">" and self._line_start():
            self._quote = self._length if self._quote is None else self._quote
            self._at += 1
        elif rest[0] == "\n":
            self._newline(rest)
        elif self._quote is not None and inside != "||" and _QUOTE_END.match(rest):
            self._at += 2
            self._end_quote(expandable=True)
        elif mark := next((m for m in ("```", "||", "__", "*", "_", "~", "`") if rest.startswith(m)), ""):
            self._mark(mark)
        elif rest[0] in "[]":
            self._bracket(rest, inside)
        elif rest[0] in _RESERVED:
            reason = "is reserved and must be escaped with the preceding '\\'"
            raise self._broken(f"Character '{rest[0]}' {reason}")
        else:
            self._take(rest[0], 1)

    def _mark(self, mark: str) -> None:
        self._at += len(mark)
        if self._open and self._open[-1][0] == mark:
            self._close({"type": _MARKS[mark]})
        else:
            self._open.append((mark, self._length))

    def _bracket(self, rest: str, inside: str) -> None:
        if rest[0] == "[":
            self._open.append(("[", self._length))
            self._at += 1
            return
        link = _LINK_END.match(rest)
        if inside != "[" or link is None:
            reason = "is reserved and must be escaped with the preceding '\\'"
            raise self._broken(f"Character '{rest[0]}' {reason}")
        self._at += link.end()
        self._close({"type": "text_link", "url": re.sub(r"\\(.)", r"\1", link[1])})

    def _newline(self, rest: str) -> None:
        if not rest.startswith("\n>"):
            self._end_quote(expandable=False)
        self._take("\n", 1)

    def _close(self, entity: Json) -> None:
        start = self._open.pop()[1]
        if self._length > start:
            self._entities.append(entity | {"offset": start, "length": self._length - start})

    def _end_quote(self, *, expandable: bool) -> None:
        if self._quote is not None and self._length > self._quote:
            kind = "expandable_blockquote" if expandable else "blockquote"
            self._entities.append({"type": kind, "offset": self._quote, "length": self._length - self._quote})
        self._quote = None

    def _take(self, character: str, read: int) -> None:
        self._text.append(character)
        self._length += 2 if character > "\uffff" else 1
        self._at += read

    def _line_start(self) -> bool:
        return self._at == 0 or self._markup[self._at - 1] == "\n"

    def _byte(self) -> int:
        return len(self._markup[: self._at].encode())

    def _broken(self, what: str) -> Refused:
        return bad(f"can't parse entities: {what}")
