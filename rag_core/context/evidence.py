"""Evidence: the best passages of the hits, copies of a post merged into one source, numbered from 1.

At most ten sources: beyond the tenth hit the answer was found in 1 of 200 questions (XQuAD among news).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rag_core.storage.copies import PostCopies, PostCopy
from rag_core.types import Evidence, Hit, Passage, Post, PostKey, Source

__all__ = ["MAX_SOURCES", "DatedPost", "build_text_key", "compose_evidence", "order_copies"]

MAX_SOURCES = 10  # beyond the tenth hit the answer was found in 1 of 200 questions (XQuAD among news)

_LINKS_AND_MENTIONS = re.compile(r"https?://\S+|\bt\.me/\S+|(?<!\w)@\w+")
_SEPARATORS = re.compile(r"[\W_]+")


DatedPost = Post | Passage | PostCopy
D = TypeVar("D", bound=DatedPost)


def build_text_key(text: str) -> str:
    """What makes two texts the same: their words, links and mentions and punctuation aside."""
    return _SEPARATORS.sub(" ", _LINKS_AND_MENTIONS.sub(" ", text.lower().replace("ё", "е"))).strip()


def order_copies(copies: Iterable[D]) -> list[D]:
    """Copies of one post, the original first: the earliest; a forward only where nobody knows what it forwards."""
    found = list(copies)
    own = [one for one in found if one.origin is None]
    return sorted(found, key=lambda one: (_is_forward_of(one, own), one.date, one.key))


def _is_forward_of(one: D, others: Sequence[D]) -> bool:
    """Whether it is a forward of one of the others. Exports may know no more than a name: then it may be."""
    origin = one.origin
    if origin is None:
        return False
    return any(
        origin.chat_id in (None, other.key.chat_id) and origin.message_id in (None, other.key.message_id)
        for other in others
    )


def compose_evidence(
    hits: Sequence[Hit], known: Mapping[PostKey, PostCopies] | None = None, most: int = MAX_SOURCES
) -> Evidence:
    """Number the best hits, those that say the same as one, with the others as its copies.

    What says the same is `known`; where a post is too new for that, its words decide.
    """
    known = known or {}
    groups = _group_same_posts(hits, known)[:most]
    return Evidence(
        tuple(
            Source(
                n,
                _choose_cited_passage([h.passage for h in group], known),
                group[0].score,
                max(h.likeness for h in group),
                group[0].leg if len({h.leg for h in group}) == 1 else "both",
            )
            for n, group in enumerate(groups, 1)
        )
    )


def _group_same_posts(hits: Sequence[Hit], known: Mapping[PostKey, PostCopies]) -> list[list[Hit]]:
    """Hits that say the same, in the order of the best of each; parts of a long post stay apart."""
    marks = [build_text_key(hit.passage.text) or f"{hit.passage.key}" for hit in hits]
    families = [(found.family, hit.passage.part) if (found := known.get(hit.passage.key)) else None for hit in hits]
    said: dict[str, object] = {}
    for mark, family in zip(marks, families, strict=True):
        if family:
            said.setdefault(mark, family)
    groups: dict[object, list[Hit]] = {}
    for hit, mark, family in zip(hits, marks, families, strict=True):
        groups.setdefault(family or said.get(mark, mark), []).append(hit)
    return list(groups.values())


def _choose_cited_passage(passages: list[Passage], known: Mapping[PostKey, PostCopies]) -> Passage:
    """The passage to cite, with its copies, the original first.

    A quote must be the post's own words: of passages that are only nearly the same, one like the best is cited.
    """
    best = build_text_key(passages[0].text)
    first = order_copies(p for p in passages if p is passages[0] or (best and build_text_key(p.text) == best))[0]
    copies: dict[PostKey, DatedPost] = {p.key: p for p in passages}
    for passage in passages:
        if found := known.get(passage.key):
            copies |= {one.key: one for one in found.all}
    others = tuple(one.key for one in order_copies(copies.values()) if one.key != first.key)
    return replace(first, copies=others) if others else first
