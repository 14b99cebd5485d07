"""Text changes: the words that an edit of a post removed and added, with a few words around each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from aiogram.utils.formatting import Bold, Strikethrough, Text

from bot.views.clean_and_shorten_text import strip_control_characters
from bot.views.message_formatting import LINK_REGEX, neutralize_links, style_text

# Words around a change: about a line on a phone before it and one after.
_CONTEXT_WORDS = 6
# Gaps this short are not left out.
_MIN_GAP_WORDS = 2
# Changes shown of one edit, and characters shown of each, from its beginning and its end.
_MAX_CHANGES = 5
_HEAD_LENGTH, _TAIL_LENGTH = 160, 60
# An address, a word with inner signs (7:30, e-mail, 12.50), or a run of signs; then the space after it.
_TOKEN_PATTERN = re.compile(rf"({LINK_REGEX}|\w+(?:[^\w\s]\w+)*|[^\w\s]+)(\s*)")

_Tokens = Sequence[tuple[str, str]]
# Old and new tokens of a change, as half-open ranges.
_Change = tuple[range, range]


def format_changes(old: str, new: str) -> tuple[Text, int]:
    """Format the changes from `old` to `new` with context, and count the changes that are not shown.

    The text is empty where only white space changed. Control characters and direction marks are left out.
    """
    was, now = (_TOKEN_PATTERN.findall(strip_control_characters(text)) for text in (old, new))
    found = _find_changes(was, now)
    pieces: list[Text | str] = []
    end = 0
    for index, change in enumerate(found[:_MAX_CHANGES]):
        begin = change[1].start - _CONTEXT_WORDS
        if begin - end > _MIN_GAP_WORDS:
            pieces.append("… ")
            end = begin
        pieces.append(_join_tokens(now, range(end, change[1].start), spaced=True))
        pieces += _format_change(was, now, change)
        following = found[index + 1][1].start if index + 1 < len(found) else len(now)
        end = change[1].stop + _CONTEXT_WORDS
        end = following if following - end <= _MIN_GAP_WORDS else end
        pieces.append(_join_tokens(now, range(change[1].stop, end), spaced=True))
    if found and end < len(now):
        pieces.append("…")
    text = Text(*(neutralize_links(p) if isinstance(p, str) else p for p in pieces if p))
    return text, max(0, len(found) - _MAX_CHANGES)


def _find_changes(was: _Tokens, now: _Tokens) -> list[_Change]:
    """Find the changes; those with a single word between them are one."""
    # Most edits are local: without the common prefix and suffix there is little left to compare.
    a, b = [word for word, _ in was], [word for word, _ in now]
    head = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[head:], b[head:]
    tail = next((n for n, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    found: list[_Change] = []
    for kind, i, j, k, m in SequenceMatcher(None, a, b).get_opcodes():
        if kind == "equal":
            continue
        old, new = range(head + i, head + j), range(head + k, head + m)
        if found and new.start - found[-1][1].stop <= 1:
            before = found.pop()
            old, new = range(before[0].start, old.stop), range(before[1].start, new.stop)
        found.append((old, new))
    return found


def _format_change(was: _Tokens, now: _Tokens, change: _Change) -> Iterator[Text | str]:
    """Removed and added words, separated by a space, with a trailing space where the text has one."""
    old, new = change
    if old:
        yield style_text(Strikethrough, _shorten_middle(_join_tokens(was, old)), "−")
    if old and new:
        yield " "
    if new:
        yield style_text(Bold, _shorten_middle(_join_tokens(now, new)), "+")
    last = now[new.stop - 1] if new else was[old.stop - 1]
    if last[1]:
        yield " "


def _shorten_middle(text: str) -> str:
    if len(text) <= _HEAD_LENGTH + _TAIL_LENGTH:
        return text
    return f"{text[:_HEAD_LENGTH].rstrip()} … {text[-_TAIL_LENGTH:].lstrip()}"


def _join_tokens(tokens: _Tokens, which: range, *, spaced: bool = False) -> str:
    """Join tokens with single spaces; `spaced` keeps the space after the last one."""
    text = "".join(word + (" " if space else "") for word, space in tokens[which.start : which.stop])
    return text if spaced else text.rstrip()
