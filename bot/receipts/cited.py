"""The words that an answer cites: as they were then, and where they stand now. Reads the archive, changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bot.kept import Cited, Quoted, mark
from bot.receipts.quoting import Quote, quotable, units
from rag_core.doors.archive import Archive, posts
from rag_core.doors.archive.pointing import pointed, with_albums
from rag_core.types import Post, PostKey

__all__ = ["Place", "Words", "stand", "words"]

_BETWEEN = 2  # characters between two captions of an album


@dataclass(frozen=True, slots=True)
class Words:
    """A cited post as it is now, and the words that were cited; "" where their text is not kept.

    `at` is where they begin in the text that the post has now, None where they are not in it any more.
    """

    post: Post
    text: str
    at: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """The message to reply to, and what of the words can be quoted from it."""

    key: PostKey
    quote: Quote


async def words(archive: Archive, quoted: Quoted, cited: Cited) -> Words | None:
    """The words of a citation; None where the post is deleted or closed. Raises ArchiveUnavailable."""
    post = (await posts.get(archive, [quoted.key])).get(quoted.key)
    if post is None:
        return None
    older = (version.text for version in await posts.versions(archive, quoted.key))
    text = next((text for text in (post.text, *older) if mark(text) == cited.mark), None)
    if text is None:
        return Words(post, "", None)
    said = text[quoted.start : quoted.end]
    return Words(post, said, _nearest(post.text, said, quoted.start))


def _nearest(text: str, said: str, wanted: int) -> int | None:
    """Where `said` stands in a text, nearest to where it was looked for."""
    if text.startswith(said, wanted):
        return wanted
    before, after = text.rfind(said, 0, wanted + len(said)), text.find(said, wanted)
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - wanted), default=None) if said else None


async def stand(archive: Archive, found: Words) -> Place | None:
    """Where to quote the words from; None where Telegram would not take them. Raises ArchiveUnavailable.

    The captions of an album are one text here, and several messages there.
    """
    if found.at is None or found.post.guarded:
        return None
    quote = quotable(found.post.text, found.at, found.at + len(found.text), found.post.entities)
    if quote is None:
        return None
    if not found.post.album:
        return Place(found.post.key, quote)
    return await _in_album(archive, found.post, quote)


async def _in_album(archive: Archive, post: Post, quote: Quote) -> Place | None:
    before = 0
    for key, member in (await pointed(archive, await with_albums(archive, post.key))).items():
        if member.deleted or member.suspected or not member.text.strip():
            continue
        end = before + units(member.text)
        if before <= quote.position and quote.position + units(quote.text) <= end and quote.text in member.text:
            return Place(key, Quote(quote.text, quote.position - before, quote.entities))
        before = end + _BETWEEN
    return None
