"""What `citegram import` says in English to somebody at a terminal, said to somebody in a chat, in their language.

The left side are patterns of its sentences. What is not among them is shown as it is.
"""

from __future__ import annotations

import re

from bot.importing.refusal import Refusal
from bot.plain import plain
from bot.titles import one_line
from bot.words import Words

__all__ = ["noted", "refusal"]

_REFUSALS = {
    r"ends in the middle": "import-cut",
    r"is empty": "import-empty",
    r"number that is too big": "import-number",
    r"is not JSON": "import-not-json",
    r"nested too deeply": "import-deep",
    r"is JSON, but no export": "import-no-export",
    r"is HTML, but no chat": "import-no-page",
    r"does not say which chat it is from": "import-nameless",
    r"holds private conversations only": "import-private",
    r"does not say which channel|names no channel|is known yet": "import-whose",
    r"is of another chat than|posts are of other days": "import-other-chat",
}
_NOTES = {
    r"Left out (?P<count>\d+) private conversations": "import-note-private",
    r"Left out (?P<count>\d+) chats without an id": "import-note-nameless",
    r"(?P<title>.*): the export holds no messages": "import-note-empty",
    r"(?P<title>.*): left out (?P<count>\d+) messages older than the supergroup": "import-note-migrated",
    r"(?P<title>.*): left out (?P<count>\d+) entries that could not be read": "import-note-broken",
    r"(?P<title>.*): Telegram calls it public, but its username": "import-note-public",
    r"(?P<title>.*): (?P<count>\d+) known posts are not in this full export": "import-note-kept",
    r"(?P<title>.*): (?P<count>\d+) messages of the export are damaged": "import-note-damaged",
    r".* goes on in (?P<page>messages\d+\.html)": "import-note-next",
    r"(?P<count>\d+) posts read otherwise than after": "import-note-doubtful",
}


def refusal(reason: str) -> Refusal:
    """Why nothing was imported."""
    found = next((said for pattern, said in _REFUSALS.items() if re.search(pattern, reason)), None)
    return Refusal(found) if found else Refusal("import-refused", reason=plain(reason))


def noted(note: str, words: Words) -> str:
    """What should be known of an import."""
    for pattern, said in _NOTES.items():
        if found := re.match(pattern, note, re.DOTALL):
            return words(said, **{name: _value(text) for name, text in found.groupdict().items()}, command="/import")
    return plain(note)


def _value(text: str) -> str | int:
    if text.isdecimal() and len(text) < 10:
        return int(text)
    return one_line(text)
