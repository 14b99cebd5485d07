"""Judging: whether an answer holds an accepted one. The standard library alone: other systems are judged by it, too."""

import re
from collections.abc import Sequence
from datetime import date

from rag_core.text.numbers import join_digit_groups

_MAX_SENTENCE_CHARACTERS, _MAX_ANSWER_CHARACTERS = 300, 600  # longer is not an answer but a text to search in
_MAX_LISTING_CHARACTERS = 1500
LISTING_KINDS = frozenset({"list", "digest", "about_posts"})
_WORD_PATTERN = re.compile(r"[^\W_]+")
# Names of the months as CLDR has them in dates, in full and short.
_MONTHS = (
    "января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split(),
    "january february march april may june july august september october november december".split(),
    "янв февр мар апр мая июн июл авг сент окт нояб дек".split(),
    "jan feb mar apr may jun jul aug sep oct nov dec".split(),
)
_ISO_DATE_PATTERN = re.compile(r"\d{4}-\d\d-\d\d")


def is_short_enough(sentences: Sequence[str], kind: str) -> bool:
    """Whether sentences are short enough to be an answer to a question of this kind; listings may have more lines."""
    listing = kind in LISTING_KINDS
    lines = [line for text in sentences for line in text.splitlines()] if listing else sentences
    most = _MAX_LISTING_CHARACTERS if listing else _MAX_ANSWER_CHARACTERS
    return all(len(line) <= _MAX_SENTENCE_CHARACTERS for line in lines) and sum(map(len, sentences)) <= most


def _normalize_words(text: str) -> str:
    plain = join_digit_groups(text.lower().replace("ё", "е"))
    return f" {' '.join(_WORD_PATTERN.findall(plain))} "


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether the text contains one of the accepted answers as whole words; a date in any of its usual formats."""
    shown = _normalize_words(text)
    for answer in answers:
        spellings = [answer]
        if _ISO_DATE_PATTERN.fullmatch(answer.strip()):
            day = date.fromisoformat(answer.strip())
            names = [months[day.month - 1] for months in _MONTHS]
            spellings = [f"{day:%Y-%m-%d}", f"{day:%d.%m.%Y}", f"{day.day}.{day:%m.%Y}"]
            spellings += [f"{day.day} {name} {day.year}" for name in names]
            spellings += [f"{name} {day.day} {day.year}" for name in names[:2]]
        if any((wanted := _normalize_words(form)).strip() and wanted in shown for form in spellings):
            return True
    return False
