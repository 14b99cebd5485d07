"""Fixed phrases of answers, from dates and counts, in Russian and English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from babel import Locale
from babel.dates import format_date

_OPEN_ENDS = " ,;:—–-"
MAX_FRAMED_QUOTE_LENGTH = 240  # characters: the quote and the phrase before it stay short enough together

_POST_PLURALS = {
    "ru": {"one": "пост", "few": "поста", "many": "постов", "other": "поста"},
    "en": {"one": "post", "other": "posts"},
}


def format_day(moment: datetime, lang: str) -> str:
    """A date in words, as everywhere: "3 марта 2025", "3 March 2025"."""
    return format_date(moment, "d MMMM y", locale=lang)


def format_dated_line(moment: datetime, quote: str, lang: str) -> str:
    """Line of a digest: the day of a post, and a quote in one line; one cut within a sentence ends with an ellipsis."""
    line = " ".join(quote.split())
    shown = f"{line.rstrip(_OPEN_ENDS)}…" if line.endswith(tuple(_OPEN_ENDS)) else line
    return f"{format_day(moment, lang)}: {shown}"


def format_mention(moment: datetime, lang: str, *, first: bool) -> str:
    """Phrase before the quote of the first or the latest post."""
    phrases = {
        "ru": ("В последний раз в постах —", "Впервые в постах —"),
        "en": ("Last mentioned on", "First mentioned on"),
    }
    return f"{phrases[lang][first]} {format_day(moment, lang)}:"


def format_post_date(moment: datetime, lang: str) -> str:
    """Phrase before the quote of a post whose date was asked for."""
    return f"Пост от {format_day(moment, lang)}:" if lang == "ru" else f"Posted on {format_day(moment, lang)}:"


def format_earlier(moment: datetime, lang: str) -> str:
    """Phrase before the quote of a post whose value a newer post has replaced."""
    return f"Раньше, {format_day(moment, lang)}:" if lang == "ru" else f"Earlier, on {format_day(moment, lang)}:"


def format_conflict(above: datetime, moment: datetime, lang: str) -> str:
    """Phrase before the quote of a post that contradicts the quote above: whether it is newer, and its day."""
    first, other = format_day(above, lang), format_day(moment, lang)
    which = 0 if first == other else 1 if moment > above else 2
    if lang == "ru":
        of = ("другой пост того же дня", "более новый пост", "более ранний пост")[which]
        return f"Но {of}, от {other}, говорит иначе:"
    of = ("another post of that day", "a newer post", "an earlier post")[which]
    return f"But {of}, of {other}, says otherwise:"


def format_yes_or_no(quote: str, lang: str, *, holds: bool) -> str:
    """Sentence that answers "is it true that" with a quote, which may begin with the word itself."""
    word = {"ru": ("Нет", "Да"), "en": ("No", "Yes")}[lang][holds]
    return quote if re.match(rf"{word}\b", quote) else f"{word}: {quote}"


def format_post_count(number: int, ends: tuple[datetime, datetime], lang: str, words: Sequence[str] = ()) -> str:
    """Sentence with the number of posts, the words that all of them hold, if any, and the range of their dates."""
    counted = f"{number} {_POST_PLURALS[lang][Locale.parse(lang).plural_form(number)]}"
    first, last = (format_day(moment, lang) for moment in ends)
    if words:
        opened, closed, one, several = {
            "ru": ("«", "»", "со словом", "со словами"), "en": ("“", "”", "with the word", "with the words")
        }[lang]  # fmt: skip
        named = ", ".join(f"{opened}{word}{closed}" for word in words)
        counted += f" {one if len(words) == 1 else several} {named}"
    if first == last:
        return f"{counted}: {first}."
    return f"{counted}, {f'с {first} по {last}' if lang == 'ru' else f'from {first} to {last}'}."


def format_last_post_before(moment: datetime, lang: str) -> str:
    """Phrase before the quote of the last post before a period that has none."""
    if lang == "ru":
        return f"За это время постов нет. Последний до того, {format_day(moment, lang)}:"
    return f"There are no posts of that time. The last one before it, {format_day(moment, lang)}:"
