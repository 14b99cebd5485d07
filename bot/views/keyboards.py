"""Keyboards: rows of buttons with callback data; those under answers (votes, sources, citations ...).

Anybody who sees a button can press it, again and again, and send made-up data, so that every press is checked. A button
carries a handle or a token that only this archive can resolve. The token of a citation is looked up among the citations
of the answer that the button is at: one that is made up, or of another answer, finds nothing.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import TypeVar

from aiogram import F, types
from aiogram.exceptions import TelegramBadRequest
from aiogram.filters.callback_data import CallbackData, CallbackQueryFilter
from aiogram.utils.formatting import Text
from pydantic import Field

from bot.i18n import Translator
from bot.stored_answer import CitedSpan, StoredAnswer
from bot.telegram.recheck import View
from bot.views.text import shorten_at_word
from rag_core.storage import Archive
from rag_core.storage.questions import VOTE_REASONS, QuestionRow, VoteCounts

CHANNELS_PER_PAGE = 8  # a phone shows about this many buttons without scrolling

T = TypeVar("T")
LabelledPress = tuple[str, CallbackData] | tuple[str, CallbackData, str]
ButtonRow = list[types.InlineKeyboardButton]


class Press(CallbackData, prefix="b"):
    """Callback data of a button: what it does, on what (a token, handle or name), and a number (a page, time or id).

    Telegram gives a button 64 bytes.
    """

    to: str
    token: str = ""
    number: int = Field(0, ge=-(2**63), lt=2**63)  # what the archive can compare; another is an unknown button


def on_press(*to: str) -> CallbackQueryFilter:
    """Filter: a press of a button that does one of these."""
    return Press.filter(F.to.in_(to))


def make_callback_token(said: str, key: str = "", size: int = 6) -> str:
    """Make a token for callback data: four characters for every three bytes of `size`, the same after a restart.

    With an archive's `identity` as the key it cannot be forged; without a key anybody can compute it.
    """
    return urlsafe_b64encode(blake2b(said.encode(), key=key.encode(), digest_size=size).digest()).decode()


def find_by_token(token: str, known: Mapping[str, T], key: str) -> T | None:
    """Find what a token of callback data stands for: the item whose content it was made of with this key."""
    return next((item for said, item in known.items() if make_callback_token(said, key) == token), None)


async def redraw_message(pressed: types.CallbackQuery, said: Text | View, done: str = "") -> None:
    """Edit the button's message and answer the callback."""
    await edit_message(pressed, said)
    await pressed.answer(done[:200] or None)


async def edit_message(pressed: types.CallbackQuery, said: Text | View) -> None:
    """Edit the message that has the button; a text alone takes the buttons away."""
    if isinstance(pressed.message, types.Message):  # else it is too old to be edited
        with suppress(TelegramBadRequest):  # pressed twice: "message is not modified"
            await pressed.message.edit_text(**said.as_kwargs())


def cut_page(items: Sequence[T], number: int, size: int) -> tuple[Sequence[T], int, int]:
    """Cut a page out of a list: its items, its number, and the last number; the nearest page where there is none."""
    last = max(0, len(items) - 1) // size
    number = max(0, min(number, last))
    return items[number * size : (number + 1) * size], number, last


def build_page_row(
    number: int, last: int, press: Callable[[int], Press], words: Translator | None = None
) -> list[tuple[str, Press]]:
    """Build the row of buttons to the page before and the page after: arrows, or words."""
    earlier, later = (words("button-earlier"), words("button-later")) if words else ("◀", "▶")
    row = [(earlier, press(number - 1))] if number > 0 else []
    return row + ([(later, press(number + 1))] if number < last else [])


def build_keyboard(*rows: Sequence[LabelledPress]) -> types.InlineKeyboardMarkup | None:
    """Build a keyboard from rows of labels and callback data, with a style where one is given; None without rows."""
    built = [build_row(row) for row in rows if row]
    return types.InlineKeyboardMarkup(inline_keyboard=built) if built else None


def make_row(label: str, to: str, token: str = "", number: int = 0) -> list[LabelledPress]:
    """Make a row with one button."""
    return [(label, Press(to=to, token=token, number=number))]


def build_row(row: Iterable[LabelledPress]) -> ButtonRow:
    """Build the buttons of a row."""
    return [
        types.InlineKeyboardButton(text=label, callback_data=press.pack(), style=style[0] if style else None)
        for label, press, *style in row
    ]


def list_buttons(shown: types.InlineKeyboardMarkup | None) -> list[types.InlineKeyboardButton]:
    """List all buttons of a keyboard."""
    return [button for row in (shown.inline_keyboard if shown else ()) for button in row]


def get_action(button: types.InlineKeyboardButton) -> str:
    """What a button does."""
    return (button.callback_data or "").partition(":")[2].partition(":")[0]


def split_rows(buttons: Sequence[T], size: int) -> list[Sequence[T]]:
    """Split buttons into rows of at most `size`."""
    return [buttons[at : at + size] for at in range(0, len(buttons), size)]


DEEP_MODE = "deep"  # mode of a question that was asked again with a wider search
OTHER_MODE = "other"  # of one that was asked again because another post was meant
DEEP_SENTENCES = 5  # the most sentences of its answer

_VOTE_EMOJI = {"good": "👍", "bad": "👎"}
ANSWER_ACTIONS = tuple("sources page more back why shorter deeper link rephrase show-all".split())
ANSWER_ACTIONS += (*_VOTE_EMOJI, *VOTE_REASONS)
SHARE_PREFIX = "="  # of the inline query that shares an answer: its handle follows
_MAX_COPIED = 200  # of the 256 characters that a button may copy: emoji count twice


def _build_answer_row(labels: Mapping[str, str], handle: str) -> ButtonRow:
    return build_row((label, Press(to=action, token=handle)) for action, label in labels.items())


def build_answer_keyboard(
    asked: QuestionRow, given: StoredAnswer, words: Translator, *questions: ButtonRow
) -> types.InlineKeyboardMarkup:
    """Build the keyboard of an answer: one row, and below it a next question; for a refusal two ways to go on."""
    labels = {"search": words("button-search"), "rephrase": words("button-rephrase")}
    if given.sentences:
        labels = {**_VOTE_EMOJI, "more": words("button-more")}
    rows = [_build_answer_row(labels, asked.handle)]
    if asked.asker_only and given.cited:
        rows.append(_build_answer_row({"show-all": words("button-show-all")}, asked.handle))
    return types.InlineKeyboardMarkup(inline_keyboard=[*rows, *questions])


def build_details_keyboard(
    asked: QuestionRow,
    given: StoredAnswer,
    archive: Archive,
    words: Translator,
    quote: tuple[str, str] | None,
    *questions: ButtonRow,
    public: bool,
) -> types.InlineKeyboardMarkup:
    """Build the keyboard that "more" shows in place of the first: everything else that an answer offers.

    `quote`: the first sentence and the link of its post, to be copied; `public`: everybody may read it, so that it can
    be shared.
    """
    quotes = build_quote_keyboard(given, archive, words)
    labels = {"sources": words("button-sources")} if given.cited else {}
    labels |= {"why": words("button-why"), "link": words("button-link")}
    labels |= {"shorter": words("button-shorter")} if len(given.sentences) > 1 else {}
    labels |= {"deeper": words("button-deeper")} if asked.mode != DEEP_MODE else {}
    outside = ButtonRow()  # what these do happens in the reader's client
    if quote:
        text, link = quote
        copied = f"{shorten_at_word(text, _MAX_COPIED - len(link) - 2)} {link}".strip()
        to_copy = types.CopyTextButton(text=copied)
        outside.append(types.InlineKeyboardButton(text=words("button-copy"), copy_text=to_copy))
    if quote and public:
        shared = f"{SHARE_PREFIX}{asked.handle}"
        chats = types.SwitchInlineQueryChosenChat(
            query=shared, allow_user_chats=True, allow_group_chats=True, allow_channel_chats=True
        )
        outside.append(types.InlineKeyboardButton(text=words("button-share"), switch_inline_query_chosen_chat=chats))
    rows = [
        *split_rows(_build_answer_row(labels, asked.handle), _MAX_LABELLED),
        outside,
        *(quotes.inline_keyboard if quotes else ()),
        _build_answer_row({"back": words("button-back")}, asked.handle),
        *questions,
    ]
    return types.InlineKeyboardMarkup(inline_keyboard=[[*row] for row in rows if row])


def update_buttons(
    shown: types.InlineKeyboardMarkup | None, done: Collection[str], votes: VoteCounts | None = None
) -> types.InlineKeyboardMarkup:
    """Update a keyboard: without the buttons that have done their work, and with the votes counted."""
    counts = {"good": votes.good, "bad": votes.bad} if votes else {}
    texts = {action: f"{_VOTE_EMOJI[action]} {count or ''}".rstrip() for action, count in counts.items()}
    rows = []
    for row in shown.inline_keyboard if shown else ():
        kept = [(one, action) for one in row if (action := get_action(one)) not in done]
        rows.append([one.model_copy(update={"text": texts[to]}) if to in texts else one for one, to in kept])
    return types.InlineKeyboardMarkup(inline_keyboard=[row for row in rows if row])


def build_reason_rows(handle: str, words: Translator) -> list[ButtonRow]:
    """Build the rows with reasons for a bad answer."""
    reasons = _build_answer_row({reason: words("button-reason", reason=reason) for reason in VOTE_REASONS}, handle)
    return [reasons[:2], reasons[2:]]


def add_reason_buttons(shown: types.InlineKeyboardMarkup, handle: str, words: Translator) -> types.InlineKeyboardMarkup:
    """Add the buttons with reasons for a bad answer, below the votes."""
    rows = update_buttons(shown, VOTE_REASONS).inline_keyboard
    return types.InlineKeyboardMarkup(inline_keyboard=[*rows[:1], *build_reason_rows(handle, words), *rows[1:]])


_BUTTONS_PER_ROW = 5
_MAX_LABELLED = 3  # so many buttons have room for a word on a phone
_MAX_QUOTE_BUTTONS = 20  # further citations have their links: more rows than this push the answer off a phone's screen


def build_quote_keyboard(given: StoredAnswer, archive: Archive, words: Translator) -> types.InlineKeyboardMarkup | None:
    """Build the quote buttons in the order of the sources' numbers; None where nothing is cited."""
    labelled: list[tuple[str, CitedSpan]] = []
    for number, cited in enumerate(given.cited, 1):  # with a second number where several places of a post are cited
        quotes = [quoted for quoted in given.quotes if quoted.key == cited.key]
        labels = [f"{number}.{place}" for place in range(1, len(quotes) + 1)] if len(quotes) > 1 else [str(number)]
        labelled += zip(labels, quotes, strict=False)
    spelt, buttons = len(labelled) <= _MAX_LABELLED, list[LabelledPress]()
    for label, quoted in labelled[:_MAX_QUOTE_BUTTONS]:
        press = Press(to="quote", token=_make_quote_token(quoted, given, archive))
        buttons.append((words("receipt", number=label) if spelt else f"❝ {label}", press))
    return build_keyboard(*split_rows(buttons, _BUTTONS_PER_ROW))


def find_quote_by_token(given: StoredAnswer, archive: Archive, token: str) -> CitedSpan | None:
    """Find the citation of this answer that a token stands for."""
    return next((quoted for quoted in given.quotes if _make_quote_token(quoted, given, archive) == token), None)


def _make_quote_token(quoted: CitedSpan, given: StoredAnswer, archive: Archive) -> str:
    return make_callback_token(repr((given.trace_id, *quoted)), archive.identity, size=9)
