"""Hits to evidence with all the copies that the asker may read, also those that no leg brought up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_core.compose import Dated, compose, in_order
from rag_core.doors.archive import copies, posts
from rag_core.doors.archive.copies import Copies
from rag_core.doors.lexical import Place
from rag_core.rag import Rag
from rag_core.search import fetch
from rag_core.types import Evidence, Hit, Passage, Post, PostKey, Source, Viewer

__all__ = ["gathered"]


async def gathered(hits: Sequence[Hit], viewer: Viewer, rag: Rag) -> Evidence:
    """The evidence of the hits, with the original cited where it says the same words. Raises ArchiveUnavailable."""
    known = await copies.known(rag.archive, [hit.passage.key for hit in hits], viewer.channels)
    evidence = compose(hits, known)
    originals = {s.passage.key: key for s in evidence.sources if (key := _original(s.passage, known))}
    stored = await posts.get(rag.archive, [*originals, *originals.values()]) if originals else {}
    places = {
        s: place
        for s in evidence.sources
        if (to := originals.get(s.passage.key)) and (place := _place(s.passage, to, known, stored))
    }
    found = await fetch(list(places.values()), rag) if places else {}
    return Evidence(tuple(_moved(s, found.get(places[s])) if s in places else s for s in evidence.sources))


def _original(passage: Passage, known: Mapping[PostKey, Copies]) -> PostKey | None:
    """The original of a passage's post, where that is another post."""
    if passage.key not in known:
        return None
    everyone: list[Dated] = [passage, *known[passage.key].all]
    first = in_order(everyone)[0].key
    return first if first != passage.key else None


def _place(
    passage: Passage, original: PostKey, known: Mapping[PostKey, Copies], stored: Mapping[PostKey, Post]
) -> Place | None:
    """Where the original says it: the very words; or all of it, where both posts are one passage of the same text."""
    here, there = stored.get(passage.key), stored.get(original)
    if here is None or there is None:
        return None
    if (start := there.text.find(passage.text)) >= 0:
        return Place(original, passage.part, start, start + len(passage.text))
    family = known[passage.key]
    exactly = any(one.key == original and one.exact == family.exact for one in family.all)
    if not exactly or passage.text.strip() != here.text.strip():
        return None
    start = len(there.text) - len(there.text.lstrip())
    return Place(original, 0, start, start + len(there.text.strip()))


def _moved(source: Source, passage: Passage | None) -> Source:
    """The same source, cited from the original."""
    if passage is None:
        return source
    cited = source.passage
    others = (cited.key, *(key for key in cited.copies if key != passage.key))
    return replace(source, passage=replace(passage, copies=others))
