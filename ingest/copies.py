"""Archive to near-duplicates: the only writer of copies.py. What is missing is told by its watermark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingest.duplicates import RECIPE, Words, alike, exact, near, words_of
from ingest.footers import with_links
from rag_core.doors.archive import Archive, copies, posts
from rag_core.doors.archive.copies import NEAR_S, Mark, Row
from rag_core.doors.archive.posts import Change
from rag_core.types import Post, PostKey

__all__ = ["CopyIndexer"]

_BATCH = 500  # changes at a time: about 0.2 s of work, 20 ms of it with the archive's pen in hand

_Bands = dict[int, dict[bytes, Words]]  # band -> the texts that have it, by their hashes


@dataclass(frozen=True, slots=True)
class _Read:
    """A post as it is compared; `written` in Unix seconds: a forward's words are as old as their post."""

    key: PostKey
    seq: int
    written: int
    words: Words
    exact: bytes
    bands: tuple[int, ...]


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
        near = await self._near([one for one in ready if one.bands])
        pairs = await asyncio.to_thread(_alike_pairs, ready, near)
        rows = [Row(one.key, one.seq, one.written, one.words.today, one.exact, one.bands) for one in ready]
        after = Mark(batch[-1].seq)
        if await copies.put(self._archive, before, after, rows, [change.key for change in batch], pairs):
            return after
        return await copies.begin(self._archive, RECIPE)  # somebody else did it

    async def _near(self, some: Sequence[_Read]) -> _Bands:
        """What the archive holds with the bands of these posts, written at about the same time."""
        if not some:
            return {}
        moments = [one.written for one in some]
        since, until = min(moments) - NEAR_S, max(moments) + NEAR_S
        found = await copies.akin(self._archive, [one.bands for one in some], since, until)
        stored = await posts.get(self._archive, {key for texts in found.values() for key in texts.values()})
        return await asyncio.to_thread(_words_of_near, found, stored)


def _read(batch: Sequence[Change]) -> list[_Read]:
    """The posts of a batch that have words."""
    found = []
    for change in batch:
        if change.post is not None and (words := words_of(with_links(change.post))).all:
            written = (change.post.origin and change.post.origin.date) or change.post.date
            moment = int(written.timestamp())
            found.append(_Read(change.key, change.seq, moment, words, exact(words), near(words)))
    return found


def _words_of_near(found: dict[int, dict[bytes, PostKey]], stored: dict[PostKey, Post]) -> _Bands:
    words = {key: words_of(with_links(post)) for key, post in stored.items()}
    return {
        band: {text: words[key] for text, key in texts.items() if key in words and exact(words[key]) == text}
        for band, texts in found.items()
    }


def _alike_pairs(ready: Sequence[_Read], near: _Bands) -> set[tuple[bytes, bytes]]:
    """The pairs of texts that say nearly the same, of which one is a post's of the batch.

    Every two texts that meet in a band are compared, whoever holds them: no third one decides on a pair.
    """
    found: set[tuple[bytes, bytes]] = set()
    compared: set[tuple[bytes, bytes]] = set()
    for one in ready:
        for band in one.bands:
            texts = near.setdefault(band, {})
            for text, words in texts.items():
                pair = (text, one.exact)
                if text != one.exact and pair not in compared:
                    compared |= {pair, (one.exact, text)}
                    if alike(one.words, words):
                        found.add(pair)
            texts[one.exact] = one.words
    return found
