"""Channels that nobody approves: anybody may add a bot to a channel, and its posts are kept until an admin decides.

Only so many channels wait, each with only so many posts, and none of them is in an index (archive/units.py).

It is not kept forever. The same happens to a channel that was removed while the bot stayed in it: its next post
makes it wait for approval again, and with that the month begins anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from rag_core.doors.archive import Archive, posts, unapproved
from rag_core.doors.archive.rows import entities_json
from rag_core.doors.archive.standing import unapproved as unapproved_since
from rag_core.types import Channel, Post, PostKey

__all__ = ["MOST_BYTES", "MOST_POSTS", "MOST_WAITING", "PATIENCE", "admit", "forget_unapproved"]

PATIENCE = timedelta(days=30)
# A busy channel posts so much in a month, within which it is approved or forgotten; all that wait, taken together, hold
# at most 100 MB. Versions of a post count like posts.
MOST_POSTS = 500
MOST_BYTES = 1 << 20
MOST_WAITING = 100  # channels: more than an admin would look through

log = logging.getLogger(__name__)


async def admit(
    connection: unapproved.Connection, seen: Mapping[int, Channel], arrivals: Sequence[tuple[Post, int]]
) -> tuple[dict[int, Channel], list[tuple[Post, int]]]:
    """What is kept of a batch, in the caller's transaction: channels, and posts with their update ids.

    All of an approved channel; of others what their quota has room for.
    """
    known, waiting = await unapproved.waiting_among(connection, seen)
    room = max(0, MOST_WAITING - await unapproved.count_waiting(connection))
    new = [chat_id for chat_id in seen if chat_id not in known][:room]
    used = {chat_id: await unapproved.stored(connection, chat_id) for chat_id in waiting} | dict.fromkeys(new, (0, 0))
    kept, dropped = list[tuple[Post, int]](), dict[PostKey, int]()
    for post, update_id in arrivals:
        chat_id = post.key.chat_id
        if chat_id not in used:
            if chat_id in known:
                kept.append((post, update_id))
            continue
        number, size = used[chat_id][0] + 1, used[chat_id][1] + _size(post)
        if number > MOST_POSTS or size > MOST_BYTES:
            dropped[post.key] = int(post.date.timestamp())
        else:
            used[chat_id] = number, size
            kept.append((post, update_id))
    if dropped:
        await unapproved.drop(connection, dropped)
    admitted = {chat_id: channel for chat_id, channel in seen.items() if chat_id in known or chat_id in used}
    return admitted, [(post, update_id) for post, update_id in kept if post.key not in dropped]


def _size(post: Post) -> int:
    return len(post.text.encode("utf-8", "surrogatepass")) + len(entities_json(post.entities).encode())


async def forget_unapproved(archive: Archive, now: datetime) -> int:
    """Remove the channels that have waited for a month; to be run every day. Returns how many posts went."""
    gone = 0
    for chat_id in await unapproved_since(archive, now - PATIENCE):
        gone += await posts.remove_channel(archive, chat_id)
        log.info("channel %d was not approved for %d days: removed", chat_id, PATIENCE.days)
    return gone
