"""Prompts: templates from text files, and escaping of quoted texts (protection against prompt injection).

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

from rag_core.text.tokens import normalize_characters

__all__ = ["PromptTemplate", "escape_prompt_text", "load_prompt", "quote_claim", "quote_post", "quote_question"]

# Also those that a tokenizer may take for these: the small, the wide and the upright ones.
_BRACKETS = str.maketrans("<>[]{}﹤﹥﹇﹈﹛﹜︷︸＜＞［］｛｝", "‹›()()‹›()()()‹›()()")
_BLANKS = re.compile(r"[^\S\n]+")
_LINE_BREAKS = re.compile(r"\s*\n\s*")


def escape_prompt_text(text: str) -> str:
    """The text without anything that means something to a prompt: no controls, no brackets but round ones."""
    plain = _BLANKS.sub(" ", normalize_characters(text).translate(_BRACKETS))
    return _LINE_BREAKS.sub("\n", plain).strip()


def quote_post(text: str, number: int | None = None, header: str = "") -> str:
    """A post between its markers; with its number, and its header on the first of them."""
    name = "post" if number is None else f"post {number}"
    about = " ".join(escape_prompt_text(header).split())
    return f"<{name}{' | ' if about else ''}{about}>\n{escape_prompt_text(text)}\n</{name}>"


def quote_claim(text: str) -> str:
    """A statement that is checked, between its markers."""
    return f"<statement>\n{escape_prompt_text(text)}\n</statement>"


def quote_question(text: str) -> str:
    """The question between its markers."""
    return f"<question>\n{escape_prompt_text(text)}\n</question>"


_PART_HEADING = re.compile(r"^=== (\w+)\n", re.M)
_EXAMPLE_PARTS = ("ask", "reply")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The text of a file; `parts` are those that are neither `system` nor an example."""

    system: str
    shots: tuple[tuple[str, str], ...]
    parts: Mapping[str, str]


@cache
def load_prompt(name: str, lang: str) -> PromptTemplate:
    """The file `name.lang.txt`; `lang` is "ru" or "en"."""
    text = files("rag_core.writing").joinpath("templates", f"{name}.{lang}.txt").read_text(encoding="utf-8")
    pieces = _PART_HEADING.split(text)[1:]
    found = [(part, said.strip()) for part, said in zip(pieces[::2], pieces[1::2], strict=True)]
    asks, replies = ([said for part, said in found if part == wanted] for wanted in _EXAMPLE_PARTS)
    others = {part: said for part, said in found if part not in _EXAMPLE_PARTS}
    return PromptTemplate(others.pop("system"), tuple(zip(asks, replies, strict=True)), others)
