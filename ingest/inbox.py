"""Posts and edits out of the raw updates that were kept: each worked in once, a bad one set aside."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

from ingest.fields import box
from ingest.post import Malformed, from_update
from ingest.unapproved import admit
from rag_core.doors.archive import Archive, channels, posts, updates
from rag_core.types import Channel, Post

__all__ = ["drain"]

_Pending = tuple[int, int, dict[str, Any]]


async def drain(archive: Archive) -> int:
    """Work in all pending posts and edits; returns how many. Safe to run again after a crash at any moment."""
    worked_in = 0
    while batch := await updates.pending_posts(archive):
        for bot_id, pending in groupby(batch, key=lambda update: update[0]):
            worked_in += await _work_in(archive, bot_id, list(pending))
    await channels.retitle(archive)
    return worked_in


async def _work_in(archive: Archive, bot_id: int, pending: list[_Pending]) -> int:
    arrivals: list[tuple[Post, int]] = []
    seen: dict[int, tuple[Channel, int]] = {}
    for _, update_id, raw in pending:
        try:
            channel, post = from_update(box(raw.get("channel_post") or raw.get("edited_channel_post")))
        except Malformed as exc:
            await updates.quarantine(archive, bot_id, update_id, str(exc))
            continue
        seen[channel.chat_id] = (channel, update_id)
        arrivals.append((post, update_id))
    async with archive.writing() as connection:
        admitted, kept = await admit(connection, {key: channel for key, (channel, _) in seen.items()}, arrivals)
        for chat_id, channel in admitted.items():
            # a channel nobody approved: its posts are kept, and read by nobody; a known one stays as it is
            await channels.put_in(connection, replace(channel, state="pending"), seen[chat_id][1])
        await channels.heard_in(connection, admitted)
        await posts.keep_each(connection, kept, source="live")
        await updates.settle_in(connection, bot_id, [update_id for _, update_id in arrivals])
    return len(arrivals)
