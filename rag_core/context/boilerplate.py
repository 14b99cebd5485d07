"""Boilerplate: lines that a channel repeats in most of its posts (address, calls to subscribe), which answer nothing.

A line is boilerplate if it stands in over a fifth of a channel's latest posts, and in at least five. Only channels of
the evidence are read, all of which the asker may read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rag_core.engine import Engine
from rag_core.storage import visible_posts
from rag_core.text.post_openings import build_text_key

_LATEST_POSTS = 300  # per channel: enough to tell a fifth, read in a few milliseconds
_MIN_SHARE, _MIN_POSTS = 0.2, 5


def find_repeated_lines(texts: Iterable[str]) -> frozenset[str]:
    """Find the lines that repeat in texts, as keys (`build_text_key`); each text counts once for a line."""
    counts, number = Counter[str](), 0
    for text in texts:
        number += 1
        counts.update({key for line in text.split("\n") if (key := build_text_key(line))})
    return frozenset(key for key, times in counts.items() if times >= _MIN_POSTS and times > _MIN_SHARE * number)


def is_boilerplate(text: str, repeated: frozenset[str]) -> bool:
    """Whether every line of a text is boilerplate."""
    return bool(repeated) and all(key in repeated for line in text.split("\n") if (key := build_text_key(line)))


async def load_boilerplate(chats: Iterable[int], rag: Engine) -> dict[int, frozenset[str]]:
    """Load the boilerplate of channels; cached while the index does not change. Raises ArchiveUnavailable."""
    found, version = {}, rag.version
    for chat in chats:
        lines = rag.boilerplate.get(chat, version)
        if lines is None:
            lines = find_repeated_lines(await visible_posts.list_latest_texts(rag.archive, chat, _LATEST_POSTS))
            rag.boilerplate.store(chat, version, lines)
        if lines:
            found[chat] = lines
    return found
