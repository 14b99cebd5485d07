"""Hits to evidence: the best passages, the same post once, numbered from 1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rag_core.doors.archive.copies import Copies, Copy
from rag_core.types import Evidence, Hit, Passage, Post, PostKey, Source

__all__ = ["MOST_SOURCES", "Dated", "compose", "fingerprint", "in_order"]

MOST_SOURCES = 10  # beyond the tenth hit the answer was found in 1 of 200 questions (XQuAD among news)

_ASIDE = re.compile(r"https?://\S+|\bt\.me/\S+|(?<!\w)@\w+")
_BETWEEN = re.compile(r"[\W_]+")


Dated = Post | Passage | Copy
D = TypeVar("D", bound=Dated)


def fingerprint(text: str) -> str:
    """What makes two texts the same: their words, links and mentions and punctuation aside."""
    return _BETWEEN.sub(" ", _ASIDE.sub(" ", text.lower().replace("ё", "е"))).strip()


def in_order(copies: Iterable[D]) -> list[D]:
    """Copies of one post, the original first: the earliest; a forward only where nobody knows what it forwards."""
    found = list(copies)
    own = [one for one in found if one.origin is None]
    return sorted(found, key=lambda one: (_forwards(one, own), one.date, one.key))


def _forwards(one: D, others: Sequence[D]) -> bool:
    """Whether it is a forward of one of the others. Exports may know no more than a name: then it may be."""
    origin = one.origin
    if origin is None:
        return False
    return any(
        origin.chat_id in (None, other.key.chat_id) and origin.message_id in (None, other.key.message_id)
        for other in others
    )


def compose(hits: Sequence[Hit], known: Mapping[PostKey, Copies] | None = None, most: int = MOST_SOURCES) -> Evidence:
    """Number the best hits, those that say the same as one, with the others as its copies.

    What says the same is `known`; where a post is too new for that, its words decide.
    """
    known = known or {}
    groups = _grouped(hits, known)[:most]
    return Evidence(
        tuple(
            Source(
                n,
                _cited([h.passage for h in group], known),
                group[0].score,
                max(h.likeness for h in group),
                group[0].leg if len({h.leg for h in group}) == 1 else "both",
            )
            for n, group in enumerate(groups, 1)
        )
    )


def _grouped(hits: Sequence[Hit], known: Mapping[PostKey, Copies]) -> list[list[Hit]]:
    """Hits that say the same, in the order of the best of each; parts of a long post stay apart."""
    marks = [fingerprint(hit.passage.text) or f"{hit.passage.key}" for hit in hits]
    families = [(found.family, hit.passage.part) if (found := known.get(hit.passage.key)) else None for hit in hits]
    said: dict[str, object] = {}
    for mark, family in zip(marks, families, strict=True):
        if family:
            said.setdefault(mark, family)
    groups: dict[object, list[Hit]] = {}
    for hit, mark, family in zip(hits, marks, families, strict=True):
        groups.setdefault(family or said.get(mark, mark), []).append(hit)
    return list(groups.values())


def _cited(passages: list[Passage], known: Mapping[PostKey, Copies]) -> Passage:
    """The passage to cite, with its copies, the original first.

    A quote must be the post's own words: of passages that are only nearly the same, one like the best is cited.
    """
    best = fingerprint(passages[0].text)
    first = in_order(p for p in passages if p is passages[0] or (best and fingerprint(p.text) == best))[0]
    copies: dict[PostKey, Dated] = {p.key: p for p in passages}
    for passage in passages:
        if found := known.get(passage.key):
            copies |= {one.key: one for one in found.all}
    others = tuple(one.key for one in in_order(copies.values()) if one.key != first.key)
    return replace(first, copies=others) if others else first
