"""Citation check: every quote must stand in its stored post word for word at the moment of showing.

A post may have been edited or deleted, or a channel closed to the asker, while the answer was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_core.engine import Engine
from rag_core.storage import posts
from rag_core.types import Citation, Draft, Passage, Post, PostKey, Sentence, Viewer


async def check_citations(draft: Draft, viewer: Viewer, rag: Engine) -> tuple[Sentence, ...]:
    """Keep the sentences whose quotes are still in their posts, with the citations that are. Raises ArchiveUnavailable.

    A post may have been edited or deleted, or a channel closed to this viewer, while the answer was written.
    """
    keys = {citation.post for sentence in draft.sentences for citation in sentence.citations}
    stored = await posts.fetch_posts(rag.archive, keys)
    kept = []
    for sentence in draft.sentences:
        current = tuple(c for c in sentence.citations if _is_current_quote(c, stored, viewer))
        # a sentence of a model may rest on any of its posts: all of them must be current
        if current and (sentence.support == 1.0 or len(current) == len(sentence.citations)):
            kept.append(Sentence(sentence.text, current, sentence.support))
    return tuple(kept)


async def filter_current_passages(passages: Sequence[Passage], viewer: Viewer, rag: Engine) -> tuple[Passage, ...]:
    """Keep the passages whose posts are unchanged and readable by this viewer. Raises ArchiveUnavailable."""
    stored = await posts.fetch_posts(rag.archive, [passage.key for passage in passages])
    return tuple(
        passage
        for passage in passages
        if passage.key.chat_id in viewer.channels
        and (post := stored.get(passage.key))
        and post.text[passage.start : passage.end] == passage.text
    )


def _is_current_quote(citation: Citation, stored: dict[PostKey, Post], viewer: Viewer) -> bool:
    post = stored.get(citation.post)
    return (
        post is not None
        and citation.post.chat_id in viewer.channels
        and bool(citation.quote)
        and post.text[citation.start : citation.end] == citation.quote
    )
