"""Evidence: the best passages of the hits as sources numbered from 1, with copies of a post merged into one.

At most ten sources: beyond the tenth hit the answer was found in 1 of 200 questions (XQuAD among news).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rag_core.storage.near_duplicates import PostCopies, PostCopy
from rag_core.types import Evidence, Hit, Passage, Post, PostKey, Source

MAX_SOURCES = 10  # beyond the tenth hit the answer was found in 1 of 200 questions (XQuAD among news)

_LINKS_AND_MENTIONS = re.compile(r"https?://\S+|\bt\.me/\S+|(?<!\w)@\w+")
_SEPARATORS = re.compile(r"[\W_]+")


DatedPost = Post | Passage | PostCopy
D = TypeVar("D", bound=DatedPost)


def build_text_key(text: str) -> str:
    """Build the comparison key of a text: its words, without links, mentions and punctuation."""
    return _SEPARATORS.sub(" ", _LINKS_AND_MENTIONS.sub(" ", text.lower().replace("ё", "е"))).strip()


def order_copies(copies: Iterable[D]) -> list[D]:
    """Order copies of one post, the original first: the earliest; a forward of another copy comes after the others."""
    listed = list(copies)
    own = [one for one in listed if one.origin is None]
    return sorted(listed, key=lambda one: (_is_forward_of(one, own), one.date, one.key))


def _is_forward_of(one: D, others: Sequence[D]) -> bool:
    """Whether a post is a forward of one of the others; an origin known by name only, as in exports, may be any."""
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
    """Compose numbered sources from the best hits; copies are merged into one source.

    `known` are the stored copies by post; for a post too new to be in it, equal words decide.
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
    """Group hits that are copies, ordered by the best of each group; parts of a long post stay separate."""
    text_keys = [build_text_key(hit.passage.text) or f"{hit.passage.key}" for hit in hits]
    families = [(stored.family, hit.passage.part) if (stored := known.get(hit.passage.key)) else None for hit in hits]
    family_of: dict[str, object] = {}
    for text_key, family in zip(text_keys, families, strict=True):
        if family:
            family_of.setdefault(text_key, family)
    groups: dict[object, list[Hit]] = {}
    for hit, text_key, family in zip(hits, text_keys, families, strict=True):
        groups.setdefault(family or family_of.get(text_key, text_key), []).append(hit)
    return list(groups.values())


def _choose_cited_passage(passages: list[Passage], known: Mapping[PostKey, PostCopies]) -> Passage:
    """Choose the passage to cite, with its copies, the original first.

    A quote must be verbatim: among near-copies, only one with the words of the best hit is cited.
    """
    best = build_text_key(passages[0].text)
    first = order_copies(p for p in passages if p is passages[0] or (best and build_text_key(p.text) == best))[0]
    copies: dict[PostKey, DatedPost] = {p.key: p for p in passages}
    for passage in passages:
        if stored := known.get(passage.key):
            copies |= {one.key: one for one in stored.all}
    others = tuple(one.key for one in order_copies(copies.values()) if one.key != first.key)
    return replace(first, copies=others) if others else first
