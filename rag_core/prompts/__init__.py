"""What the models are told: one text file for each purpose and language, read once.

A file is in parts, each after a line `=== name`: `system`, then `ask` and `reply` in turn for the examples, then
whatever else its reader wants by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Script", "script"]

_PART = re.compile(r"^=== (\w+)\n", re.M)
_EXAMPLES = ("ask", "reply")


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a file; `parts` are those that are neither `system` nor an example."""

    system: str
    shots: tuple[tuple[str, str], ...]
    parts: Mapping[str, str]


@cache
def script(name: str, lang: str) -> Script:
    """The file `name.lang.txt`; `lang` is "ru" or "en"."""
    text = files(__name__).joinpath(f"{name}.{lang}.txt").read_text(encoding="utf-8")
    pieces = _PART.split(text)[1:]
    found = [(part, said.strip()) for part, said in zip(pieces[::2], pieces[1::2], strict=True)]
    asks, replies = ([said for part, said in found if part == wanted] for wanted in _EXAMPLES)
    others = {part: said for part, said in found if part not in _EXAMPLES}
    return Script(others.pop("system"), tuple(zip(asks, replies, strict=True)), others)
