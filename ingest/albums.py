"""Albums in exports: Telegram Desktop drops the group id, so neighbours that look like one album get a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from rag_core.types import Post

__all__ = ["with_albums"]

# Telegram's limit, and what it lets into one album: photos with videos, documents or music by themselves.
_MOST = 10
_FAMILIES = {"photo": "seen", "video": "seen", "document": "document", "audio": "audio"}
_APART = timedelta(seconds=1)


def with_albums(posts: Iterable[Post]) -> Iterator[Post]:
    """The same posts in the same order; those of an album carry "export-<first id>" as its key."""
    group: list[Post] = []
    for post in posts:
        if group and not _joins(group, post):
            yield from _marked(group)
            group = []
        group.append(post)
    yield from _marked(group)


def _joins(group: list[Post], post: Post) -> bool:
    last = group[-1]
    family = _FAMILIES.get(post.media.kind) if post.media else None
    return (
        len(group) < _MOST
        and family is not None
        and last.media is not None
        and _FAMILIES.get(last.media.kind) == family
        and post.key.message_id == last.key.message_id + 1
        and abs(post.date - last.date) <= _APART
        and (post.author, post.origin) == (last.author, last.origin)
        # Two captions are two posts sent in the same second.
        and not (post.text and any(other.text for other in group))
    )


def _marked(group: list[Post]) -> Iterator[Post]:
    if len(group) < 2:
        yield from group
        return
    album = f"export-{group[0].key.message_id}"
    for post in group:
        yield replace(post, album=album)
