"""Keyboards: rows of buttons with callback data; those under answers (votes, sources, citations ...).

Anybody who sees a button can press it, again and again, so that every press is checked
(bot/handlers/answers.py). A button carries a handle or a token that only this archive can resolve. The token of
a citation is looked up among the citations of the answer that the button is at: one that is made up, or of another
answer, finds nothing.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from hashlib import blake2b
from typing import TypeVar

from aiogram.exceptions import TelegramBadRequest
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Text

from bot.i18n import Translator
from bot.stored_answer import CitedSpan, StoredAnswer
from rag_core.storage import Archive
from rag_core.storage.questions import QuestionRow, VoteCounts

CHANNELS_PER_PAGE = 8  # a phone shows about this many buttons without scrolling

T = TypeVar("T")
LabelledPress = tuple[str, CallbackData] | tuple[str, CallbackData, str]
ButtonRow = list[InlineKeyboardButton]


def make_callback_token(said: str, key: str = "", size: int = 6) -> str:
    """Make a token for callback data: four characters for every three bytes of `size`, the same after a restart.

    With an archive's `identity` as the key it cannot be forged; without a key anybody can compute it.
    """
    return urlsafe_b64encode(blake2b(said.encode(), key=key.encode(), digest_size=size).digest()).decode()


def find_by_token(token: str, known: Mapping[str, T], key: str) -> T | None:
    """Find what a token of callback data stands for: the item whose content it was made of with this key."""
    return next((item for said, item in known.items() if make_callback_token(said, key) == token), None)


async def redraw_message(
    pressed: CallbackQuery, said: Text, buttons: InlineKeyboardMarkup | None, done: str = ""
) -> None:
    """Edit the button's message and answer the callback."""
    await edit_message(pressed, said, buttons)
    await pressed.answer(done[:200] or None)


async def edit_message(pressed: CallbackQuery, said: Text, buttons: InlineKeyboardMarkup | None) -> None:
    """Edit the message that has the button."""
    if isinstance(pressed.message, Message):  # else it is too old to be edited
        with suppress(TelegramBadRequest):  # pressed twice: "message is not modified"
            await pressed.message.edit_text(**said.as_kwargs(), reply_markup=buttons)


def cut_page(items: Sequence[T], number: int, size: int) -> tuple[Sequence[T], int, int]:
    """Cut a page out of a list: its items, its number, and the last number; the nearest page where there is none."""
    last = max(0, len(items) - 1) // size
    number = max(0, min(number, last))
    return items[number * size : (number + 1) * size], number, last


def build_page_row(
    number: int, last: int, press: Callable[[int], CallbackData], words: Translator | None = None
) -> list[tuple[str, CallbackData]]:
    """Build the row of buttons to the page before and the page after: arrows, or words."""
    earlier, later = (words("button-earlier"), words("button-later")) if words else ("◀", "▶")
    row = [(earlier, press(number - 1))] if number > 0 else []
    return row + ([(later, press(number + 1))] if number < last else [])


def build_keyboard(*rows: Sequence[LabelledPress]) -> InlineKeyboardMarkup:
    """Build a keyboard from rows of labels and callback data, with a style where one is given; no empty rows."""
    return InlineKeyboardMarkup(inline_keyboard=[build_row(row) for row in rows if row])


def build_row(row: Iterable[LabelledPress]) -> ButtonRow:
    """Build the buttons of a row."""
    return [
        InlineKeyboardButton(text=label, callback_data=press.pack(), style=style[0] if style else None)
        for label, press, *style in row
    ]


def split_rows(buttons: Sequence[T], size: int) -> list[Sequence[T]]:
    """Split buttons into rows of at most `size`."""
    return [buttons[at : at + size] for at in range(0, len(buttons), size)]


DEEP_MODE = "deep"  # mode of a question that was asked again with a wider search
DEEP_SENTENCES = 5  # the most sentences of its answer


class AnswerAction(StrEnum):
    """Action of an answer button. Values are short: Telegram gives a button 64 bytes."""

    GOOD = "g"
    BAD = "b"
    WRONG = "w"
    OUTDATED = "o"
    OTHER = "n"
    SOURCE = "e"
    SOURCES = "s"
    PAGE = "p"
    MORE = "m"
    BACK = "k"
    WHY = "y"
    SHORTER = "h"
    DEEPER = "d"
    LINK = "l"
    SEARCH = "f"
    REPHRASE = "r"


# Reasons for a bad answer, by their names in the archive.
REASONS_BY_ACTION = {
    AnswerAction.WRONG: "wrong",
    AnswerAction.OUTDATED: "outdated",
    AnswerAction.OTHER: "other",
    AnswerAction.SOURCE: "source",
}
_VOTE_EMOJI = {AnswerAction.GOOD: "👍", AnswerAction.BAD: "👎"}


class AnswerCallback(CallbackData, prefix="an"):
    """Callback data of an answer button: action, handle of the question, and page."""

    action: AnswerAction
    handle: str
    page: int = 0


def _build_answer_row(actions: Iterable[tuple[str, AnswerAction]], handle: str) -> ButtonRow:
    return build_row((label, AnswerCallback(action=action, handle=handle)) for label, action in actions)


def build_answer_keyboard(
    asked: QuestionRow, given: StoredAnswer, words: Translator, *questions: ButtonRow
) -> InlineKeyboardMarkup:
    """Build the keyboard of an answer: one row, and below it rows with questions; for a refusal two ways to go on."""
    actions: tuple[tuple[str, AnswerAction], ...] = (
        (words("button-search"), AnswerAction.SEARCH),
        (words("button-rephrase"), AnswerAction.REPHRASE),
    )
    if given.sentences:
        sources = [(words("button-sources"), AnswerAction.SOURCES)] if given.cited else []
        votes = [(emoji, action) for action, emoji in _VOTE_EMOJI.items()]
        actions = (*votes, *sources, (words("button-more"), AnswerAction.MORE))
    return InlineKeyboardMarkup(inline_keyboard=[_build_answer_row(actions, asked.handle), *questions])


def build_details_keyboard(
    asked: QuestionRow, given: StoredAnswer, archive: Archive, words: Translator, *questions: ButtonRow
) -> InlineKeyboardMarkup:
    """Build the keyboard that "more" shows in place of the first: everything else that an answer offers."""
    quotes = build_quote_keyboard(given, archive, words)
    shorter = [(words("button-shorter"), AnswerAction.SHORTER)] if len(given.sentences) > 1 else []
    deeper = [(words("button-deeper"), AnswerAction.DEEPER)] if asked.mode != DEEP_MODE else []
    details = [(words("button-why"), AnswerAction.WHY), (words("button-link"), AnswerAction.LINK), *shorter, *deeper]
    rows = [
        _build_answer_row(details, asked.handle),
        *(quotes.inline_keyboard if quotes else ()),
        _build_answer_row([(words("button-back"), AnswerAction.BACK)], asked.handle),
        *questions,
    ]
    return InlineKeyboardMarkup(inline_keyboard=rows)


class SuggestionCallback(CallbackData, prefix="sq"):
    """Callback data of a suggested question: its token."""

    token: str


def build_suggestion_rows(suggested: Iterable[tuple[str, str]]) -> list[ButtonRow]:
    """Build a row for each suggested question, from its text and token."""
    return [build_row([(text, SuggestionCallback(token=token))]) for text, token in suggested]


def list_suggestion_rows(shown: InlineKeyboardMarkup | None) -> list[ButtonRow]:
    """List the rows of a keyboard that suggest questions."""
    prefix = f"{SuggestionCallback.__prefix__}:"
    return [row for row in (shown.inline_keyboard if shown else ()) if (row[0].callback_data or "").startswith(prefix)]


def update_buttons(
    shown: InlineKeyboardMarkup | None, done: Collection[AnswerAction], votes: VoteCounts | None = None
) -> InlineKeyboardMarkup:
    """Update a keyboard: without the buttons that have done their work, and with the votes counted."""
    counts = {AnswerAction.GOOD: votes.good, AnswerAction.BAD: votes.bad} if votes else {}
    rows = []
    for row in shown.inline_keyboard if shown else ():
        kept = [(one, action) for one in row if (action := get_button_action(one)) not in done]
        rows.append(
            [
                one.model_copy(update={"text": f"{_VOTE_EMOJI[action]} {counts[action] or ''}".rstrip()})
                if action in counts
                else one
                for one, action in kept
            ]
        )
    return InlineKeyboardMarkup(inline_keyboard=[row for row in rows if row])


def add_reason_buttons(shown: InlineKeyboardMarkup, handle: str, words: Translator) -> InlineKeyboardMarkup:
    """Add the buttons with reasons for a bad answer, below the votes."""
    rows = update_buttons(shown, REASONS_BY_ACTION).inline_keyboard
    labelled = ((words("button-reason", reason=name), action) for action, name in REASONS_BY_ACTION.items())
    reasons = _build_answer_row(labelled, handle)
    return InlineKeyboardMarkup(inline_keyboard=[*rows[:1], reasons[:2], reasons[2:], *rows[1:]])


def get_button_action(one: InlineKeyboardButton) -> AnswerAction | None:
    """Action of a button; None for a button that is not one of these."""
    prefix, _, rest = (one.callback_data or "").partition(":")
    known = prefix == AnswerCallback.__prefix__ and rest[:1] in {action.value for action in AnswerAction}
    return AnswerAction(rest[:1]) if known else None


_BUTTONS_PER_ROW = 5
# Up to this many buttons have room for a word on a phone.
_MAX_LABELLED = 3
_MAX_QUOTE_BUTTONS = 20  # further citations have their links: more rows than this push the answer off a phone's screen


class QuoteCallback(CallbackData, prefix="q"):
    """Callback data of a quote button: the token of its citation."""

    token: str


def build_quote_keyboard(given: StoredAnswer, archive: Archive, words: Translator) -> InlineKeyboardMarkup | None:
    """Build the quote buttons in the order of the sources' numbers; None where nothing is cited."""
    labelled: list[tuple[str, CitedSpan]] = []
    for number, cited in enumerate(given.cited, 1):  # with a second number where several places of a post are cited
        quotes = [quoted for quoted in given.quotes if quoted.key == cited.key]
        labels = [f"{number}.{place}" for place in range(1, len(quotes) + 1)] if len(quotes) > 1 else [str(number)]
        labelled += zip(labels, quotes, strict=False)
    spelt, buttons = len(labelled) <= _MAX_LABELLED, list[LabelledPress]()
    for label, quoted in labelled[:_MAX_QUOTE_BUTTONS]:
        press = QuoteCallback(token=_make_quote_token(quoted, given, archive))
        buttons.append((words("receipt", number=label) if spelt else f"❝ {label}", press))
    return build_keyboard(*split_rows(buttons, _BUTTONS_PER_ROW)) if buttons else None


def find_quote_by_token(given: StoredAnswer, archive: Archive, token: str) -> CitedSpan | None:
    """Find the citation of this answer that a token stands for."""
    return next((quoted for quoted in given.quotes if _make_quote_token(quoted, given, archive) == token), None)


def _make_quote_token(quoted: CitedSpan, given: StoredAnswer, archive: Archive) -> str:
    return make_callback_token(repr((given.trace_id, *quoted.key, quoted.start, quoted.end)), archive.identity, size=9)


class WatchCallback(CallbackData, prefix="wt"):
    """Callback data of the buttons of a watch: `action` is stop, pause, resume or mute."""

    action: str
    watch_id: int
