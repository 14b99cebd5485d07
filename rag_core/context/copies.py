"""Copies of posts in the evidence, cited by their original; and boilerplate, which is no evidence.

Copies are all that the asker may read, also those not in the hits.

Boilerplate, lines that a channel repeats in most of its posts (address, calls to subscribe), answers nothing: a line is
one if it stands in over a fifth of a channel's latest posts, and in at least five. Only channels of the evidence are
read, all of which the asker may read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rag_core.context.evidence import DatedPost, compose_evidence, order_copies
from rag_core.engine import Engine
from rag_core.storage import near_duplicates, visible_posts
from rag_core.storage.near_duplicates import PostCopies
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.post_openings import build_text_key
from rag_core.types import Evidence, Hit, Passage, PassageRef, Post, PostKey, Source, Viewer

_LATEST_POSTS = 300  # per channel: enough to tell a fifth, read in a few milliseconds
_MIN_SHARE, _MIN_POSTS = 0.2, 5


def find_repeated_lines(texts: Iterable[str]) -> frozenset[str]:
    """Find the lines that repeat in texts, as keys (`build_text_key`); each text counts once for a line."""
    counts, number = Counter[str](), 0
    for text in texts:
        number += 1
        counts.update({key for line in text.split("\n") if (key := build_text_key(line))})
    return frozenset(key for key, times in counts.items() if times >= _MIN_POSTS and times > _MIN_SHARE * number)


def is_boilerplate(text: str, repeated: frozenset[str]) -> bool:
    """Whether every line of a text is boilerplate."""
    return bool(repeated) and all(key in repeated for line in text.split("\n") if (key := build_text_key(line)))


async def load_boilerplate(chats: Iterable[int], rag: Engine) -> dict[int, frozenset[str]]:
    """Load the boilerplate of channels; cached while the index does not change. Raises ArchiveUnavailable."""
    found, version = {}, rag.version
    for chat in chats:
        lines = rag.boilerplate.get(chat, version)
        if lines is None:
            lines = find_repeated_lines(await visible_posts.list_latest_texts(rag.archive, chat, _LATEST_POSTS))
            rag.boilerplate.store(chat, version, lines)
        if lines:
            found[chat] = lines
    return found


async def gather_evidence(hits: Sequence[Hit], viewer: Viewer, rag: Engine) -> Evidence:
    """Gather the evidence of the hits and its boilerplate, citing the original of a copy where it has the same words.

    A post of nothing but boilerplate is no source. Raises ArchiveUnavailable.
    """
    known = await near_duplicates.fetch_copies(rag.archive, [hit.passage.key for hit in hits], viewer.channels)
    evidence = compose_evidence(hits, known)
    originals = {s.passage.key: key for s in evidence.sources if (key := _find_original(s.passage, known))}
    stored = await visible_posts.fetch_posts(rag.archive, [*originals, *originals.values()]) if originals else {}
    places = {
        s: place
        for s in evidence.sources
        if (to := originals.get(s.passage.key)) and (place := _locate_in_original(s.passage, to, known, stored))
    }
    passages = await fetch_passages(rag.archive, list(places.values())) if places else {}
    sources = [
        _cite_original(s, original) if s in places and (original := passages.get(places[s])) else s
        for s in evidence.sources
    ]
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


def _cite_original(source: Source, original: Passage) -> Source:
    """Cite a source from its original."""
    copy = source.passage
    others = (copy.key, *(key for key in copy.copies if key != original.key))
    return replace(source, passage=replace(original, copies=others))
