"""Search filters: channels and period of a plan, and the posts with its authors, origins, media kinds and files.

Channels are limited to those that the viewer may read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from rag_core.engine import Engine
from rag_core.storage import channels, post_lookup
from rag_core.storage.post_lookup import PostFacet
from rag_core.text.names import matches_file_name, matches_name
from rag_core.types import Plan, PostKeySet, SearchFilter, Viewer

# One everyday word covers several media kinds of Telegram.
_MEDIA_KINDS = {
    "photo": ("photo", "live_photo"),
    "video": ("video", "video_note", "animation"),
    "document": ("document", "audio"),
}


def build_filter(plan: Plan, viewer: Viewer) -> SearchFilter:
    """Build the filter of channels and period; the plan's channels are limited to those the viewer may read."""
    readable = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    slack = timedelta(days=plan.slack)
    return SearchFilter(readable, plan.since and plan.since - slack, plan.until and plan.until + slack)


async def resolve_filter(plan: Plan, viewer: Viewer, rag: Engine) -> SearchFilter:
    """Resolve the whole filter: `build_filter` and the keys of posts with the plan's authors, origins, kinds, files.

    An unknown name gives an empty set of posts, so that nothing is found. Raises ArchiveUnavailable.
    """
    only = build_filter(plan, viewer)
    if not plan.has_filters:
        return only
    key_sets = []
    if plan.media:
        kinds = [kind for word in plan.media for kind in _MEDIA_KINDS.get(word, (word,))]
        key_sets.append(await post_lookup.find_posts_by_facet(rag.archive, PostFacet.MEDIA, kinds, only.channels))
    if plan.authors:
        key_sets.append(await _find_posts_by_name(PostFacet.AUTHOR, plan.authors, only, rag))
    if plan.origins:
        key_sets.append(await _find_forwards(plan.origins, only, viewer, rag))
    if plan.files:
        key_sets.append(await _find_posts_with_files(plan.files, only, rag))
    keys = key_sets[0]
    for others in key_sets[1:]:
        keys &= others
    return replace(only, keys=keys)


async def _find_posts_by_name(facet: PostFacet, names: tuple[str, ...], only: SearchFilter, rag: Engine) -> PostKeySet:
    """Find posts by the name of their author or origin."""
    written = await post_lookup.list_facet_values(rag.archive, facet, only.channels)
    chosen = await asyncio.to_thread(_choose_matching, written, names, matches_name)
    return await post_lookup.find_posts_by_facet(rag.archive, facet, chosen, only.channels)


async def _find_forwards(names: tuple[str, ...], only: SearchFilter, viewer: Viewer, rag: Engine) -> PostKeySet:
    """Find forwarded posts by the name of their origin, or by the present @username of a channel."""
    wanted = {name[1:].lower() for name in names if name.startswith("@")}
    known = await channels.load_channels(rag.archive) if wanted else {}
    # the @username of a channel that the asker may not read must not be revealed
    readable = (known[chat] for chat in viewer.channels if chat in known)
    chats = [channel.chat_id for channel in readable if (channel.username or "").lower() in wanted]
    by_chat = await post_lookup.find_posts_by_facet(rag.archive, PostFacet.ORIGIN_CHAT, chats, only.channels)
    return by_chat | await _find_posts_by_name(PostFacet.ORIGIN, names, only, rag)


async def _find_posts_with_files(names: tuple[str, ...], only: SearchFilter, rag: Engine) -> PostKeySet:
    """Find posts with a file of one of these names."""
    written: list[str] = []
    for kind in {name.rpartition(".")[2] for name in names}:
        written += await post_lookup.list_facet_values(rag.archive, PostFacet.FILE, only.channels, f"%.{kind}%")
    chosen = await asyncio.to_thread(_choose_matching, written, names, matches_file_name)
    return await post_lookup.find_posts_by_facet(rag.archive, PostFacet.FILE, chosen, only.channels)


def _choose_matching(written: Sequence[str], names: Sequence[str], matches: Callable[[str, str], bool]) -> list[str]:
    return [value for value in written if any(matches(name, value) for name in names)]
