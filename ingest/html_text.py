"""One block of text in a page of Telegram Desktop, put together again from its tags.

Inside a block a line break is `<br>`; a real one stands only behind the start tag and, with indentation,
before the end tag of a block (tdesktop's export_output_html.cpp, HtmlContext).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Text"]

_FORMATS = {
    "strong": "bold",
    "b": "bold",
    "em": "italic",
    "i": "italic",
    "u": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "a": "a",
}
_VOID = frozenset({"br", "img", "hr", "wbr", "input", "meta", "link"})
# What a page adds of its own: dates and votes, cards of media, marks of lists, buttons, what it cannot show.
_SILENT = frozenset(
    {"details", "media_wrap", "rich_task_marker", "rich_order_marker", "rich_diff_previous", "rich_fallback"}
)
_SCRIPTED = (
    ("ShowHashtag", "hashtag"),
    ("ShowBotCommand", "bot_command"),
    ("ShowCashtag", "cashtag"),
    ("ShowMentionName", "mention_name"),
    ("ShowNot", "custom_emoji"),
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WEB = re.compile(r"https?://", re.IGNORECASE)
# Telegram's longest text has 4096 letters; rich messages have more. Deeper or longer is no message.
_LONGEST = 2**18
_DEEPEST = 64
# What a change of formatting counts, so that there are not too many of them either.
_PIECE = 16

Fields = Mapping[str, str]


@dataclass(slots=True, eq=False, frozen=True)
class _Span:
    """An open tag: what it and those around it make of the text inside."""

    tag: str
    kind: str = ""
    fields: Fields | None = None
    silent: bool = False


_PLAIN = _Span("")


class Text:
    """A block while it is read. `rich` ones hold blocks of their own; `date` is the title of a date inside."""

    def __init__(self, *, rich: bool = False) -> None:
        self.rich = rich
        self._open: list[_Span] = []
        self._pieces: list[tuple[_Span, list[str]]] = []
        self._size = 0
        self.date = ""

    @property
    def too_long(self) -> bool:
        """Whether it is more than any message holds; then not all of it was kept."""
        return self._size > _LONGEST

    def start(self, tag: str, fields: Fields, classes: Sequence[str]) -> None:
        """A tag opens inside the block."""
        if tag == "br":
            self._add("\n")
        elif tag not in _VOID and len(self._open) < _DEEPEST:
            around = self._open[-1] if self._open else _PLAIN
            kind = "spoiler" if "spoiler" in classes else _FORMATS.get(tag, "")
            silent = around.silent or tag == "button" or not _SILENT.isdisjoint(classes)
            if "date" in classes:
                self.date = fields.get("title", "")
            inside = (kind, fields) if kind else (around.kind, around.fields)
            self._open.append(_Span(tag, *inside, silent))
            self._separate(tag)

    def end(self, tag: str) -> bool:
        """A tag closes; False if it was not opened inside the block."""
        for n in reversed(range(len(self._open))):
            if self._open[n].tag == tag:
                self._separate(tag)
                del self._open[n:]
                return True
        return False

    def data(self, text: str) -> None:
        """Text inside the block, as it is written in the page."""
        self._add(re.sub(r"\n *", "\0", text) if self.rich else text)

    def _separate(self, tag: str) -> None:
        if self.rich and tag == "pre":
            self._add("\0")

    def _add(self, text: str) -> None:
        self._size += len(text) + _PIECE
        span = self._open[-1] if self._open else _PLAIN
        if span.silent or self.too_long:
            return
        if self._pieces and self._pieces[-1][0] is span:
            self._pieces[-1][1].append(text)
        else:
            self._pieces.append((span, [text]))

    def plain(self) -> str:
        """The text alone."""
        return "".join(text for _, text in self._joined())

    def parts(self) -> list[dict[str, str]]:
        """The text as an export's `text_entities`."""
        if self.rich:
            lines = [line for line in self.plain().split("\0") if line.strip()]
            return [{"type": "plain", "text": "\n".join(lines)}] if lines else []
        return [_part(span, text) for span, text in self._joined()]

    def links(self) -> list[str]:
        """Where its links lead."""
        return [(span.fields or {}).get("href", "") for span, _ in self._pieces if span.kind == "a"]

    def _joined(self) -> list[tuple[_Span, str]]:
        """The pieces without what only lays out the page."""
        pieces = [(span, "".join(texts)) for span, texts in self._pieces]
        if pieces and pieces[0][0] is _PLAIN:
            pieces[0] = (_PLAIN, pieces[0][1].removeprefix("\n"))
        if pieces and pieces[-1][0] is _PLAIN:
            pieces[-1] = (_PLAIN, re.sub(r"\n *\Z", "", pieces[-1][1]))
        return [(span, text) for span, text in pieces if text]


def _part(span: _Span, text: str) -> dict[str, str]:
    if span.kind != "a":
        return {"type": span.kind or "plain", "text": text}
    fields: Mapping[str, Any] = span.fields or {}
    href, script = fields.get("href", ""), fields.get("onclick", "")
    if script:
        return {"type": next((kind for mark, kind in _SCRIPTED if mark in script), "plain"), "text": text}
    kind = _link(href, text)
    return {"type": kind, "text": text} | ({"href": href} if kind == "text_link" else {})


def _link(href: str, text: str) -> str:
    """What a link is: an address that is shown, one that is hidden, something Telegram recognised."""
    if _bare(href) == _bare(text):
        return "link"
    if href == f"mailto:{text}":
        return "email"
    if href == f"tel:{text}":
        return "phone"
    if text.startswith("@") and href.endswith(f"/{text[1:]}"):
        return "mention"
    # only files of the export stand beside the page: pictures of custom emoji
    return "text_link" if _SCHEME.match(href) else "custom_emoji"


def _bare(address: str) -> str:
    return _WEB.sub("", address, count=1).rstrip("/").lower()
