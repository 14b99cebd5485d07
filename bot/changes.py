"""What an edit changed, word by word: what went is struck through, what came is bold, the rest is cut away. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from aiogram.utils.formatting import Bold, Strikethrough, Text

from bot.inert import ADDRESS, inert, styled
from bot.plain import plain

__all__ = ["changed"]

# Words around a change: about a line on a phone before it and one after.
_AROUND = 6
# So few words are not worth leaving out.
_FEW = 2
# Changes shown of one edit, and characters shown of one of them, from its beginning and its end.
_MOST = 5
_HEAD, _TAIL = 160, 60
# An address, a word with what is inside it (7:30, e-mail, 12.50), or a run of signs; then the space after it.
_TOKEN = re.compile(rf"({ADDRESS}|\w+(?:[^\w\s]\w+)*|[^\w\s]+)(\s*)")

_Tokens = Sequence[tuple[str, str]]
# What was there, what is there now: both are half-open ranges of tokens.
_Change = tuple[range, range]


def changed(old: str, new: str) -> tuple[Text, int]:
    """The changes from `old` to `new` with the words around them, and how many more there are than are shown.

    An empty text where only white space changed. Control characters and turns of direction are left out.
    """
    was, now = _TOKEN.findall(plain(old)), _TOKEN.findall(plain(new))
    found = _joined(list(_changes(was, now)))
    pieces: list[Text | str] = []
    end = 0
    for index, change in enumerate(found[:_MOST]):
        following = found[index + 1][1].start if index + 1 < len(found) else len(now)
        pieces += _before(now, end, change[1].start)
        pieces += _swapped(was, now, change)
        end = min(change[1].stop + _AROUND, following)
        end = following if following - end <= _FEW else end
        pieces.append(_text(now, range(change[1].stop, end), spaced=True))
    if found and end < len(now):
        pieces.append("…")
    return Text(*(inert(p) if isinstance(p, str) else p for p in pieces if p)), max(0, len(found) - _MOST)


def _changes(was: _Tokens, now: _Tokens) -> Iterator[_Change]:
    # Most edits are local: without what both texts begin and end with, there is little left to compare.
    a, b = [word for word, _ in was], [word for word, _ in now]
    head = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[head:], b[head:]
    tail = next((n for n, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=False)) if x != y), min(len(a), len(b)))
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    for kind, i, j, k, m in SequenceMatcher(None, a, b).get_opcodes():
        if kind != "equal":
            yield range(head + i, head + j), range(head + k, head + m)


def _joined(changes: Sequence[_Change]) -> list[_Change]:
    """Changes with a single word between them read as one."""
    found: list[_Change] = []
    for old, new in changes:
        if found and new.start - found[-1][1].stop <= 1:
            before = found.pop()
            old, new = range(before[0].start, old.stop), range(before[1].start, new.stop)
        found.append((old, new))
    return found


def _before(now: _Tokens, shown: int, start: int) -> Iterator[str]:
    """The last words between what has been shown and the next change."""
    begin = start - _AROUND if start - _AROUND - shown > _FEW else shown
    if begin > shown:
        yield "… "
    yield _text(now, range(begin, start), spaced=True)


def _swapped(was: _Tokens, now: _Tokens, change: _Change) -> Iterator[Text | str]:
    """What went and what came, with a space between them, and after them where there is one in the text."""
    old, new = change
    if old:
        yield styled(Strikethrough, _shortened(_text(was, old)), "−")
    if old and new:
        yield " "
    if new:
        yield styled(Bold, _shortened(_text(now, new)), "+")
    last = now[new.stop - 1] if new else was[old.stop - 1]
    if last[1]:
        yield " "


def _shortened(text: str) -> str:
    if len(text) <= _HEAD + _TAIL:
        return text
    return f"{text[:_HEAD].rstrip()} … {text[-_TAIL:].lstrip()}"


def _text(tokens: _Tokens, which: range, *, spaced: bool = False) -> str:
    """The words as they stand, any white space as one space; `spaced` keeps that after the last."""
    said = "".join(word + (" " if space else "") for word, space in tokens[which.start : which.stop])
    return said if spaced else said.rstrip()
