"""Every sentence a reader sees, looked up in `locales/*.ftl` (Project Fluent), and how dates are said.

Source: https://projectfluent.org/fluent/guide/
"""

from __future__ import annotations

import logging
import re
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from babel.numbers import format_decimal
from fluent.runtime import FluentBundle, FluentResource

from rag_core.analysis import language_of

if TYPE_CHECKING:
    from aiogram.utils.formatting import Text

__all__ = ["LANGUAGES", "Words", "interface_language", "question_language", "words_for"]

LANGUAGES = ("en", "ru")

_LOCALES = Path(__file__).parent / "locales"
# Private-use marks stand where formatted pieces go; no sentence of ours contains them.
_SLOT = re.compile("\ue000(\\d+)\ue001")

log = logging.getLogger(__name__)


# What Telegram makes a command to tap of; a path is none.
_COMMAND = re.compile(r"(?<![\w/<>@])/(?=[A-Za-z0-9_]{1,64}(?:@\w+)?(?![\w/]))")
# Keeps a command from being one: nothing is seen of it. Plain sentences have no code.
_WORD_JOINER = "\u2060"
# Values that strangers choose: a title may be just a command.
_NAMES = frozenset({"channel", "file", "name", "origin", "question", "reason", "text", "title"})


class Said(str):
    """A sentence of ours, which may be put into another one as it is."""

    __slots__ = ()


class Words:
    """The sentences of one language: `words("id", count=2)` is plain text, `words.rich(...)` formatted."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        # Isolation marks around values would be counted and copied with the text.
        self._bundle = FluentBundle([lang], use_isolating=False)
        self._bundle.add_resource(FluentResource((_LOCALES / f"{lang}.ftl").read_text("utf-8")))

    def __call__(self, sentence: str, **values: str | int) -> str:
        """The sentence with its values. An unknown id is a bug: KeyError.

        Commands in values become no commands to tap; what else Telegram makes links of is set as code where the
        sentence is sent (session.py).
        """
        return Said(self._format(sentence, {name: _untapped(name, value) for name, value in values.items()}))

    def rich(self, sentence: str, **values: str | int | Text) -> Text:
        """The sentence as formatted text: values that are `Text` keep their formatting, others are made inert."""
        from aiogram.utils.formatting import Text

        from bot.inert import inert, links

        for name, value in values.items():
            if isinstance(value, str) and not _is_ours(name, value) and links(value):
                values[name] = inert(str(_unmarked(value)))
        pieces = [value for value in values.values() if isinstance(value, Text)]
        slots = {id(piece): f"\ue000{place}\ue001" for place, piece in enumerate(pieces)}
        flat = {n: slots[id(v)] if isinstance(v, Text) else _unmarked(v) for n, v in values.items()}
        parts = _SLOT.split(self._format(sentence, flat))
        # split() alternates plain text and the number of a piece.
        return Text(*(pieces[int(part)] if odd % 2 else part for odd, part in enumerate(parts) if part))

    def date(self, moment: datetime, zone: tzinfo) -> str:
        """The day in the reader's time zone, such as "12 марта 2024"."""
        local = moment.astimezone(zone)
        # The year as text: numbers are written with digit groups (2,024).
        return self("date", day=str(local.day), month=local.month, year=str(local.year))

    def number(self, value: float, places: int) -> str:
        """A number with so many decimal places, as this language writes it: 1.5 or 1,5."""
        return format_decimal(value, format=f"#,##0.{'0' * places}", locale=self.lang)

    def _format(self, sentence: str, values: dict[str, Any]) -> str:
        pattern = self._bundle.get_message(sentence).value
        assert pattern is not None, sentence
        text, errors = self._bundle.format_pattern(pattern, values)
        if errors:  # the sentence is still readable, with the name of what is missing
            log.error("%s in %s: %s", sentence, self.lang, errors)
        return str(text)


def _unmarked(value: str | int) -> str | int:
    # A channel's title may hold anything, also our marks.
    return value.replace("\ue000", "").replace("\ue001", "") if isinstance(value, str) else value


def _is_ours(name: str, value: str) -> bool:
    """Whether a value is a sentence or a command of this bot."""
    return isinstance(value, Said) or (name not in _NAMES and value.startswith("/") and value[1:].isalpha())


def _untapped(name: str, value: str | int) -> str | int:
    if not isinstance(value, str) or _is_ours(name, value):
        return value
    return _COMMAND.sub(f"/{_WORD_JOINER}", value)


@cache
def words_for(lang: str) -> Words:
    """The sentences of `lang`, read once."""
    return Words(lang if lang in LANGUAGES else "en")


def interface_language(code: str | None, otherwise: str) -> str:
    """The language of menus and hints, by `User.language_code`, which may be absent or like ru-RU."""
    if not code:
        return otherwise
    return "ru" if code.lower().startswith("ru") else "en"


def question_language(text: str, otherwise: str) -> str:
    """The language a question is written in, by its letters; `otherwise` where it has none."""
    return language_of(text) if any(map(str.isalpha, text)) else otherwise
