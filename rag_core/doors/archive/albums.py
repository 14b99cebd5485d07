"""An album is one unit: it has the key of its captioned post, and the captions of all. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_core.types import Entity, Media, Post

__all__ = ["united"]

_BETWEEN = "\n\n"


def united(members: Sequence[Post]) -> Post:
    """The one post that stands for the members of an album, which are at least one.

    Its key is that of the first with a caption, else of the first with a file name, else of the first.
    Offsets of its text are not those of a member where there is more than one caption.
    """
    ordered = sorted(members, key=lambda post: post.key)
    captioned = [post for post in ordered if post.text.strip()]
    head = next(iter(captioned), None) or next(filter(_file_name, ordered), ordered[0])
    if len(ordered) == 1:
        return head
    edited = [post.edited for post in ordered if post.edited]
    return replace(
        head,
        text=_BETWEEN.join(post.text for post in captioned),
        entities=_entities(captioned),
        links=tuple(dict.fromkeys(link for post in ordered for link in post.links)),
        media=_media(head, ordered),
        edited=max(edited) if edited else None,
        origin=next((post.origin for post in (head, *ordered) if post.origin), None),
        reply_to=next((post.reply_to for post in ordered if post.reply_to), None),
        version=1 + sum(post.version - 1 for post in ordered),
    )


def _file_name(post: Post) -> str | None:
    return post.media.file_name if post.media else None


def _media(head: Post, members: Sequence[Post]) -> Media | None:
    """The head's kind, and the names of all files: each is looked for."""
    names = dict.fromkeys(filter(None, map(_file_name, members)))
    return replace(head.media, file_name=", ".join(names) or None) if head.media else None


def _entities(captioned: Sequence[Post]) -> tuple[Entity, ...]:
    found: list[Entity] = []
    before = 0
    for post in captioned:
        found += (replace(entity, offset=entity.offset + before) for entity in post.entities)
        before += len((post.text + _BETWEEN).encode("utf-16-le", "surrogatepass")) // 2
    return tuple(found)
