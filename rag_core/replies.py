"""A model's reply where one JSON object was asked for: the letters of its texts, and the object as it came."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["LETTERS", "object_in"]

# In square brackets of a grammar: both scripts with their accents; no brackets but round ones, nothing that is markup
# or ends a JSON text, no control characters.
LETTERS = r""" !%&'()+,./0-9:;=?@A-Z_a-z~°№«»–—“”„’…€£$₽À-ɏЀ-ӿ-"""


def object_in(text: str) -> dict[str, Any] | None:
    """The object from the first brace to the last, whatever stands around it; None where that is none."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
