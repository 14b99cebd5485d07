"""Copies of posts: their order, the original first; hits that are copies merged, and cited by their original.

Copies are all that the asker may read, also those not in the hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from rag_core.storage.near_duplicates import PostCopies, PostCopy
from rag_core.text.post_openings import build_text_key
from rag_core.types import Hit, Passage, PassageRef, Post, PostKey, Source

DatedPost = Post | Passage | PostCopy
D = TypeVar("D", bound=DatedPost)


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


def group_same_posts(hits: Sequence[Hit], known: Mapping[PostKey, PostCopies]) -> list[list[Hit]]:
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


def choose_cited_passage(passages: list[Passage], known: Mapping[PostKey, PostCopies]) -> Passage:
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


def find_original(passage: Passage, known: Mapping[PostKey, PostCopies]) -> PostKey | None:
    """Original of the passage's post; None where the post itself is the original."""
    if passage.key not in known:
        return None
    everyone: list[DatedPost] = [passage, *known[passage.key].all]
    first = order_copies(everyone)[0].key
    return first if first != passage.key else None


def locate_in_original(
    passage: Passage, original: PostKey, known: Mapping[PostKey, PostCopies], stored: Mapping[PostKey, Post]
) -> PassageRef | None:
    """Locate a passage in the original: the same words, or the whole post if both are one passage of one text."""
    copy_post, original_post = stored.get(passage.key), stored.get(original)
    if copy_post is None or original_post is None:
        return None
    if (start := original_post.text.find(passage.text)) >= 0:
        return PassageRef(original, passage.part, start, start + len(passage.text))
    family = known[passage.key]
    exactly = any(one.key == original and one.exact == family.exact for one in family.all)
    if not exactly or passage.text.strip() != copy_post.text.strip():
        return None
    start = len(original_post.text) - len(original_post.text.lstrip())
    return PassageRef(original, 0, start, start + len(original_post.text.strip()))


def cite_original(source: Source, original: Passage) -> Source:
    """Cite a source from its original."""
    copy = source.passage
    others = (copy.key, *(key for key in copy.copies if key != original.key))
    return replace(source, passage=replace(original, copies=others))
