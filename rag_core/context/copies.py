"""Copies of posts in the evidence: all that the asker may read, also those not in the hits; the original is cited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_core.context.boilerplate import is_boilerplate, load_boilerplate
from rag_core.context.evidence import DatedPost, compose_evidence, order_copies
from rag_core.engine import Engine
from rag_core.retrieval.search import fetch_passages
from rag_core.storage import near_duplicates, posts
from rag_core.storage.near_duplicates import PostCopies
from rag_core.types import Evidence, Hit, Passage, PassageRef, Post, PostKey, Source, Viewer


async def gather_evidence(hits: Sequence[Hit], viewer: Viewer, rag: Engine) -> Evidence:
    """Gather the evidence of the hits and its boilerplate, citing the original of a copy where it has the same words.

    A post of nothing but boilerplate is no source. Raises ArchiveUnavailable.
    """
    known = await near_duplicates.fetch_copies(rag.archive, [hit.passage.key for hit in hits], viewer.channels)
    evidence = compose_evidence(hits, known)
    originals = {s.passage.key: key for s in evidence.sources if (key := _find_original(s.passage, known))}
    stored = await posts.fetch_posts(rag.archive, [*originals, *originals.values()]) if originals else {}
    places = {
        s: place
        for s in evidence.sources
        if (to := originals.get(s.passage.key)) and (place := _locate_in_original(s.passage, to, known, stored))
    }
    passages = await fetch_passages(list(places.values()), rag) if places else {}
    sources = tuple(_cite_original(s, passages.get(places[s])) if s in places else s for s in evidence.sources)
    boilerplate = await load_boilerplate({source.passage.key.chat_id for source in sources}, rag)
    telling = [
        s for s in sources if not is_boilerplate(s.passage.text, boilerplate.get(s.passage.key.chat_id, frozenset()))
    ]
    return Evidence(tuple(replace(s, number=n) for n, s in enumerate(telling, 1)), boilerplate)


def _find_original(passage: Passage, known: Mapping[PostKey, PostCopies]) -> PostKey | None:
    """Original of the passage's post; None where the post itself is the original."""
    if passage.key not in known:
        return None
    everyone: list[DatedPost] = [passage, *known[passage.key].all]
    first = order_copies(everyone)[0].key
    return first if first != passage.key else None


def _locate_in_original(
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


def _cite_original(source: Source, passage: Passage | None) -> Source:
    """Cite a source from its original."""
    if passage is None:
        return source
    cited = source.passage
    others = (cited.key, *(key for key in cited.copies if key != passage.key))
    return replace(source, passage=replace(passage, copies=others))
