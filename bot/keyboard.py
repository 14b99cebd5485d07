"""The buttons under an answer. Each carries a word that only the archive can turn into a question.

A button can be pressed by anybody who sees it, again and again: who may is checked with every press (after/behind.py).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from aiogram.filters.callback_data import CallbackData
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup

from bot.kept import Json
from bot.words import Words
from rag_core.doors.archive.feedback import Votes
from rag_core.doors.archive.questions import Asked

__all__ = [
    "DEEP",
    "REASONS",
    "Deed",
    "Press",
    "Row",
    "button",
    "deed_of",
    "under",
    "with_reasons",
    "with_votes",
    "without",
]

DEEP = "deep"  # the mode of a question that was asked again for more


class Deed(StrEnum):
    """What a button does. Short: Telegram gives a button 64 bytes."""

    GOOD = "g"
    BAD = "b"
    WRONG = "w"
    OUTDATED = "o"
    OTHER = "n"
    SOURCE = "e"
    SOURCES = "s"
    PAGE = "p"
    WHY = "y"
    SHORTER = "h"
    DEEPER = "d"
    LINK = "l"


# What may be wrong with an answer, by the names that the archive has for it.
REASONS = {Deed.WRONG: "wrong", Deed.OUTDATED: "outdated", Deed.OTHER: "other", Deed.SOURCE: "source"}
_VOTES = {Deed.GOOD: "👍", Deed.BAD: "👎"}


class Press(CallbackData, prefix="an"):
    """A button: what it does, the handle of its question, and the page it turns to."""

    deed: Deed
    handle: str
    page: int = 0


Row = list[InlineKeyboardButton]


def button(label: str, deed: Deed, handle: str, page: int = 0) -> InlineKeyboardButton:
    """One button."""
    return InlineKeyboardButton(text=label, callback_data=Press(deed=deed, handle=handle, page=page).pack())


def under(asked: Asked, kept: Json | None, words: Words, *more: Row) -> InlineKeyboardMarkup | None:
    """The buttons of an answer, with `more` rows below; none under a sentence that answers nothing."""
    if not kept or not asked.handle:
        return None
    said, handle = len(kept["sentences"]), asked.handle
    rows: list[Row] = [
        [button(emoji, deed, handle) for deed, emoji in _VOTES.items()],
        [
            *([button(words("button-sources"), Deed.SOURCES, handle)] if said else []),
            button(words("button-why"), Deed.WHY, handle),
            button(words("button-link"), Deed.LINK, handle),
        ],
        [
            *([button(words("button-shorter"), Deed.SHORTER, handle)] if said > 1 else []),
            *([button(words("button-deeper"), Deed.DEEPER, handle)] if asked.mode != DEEP else []),
        ],
        *more,
    ]
    return InlineKeyboardMarkup(inline_keyboard=[row for row in rows if row])


def without(shown: InlineKeyboardMarkup | None, *deeds: Deed) -> InlineKeyboardMarkup:
    """The same buttons but for those that did their work; other rows stay as they are."""
    return _each(shown, lambda one: None if deed_of(one) in deeds else one)


def with_votes(shown: InlineKeyboardMarkup | None, votes: Votes) -> InlineKeyboardMarkup:
    """The same buttons with the votes counted."""
    counts = {Deed.GOOD: votes.good, Deed.BAD: votes.bad}

    def counted(one: InlineKeyboardButton) -> InlineKeyboardButton:
        deed = deed_of(one)
        if deed not in _VOTES:
            return one
        return one.model_copy(update={"text": f"{_VOTES[deed]} {counts[deed]}" if counts[deed] else _VOTES[deed]})

    return _each(shown, counted)


def with_reasons(shown: InlineKeyboardMarkup, handle: str, words: Words) -> InlineKeyboardMarkup:
    """The same buttons with what may be wrong, below the votes."""
    rows = without(shown, *REASONS).inline_keyboard
    reasons = [button(words("button-reason", reason=name), deed, handle) for deed, name in REASONS.items()]
    return InlineKeyboardMarkup(inline_keyboard=[*rows[:1], reasons[:2], reasons[2:], *rows[1:]])


def deed_of(one: InlineKeyboardButton) -> Deed | None:
    """What a button does; None for one that is not of ours."""
    prefix, _, rest = (one.callback_data or "").partition(":")
    known = prefix == Press.__prefix__ and rest[:1] in {deed.value for deed in Deed}
    return Deed(rest[:1]) if known else None


def _each(
    shown: InlineKeyboardMarkup | None, change: Callable[[InlineKeyboardButton], InlineKeyboardButton | None]
) -> InlineKeyboardMarkup:
    rows = ([kept for one in row if (kept := change(one))] for row in (shown.inline_keyboard if shown else ()))
    return InlineKeyboardMarkup(inline_keyboard=[row for row in rows if row])
