"""Localization: every sentence that a reader sees, from `locales/*.ftl` (Project Fluent), and how dates are written.

Values that strangers choose (titles, names, texts) are neutralized before they are put into a sentence.
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

from rag_core.errors import RagError
from rag_core.text.tokens import detect_language

if TYPE_CHECKING:
    from aiogram.utils.formatting import Text

LANGUAGES = ("en", "ru")

_LOCALES_FOLDER = Path(__file__).parent / "locales"
# Private-use characters mark where formatted pieces go; no sentence of the bot contains them.
_SLOT_PATTERN = re.compile("\ue000(\\d+)\ue001")

_ENTRY_START = re.compile(r"^(?=[a-z])", re.MULTILINE)  # further lines of a sentence are indented
# Text that Telegram shows as a command to tap; a path is none.
_COMMAND_PATTERN = re.compile(r"(?<![\w/<>@])/(?=[A-Za-z0-9_]{1,64}(?:@\w+)?(?![\w/]))")
# Invisible; after the slash it keeps Telegram from making a command of the word. Plain text has no code entity.
_WORD_JOINER = "\u2060"
# Values chosen by strangers: a title may consist of a command.
_UNTRUSTED_ARGUMENTS = frozenset({"channel", "file", "name", "origin", "question", "reason", "text", "title"})


log = logging.getLogger(__name__)


class TrustedSentence(str):
    """Sentence of the bot itself, which may be put into another one unchanged."""

    __slots__ = ()


class Translator:
    """Sentences of one language: `words("id", count=2)` is plain text, `words.rich(...)` formatted text."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        # Isolation marks around values would be counted and copied with the text.
        self._bundle = FluentBundle([lang], use_isolating=False)
        entries = _ENTRY_START.split((_LOCALES_FOLDER / f"{lang}.ftl").read_text("utf-8"))[1:]
        # Parsed with its first use: parsing all of them takes 0.06 s.
        self._entries = {entry.partition("=")[0].strip(): entry for entry in entries}

    def __call__(self, sentence: str, **values: str | int) -> str:
        """Format a sentence with its values. Raises KeyError for an unknown id, which is a bug.

        Commands in values are made untappable; other text that Telegram would link is set as code when the sentence is
        sent (bot/telegram/session.py).
        """
        for name, value in values.items():
            if isinstance(value, str) and not _is_trusted(name, value):
                values[name] = _COMMAND_PATTERN.sub(f"/{_WORD_JOINER}", value)
        return TrustedSentence(self._format(sentence, values))

    def rich(self, sentence: str, **values: str | int | Text) -> Text:
        """Format a sentence as rich text: `Text` values keep their formatting, in others links are neutralized."""
        from aiogram.utils.formatting import Text

        from bot.views.format import find_link_spans, neutralize_links

        for name, value in values.items():
            if isinstance(value, str) and not _is_trusted(name, value) and find_link_spans(value):
                values[name] = neutralize_links(str(_strip_slot_marks(value)))
        pieces = [value for value in values.values() if isinstance(value, Text)]
        slots = {id(piece): f"\ue000{place}\ue001" for place, piece in enumerate(pieces)}
        flat = {n: slots[id(v)] if isinstance(v, Text) else _strip_slot_marks(v) for n, v in values.items()}
        parts = _SLOT_PATTERN.split(self._format(sentence, flat))
        # split() alternates plain text and the index of a piece.
        return Text(*(pieces[int(part)] if odd % 2 else part for odd, part in enumerate(parts) if part))

    def error(self, exc: RagError) -> str:
        """Format the reason of an error: the sentence with its code, or the English one where there is none."""
        if exc.code not in self._entries:
            return exc.reason
        return self._format(exc.code, {name: _strip_slot_marks(value) for name, value in exc.parameters.items()})

    def date(self, moment: datetime, zone: tzinfo) -> str:
        """Date in the reader's time zone, such as "12 марта 2024"."""
        local = moment.astimezone(zone)
        # The year as text: a number would get a digit group (2,024).
        return self("date", day=str(local.day), month=local.month, year=str(local.year))

    def number(self, value: float, places: int) -> str:
        """Format a number with so many decimal places as this language writes it: 1.5 or 1,5."""
        return format_decimal(value, format=f"#,##0.{'0' * places}", locale=self.lang)

    def _format(self, sentence: str, values: dict[str, Any]) -> str:
        if not self._bundle.has_message(sentence):
            self._bundle.add_resource(FluentResource(self._entries[sentence]))
        pattern = self._bundle.get_message(sentence).value
        assert pattern is not None, sentence
        text, errors = self._bundle.format_pattern(pattern, values)
        if errors:  # the sentence is still readable, with the name of the missing value
            log.error("%s in %s: %s", sentence, self.lang, errors)
        return str(text)


def _strip_slot_marks(value: str | int) -> str | int:
    # A channel's title may contain anything, also these marks.
    return value.replace("\ue000", "").replace("\ue001", "") if isinstance(value, str) else value


def _is_trusted(name: str, value: str) -> bool:
    return isinstance(value, TrustedSentence) or (
        name not in _UNTRUSTED_ARGUMENTS and value.startswith("/") and value[1:].isalpha()
    )


@cache
def get_translator(lang: str) -> Translator:
    """Translator of a language, cached."""
    return Translator(lang if lang in LANGUAGES else "en")


def choose_interface_language(code: str | None, otherwise: str) -> str:
    """Choose the language of menus and hints by `User.language_code`, which may be absent or like ru-RU."""
    if not code:
        return otherwise
    return "ru" if code.lower().startswith("ru") else "en"


def detect_question_language(text: str, otherwise: str) -> str:
    """Detect the language of a question by its letters; `otherwise` where it has none."""
    return detect_language(text) if any(map(str.isalpha, text)) else otherwise
