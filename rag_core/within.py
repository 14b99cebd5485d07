"""What a search may find, before it looks: channels, a time, and where a plan names them the single posts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from rag_core.doors.archive import channels, facets
from rag_core.doors.archive.facets import Facet
from rag_core.doors.lexical import Filter, Keys
from rag_core.named import same_file, same_name
from rag_core.rag import Rag
from rag_core.types import Plan, Viewer

__all__ = ["allowed", "within"]

# What people call so goes by several names in Telegram.
_KINDS = {
    "photo": ("photo", "live_photo"),
    "video": ("video", "video_note", "animation"),
    "document": ("document", "audio"),
}


def allowed(plan: Plan, viewer: Viewer) -> Filter:
    """The channels and the time that this asker may find with this plan. The viewer's channels bound the plan's."""
    readable = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    slack = timedelta(days=plan.slack)
    return Filter(readable, plan.since and plan.since - slack, plan.until and plan.until + slack)


async def within(plan: Plan, viewer: Viewer, rag: Rag) -> Filter:
    """As `allowed`, with the posts of the authors, origins, kinds and files that the plan names.

    No posts where nobody and nothing is called so: then there is nothing to find. Raises ArchiveUnavailable.
    """
    only = allowed(plan, viewer)
    if not plan.narrowed:
        return only
    found = []
    if plan.media:
        kinds = [kind for said in plan.media for kind in _KINDS.get(said, (said,))]
        found.append(await facets.holding(rag.archive, Facet.MEDIA, kinds, only.channels))
    if plan.authors:
        found.append(await _called(Facet.AUTHOR, plan.authors, only, rag))
    if plan.origins:
        found.append(await _forwarded(plan.origins, only, viewer, rag))
    if plan.files:
        found.append(await _filed(plan.files, only, rag))
    keys = found[0]
    for others in found[1:]:
        keys &= others
    return replace(only, keys=keys)


async def _called(facet: Facet, said: tuple[str, ...], only: Filter, rag: Rag) -> Keys:
    """The posts whose author or origin is called so."""
    written = await facets.names(rag.archive, facet, only.channels)

    def chosen() -> list[str]:
        return [name for name in written if any(same_name(one, name) for one in said)]

    return await facets.holding(rag.archive, facet, await asyncio.to_thread(chosen), only.channels)


async def _forwarded(said: tuple[str, ...], only: Filter, viewer: Viewer, rag: Rag) -> Keys:
    """The posts forwarded from there: by name, and by the @username that a channel has now."""
    wanted = {name[1:].lower() for name in said if name.startswith("@")}
    known = await channels.known(rag.archive) if wanted else {}
    # of channels that the asker may not read, not even the @username is known
    readable = (known[chat] for chat in viewer.channels if chat in known)
    chats = [channel.chat_id for channel in readable if (channel.username or "").lower() in wanted]
    by_chat = await facets.holding(rag.archive, Facet.ORIGIN_CHAT, chats, only.channels)
    return by_chat | await _called(Facet.ORIGIN, said, only, rag)


async def _filed(said: tuple[str, ...], only: Filter, rag: Rag) -> Keys:
    """The posts with a file of this name."""
    written: list[str] = []
    for kind in {name.rpartition(".")[2] for name in said}:
        written += await facets.names(rag.archive, Facet.FILE, only.channels, f"%.{kind}%")

    def chosen() -> list[str]:
        return [name for name in written if any(same_file(one, name) for one in said)]

    return await facets.holding(rag.archive, Facet.FILE, await asyncio.to_thread(chosen), only.channels)
