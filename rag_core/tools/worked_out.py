"""A sum as a sentence that can be cited: its numbers must stand in posts, or in the question."""

from __future__ import annotations

import re

from rag_core.sentences import sentences
from rag_core.tools.desk import Desk
from rag_core.types import Citation, Passage, Sentence

__all__ = ["worked_out"]

_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_GROUPED = re.compile(r"(?<=\d)[ ,\u00a0\u202f](?=\d{3}(?!\d))")
_MOST_CITED = 3
_LONGEST = 280  # characters


def worked_out(desk: Desk) -> Sentence | None:
    """The last sum that was worked out, with the posts its numbers are from; None where one is from nowhere."""
    if not desk.reckoned:
        return None
    expression, result = desk.reckoned[-1]
    asked, cited = _numbers(desk.question.text), list[Citation]()
    for number in sorted(_numbers(expression)):
        found = next((c for hit in desk.found if (c := _cited(number, hit.passage))), None)
        if found is None and number not in asked:
            return None
        if found is not None and found not in cited:
            cited.append(found)
    text = f"{' '.join(expression.split())} = {result}"
    return Sentence(text, tuple(cited)) if 0 < len(cited) <= _MOST_CITED and len(text) <= _LONGEST else None


def _numbers(text: str) -> set[str]:
    return {number.replace(",", ".") for number in _NUMBER.findall(_GROUPED.sub("", text))}


def _cited(number: str, passage: Passage) -> Citation | None:
    """The sentence of a passage that has the number."""
    for start, end in sentences(passage.text):
        quote = passage.text[start:end]
        if number in _numbers(quote) and len(quote) <= _LONGEST:
            at = passage.start + start
            return Citation(passage.key, quote, at, at + len(quote), passage.date)
    return None
