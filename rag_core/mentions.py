"""Every post that mentions something, exactly: for counts, first and last mentions, timelines.

The index finds words by their stems, in headers too; so each post it finds is read and looked at. A Russian
surname has two stems ("Торосов" and "Торосова"), of which one may be another word ("Иванов", "Иван"): it is
looked for by both and then recognised by its form.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from rag_core.analysis import terms
from rag_core.doors.archive import posts
from rag_core.doors.lexical import Filter, Place
from rag_core.names import surname, surname_pattern
from rag_core.rag import Rag
from rag_core.types import Kind, Plan, Post, PostKey, Viewer
from rag_core.within import within

__all__ = ["Word", "matching", "word_of"]

_READ = 1000  # posts at a time, so that others get at the archive in between
_MOST_WAYS = 16  # combinations of stems


@dataclass(frozen=True, slots=True)
class Word:
    """Something a post must hold: any of the index's terms, and where there is one, the form of a surname."""

    terms: tuple[str, ...]
    form: re.Pattern[str] | None = None

    def stands_in(self, text: str, found: frozenset[str]) -> bool:
        """Whether a lower-case text without ё, with these terms, holds it."""
        return bool(self.form.search(text)) if self.form else not found.isdisjoint(self.terms)


def word_of(term: str, written: str) -> Word:
    """A term of a question as it is to be found; `written` is the word it comes from, capital letters and all."""
    base = surname(written)
    if base is None:
        return Word((term,))
    stems = dict.fromkeys(stem for form in (written, base, f"{base}а") for stem in terms(form))
    return Word(tuple(stems) or (term,), surname_pattern(base))


async def matching(words: Sequence[Word], plan: Plan, viewer: Viewer, rag: Rag) -> list[Place]:
    """Every post that holds all the words itself, by a place in it, oldest first; for LAST newest first.

    Reading costs about 50 µs a post. For the first and the last mention it ends with the posts that have it.
    """
    if not words or not viewer.channels:
        return []
    found = await asyncio.to_thread(_found, words, await within(plan, viewer, rag), rag)
    places = list({place.key: place for place in reversed(found)}.values())
    if plan.kind is not Kind.LAST:
        places.reverse()
    kept: list[Place] = []
    for first in range(0, len(places), _READ):
        some = places[first : first + _READ]
        stored = await posts.get(rag.archive, [place.key for place in some])
        kept += await asyncio.to_thread(_holding, some, stored, words)
        if kept and plan.kind in {Kind.FIRST, Kind.LAST}:
            break
    return kept


def _found(words: Sequence[Word], only: Filter, rag: Rag) -> list[Place]:
    """What the index finds for one stem of each word or another, oldest first."""
    ways = list(product(*(word.terms for word in words)))[:_MOST_WAYS]
    return rag.lexical.matching(ways[0], only, *ways[1:])


def _holding(places: Sequence[Place], stored: dict[PostKey, Post], words: Sequence[Word]) -> list[Place]:
    return [place for place in places if (post := stored.get(place.key)) and _holds(_own(post), words)]


def _holds(text: str, words: Sequence[Word]) -> bool:
    low, found = text.lower().replace("ё", "е"), frozenset(terms(text))
    return all(word.stands_in(low, found) for word in words)


def _own(post: Post) -> str:
    return f"{post.text}\n{post.media.file_name}" if post.media and post.media.file_name else post.text
