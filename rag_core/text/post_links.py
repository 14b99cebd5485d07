"""Links to posts: found in a text, and resolved to the post of a channel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rag_core.types import Channel, PostKey

_LINK_PATTERN = re.compile(
    r"(?:https?://(?:www\.)?|(?<![\w.@/-])(?:www\.)?)"
    r"(?:(?:t|telegram)\.(?:me|dog)/(?:c/(?P<bare>\d{1,15})|(?:s/)?(?P<name>[a-z]\w{3,31}))|(?P<host>[a-z]\w{3,31})\.t\.me)"
    r"/(?:\d{1,10}/)?(?P<id>\d{1,10})/?(?P<query>\?[\w=&%.-]*)?(?![\w/])",
    re.IGNORECASE,
)
_APP_LINK_PATTERN = re.compile(r"tg:/{0,2}(?:resolve|privatepost)/?\?(?P<query>[\w=&%.-]+)", re.IGNORECASE)
_WEB_LINK_PATTERN = re.compile(
    r"web\.telegram\.org/(?:[akz]/)?#(?:/im\?p=)?(?:-100(?P<bare>\d{1,15})|@?(?P<name>[a-z]\w{3,31}))(?:_\d{1,10})?[_/](?P<id>\d{1,10})(?![\w/])",
    re.IGNORECASE,
)


_MAX_DIGITS = 15


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
    matches = (
        match for pattern in (_LINK_PATTERN, _APP_LINK_PATTERN, _WEB_LINK_PATTERN) for match in pattern.finditer(text)
    )
    found: dict[tuple[int | str, int], PostLink] = {}
    for match in sorted(matches, key=re.Match.start):
        parts = match.groupdict("")
        query = dict(pair.lower().partition("=")[::2] for pair in parts.get("query", "").lstrip("?").split("&"))
        bare, post = parts.get("bare") or query.get("channel", ""), parts.get("id") or query.get("post", "")
        name = parts.get("name") or parts.get("host") or query.get("domain", "")
        if "comment" in query or not (bare.isdecimal() or name) or not post.isdecimal() or not int(post[:_MAX_DIGITS]):
            continue
        link = PostLink(
            int(f"-100{bare[:_MAX_DIGITS]}") if bare.isdecimal() else name.lower(),
            int(post[:_MAX_DIGITS]),
            "single" in query,
            match[0],
        )
        found.setdefault((link.chat, link.message_id), link)
    return list(found.values())


def resolve_post_link(link: PostLink, known: Mapping[int, Channel]) -> PostKey | None:
    """Resolve a link to a post; None where no known channel has this name or id."""
    if isinstance(link.chat, int):
        return PostKey(link.chat, link.message_id) if link.chat in known else None
    named = (chat_id for chat_id, channel in known.items() if (channel.username or "").lower() == link.chat)
    return next((PostKey(chat_id, link.message_id) for chat_id in named), None)
