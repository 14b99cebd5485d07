"""Inbox processing: pending raw updates become posts and edits, each exactly once; a bad update is quarantined.

Anybody may add the bot to a channel, so the posts of an unapproved channel are kept until an admin decides. Only a
limited number of channels wait, each with a limited number of posts, and none of them is in an index. A channel that
was not approved for 30 days is removed. The same holds for a channel that was removed while the bot stayed in it: its
next post makes it wait for approval again, and the 30 days begin anew.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

import aiosqlite

from ingest.message_kinds import MalformedMessage, parse_object
from ingest.messages import parse_live_post, parse_topic_title
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import Archive, channels, posts, raw_updates
from rag_core.storage.post_rows import encode_entities
from rag_core.storage.raw_updates import RawUpdate, UpdateOutOfBounds, check_bounds, decode_update
from rag_core.types import Channel, Post, PostKey

APPROVAL_PERIOD = timedelta(days=30)
# Quota of an unapproved channel: about a month of a busy one, after which it is approved or removed. All waiting
# channels together hold at most 100 MB. Versions of a post count like posts.
MAX_POSTS_PER_CHANNEL = 500
MAX_BYTES_PER_CHANNEL = 1 << 20
MAX_WAITING_CHANNELS = 100  # channels: more than an admin would look through

log = logging.getLogger(__name__)


async def admit_arrivals(
    connection: aiosqlite.Connection, seen: Mapping[int, Channel], arrivals: Sequence[tuple[Post, int]]
) -> tuple[dict[int, Channel], list[tuple[Post, int]]]:
    """Select the channels and posts of a batch that are kept: of an unapproved channel those within its quota."""
    known, used, waiting = await channels.measure_unapproved_channels(connection, seen)
    room = max(0, MAX_WAITING_CHANNELS - waiting)
    used |= dict.fromkeys([chat_id for chat_id in seen if chat_id not in known][:room], (0, 0))
    kept, dropped = list[tuple[Post, int]](), dict[PostKey, int]()
    for post, update_id in arrivals:
        chat_id = post.key.chat_id
        if chat_id not in used:
            if chat_id in known:
                kept.append((post, update_id))
            continue
        added = len(post.text.encode("utf-8", "surrogatepass")) + len(encode_entities(post.entities).encode())
        number, size = used[chat_id][0] + 1, used[chat_id][1] + added
        if number > MAX_POSTS_PER_CHANNEL or size > MAX_BYTES_PER_CHANNEL:
            dropped[post.key] = int(post.date.timestamp())
        else:
            used[chat_id] = number, size
            kept.append((post, update_id))
    if dropped:
        await channels.drop_posts_over_quota(connection, dropped)
    admitted = {chat_id: channel for chat_id, channel in seen.items() if chat_id in known or chat_id in used}
    return admitted, [(post, update_id) for post, update_id in kept if post.key not in dropped]


async def forget_unapproved_channels(archive: Archive, now: datetime) -> int:
    """Remove the channels that have waited 30 days for approval; run it daily. Returns the number of posts removed."""
    removed = 0
    for chat_id in await channels.list_unapproved_channels(archive, now - APPROVAL_PERIOD):
        removed += await channels.remove_channel(archive, chat_id)
        log.info("channel %d was not approved for %d days: removed", chat_id, APPROVAL_PERIOD.days)
    return removed


async def process_pending_posts(archive: Archive) -> int:
    """Process all pending posts and edits; return their number. Safe to repeat after a crash at any point."""
    worked_in = 0
    while batch := await raw_updates.list_pending_posts(archive):
        for bot_id, pending in groupby(batch, key=lambda update: update[0]):
            worked_in += await _process_batch(archive, bot_id, [raw for _, raw in pending])
    await channels.reindex_retitled_channels(archive)
    return worked_in


class _Arrival(NamedTuple):
    """Parsed post of an update; `topic` has the id, title and time of a topic that its message names."""

    update_id: int
    channel: Channel
    post: Post
    topic: tuple[int, str, int] | None


async def _process_batch(archive: Archive, bot_id: int, pending: Sequence[RawUpdate]) -> int:
    wrong = dict[int, str]()
    # in a thread: a rich message may hold 100,000 values
    arrivals = await asyncio.to_thread(_parse_posts, pending, wrong)
    await raw_updates.quarantine_updates(archive, bot_id, wrong)
    try:
        await _save_arrivals(archive, bot_id, arrivals)
    except (ArchiveUnavailable, sqlite3.OperationalError):  # no post's own
        raise
    except Exception:
        log.exception("%d posts could not be stored together: one by one", len(arrivals))
        for arrival in arrivals:
            try:
                await _save_arrivals(archive, bot_id, [arrival])
            except (ArchiveUnavailable, sqlite3.OperationalError):
                raise
            except Exception as exc:
                log.exception("post of update %d goes to quarantine", arrival.update_id)
                error = f"{type(exc).__name__} when stored"
                await raw_updates.quarantine_updates(archive, bot_id, {arrival.update_id: error})
    return len(arrivals)


def _parse_posts(pending: Sequence[RawUpdate], wrong: dict[int, str]) -> list[_Arrival]:
    """Parse posts; whatever the error of one is, it is recorded in `wrong`."""
    arrivals = []
    for raw in pending:
        try:
            check_bounds(decoded := decode_update(raw.text))
            message = parse_object(decoded.get(raw.kind))
            arrivals.append(_Arrival(raw.update_id, *parse_live_post(message), parse_topic_title(message)))
        except Exception as exc:
            planned = isinstance(exc, MalformedMessage | UpdateOutOfBounds)
            wrong[raw.update_id] = str(exc) if planned else f"{type(exc).__name__} when parsed"
            log.error("post of update %d goes to quarantine: %s", raw.update_id, wrong[raw.update_id])
    return arrivals


async def _save_arrivals(archive: Archive, bot_id: int, arrivals: Sequence[_Arrival]) -> None:
    seen = {one.channel.chat_id: one.channel for one in arrivals}
    named_at = {one.channel.chat_id: one.post.stamp for one in arrivals}
    titles: dict[int, dict[int, tuple[str, int]]] = {}
    for one in arrivals:
        if one.topic:
            titles.setdefault(one.channel.chat_id, {})[one.topic[0]] = one.topic[1:]
    async with archive.writing() as connection:
        admitted, kept = await admit_arrivals(connection, seen, [(one.post, one.update_id) for one in arrivals])
        for chat_id, channel in admitted.items():
            # an unapproved channel: its posts are stored but shown to nobody; a known channel keeps its state
            pending = replace(channel, state="pending")
            await channels.save_channel_in_transaction(connection, pending, named_at[chat_id])
            await channels.save_topic_titles(connection, chat_id, titles.get(chat_id, {}))
        await channels.record_bot_heard(connection, admitted)
        await posts.save_arrivals_in_transaction(connection, kept, source="live")
        await raw_updates.mark_updates_done(connection, bot_id, [one.update_id for one in arrivals])
