"""The buttons under an answer, one for each citation.

A button carries nothing but a mark that only this archive can make. It is looked for among the citations of the
answer that the button is at, so that one that was made up, or is of another answer, means nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from aiogram.filters.callback_data import CallbackData
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from bot.kept import Kept, Quoted
from bot.marks import marked
from bot.words import Words
from rag_core.doors.archive import Archive

__all__ = ["Receipt", "keyboard", "meant"]

_IN_A_ROW = 5
# So few have room for a word on a phone.
_SPELT = 3
# Citations beyond have their links: more rows than this push the answer off a phone's screen.
_MOST = 20


class Receipt(CallbackData, prefix="q"):
    """A button: the mark of its citation."""

    mark: str


def keyboard(given: Kept, archive: Archive, words: Words) -> InlineKeyboardMarkup | None:
    """The buttons in the order of the sources' numbers; None where nothing is cited."""
    labelled = list(_labelled(given))[:_MOST]
    spelt = len(labelled) <= _SPELT
    buttons = [
        InlineKeyboardButton(
            text=words("receipt", number=number) if spelt else f"❝ {number}",
            callback_data=Receipt(mark=_mark(quoted, given, archive)).pack(),
        )
        for number, quoted in labelled
    ]
    rows = [buttons[at : at + _IN_A_ROW] for at in range(0, len(buttons), _IN_A_ROW)]
    return InlineKeyboardMarkup(inline_keyboard=rows) if rows else None


def meant(given: Kept, archive: Archive, mark: str) -> Quoted | None:
    """The citation of this answer that a mark stands for."""
    return next((quoted for quoted in given.quotes if _mark(quoted, given, archive) == mark), None)


def _labelled(given: Kept) -> Iterator[tuple[str, Quoted]]:
    """The number of the post; where several places of it are cited, with their own behind it."""
    of_post = Counter(quoted.key for quoted in given.quotes)
    for number, cited in enumerate(given.cited, 1):
        quotes = (quoted for quoted in given.quotes if quoted.key == cited.key)
        for place, quoted in enumerate(quotes, 1):
            yield f"{number}.{place}" if of_post[cited.key] > 1 else str(number), quoted


def _mark(quoted: Quoted, given: Kept, archive: Archive) -> str:
    return marked(repr((given.trace_id, *quoted.key, quoted.start, quoted.end)), archive.identity, size=9)
