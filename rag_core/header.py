"""The line above a passage: indexed and searched with it, never quoted."""

from __future__ import annotations

import re

from rag_core.types import Channel, Post

__all__ = ["header"]

_PARENT_WORDS = 12  # enough to know what is replied to, too few to outweigh the reply


def header(post: Post, channel: Channel | None, parent: str | None = None) -> str:
    """Channel, date, where it was forwarded from, its file, and the first words of the post it replies to."""
    parts = [channel.title if channel else "", f"{post.date:%Y-%m-%d}"]
    if post.origin:
        parts.append(post.origin.name)
    if post.media and post.media.file_name:
        parts.append(post.media.file_name)
    if parent:
        parts.append(" ".join(re.findall(r"\S+", parent)[:_PARENT_WORDS]))
    return " · ".join(" ".join(part.split()) for part in parts if part)
