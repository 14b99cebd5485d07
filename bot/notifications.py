"""Notifications of readers in the background: watched posts, digests, and answers whose posts changed.

What a reader may read is worked out when they are told, and again before each attempt to send. Hits of watches are
stored before they are sent and marked after; a digest is rescheduled after it was sent, so that a process that dies in
between sends it again, and the next one begins after the newest post of this one: later ones may be on their way.
"""

import asyncio
import logging
import sqlite3
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from aiogram import Bot, exceptions
from aiogram.methods import DeleteMessage, EditMessageText, TelegramMethod
from aiogram.utils.formatting import Bold, Italic, Text, as_list

from bot import access, stored_answer
from bot.app_context import AppContext
from bot.i18n import Translator, detect_question_language, get_translator
from bot.jobs import repeat_job
from bot.telegram import recheck
from bot.telegram.ephemeral import get_answer_address, send_to_asker
from bot.telegram.recheck import ShownContent, ShownPost, View
from bot.telegram.session import PERMANENT_ERRORS, RICH_REFUSALS, ChatTasks, get_backoff, send_in_background
from bot.views import keyboards
from bot.views.answer import get_answer_translator, link_author, link_number, render_stored_sentences
from bot.views.format import neutralize_links, split_pages
from bot.views.results import render_digest
from bot.views.rich import build_rich_message
from bot.views.text import RenderContext, format_caveat
from ingest.copies import are_rewordings
from rag_core.retrieval.digests import build_period_digest
from rag_core.retrieval.post_search import WatchIndex, find_quote
from rag_core.storage import channels, posts, questions, readers, subscriptions, visible_posts
from rag_core.storage.near_duplicates import fetch_copies
from rag_core.storage.questions import AnsweredQuestion
from rag_core.storage.subscriptions import DigestPlan, Watch, WatchHit
from rag_core.types import Certainty, Channel, Post, PostKey, Viewer
from rag_core.writing.write import write_heading

log = logging.getLogger(__name__)

MAX_NOTICES_A_DAY = 20  # a chat; one line on the next day counts the rest
_WATCH_INTERVAL_SECONDS, _MAX_WATCH_PAUSE_SECONDS = 0.5, 60.0
_COPIES_SECONDS = 2  # a post waits so long to be compared with others
_COPIES_DAYS = 3  # copies of a post are made within this time
REWORDED_WITHIN = timedelta(hours=12)  # a report of the same words on the next day is of another event
_WATCH_JOB = "watches"


class WatchNotifier:
    """Watch notifier. One per process."""

    def __init__(self, bot: Bot, context: AppContext) -> None:
        self._bot, self._context, self._archive = bot, context, context.archive
        self._indexed: list[sqlite3.Row] = []  # the watches of the index
        self._index = WatchIndex(())
        self._chats = ChatTasks()

    async def run(self) -> None:
        """Match posts and send notices until cancelled."""

        async def match_and_send() -> None:
            await self.match_changes()
            await self.send_notices()

        job_log, pauses = self._context.indexing.job_log, (_WATCH_INTERVAL_SECONDS, _MAX_WATCH_PAUSE_SECONDS)
        try:
            await repeat_job(job_log, _WATCH_JOB, match_and_send, *pauses)
        finally:
            await self._chats.stop()

    async def match_changes(self) -> None:
        """Match the changes of posts since the watermark. Raises ArchiveUnavailable."""
        last = await posts.get_last_seq(self._archive)
        before = await subscriptions.load_watermark(self._archive)
        if before >= last:
            return
        watches = await subscriptions.list_watch_rows(self._archive)
        if watches != self._indexed:
            self._index = await asyncio.to_thread(lambda: WatchIndex(subscriptions.decode_watches(watches)))
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
        except recheck.SendingRefused:  # what may be sent is looked at again the next time
            return
        except exceptions.TelegramForbiddenError:
            await subscriptions.mark_chat_blocked(self._archive, chat_id, blocked=True)
        except exceptions.TelegramMigrateToChat as exc:
            await readers.move_group(self._archive, chat_id, exc.migrate_to_chat_id)
        except (exceptions.TelegramAPIError, exceptions.ClientDecodeError) as exc:
            self._context.indexing.job_log.record_failure(_WATCH_JOB, f"A notice was not sent: {type(exc).__name__}.")

    async def _send_of_watch(self, watch: Watch, now: datetime) -> None:
        midnight = int(now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp())
        words = get_translator(detect_question_language(watch.text, self._context.settings.bot.language))
        reader = access.Reader(watch.user_id, watch.chat_id, watch.private)
        viewer = await access.build_viewer(self._context.admins, reader)
        over = await subscriptions.list_hits(self._archive, watch.id, ("over",))
        if left := [hit for hit in over if hit.found_at < midnight and not viewer.may_miss(hit.key.chat_id)]:
            readable = [hit.key for hit in left if hit.key.chat_id in viewer.channels]
            found = (await visible_posts.fetch_posts(self._archive, readable)).values()
            if matching := await asyncio.to_thread(_list_matching, watch, found):
                line = words.rich("watch-over", text=neutralize_links(watch.text), count=len(matching))
                with send_in_background():
                    send = partial(self._bot.send_message, watch.chat_id)
                    await View(line, ShownContent(matching)).send(send, reader, self._context.admins)
            await subscriptions.mark_hits(self._archive, left, "listed")
        known = await channels.load_channels(self._archive)
        for hit in await subscriptions.list_hits(self._archive, watch.id, ("waiting",)):
            await self._send_hit(hit, watch, reader, viewer, midnight, words, known)

    async def _send_hit(
        self, hit: WatchHit, watch: Watch, reader: access.Reader, viewer: Viewer, midnight: int, words: Translator,
        known: dict[int, Channel],
    ) -> None:  # fmt: skip
        """Tell a reader of a hit, unless they were told the like; `midnight` began the present day in its chat."""
        if viewer.may_miss(hit.key.chat_id):  # it waits until Telegram says whether the reader is a member
            return
        if not await subscriptions.is_waiting(self._archive, hit):
            return
        post = (await visible_posts.fetch_posts(self._archive, [hit.key])).get(hit.key)
        matching = _list_matching(watch, [post] if post else [])
        if post is None or not matching or hit.key.chat_id not in viewer.channels:
            await subscriptions.mark_hits(self._archive, [hit], "closed")
            return
        since = hit.found_at - _COPIES_DAYS * 86_400
        earlier = await subscriptions.list_hits(self._archive, watch.id, ("told", "over", "listed"), since)
        told = [one.key for one in earlier]
        copies = await fetch_copies(self._archive, [hit.key, *told], viewer.channels)
        if hit.key not in copies and time.time() - hit.found_at < _COPIES_SECONDS:
            return
        same = hit.key in copies and any(
            copies[key].family == copies[hit.key].family for key in told if key in copies and key != hit.key
        )
        # another channel's post that was told lately and is reworded; two of one channel are two events
        others = viewer.channels - {post.key.chat_id}
        near = await visible_posts.fetch_posts(self._archive, [key for key in told if key.chat_id in others])
        lately = [one for one in near.values() if abs(post.date - one.date) <= REWORDED_WITHIN]
        if same or any(are_rewordings(post.text, one.text) for one in lately):
            await subscriptions.mark_hits(self._archive, [hit], "joined")
            return
        if await subscriptions.count_told(self._archive, watch.chat_id, midnight) >= MAX_NOTICES_A_DAY:
            await subscriptions.mark_hits(self._archive, [hit], "over")
            return
        carried = {one.key.chat_id for one in copies[hit.key].all} if hit.key in copies else set()
        view = _render_notice(watch, post, matching[0], known[hit.key.chat_id], carried - {hit.key.chat_id}, words)
        try:
            with send_in_background():
                await view.send(partial(self._bot.send_message, watch.chat_id), reader, self._context.admins)
        except (exceptions.TelegramBadRequest, exceptions.TelegramNotFound, exceptions.TelegramEntityTooLarge):
            if get_backoff(self._bot).was_refused_before(watch.chat_id):  # it may be this notice that is refused
                await subscriptions.mark_hits(self._archive, [hit], "closed")
            raise
        await subscriptions.mark_hits(self._archive, [hit], "told")


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
    return tuple(
        ShownPost(post.key, stored_answer.hash_text_version(post.text), (span,)) for post, span in spans if span
    )


def _render_notice(
    watch: Watch, post: Post, shown: ShownPost, channel: Channel, others: Collection[int], words: Translator
) -> View:
    link, (start, end) = link_author(post.key, channel, post.origin, words), shown.spans[0]
    also = [words("watch-also", count=len(others))] if others else []
    head = Bold(neutralize_links(words("watch-notice", text=watch.text)))
    row = [(words(to), keyboards.Press(to=to, number=watch.id)) for to in ("watch-mute", "watch-stop")]
    text = as_list(head, neutralize_links(post.text[start:end]), link, *also)
    return View(text, ShownContent((shown,), counted=frozenset(others)), keyboards.build_keyboard(row))


_DIGEST_INTERVAL_SECONDS, _MAX_DIGEST_PAUSE_SECONDS = 20.0, 300.0
_MAX_RENDERINGS = 3  # of one digest; the last has no new heading, so that nothing takes seconds
_RETRY_AFTER = timedelta(minutes=10)
_LONGEST_WAIT = timedelta(hours=6)  # for Telegram to say which channels the reader is a member of
# Posts of the last seconds are for the next digest: others, also of the same second, may not have reached the bot yet.
_LATE_ARRIVAL = timedelta(seconds=10)
_DIGEST_JOB = "digests"


async def run_digests(bot: Bot, context: AppContext) -> None:
    """Send what is due until cancelled, to chats side by side."""
    job_log, chats = context.indexing.job_log, ChatTasks()

    async def send_due() -> None:
        due = await subscriptions.list_due_digests(context.archive, datetime.now(UTC))
        ready = [plan for plan in due if not get_backoff(bot).get_wait(plan.chat_id)]
        await chats.run({plan.chat_id: partial(_send_and_reschedule, bot, context, plan) for plan in ready})

    try:
        await repeat_job(job_log, _DIGEST_JOB, send_due, _DIGEST_INTERVAL_SECONDS, _MAX_DIGEST_PAUSE_SECONDS)
    finally:
        await chats.stop()


async def _send_and_reschedule(bot: Bot, context: AppContext, plan: DigestPlan) -> None:
    archive, now = context.archive, datetime.now(UTC)
    since = max(plan.since, now - timedelta(days=plan.days + 1))
    try:
        with send_in_background():
            seen_until = await send_digest(bot, context, plan, since, now - _LATE_ARRIVAL, wait=True)
    except exceptions.TelegramForbiddenError:  # the bot was blocked or removed
        await subscriptions.delete_digest_plan(archive, plan.chat_id)
    except exceptions.TelegramMigrateToChat as exc:
        await readers.move_group(archive, plan.chat_id, exc.migrate_to_chat_id)
    except (recheck.SendingRefused, exceptions.TelegramAPIError, exceptions.ClientDecodeError) as exc:
        context.indexing.job_log.record_failure(_DIGEST_JOB, f"A digest was not sent: {type(exc).__name__}.")
        if isinstance(exc, recheck.RecheckUnavailable):  # Telegram's refusals have pauses of their own
            await subscriptions.reschedule_digest(archive, plan, plan.since, now + _RETRY_AFTER)
    else:
        zone = await context.load_zone(plan.chat_id)
        due = compute_next_due(now.astimezone(zone), plan.hour, plan.days, plan.due)
        await subscriptions.reschedule_digest(archive, plan, min(now, seen_until or plan.since), due)


async def send_digest(
    bot: Bot, context: AppContext, plan: DigestPlan, since: datetime, until: datetime, *, wait: bool = False
) -> datetime | None:
    """Send the digest of a period to the chat of a plan; when the next one begins, None where nothing is new.

    What changes while headings are written or Telegram is away withdraws the digest: it is made anew without it. What
    could not be looked at is said below it; with `wait`, for a planned one, RecheckUnavailable is raised instead for
    some hours, and nothing is sent where the plan was changed meanwhile.
    """
    reader = access.Reader(plan.user_id, plan.chat_id, plan.private)
    words = get_translator(plan.lang)
    shown = RenderContext(words, await context.load_zone(plan.chat_id))
    headings: dict[tuple[Post, ...], str] = {}
    for attempt in range(_MAX_RENDERINGS):
        found = await access.resolve_channel_access(context.admins, reader)
        viewer = found.build_viewer(plan.user_id)
        viewer = viewer if plan.channels is None else viewer.narrow(plan.channels)
        missed = access.describe_shortfalls(viewer, words)
        if missed and wait and until - plan.since < timedelta(days=plan.days) + _LONGEST_WAIT:
            raise recheck.RecheckUnavailable("Telegram did not say which channels the reader is a member of.")
        wanted = viewer.select_readable(found.open)
        newest = await visible_posts.list_posts_between(context.archive, wanted, since, until, 1)
        lines = await build_period_digest(context.archive, wanted, since, until) if newest else []
        if not lines:
            return None
        for n, line in enumerate(lines):
            subject = (line.post, *line.related)
            if line.related and subject not in headings and attempt + 1 < _MAX_RENDERINGS:
                headings[subject] = await write_heading(subject, plan.user_id, context.rag)
            lines[n] = replace(line, heading=headings.get(subject, ""))
        if wait and await subscriptions.fetch_digest_plan(context.archive, plan.chat_id) != plan:
            return None
        view = render_digest(lines, wanted, shown, since, until)
        if missed:
            view = replace(view, text=as_list(view.text, Italic(missed), sep="\n\n"))
        with suppress(recheck.ContentWithdrawn):
            await _send_in_chosen_form(bot, plan.chat_id, view, reader, context)
            return newest[0].date + timedelta(seconds=1)
    raise recheck.ContentWithdrawn


async def _send_in_chosen_form(bot: Bot, chat_id: int, view: View, reader: access.Reader, context: AppContext) -> None:
    """Send a view as a rich message where its chat chose so, else, and where that is refused, as a plain one."""
    send = partial(bot.send_message, chat_id)
    if not await readers.is_rich_chat(context.archive, chat_id) or (rich := build_rich_message(view.text)) is None:
        await view.send(send, reader, context.admins)
        return
    try:
        with recheck.recheck_before_sending(view.content, reader, context.admins):
            await bot.send_rich_message(chat_id, rich, reply_markup=view.buttons)
    except RICH_REFUSALS as exc:
        log.warning("a rich message was refused: %s", exc)
        await view.send(send, reader, context.admins)
        await readers.save_rich_chat(context.archive, chat_id, rich=False)


def compute_next_due(now: datetime, hour: int, days: int, last: datetime | None = None) -> datetime:
    """Compute when the next digest is due: at the hour, in the zone of `now`, on the weekday of the `last` one."""
    before = min(last.astimezone(now.tzinfo), now) if last else now
    due = before.replace(hour=hour, minute=0, second=0, microsecond=0)
    if due > before:
        due -= timedelta(days=1)
    while due <= now:
        due += timedelta(days=days)
    return due


_MAX_ANSWER_AGE = timedelta(hours=48)  # Telegram's limit for deleting a message, and so for taking words back
_ANSWER_INTERVAL_SECONDS, _MAX_ANSWER_PAUSE_SECONDS = 1.0, 60.0
_DEBOUNCE_SECONDS = 3.0  # authors mend a post several times in a row
_MIN_EDIT_INTERVAL_SECONDS = 60.0  # between two edits of one answer
_ANSWER_JOB = "edits"


def _list_approved(known: Mapping[int, Channel]) -> frozenset[int]:
    return frozenset(chat for chat, one in known.items() if one.state not in channels.UNAPPROVED_STATES)


class AnswerUpdater:
    """Answer updater. One per process."""

    def __init__(self, bot: Bot, context: AppContext) -> None:
        self._bot, self._context, self._archive = bot, context, context.archive
        self._seq = -1  # last change that was read
        self._approved = frozenset[int]()  # channels at that time
        self._due: dict[PostKey, float] = {}  # changed post -> when its answers are looked at
        self._edited_at: dict[int, float] = {}  # question -> last edit of its answer

    async def run(self) -> None:
        """Update answers until cancelled."""
        job_log = self._context.indexing.job_log
        await repeat_job(job_log, _ANSWER_JOB, self._update_due, _ANSWER_INTERVAL_SECONDS, _MAX_ANSWER_PAUSE_SECONDS)

    async def _update_due(self) -> None:
        last = await posts.get_last_seq(self._archive)
        if self._seq < 0:  # after the start answers to posts that changed meanwhile are looked at, too
            self._approved = _list_approved(await channels.load_channels(self._archive))
            await self._update_answers(None)
            self._seq = last
        if last > self._seq:  # posts of a channel that was removed may be purged by now
            seq, due = self._seq, time.monotonic() + _DEBOUNCE_SECONDS
            approved = _list_approved(await channels.load_channels(self._archive))
            removed, changed = self._approved - approved, set[PostKey]()
            while changes := await posts.list_post_changes(self._archive, seq):
                known = [one for one in changes if one.key.chat_id in approved]
                changed |= {one.key for one in known if one.post is None or one.post.edited}
                seq = changes[-1].seq
                last = max(last, seq)
            if changed or removed:
                cited = await questions.list_cited_posts(self._archive, datetime.now(UTC) - _MAX_ANSWER_AGE)
                found = [key for key in cited if key in changed or key.chat_id in removed]
                self._due = dict.fromkeys(found, due) | self._due
            self._seq, self._approved = last, approved
        if ripe := {key for key, moment in self._due.items() if moment <= time.monotonic()}:
            await self._update_answers(ripe)

    async def _update_answers(self, keys: Collection[PostKey] | None) -> None:
        """Update the answers that cite one of these posts (None: any); what has to wait is looked at again later."""
        now = time.monotonic()
        self._edited_at = {n: at for n, at in self._edited_at.items() if now - at < _MIN_EDIT_INTERVAL_SECONDS}
        unsent = keys is not None and await questions.is_cited_by_unsent_answer(self._archive, keys)
        later = dict.fromkeys(keys or (), now + _DEBOUNCE_SECONDS) if unsent else {}
        since = datetime.now(UTC) - _MAX_ANSWER_AGE
        for asked in await questions.list_answers_citing(self._archive, keys, since):
            answer = stored_answer.parse_stored_answer(asked.answer)
            edited_at = self._edited_at.get(asked.id, now - _MIN_EDIT_INTERVAL_SECONDS)
            again = max(edited_at + _MIN_EDIT_INTERVAL_SECONDS, now + get_backoff(self._bot).get_wait(asked.chat_id))
            if again <= now:
                try:
                    await self._update_answer(asked, answer)
                    continue
                except recheck.ContentWithdrawn:  # changed again meanwhile
                    again = now + _DEBOUNCE_SECONDS
                except (exceptions.TelegramAPIError, exceptions.ClientDecodeError, recheck.RecheckUnavailable) as exc:
                    problem = f"An answer was not updated: {type(exc).__name__}."
                    self._context.indexing.job_log.record_failure(_ANSWER_JOB, problem)
                    again = now + _MIN_EDIT_INTERVAL_SECONDS
            waiting = [one.key for one in answer.cited if keys is None or one.key in keys]
            later |= {key: min(again, later.get(key, again)) for key in waiting}
        self._due = {key: at for key, at in self._due.items() if keys is None or key not in keys} | later

    async def _update_answer(self, asked: AnsweredQuestion, answer: stored_answer.StoredAnswer) -> None:
        """Edit an answer where words that it cites are gone, if its message does not say so yet."""
        known = await channels.load_channels(self._archive)
        approved = _list_approved(known)
        if not (await self._find_changes(asked, answer, Viewer(asked.user_id, approved), approved))[2]:
            return  # before Telegram is asked what this reader may read
        reader = access.get_question_reader(asked)
        viewer = await access.build_viewer(self._context.admins, reader)
        if any(viewer.may_miss(one.key.chat_id) for one in answer.cited):
            raise recheck.RecheckUnavailable("Telegram did not say whether the reader is still a member.")
        now, changed, untold = await self._find_changes(asked, answer, viewer, approved)
        if not untold:
            return
        stored, stands, content = now.stored, now.holds, recheck.collect_content_of_posts(now.stored.values())
        words = await get_answer_translator(asked, self._archive)
        shown = RenderContext(words, await self._context.load_zone(asked.chat_id), group=not asked.private)
        if asked.kind == "verify":
            standing = [stored_answer.StoredSentence("", 0, (place,)) for place in answer.quotes if stands(place)]
        else:
            standing = [one for one in answer.sentences if one.citations and all(map(stands, one.citations))]
        blocks = render_stored_sentences(answer, standing, now.texts, stored, known, shown)
        parts = [
            words.rich("stale-post", number=Text(f"[{n}]") if gone else link_number(n, one.key, known), gone=said)
            for n, one in enumerate(answer.cited, 1)
            for gone, said in ((False, "no"), (True, "yes"))
            if (*one.key, gone) in changed
        ]
        stale = "verdict-stale" if asked.kind == "verify" else "answer-stale"
        head = [words.rich(stale, posts=as_list(*parts, sep=", "))] if parts else []
        if answer.rich and standing and answer.certainty is Certainty.PROBABLE:
            head.append(Text(format_caveat(answer.confidence, words)))
        text = as_list(*head, *blocks, sep="\n\n")
        checking = recheck.recheck_before_sending(content, reader, self._context.admins)
        with send_to_asker(get_answer_address(asked)), checking, send_in_background():
            await self._edit_messages(asked, answer, text, words)
        self._edited_at[asked.id] = time.monotonic()
        await questions.save_noted_changes(self._archive, asked.id, changed)

    async def _find_changes(
        self, asked: AnsweredQuestion, answer: stored_answer.StoredAnswer, viewer: Viewer, approved: Collection[int]
    ) -> tuple[stored_answer.StandingAnswer, set[tuple[int, int, bool]], bool]:
        """Find the changes of the posts that this viewer may read, and whether the message does not tell of one."""
        # a removed channel is open to nobody: its words are taken out for whoever has them
        cited = [one for one in answer.cited if one.key.chat_id in viewer.channels or one.key.chat_id not in approved]
        now = await stored_answer.compare_with_posts(answer, viewer, self._archive)
        lost = {place.key for place in answer.quotes if not now.holds(place)}
        gone = {one.key for one in cited} - now.stored.keys()
        changed = {(*one.key, one.key in gone) for one in cited if one.key in lost | gone}
        # the notes of a rich answer show more than the quotes
        noted = now.texts.items() if answer.rich and asked.kind != "verify" else ()
        edited = any(text != now.stored[key].text for key, text in noted)
        return now, changed, edited or not changed <= answer.noted

    async def _edit_messages(
        self, asked: AnsweredQuestion, answer: stored_answer.StoredAnswer, text: Text, words: Translator
    ) -> None:
        pages = split_pages(text)[: len(answer.messages)]
        if asked.kind == "verify":
            buttons = keyboards.build_quote_keyboard(answer, self._archive, words)
        else:
            votes = await questions.count_votes(self._archive, question_id=asked.id)
            buttons = keyboards.update_buttons(keyboards.build_answer_keyboard(asked, answer, words), (), votes)
        edit = partial(EditMessageText, chat_id=asked.chat_id)
        calls: list[TelegramMethod[Any]] = []
        if answer.rich and (rich := build_rich_message(text)):
            calls.append(edit(message_id=answer.messages[0], rich_message=rich, reply_markup=buttons))
        else:
            for message_id, page in zip(answer.messages, pages, strict=False):
                under = buttons if page is pages[-1] else None
                calls.append(edit(message_id=message_id, **page.as_kwargs(), reply_markup=under))
            left = answer.messages[len(pages) :]
            calls += [DeleteMessage(chat_id=asked.chat_id, message_id=message_id) for message_id in left]
        for call in calls:
            with suppress(*PERMANENT_ERRORS):  # a message that the reader deleted needs no edit, but the others do
                await self._bot(call)
