"""Prompt loading: templates from text files, and escaping of quoted texts (protection against prompt injection).

There is one file for each purpose and language, read once. A file is in parts, each after a line `=== name`:
`system`, then `ask` and `reply` in turn for the examples, then parts that are read by name.

Markers in a prompt are made of angle brackets, and source numbers stand in square ones; both are removed from every
quoted text, so that a post can forge neither. So the markers need not be random, and the same posts give the same
tokens again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rag_core.text.character_folding import normalize_characters

# Includes the small, fullwidth and vertical variants, which a tokenizer may normalise to ASCII brackets.
_BRACKETS = str.maketrans("<>[]{}﹤﹥﹇﹈﹛﹜︷︸＜＞［］｛｝", "‹›()()‹›()()()‹›()()")
_BLANKS = re.compile(r"[^\S\n]+")
_LINE_BREAKS = re.compile(r"\s*\n\s*")


def escape_prompt_text(text: str) -> str:
    """Escape a text for a prompt: no control characters, no brackets but round ones."""
    plain = _BLANKS.sub(" ", normalize_characters(text).translate(_BRACKETS))
    return _LINE_BREAKS.sub("\n", plain).strip()


def quote_post(text: str, number: int | None = None, header: str = "") -> str:
    """Quote a post between its markers; its number and header go into the opening marker."""
    name = "post" if number is None else f"post {number}"
    about = " ".join(escape_prompt_text(header).split())
    return f"<{name}{' | ' if about else ''}{about}>\n{escape_prompt_text(text)}\n</{name}>"


def quote_claim(text: str) -> str:
    """Quote a statement to be checked between its markers."""
    return f"<statement>\n{escape_prompt_text(text)}\n</statement>"


def quote_question(text: str) -> str:
    """Quote the question between its markers."""
    return f"<question>\n{escape_prompt_text(text)}\n</question>"


_PART_HEADING = re.compile(r"^=== (\w+)\n", re.M)
_EXAMPLE_PARTS = ("ask", "reply")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """Parsed prompt file; `parts` holds everything but `system` and the examples."""

    system: str
    shots: tuple[tuple[str, str], ...]
    parts: Mapping[str, str]


@cache
def load_prompt(name: str, lang: str) -> PromptTemplate:
    """Load the prompt file `name.lang.txt`; `lang` is "ru" or "en"."""
    text = files("rag_core.writing").joinpath("templates", f"{name}.{lang}.txt").read_text(encoding="utf-8")
    pieces = _PART_HEADING.split(text)[1:]
    sections = [(part, body.strip()) for part, body in zip(pieces[::2], pieces[1::2], strict=True)]
    asks, replies = ([body for part, body in sections if part == wanted] for wanted in _EXAMPLE_PARTS)
    others = {part: body for part, body in sections if part not in _EXAMPLE_PARTS}
    return PromptTemplate(others.pop("system"), tuple(zip(asks, replies, strict=True)), others)
