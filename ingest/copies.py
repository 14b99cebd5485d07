"""Archive to families of copies: the only writer of copies.py. What is missing is told by its watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ingest.duplicates import RECIPE, Words, alike, exact, near, words_of
from ingest.footers import with_links
from rag_core.doors.archive import Archive, copies, posts
from rag_core.doors.archive.copies import Family, Mark, Near, Row
from rag_core.doors.archive.posts import Change
from rag_core.types import Post, PostKey

__all__ = ["CopyIndexer"]

_BATCH = 500  # changes at a time: about 0.2 s of work, 20 ms of it with the archive's pen in hand
# Copies are made within hours. What is nearly the same much later ("more pictures of the fire") is another event,
_NEAR_S = 2 * 86_400
# and the same words about "today" tell of another day.
_TODAY_S = 36 * 3600


@dataclass(frozen=True, slots=True)
class _Read:
    """A post as it is compared; `written` in Unix seconds: a forward's words are as old as their post."""

    key: PostKey
    seq: int
    written: int
    words: Words
    exact: bytes
    bands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A text nearby, and the family it belongs to."""

    words: Words
    family: int
    written: int


class CopyIndexer:
    """Finds the copies among the posts of the archive. One per process."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._turn = asyncio.Lock()

    async def catch_up(self, progress: Callable[[int], None] | None = None) -> int:
        """Take in what changed since the watermark; returns how many posts changed.

        `progress` gets the number of changes done so far. Raises ArchiveUnavailable; what was done stays done.
        """
        done = 0
        async with self._turn:
            mark = await copies.begin(self._archive, RECIPE)
            while batch := await posts.changes(self._archive, mark.watermark, _BATCH):
                mark = await self._take(batch, mark)
                done += len(batch)
                if progress:
                    progress(done)
        return done

    async def waiting(self) -> int:
        """How many changes are still to come."""
        return await copies.waiting(self._archive, RECIPE)

    async def _take(self, batch: Sequence[Change], before: Mark) -> Mark:
        ready = await asyncio.to_thread(_read, batch)
        places = _Places(await copies.same(self._archive, {one.exact for one in ready}), before.families)
        unknown = [one for one in ready if one.bands and places.of_same(one) is None]
        near = await self._near(unknown) if unknown else {}
        rows = await asyncio.to_thread(lambda: [_row(one, places.take(one, near)) for one in ready])
        after = Mark(batch[-1].seq, places.last)
        if await copies.put(self._archive, before, after, rows, [change.key for change in batch]):
            return after
        return await copies.begin(self._archive, RECIPE)  # somebody else did it

    async def _near(self, some: Sequence[_Read]) -> dict[int, list[_Found]]:
        """Band -> the texts that have it, as the archive holds them now."""
        moments = [one.written for one in some]
        since, until = min(moments) - _NEAR_S, max(moments) + _NEAR_S
        found = await copies.akin(self._archive, [one.bands for one in some], since, until)
        stored = await posts.get(self._archive, {one.key for group in found.values() for one in group})
        return await asyncio.to_thread(_words_of_near, found, stored)


class _Places:
    """Gives each post its family: that of its copies, or a new one. Texts of the batch know each other."""

    def __init__(self, same: dict[bytes, list[Family]], last: int) -> None:
        self._same = same
        self._bands: dict[int, list[_Found]] = {}
        self.last = last

    def of_same(self, one: _Read) -> int | None:
        """The family of posts with exactly this text; one that speaks of "today" must be of the same day."""
        for family in self._same.get(one.exact, ()):
            apart = max(abs(one.written - family.first), abs(one.written - family.last))
            if not one.words.today or apart <= _TODAY_S:
                return family.number
        return None

    def take(self, one: _Read, near: dict[int, list[_Found]]) -> int:
        """The family of a post; the next of the batch may join it."""
        number = self.of_same(one)
        if number is None:
            number = self._of_near(one, near)
        if number is None:
            number = self.last = self.last + 1
        self._same.setdefault(one.exact, []).append(Family(number, one.written, one.written))
        for band in one.bands:
            self._bands.setdefault(band, []).append(_Found(one.words, number, one.written))
        return number

    def _of_near(self, one: _Read, near: dict[int, list[_Found]]) -> int | None:
        within = _TODAY_S if one.words.today else _NEAR_S
        numbers = (
            other.family
            for other in self._nearby(one, near)
            if abs(other.written - one.written) <= within and alike(one.words, other.words)
        )
        return min(numbers, default=None)

    def _nearby(self, one: _Read, near: dict[int, list[_Found]]) -> Iterator[_Found]:
        for band in one.bands:
            yield from near.get(band, ())
            yield from self._bands.get(band, ())


def _read(batch: Sequence[Change]) -> list[_Read]:
    """The posts of a batch that have words."""
    found = []
    for change in batch:
        if change.post is not None and (words := words_of(with_links(change.post))).all:
            written = (change.post.origin and change.post.origin.date) or change.post.date
            moment = int(written.timestamp())
            found.append(_Read(change.key, change.seq, moment, words, exact(words), near(words)))
    return found


def _words_of_near(found: dict[int, list[Near]], stored: dict[PostKey, Post]) -> dict[int, list[_Found]]:
    words = {key: words_of(with_links(post)) for key, post in stored.items()}
    return {
        band: [_Found(words[one.key], one.family, one.written) for one in group if one.key in words]
        for band, group in found.items()
    }


def _row(one: _Read, family: int) -> Row:
    return Row(one.key, one.seq, one.written, family, one.exact, one.bands)
