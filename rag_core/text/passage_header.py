"""Passage header: channel, date, topic, file and parent post in one line; it is indexed with a passage, never quoted."""

from __future__ import annotations

import re

from rag_core.types import Channel, Post

_TITLE_AND_DATE = re.compile(r"^.*? · \d{4}-\d\d-\d\d")
_DATE_LENGTH = len(" · 2025-03-01")
_TOPIC_MARK = " › "
_MAX_PARENT_WORDS = 12  # enough to identify the parent post, too few to outweigh the reply


def build_header(post: Post, channel: Channel | None, parent: str | None = None) -> str:
    """Build the header: channel with the topic of a forum, date, file name, the first 12 words of the parent post.

    A forward begins with its origin, so that its words are not taken for the channel's: "Origin → Channel › Topic".
    """
    title = channel.title if channel else ""
    if post.origin and post.origin.chat_id != post.key.chat_id:
        title = " → ".join(filter(None, (post.origin.name, title)))
    topic = channel.get_topic_title(post.topic) if channel else ""
    parts = [_TOPIC_MARK.join(filter(None, (title, topic))), post.date.date().isoformat()]
    if post.media and post.media.file_name:
        parts.append(post.media.file_name)
    if parent:
        parts.append(" ".join(re.findall(r"\S+", parent)[:_MAX_PARENT_WORDS]))
    return " · ".join(" ".join(part.split()) for part in parts if part)


def extract_speakers(line: str) -> tuple[str, ...]:
    """Extract the speakers of a post: the origin of a forward, and the channel."""
    match = _TITLE_AND_DATE.match(line)
    title = match[0][:-_DATE_LENGTH].partition(_TOPIC_MARK)[0] if match else ""
    return tuple(filter(None, title.split(" → ")))
