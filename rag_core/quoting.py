"""Texts of others as data in a prompt: a post cannot forge the markers around it, nor a source number.

Markers are made of angle brackets, and source numbers stand in square ones; both are taken out of every text that
is quoted. So the markers need not be random, and the same posts are the same tokens again.
"""

from __future__ import annotations

import re

from rag_core.readable import readable

__all__ = ["quoted_claim", "quoted_post", "quoted_question", "spoken"]

# Also those that a tokenizer may take for these: the small, the wide and the upright ones.
_BRACKETS = str.maketrans("<>[]{}﹤﹥﹇﹈﹛﹜︷︸＜＞［］｛｝", "‹›()()‹›()()()‹›()()")
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def spoken(text: str) -> str:
    """The text without anything that means something to a prompt: no controls, no brackets but round ones."""
    plain = _BLANKS.sub(" ", readable(text).translate(_BRACKETS))
    return _LINES.sub("\n", plain).strip()


def quoted_post(text: str, number: int | None = None, header: str = "") -> str:
    """A post between its markers; with its number, and its header on the first of them."""
    name = "post" if number is None else f"post {number}"
    about = " ".join(spoken(header).split())
    return f"<{name}{' | ' if about else ''}{about}>\n{spoken(text)}\n</{name}>"


def quoted_claim(text: str) -> str:
    """A statement that is checked, between its markers."""
    return f"<statement>\n{spoken(text)}\n</statement>"


def quoted_question(text: str) -> str:
    """The question between its markers."""
    return f"<question>\n{spoken(text)}\n</question>"
