"""Watch notifier: matches new posts with the watches, and tells readers of each event once.

Twice a second the changes since the watermark are matched; hits are stored before they are sent and marked after. What
a reader may read is worked out when they are told, and again before each attempt to send. Copies of what was told join
it, and rewordings by other channels: families are those of the posts that this reader may read.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from aiogram import Bot
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramBadRequest,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
)
from aiogram.utils.formatting import Bold, as_list

from bot import access
from bot.access import Reader
from bot.app_context import AppContext
from bot.handlers.chat_settings import move_group_settings
from bot.handlers.watches import WatchCallback
from bot.i18n import Translator, detect_question_language, get_translator
from bot.repeated_job import repeat_job
from bot.stored_answer import hash_text_version
from bot.telegram.recheck_before_sending import (
    SendingRefused,
    ShownContent,
    ShownPost,
    View,
    recheck_before_sending,
)
from bot.telegram.sending_backoff import ChatTasks, get_backoff, send_in_background
from bot.views.answer import link_author
from bot.views.keyboards import build_keyboard
from bot.views.message_formatting import neutralize_links
from ingest.dedup import are_rewordings
from rag_core.storage import channels, posts, subscriptions, visible_posts
from rag_core.storage.near_duplicates import fetch_copies
from rag_core.storage.subscriptions import Watch, WatchHit
from rag_core.types import Channel, Post, PostKey, Viewer
from rag_core.watch_matching import WatchIndex, find_quote

MAX_NOTICES_A_DAY = 20  # a chat; one line on the next day counts the rest
_INTERVAL_SECONDS, _MAX_PAUSE_SECONDS = 0.5, 60.0
_COPIES_SECONDS = 2  # a post waits so long to be compared with others
_COPIES_DAYS = 3  # copies of a post are made within this time
REWORDED_WITHIN = timedelta(hours=12)  # a report of the same words on the next day is of another event
_JOB = "watches"


@dataclass(frozen=True, slots=True)
class _Recipient:
    """Recipient of notices of a watch; `midnight` began the present day in its chat, in Unix seconds."""

    watch: Watch
    reader: Reader
    viewer: Viewer
    midnight: int
    words: Translator


class WatchNotifier:
    """Watch notifier. One per process."""

    def __init__(self, bot: Bot, context: AppContext) -> None:
        self._bot, self._context, self._archive = bot, context, context.archive
        self._indexed: list[sqlite3.Row] = []  # the watches of the index
        self._index = WatchIndex(())
        self._chats = ChatTasks()

    async def run(self) -> None:
        """Match posts and send notices until cancelled."""
        job_log = self._context.indexing.job_log
        try:
            await repeat_job(job_log, _JOB, self._match_and_send, _INTERVAL_SECONDS, _MAX_PAUSE_SECONDS)
        finally:
            await self._chats.stop()

    async def _match_and_send(self) -> None:
        await self.match_changes()
        await self.send_notices()

    async def match_changes(self) -> None:
        """Match the changes of posts since the watermark. Raises ArchiveUnavailable."""
        last = await posts.get_last_seq(self._archive)
        before = await subscriptions.load_watermark(self._archive)
        if before >= last:
            return
        watches = await subscriptions.list_watch_rows(self._archive)
        if watches != self._indexed:
            self._index = await asyncio.to_thread(_build_index, watches)
            self._indexed = watches
        while before < last:
            # later changes wait for the next time: a watch may have been added before them, after the index was built
            changes = [one for one in await posts.list_post_changes(self._archive, before) if one.seq <= last]
            found = [one.post for one in changes if one.post is not None]
            hits = await asyncio.to_thread(_match_posts, self._index, found) if watches else []
            before = max((one.seq for one in changes), default=last)
            await subscriptions.save_hits(self._archive, hits, before)

    async def send_notices(self) -> None:
        """Send what waits, to chats side by side. Raises ArchiveUnavailable; where a chat must wait they stay."""
        backoff, waiting = get_backoff(self._bot), defaultdict[int, list[Watch]](list)
        for watch in await subscriptions.list_pending_watches(self._archive):
            if not backoff.get_wait(watch.chat_id):
                waiting[watch.chat_id].append(watch)
        await self._chats.run({chat: partial(self._send_to_chat, chat, watches) for chat, watches in waiting.items()})

    async def _send_to_chat(self, chat_id: int, watches: Sequence[Watch]) -> None:
        now = datetime.now(await self._context.load_zone(chat_id))
        try:
            for watch in watches:
                if not is_quiet(watch.quiet, now.hour):
                    await self._send_of_watch(watch, now)
        except SendingRefused:  # what may be sent is looked at again the next time
            return
        except TelegramForbiddenError:
            await subscriptions.mark_chat_blocked(self._archive, chat_id, blocked=True)
        except TelegramMigrateToChat as exc:
            await move_group_settings(self._context, chat_id, exc.migrate_to_chat_id)
        except (TelegramAPIError, ClientDecodeError) as exc:
            self._context.indexing.job_log.record_failure(_JOB, f"A notice was not sent: {type(exc).__name__}.")

    async def _send_of_watch(self, watch: Watch, now: datetime) -> None:
        midnight = int(now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp())
        words = get_translator(detect_question_language(watch.text, self._context.settings.bot.language))
        reader = Reader(watch.user_id, watch.chat_id, watch.private)
        viewer = await access.build_viewer(self._context.admins, reader)
        over = await subscriptions.list_hits(self._archive, watch.id, ("over",))
        left = [hit for hit in over if hit.found_at < midnight and not viewer.may_miss(hit.key.chat_id)]
        if left:
            readable = [hit.key for hit in left if hit.key.chat_id in viewer.channels]
            found = (await visible_posts.fetch_posts(self._archive, readable)).values()
            matching = await asyncio.to_thread(_list_matching, watch, found)
            if matching:
                line = words.rich("watch-over", text=neutralize_links(watch.text), count=len(matching))
                content = ShownContent(matching)
                with recheck_before_sending(content, reader, self._context.admins), send_in_background():
                    await self._bot.send_message(watch.chat_id, **line.as_kwargs())
            await subscriptions.mark_hits(self._archive, left, "listed")
        known = await channels.load_channels(self._archive)
        for hit in await subscriptions.list_hits(self._archive, watch.id, ("waiting",)):
            await self._send_hit(hit, _Recipient(watch, reader, viewer, midnight, words), known)

    async def _send_hit(self, hit: WatchHit, to: _Recipient, known: dict[int, Channel]) -> None:
        watch, viewer, words = to.watch, to.viewer, to.words
        if viewer.may_miss(hit.key.chat_id):  # it waits until Telegram says whether the reader is a member
            return
        post = (await visible_posts.fetch_posts(self._archive, [hit.key])).get(hit.key)
        matching = _list_matching(watch, [post] if post else [])
        if post is None or not matching or hit.key.chat_id not in viewer.channels:
            await subscriptions.mark_hits(self._archive, [hit], "closed")
            return
        since = hit.found_at - _COPIES_DAYS * 86_400
        before = await subscriptions.list_hits(self._archive, watch.id, ("told", "over", "listed"), since)
        told = [one.key for one in before]
        copies = await fetch_copies(self._archive, [hit.key, *told], viewer.channels)
        if hit.key not in copies and time.time() - hit.found_at < _COPIES_SECONDS:
            return
        same = hit.key in copies and any(
            copies[key].family == copies[hit.key].family for key in told if key in copies and key != hit.key
        )
        if same or await self._is_rewording_of_told(post, before, viewer):
            await subscriptions.mark_hits(self._archive, [hit], "joined")
            return
        if await subscriptions.count_told(self._archive, watch.chat_id, to.midnight) >= MAX_NOTICES_A_DAY:
            await subscriptions.mark_hits(self._archive, [hit], "over")
            return
        carried = {one.key.chat_id for one in copies[hit.key].all} if hit.key in copies else set()
        view = _render_notice(watch, post, matching[0], known[hit.key.chat_id], carried - {hit.key.chat_id}, words)
        try:
            with recheck_before_sending(view.content, to.reader, self._context.admins), send_in_background():
                await self._bot.send_message(watch.chat_id, **view.as_kwargs())
        except (TelegramBadRequest, TelegramNotFound, TelegramEntityTooLarge):
            if get_backoff(self._bot).was_refused_before(watch.chat_id):  # it may be this notice that is refused
                await subscriptions.mark_hits(self._archive, [hit], "closed")
            raise
        await subscriptions.mark_hits(self._archive, [hit], "told")

    async def _is_rewording_of_told(self, post: Post, told: Sequence[WatchHit], viewer: Viewer) -> bool:
        """Whether another channel's post that was told lately is reworded: two of one channel are two events."""
        others = viewer.channels - {post.key.chat_id}
        stored = await visible_posts.fetch_posts(self._archive, [hit.key for hit in told if hit.key.chat_id in others])
        near = [one for one in stored.values() if abs(post.date - one.date) <= REWORDED_WITHIN]
        return any(are_rewordings(post.text, one.text) for one in near)


def _build_index(watches: list[sqlite3.Row]) -> WatchIndex:
    return WatchIndex(subscriptions.decode_watches(watches))


def _match_posts(index: WatchIndex, found: list[Post]) -> list[tuple[int, PostKey]]:
    now = time.time()
    return [
        (watch.id, post.key)
        for post in found
        for watch in index.match(post)
        if post.stamp >= watch.made_at and not watch.paused and watch.muted_until <= now
    ]


def is_quiet(quiet: str, hour: int) -> bool:
    """Whether an hour of the day is within quiet hours such as "22-8"."""
    if not quiet:
        return False
    start, end = map(int, quiet.split("-"))
    return start <= hour < end if start < end else hour >= start or hour < end


def _list_matching(watch: Watch, found: Iterable[Post]) -> tuple[ShownPost, ...]:
    """List the posts that still match a watch, each with the span that does: an edit beside it withdraws nothing."""
    spans = ((post, find_quote(watch, post.text)) for post in found)
    return tuple(ShownPost(post.key, hash_text_version(post.text), (span,)) for post, span in spans if span)


def _render_notice(
    watch: Watch, post: Post, shown: ShownPost, channel: Channel, others: Collection[int], words: Translator
) -> View:
    """Render a notice: the watch, the words that match, the link, and the number of other channels with copies."""
    link, (start, end) = link_author(post.key, channel, post.origin, words), shown.spans[0]
    also = [words("watch-also", count=len(others))] if others else []
    head = Bold(neutralize_links(words("watch-notice", text=watch.text)))
    actions = (("watch-mute", "mute"), ("watch-stop", "stop"))
    buttons = build_keyboard([(words(label), WatchCallback(action=name, watch_id=watch.id)) for label, name in actions])
    text = as_list(head, neutralize_links(post.text[start:end]), link, *also)
    return View(text, ShownContent((shown,), counted=frozenset(others)), buttons)
