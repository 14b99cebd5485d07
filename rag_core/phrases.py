"""The few sentences that code writes itself, from dates and counts, in Russian and English."""

from __future__ import annotations

from datetime import datetime

from babel import Locale
from babel.dates import format_date

__all__ = ["FRAMED", "day", "first_said", "found_posts", "last_said", "posted_on"]

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
    return f"Впервые — {day(moment, lang)}:" if lang == "ru" else f"First on {day(moment, lang)}:"


def last_said(moment: datetime, lang: str) -> str:
    """What stands before the quote of the latest post."""
    return f"В последний раз — {day(moment, lang)}:" if lang == "ru" else f"Last on {day(moment, lang)}:"


def posted_on(moment: datetime, lang: str) -> str:
    """What stands before the quote of a post whose date was asked for."""
    return f"Пост от {day(moment, lang)}:" if lang == "ru" else f"Posted on {day(moment, lang)}:"


def found_posts(number: int, first: datetime, last: datetime, lang: str) -> str:
    """How many posts there are, and between which days."""
    form = _POSTS[lang][Locale.parse(lang).plural_form(number)]
    if first.date() == last.date():
        said = f"{number} {form}, {'' if lang == 'ru' else 'on '}{day(first, lang)}"
    else:
        said = f"{number} {form}: {day(first, lang)} — {day(last, lang)}"
    return said.removesuffix(".") + "."
