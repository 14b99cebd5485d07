"""The messages of a page of Telegram Desktop (messages.html) as entries like those of its result.json.

The page is read as a stream and nothing of it is believed: a message begins wherever its start tag stands,
however deep, and one whose tags do not fit together becomes an entry that cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser

from ingest.html_entries import MEDIA, Draft, Entry, entry_of, person
from ingest.html_text import Fields, Text

__all__ = ["Messages"]

_ID = re.compile(r"message(-?[0-9]{1,16})")
# Control characters are written as references that HTML does not allow, so Python's parser drops them.
_CONTROL = re.compile(r"&#x([01][0-9A-F]);")
# Markup that has not ended after so many characters is skipped: the longest real link has 25,000.
_UNENDED = 2**18
# What no message holds.
_FOREIGN = frozenset({"script", "style", "iframe", "textarea", "title", "xmp", "noscript", "plaintext"})
# Classes of blocks whose text is wanted; of those in the second row only beside media.
_BLOCKS = ("from_name", "reply_to", "text", "signature")
_IN_MEDIA = ("title", "description", "question", "answer", "details")


class Messages(HTMLParser):
    """A parser to `read` a page with, piece by piece; `taken` are the entries that are complete."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._entries: list[Entry] = []
        self._draft: Draft | None = None
        self._text: Text | None = None
        self._name = ""
        self._sender: str | None = None
        self._origin: str | None = None

    def read(self, piece: str) -> None:
        """Take in the next piece of the page; it ends where a line ends, if a line is not very long."""
        if "&#x" in piece:
            piece = _CONTROL.sub(lambda found: chr(int(found[1], 16)), piece)
        self.feed(piece)
        if len(self.rawdata) > _UNENDED:
            self.reset()
            self._damaged()

    def taken(self) -> list[Entry]:
        """The entries since the last call."""
        entries, self._entries = self._entries, []
        return entries

    def finish(self) -> list[Entry]:
        """The entries that are left at the end of the page."""
        if self.rawdata:
            self._damaged()
        self._end_message()
        return self.taken()

    def updatepos(self, i: int, j: int) -> int:
        """Count no lines and columns: nobody asks for them, and counting takes a tenth of the time."""
        return j

    def parse_html_declaration(self, i: int) -> int:
        """Skip CDATA and the like up to the next ">": in some Pythons some of them are errors."""
        return self.parse_bogus_comment(i)

    def handle_comment(self, data: str) -> None:
        """No message holds a comment."""
        self._damaged()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag opens."""
        if (self.get_starttag_text() or "").rfind("<") > 0 or tag in _FOREIGN:
            # "<" inside a tag is written as &lt;: this one has swallowed others
            self._damaged()
        fields = {name: value or "" for name, value in attrs}
        classes = fields["class"].split() if "class" in fields else []
        if tag == "div" and "message" in classes and (number := _ID.fullmatch(fields.get("id", ""))):
            self._end_message()
            self._draft = Draft(int(number[1]), "service" in classes)
        elif self._text is not None:
            self._text.start(tag, fields, classes)
        elif self._draft is not None and classes and not self._draft.service:
            self._begin(self._draft, tag, fields, classes)

    def handle_endtag(self, tag: str) -> None:
        """A tag closes."""
        if self._text is not None and not self._text.end(tag) and tag == "div":
            self._end_block(self._text)

    def handle_data(self, data: str) -> None:
        """Text between tags."""
        if self._text is not None:
            self._text.data(data)

    def _begin(self, draft: Draft, tag: str, fields: Fields, classes: Sequence[str]) -> None:
        """Something of a message begins: its date, its media, a block of text."""
        if "date" in classes:
            draft.date = draft.date or fields.get("title", "")
        elif "forwarded" in classes and "body" in classes:
            draft.forwarded = True
        elif media := next((name for name in classes if name in MEDIA), ""):
            draft.media = draft.media or media
            draft.href = draft.href or fields.get("href", "")
        elif tag == "div":
            wanted = _BLOCKS + _IN_MEDIA if draft.media else _BLOCKS
            if name := next((name for name in wanted if name in classes), ""):
                self._name = "origin" if name == "from_name" and draft.forwarded else name
                self._text = Text(rich="rich_message" in classes)

    def _end_block(self, text: Text) -> None:
        self._text = None
        if self._draft is not None:
            self._draft.broken |= text.too_long
            self._draft.blocks.setdefault(self._name, []).append(text)

    def _damaged(self) -> None:
        self._text = None
        if self._draft is not None:
            self._draft.broken = True

    def _end_message(self) -> None:
        if self._text is not None:
            self._damaged()
        draft, self._draft = self._draft, None
        # the rows between days have negative ids
        if draft is None or (draft.service and draft.id < 0):
            return
        if "from_name" in draft.blocks:
            self._sender = person(draft.one("from_name"))
        if "origin" in draft.blocks:
            self._origin = person(draft.one("origin"))
        self._entries.append(entry_of(draft, self._sender, self._origin))
