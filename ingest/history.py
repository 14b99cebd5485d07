"""History of channels by ids: backfill, and looks for deletions and missed edits.

A backfill fetches a channel's posts from the newest down, a hundred at a time. Each batch is saved with its place, so
that a backfill goes on where a crash left it; between two batches it can be paused and cancelled. Requests of all
channels keep one rate, and a flood wait is slept through before anything is asked again.

A look takes out posts that were deleted and keeps edits that were missed. Only a reply that names an id as empty,
beside other messages of the same channel, says that a post is gone. Lost access, an error or a channel that shows
nothing at all take out nothing. Where more than a twentieth of a channel would go within a day, the posts wait for a
second look an hour later, and the admins are told.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from ingest.message_kinds import MalformedMessage
from ingest.mtproto import FloodWait, FoundMessages, HistoryClient, convert_message, convert_topic_title
from ingest.outages import NotifyAdmins, PostsMissing
from rag_core.errors import HistoryUnavailable, RagError
from rag_core.storage import Archive, channel_history, channels
from rag_core.storage.channel_history import Backfill
from rag_core.storage.channels import save_topic_titles
from rag_core.storage.posts import list_message_ids
from rag_core.types import Channel, Post, PostKey

BATCH_IDS = 100
REQUEST_PAUSE_SECONDS = 1.0
_RETRY_SECONDS = 30.0
_IDLE_SECONDS = 3.0
_MAX_MESSAGE_ID = 2**31 - 1
# Ids right after the last one found are all looked at, those further up by samples.
_DENSE_IDS, _FIRST_REACH = 500, 1000

log = logging.getLogger(__name__)


def convert_messages(found: FoundMessages, channel: Channel) -> list[Post]:
    """Convert the messages of a reply to posts; what is no post or cannot be read is left out."""
    posts = []
    for message in found.messages:
        try:
            if post := convert_message(message, channel, found.peers):
                posts.append(post)
        except (MalformedMessage, AttributeError, TypeError) as exc:  # a stranger's message in an unknown form
            log.warning("a message of channel %d cannot be read: %s", channel.chat_id, type(exc).__name__)
    return posts


@dataclass(slots=True)
class PacedSource:
    """Rate limiter of requests: a pause after each, and flood waits slept through before the next."""

    source: HistoryClient
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def get_messages(self, chat_id: int, ids: Sequence[int]) -> FoundMessages:
        """Ask for messages as soon as that is allowed. Raises HistoryUnavailable."""
        while True:
            while wait := self.source.flood_seconds:
                log.info("Telegram asks to wait for %.0f s", wait)
                await self.sleep(wait)
            try:
                found = await self.source.get_messages(chat_id, ids)
            except FloodWait:
                continue
            await self.sleep(REQUEST_PAUSE_SECONDS)
            return found


async def find_newest_id(source: PacedSource, chat_id: int, known: int) -> int:
    """Find the newest message id of a channel, upwards from one that is known (0: none). Raises HistoryUnavailable."""
    newest = known
    while True:
        reach, last, dense = newest + _FIRST_REACH, 0, newest + 1
        samples = [[newest + ceil(k * reach * n / BATCH_IDS) for n in range(1, BATCH_IDS + 1)] for k in (1, 2, 4)]
        samples += [[*range(at, at + BATCH_IDS)] for at in range(dense, dense + _DENSE_IDS, BATCH_IDS)]
        for sample in samples:
            wanted = [one for one in sample if one <= _MAX_MESSAGE_ID]
            if wanted and not last:
                found = await source.get_messages(chat_id, wanted)
                last = max((int(message.id) for message in found.messages), default=0)
        if last <= newest:
            return newest
        newest = last


async def fetch_batch(archive: Archive, source: PacedSource, job: Backfill, channel: Channel) -> bool:
    """Fetch and save the next batch, first the newest id; False where it ended. Raises HistoryUnavailable."""
    if job.next_id is None:
        await channel_history.set_newest_id(archive, job.chat_id, await estimate_size(archive, source, job.chat_id))
        return True
    ids = range(job.next_id, max(0, job.next_id - BATCH_IDS), -1)
    found = await source.get_messages(job.chat_id, ids) if ids else FoundMessages((), frozenset())
    titles: dict[int, tuple[str, int]] = {}
    for message in sorted(found.messages, key=lambda one: int(one.id)):
        with suppress(MalformedMessage):
            if named := convert_topic_title(message):
                titles[named[0]] = named[1:]
    if titles:
        async with archive.writing() as connection:
            await save_topic_titles(connection, channel.chat_id, titles)
    posts, left = convert_messages(found, channel), ids.stop
    if job.since:
        wanted = [post for post in posts if post.date >= job.since]
        posts, left = wanted, left if len(wanted) == len(posts) else 0
    saved = await channel_history.save_batch(archive, job.chat_id, posts, left)
    if saved is None or left:
        return saved is not None
    if job.saved + len(posts):  # a channel that shows nothing proves nothing
        since, until = job.since or job.began_at, job.began_at
        await channel_history.close_covered_gaps(archive, job.chat_id, since, until, whole=job.since is None)
    return False


async def begin_gap_backfills(archive: Archive) -> int:
    """Begin backfills for the gaps of approved channels. Returns how many."""
    missing = await channel_history.find_gaps_to_fill(archive)
    return sum([await channel_history.begin_backfill(archive, chat_id, since) for chat_id, since in missing.items()])


@dataclass(frozen=True, slots=True)
class BackfillRunner:
    """Runs the backfills that the archive lists as running, one batch of each in turn; `only`: that of one channel."""

    archive: Archive
    source: PacedSource
    wake: Callable[[], None]
    only: int | None = None

    async def run(self) -> None:
        """Run backfills until cancelled. A failure is logged and tried again; lost access fails the backfill."""
        while True:
            try:
                if not await self.run_once():
                    await begin_gap_backfills(self.archive)
                    await self.source.sleep(_IDLE_SECONDS)
            except RagError as exc:
                log.warning("history: %s", exc.reason)
                await self.source.sleep(_RETRY_SECONDS)

    async def run_once(self) -> int:
        """Fetch one batch of each running backfill. Returns how many have more. Raises HistoryUnavailable."""
        known = await channels.load_channels(self.archive)
        more = 0
        for job in (await channel_history.list_backfills(self.archive)).values():
            channel = known.get(job.chat_id)
            if job.state != "running" or channel is None or self.only not in (None, job.chat_id):
                continue
            try:
                more += await fetch_batch(self.archive, self.source, job, channel)
            except HistoryUnavailable as exc:
                if not exc.lasting:
                    raise
                await channel_history.set_backfill_state(self.archive, job.chat_id, "failed", problem=exc.reason)
            self.wake()
        return more


def estimate_minutes(ids: int) -> int:
    """Estimate how long a backfill of so many ids takes, without flood waits."""
    return ceil(ids / BATCH_IDS * (REQUEST_PAUSE_SECONDS + 0.3) / 60)


async def estimate_size(archive: Archive, source: PacedSource, chat_id: int) -> int:
    """Estimate how many posts a backfill may find: the newest id. Raises HistoryUnavailable."""
    known = await list_message_ids(archive, chat_id, 1)
    return await find_newest_id(source, chat_id, max(known, default=0))


_MAX_SHARE = 0.05  # of a channel's posts that may go without a second look
_CITATION_SECONDS = 0.3
# Beside the cited posts, so that a channel that shows nothing at all is told from one where they were deleted.
_CONTROL_IDS = 20


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
        asked = ids[start : start + BATCH_IDS]
        found = await source.get_messages(channel.chat_id, asked)
        posts = convert_messages(found, channel)
        others = {int(one.id) for one in found.messages} - {post.key.message_id for post in posts}
        known = [post for post in posts if post.key.message_id in set(asked)]
        tally = await channel_history.save_seen_posts(archive, channel.chat_id, known, others, now)
        seen, edited, empty = seen + len(found.messages), edited + tally.edited, empty | found.empty
    if not empty:
        return LookResult(edited)
    if not seen:
        log.warning("channel %d shows none of its posts: none is taken out", channel.chat_id)
    result = await channel_history.take_out_missing(archive, channel.chat_id, empty, now, _MAX_SHARE, seen=seen > 0)
    return LookResult(edited, *result)


async def sweep_channels(archive: Archive, source: PacedSource, tell: NotifyAdmins, now: datetime | None = None) -> str:
    """Look at the due posts of every approved channel; groups show bots too little. Returns a line for the log."""
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
                controls = sorted(await list_message_ids(archive, chat_id, _CONTROL_IDS), reverse=True)
                cited = [key.message_id for key in stale if key.chat_id == chat_id]
                ids = list(dict.fromkeys([*cited, *controls]))[:BATCH_IDS]
                looked = await look_at_posts(archive, source, channel, ids, now)
                changed |= bool(looked.edited or looked.deleted)
    return changed
