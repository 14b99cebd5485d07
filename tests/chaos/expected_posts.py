"""What Telegram told of each post, and what must therefore be found: the truth that the bot is compared with.

Nothing here asks the archive. An album is one post: it has the key of its first captioned member (of the first
with a file name, where none has a caption), the captions of all, a blank line between them, and all file names.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from ingest.indexer import split_into_passages
from rag_core.types import Channel, Media, Origin, PassageRef, Post, PostKey


@dataclass(slots=True)
class ExpectedPost:
    """One message as the bot was told of it: `texts` are all it ever said, the last is what it says now."""

    key: PostKey
    date: int
    texts: list[str] = field(default_factory=list)
    album: str | None = None
    file: str | None = None
    origin: Origin | None = None
    parent: PostKey | None = None

    @property
    def text(self):
        """What it says now; empty for a photo without a caption."""
        return self.texts[-1]


def get_shown_posts(told):
    """The posts that can be found, albums as one."""
    groups = {}
    for one in told:
        groups.setdefault((one.key.chat_id, one.album or f"alone {one.key.message_id}"), []).append(one)
    found = []
    for group in groups.values():
        members = sorted(group, key=lambda one: one.key)
        captioned = [one for one in members if one.text]
        named = [one for one in members if one.file]
        if captioned or named:
            found.append(_as_one((captioned or named)[0], captioned, named))
    return found


def _as_one(head, captioned, named):
    files = ", ".join(dict.fromkeys(one.file for one in named if one.file))
    return Post(
        head.key,
        datetime.fromtimestamp(head.date, UTC),
        "\n\n".join(one.text for one in captioned),
        media=Media("document", files) if files else None,
        origin=head.origin,
        reply_to=head.parent.message_id if head.parent else None,
    )


def list_expected_posts(told, titles):
    """Every passage that must be in both indexes, with the header and the text it is searched by."""
    found = {}
    for post in get_shown_posts(told.values()):
        parent = told.get(PostKey(post.key.chat_id, post.reply_to)) if post.reply_to else None
        channel = Channel(post.key.chat_id, titles[post.key.chat_id])
        for p in split_into_passages(post, channel, parent.text if parent else None):
            found[PassageRef(p.key, p.part, p.start, p.end)] = f"{p.header}\n{p.text}"
    return found
