"""Posts of an export that does not say when they were edited, beside what the archive knows of them. Pure.

Such an export has the same texts, and less beside them. What it does not know never takes the place of
what is known: dates, edits, formatting, file names and ids of origins stay.
"""

from __future__ import annotations

from dataclasses import replace

from rag_core.doors.archive.stored import Stored
from rag_core.types import Media, Origin, Post

__all__ = ["Arrival", "beside", "same_text"]

# A post with the update id it is kept under: the order of versions of one second.
Arrival = tuple[Post, int]


def same_text(post: Post, known: Post) -> bool:
    """Whether the texts differ in white space at most: some separators of lines become line breaks in a page."""
    return post.text == known.text or post.text.split() == known.text.split()


def beside(post: Post, stored: Stored, *, same: bool) -> Arrival:
    """The post as it may arrive. `same`: its text is the stored one.

    A text that differs is newer where no edit is known: what was there first is known. Else nobody can say
    which is newer, and the known edit stays: the text arrives with the date of the post, as an earlier one.
    """
    known = stored.post
    learnt = replace(
        post,
        date=known.date,
        author=known.author or post.author,
        media=_media(known.media, post.media, same=same),
        origin=_origin(known.origin, post.origin),
        reply_to=known.reply_to or post.reply_to,
    )
    if same:
        # the stamp of the stored version, so that it is learnt from and no version is made
        learnt = replace(learnt, text=known.text, entities=known.entities, links=known.links, edited=stored.stamp)
        return learnt, stored.update_id
    return learnt, stored.update_id if stored.stamp <= known.date else 0


def _media(known: Media | None, arrived: Media | None, *, same: bool) -> Media | None:
    if known and arrived and known.kind != arrived.kind and not same:
        return arrived
    return known or arrived


def _origin(known: Origin | None, arrived: Origin | None) -> Origin | None:
    if known is None or arrived is None:
        return known or arrived
    return replace(known, date=known.date or arrived.date)
