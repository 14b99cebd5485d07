"""Links to posts: found in a text, and resolved to the post of a channel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rag_core.types import Channel, PostKey

_LINK_PATTERN = re.compile(
    r"(?<![\w.@/-])(?:https?://)?(?:www\.)?(?:t|telegram)\.(?:me|dog)/"
    r"(?:c/(?P<bare>\d{1,15})|(?:s/)?(?P<name>[a-z]\w{3,31}))"
    r"/(?:\d{1,10}/)?(?P<id>\d{1,10})/?(?P<query>\?[\w=&%.-]*)?(?![\w/])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PostLink:
    """Link to a post: `chat` is a chat id or a lower-case username.

    `single`: only this post of an album. `text` is the link as written.
    """

    chat: int | str
    message_id: int
    single: bool = False
    text: str = ""


def find_post_links(text: str) -> list[PostLink]:
    """Find the links to posts in a text, each once, in order. A link to a comment is no link to a channel's post."""
    found: dict[tuple[int | str, int], PostLink] = {}
    for match in _LINK_PATTERN.finditer(text):
        names = {pair.split("=")[0].lower() for pair in (match["query"] or "?")[1:].split("&")}
        chat = int(f"-100{match['bare']}") if match["bare"] else match["name"].lower()
        if "comment" not in names and int(match["id"]):
            link = PostLink(chat, int(match["id"]), "single" in names, match[0])
            found.setdefault((link.chat, link.message_id), link)
    return list(found.values())


def resolve_post_link(link: PostLink, known: Mapping[int, Channel]) -> PostKey | None:
    """Resolve a link to a post; None where no known channel has this name or id."""
    if isinstance(link.chat, int):
        return PostKey(link.chat, link.message_id) if link.chat in known else None
    named = (chat_id for chat_id, channel in known.items() if (channel.username or "").lower() == link.chat)
    return next((PostKey(chat_id, link.message_id) for chat_id in named), None)
