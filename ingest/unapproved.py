"""Channels that nobody approves: anybody may add a bot to a channel, and its posts are kept until an admin decides.

It is not kept forever. The same happens to a channel that was removed while the bot stayed in it: its next post
makes it wait for approval again, and with that the month begins anew.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from rag_core.doors.archive import Archive, posts
from rag_core.doors.archive.standing import unapproved

__all__ = ["PATIENCE", "forget_unapproved"]

PATIENCE = timedelta(days=30)

log = logging.getLogger(__name__)


async def forget_unapproved(archive: Archive, now: datetime) -> int:
    """Remove the channels that have waited for a month; to be run every day. Returns how many posts went."""
    gone = 0
    for chat_id in await unapproved(archive, now - PATIENCE):
        gone += await posts.remove_channel(archive, chat_id)
        log.info("channel %d was not approved for %d days: removed", chat_id, PATIENCE.days)
    return gone
