"""The line above a passage: indexed and searched with it, never quoted."""

from __future__ import annotations

import re

from rag_core.types import Channel, Post

__all__ = ["header", "own", "speakers"]

_OWN = re.compile(r"^.*? · \d{4}-\d\d-\d\d")
_DATE = len(" · 2025-03-01")
_PARENT_WORDS = 12  # enough to know what is replied to, too few to outweigh the reply


def header(post: Post, channel: Channel | None, parent: str | None = None) -> str:
    """Channel, date, its file, and the first words of the post it replies to.

    A forward begins with whose words it has, so that they are not taken for the channel's: "Origin → Channel".
    """
    title = channel.title if channel else ""
    if post.origin and post.origin.chat_id != post.key.chat_id:
        title = " → ".join(filter(None, (post.origin.name, title)))
    parts = [title, f"{post.date:%Y-%m-%d}"]
    if post.media and post.media.file_name:
        parts.append(post.media.file_name)
    if parent:
        parts.append(" ".join(re.findall(r"\S+", parent)[:_PARENT_WORDS]))
    return " · ".join(" ".join(part.split()) for part in parts if part)


def speakers(line: str) -> tuple[str, ...]:
    """Whose post it is: of a forward where it comes from, and the channel."""
    found = _OWN.match(line)
    return tuple(filter(None, found[0][:-_DATE].split(" → "))) if found else ()


def own(line: str) -> str:
    """The line without the words of the post that is replied to: the reply may take them back."""
    found = _OWN.match(line)
    return found[0] if found else line
