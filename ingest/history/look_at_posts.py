"""Looks at posts in their channels: deleted ones get tombstones, edits that were missed become versions.

Only a reply that names an id as empty, beside other messages of the same channel, says that a post is gone. Lost
access, an error or a channel that shows nothing at all take out nothing. Where more than a twentieth of a channel
would go within a day, the posts wait for a second look an hour later, and the admins are told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ingest.history.backfill import BATCH_IDS, PacedSource, convert_messages
from ingest.times_out_of_touch import NotifyAdmins, PostsMissing
from rag_core.errors import RagError
from rag_core.storage import Archive, channel_history, channels
from rag_core.storage.post_lookup import list_newest_ids
from rag_core.storage.posts import mark_posts_deleted
from rag_core.types import Channel, PostKey

if TYPE_CHECKING:
    from ingest.history.mtproto_client import HistoryClient  # it imports the client library

_MAX_SHARE = 0.05  # of a channel's posts that may go without a second look
_CITATION_SECONDS = 0.3
# Beside the cited posts, so that a channel that shows nothing at all is told from one where they were deleted.
_CONTROL_IDS = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LookResult:
    """Result of a look: posts edited and taken out, and those that wait for a second look (`doubted` anew)."""

    edited: int = 0
    deleted: int = 0
    waiting: int = 0
    doubted: int = 0


async def look_at_posts(
    archive: Archive, source: HistoryClient | PacedSource, channel: Channel, ids: Sequence[int], now: datetime
) -> LookResult:
    """Look at known posts of a channel. Raises HistoryUnavailable, then nothing was taken out."""
    seen = edited = 0
    empty = set[int]()
    for start in range(0, len(ids), BATCH_IDS):
        found = await source.get_messages(channel.chat_id, ids[start : start + BATCH_IDS])
        posts = convert_messages(found, channel)
        others = {int(one.id) for one in found.messages} - {post.key.message_id for post in posts}
        known = set(ids[start : start + BATCH_IDS])
        tally = await channel_history.save_seen_posts(
            archive, channel.chat_id, [post for post in posts if post.key.message_id in known], others, now
        )
        seen, edited, empty = seen + len(found.messages), edited + tally.edited, empty | found.empty
    if not empty:
        return LookResult(edited)
    missing = await channel_history.judge_missing(archive, channel.chat_id, empty, now, _MAX_SHARE)
    if not seen:
        log.warning("channel %d shows none of its posts: none is taken out", channel.chat_id)
        return LookResult(waiting=len(missing.keys))
    gone = missing.keys if len(missing.keys) <= missing.allowed else missing.confirmed
    rest = [key for key in missing.keys if key not in set(gone)]
    deleted = await mark_posts_deleted(archive, gone, how=channel_history.DELETED_HOW)
    return LookResult(edited, deleted, len(rest), await channel_history.mark_missing(archive, rest, now))


async def sweep_channels(archive: Archive, source: PacedSource, tell: NotifyAdmins, now: datetime | None = None) -> str:
    """Look at the posts that are due in every approved channel of the bot. Returns a line for the job log.

    Groups are left out: a bot that is no administrator of a group sees few of its messages.
    """
    moment = now or datetime.now(UTC)
    edited = deleted = 0
    for channel in (await channels.load_channels(archive)).values():
        if channel.kind != "channel" or not channel.inside or channel.state not in ("active", "paused"):
            continue
        ids = await channel_history.list_due_ids(archive, channel.chat_id, moment)
        try:
            result = await look_at_posts(archive, source, channel, ids, moment)
        except RagError as exc:
            log.warning("channel %d was not looked at: %s", channel.chat_id, exc.reason)
            continue
        edited, deleted = edited + result.edited, deleted + result.deleted
        if result.doubted:
            await tell(PostsMissing(channel, result.waiting))
    said = ((edited, "edited"), (deleted, "deleted"))
    return ", ".join(f"{number} {what}" for number, what in said if number)


async def look_before_citing(
    archive: Archive, source: HistoryClient, keys: Iterable[PostKey], *, seconds: float = _CITATION_SECONDS
) -> bool:
    """Look at posts that an answer is about to cite, where no look is younger than an hour. True if any has changed.

    Without a reply in time the answer goes out as it is; a flood wait is never waited for.
    """
    if source.flood_seconds:
        return False
    changed = False
    with suppress(RagError, TimeoutError):
        async with asyncio.timeout(seconds):
            now = datetime.now(UTC)
            stale = await channel_history.find_stale_keys(archive, keys, now)
            known = await channels.load_channels(archive) if stale else {}
            for chat_id in {key.chat_id for key in stale}:
                channel = known.get(chat_id)
                if channel is None or channel.kind != "channel" or not channel.inside:
                    continue
                controls = await list_newest_ids(archive, chat_id, _CONTROL_IDS)
                cited = [key.message_id for key in stale if key.chat_id == chat_id]
                ids = list(dict.fromkeys([*cited, *controls]))[:BATCH_IDS]
                looked = await look_at_posts(archive, source, channel, ids, now)
                changed |= bool(looked.edited or looked.deleted)
    return changed
