"""The few sentences that code writes itself, from dates and counts, in Russian and English."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from babel import Locale
from babel.dates import format_date

__all__ = ["FRAMED", "day", "first_said", "found_posts", "last_said", "posted_between", "posted_on", "says_otherwise"]

FRAMED = 240  # characters of a quote that stands after one of these phrases: together they stay short enough

_POSTS = {
    "ru": {"one": "пост", "few": "поста", "many": "постов", "other": "поста"},
    "en": {"one": "post", "other": "posts"},
}


def day(moment: datetime, lang: str) -> str:
    """A date in words: "3 марта 2025 г.", "March 3, 2025"."""
    return format_date(moment, "long", locale=lang)


def first_said(moment: datetime, lang: str) -> str:
    """What stands before the quote of the first post."""
    said = "Впервые в постах —" if lang == "ru" else "First in the posts on"
    return f"{said} {day(moment, lang)}:"


def last_said(moment: datetime, lang: str) -> str:
    """What stands before the quote of the latest post."""
    said = "В последний раз в постах —" if lang == "ru" else "Last in the posts on"
    return f"{said} {day(moment, lang)}:"


def posted_on(moment: datetime, lang: str) -> str:
    """What stands before the quote of a post whose date was asked for."""
    return f"Пост от {day(moment, lang)}:" if lang == "ru" else f"Posted on {day(moment, lang)}:"


def says_otherwise(above: datetime, moment: datetime, lang: str) -> str:
    """What stands before the quote of a post that disagrees with the one above: both days, and which is the newer."""
    first, other = day(above, lang), day(moment, lang)
    if first == other:
        return (
            f"Другой пост того же дня ({other}) говорит иначе:"
            if lang == "ru"
            else f"Another post of that day, {other}, says otherwise:"
        )
    if moment > above:
        if lang == "ru":
            return f"Новее — пост от {other}, и он говорит иначе (пост выше — от {first}):"
        return f"A newer post, of {other}, says otherwise (the one above is of {first}):"
    if lang == "ru":
        return f"Более ранний пост, от {other}, говорит иначе (пост выше новее, от {first}):"
    return f"An earlier post, of {other}, says otherwise (the one above is newer, of {first}):"


def posted_between(number: int, ends: tuple[datetime, datetime], lang: str) -> str:
    """How many posts there are from one day to another, whatever they say."""
    form = _POSTS[lang][Locale.parse(lang).plural_form(number)]
    first, last = (day(moment, lang) for moment in ends)
    return f"{number} {form}: {first if first == last else f'{first} — {last}'}".removesuffix(".") + "."


def found_posts(number: int, words: Sequence[str], ends: tuple[datetime, datetime], lang: str) -> str:
    """How many posts hold these words, and between which days: what was counted is said with the count."""
    form = _POSTS[lang][Locale.parse(lang).plural_form(number)]
    first, last = (day(moment, lang) for moment in ends)
    if lang == "ru":
        counted = ("со словом " if len(words) == 1 else "со словами ") + ", ".join(f"«{word}»" for word in words)
    else:
        counted = ("with the word " if len(words) == 1 else "with the words ") + ", ".join(f"“{w}”" for w in words)
    said = f"{number} {form} {counted}: {first if first == last else f'{first} — {last}'}"
    return said.removesuffix(".") + "."
