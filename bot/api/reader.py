"""Application of a reader with a token: the same access, limits, queue and checks as in their private chat.

Rights are worked out anew for every request, and looked at again before an answer is handed out. A question is stored
and counted as one of the reader's; it is not part of the conversation in the chat.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from secrets import randbits

from aiogram.utils.formatting import Text

from bot import access, logs
from bot.api import JsonObject, RequestRefused, present_answer, present_channels, present_search, present_verdicts
from bot.app_context import AppContext
from bot.control.answers import (
    RESULTS_PER_PAGE,
    describe_answer,
    describe_channels,
    describe_search,
    describe_verdicts,
    reply_to_talk,
)
from bot.handlers import errors
from bot.handlers.search import SearchQueue
from bot.i18n import Translator, detect_question_language, get_translator
from bot.middlewares import MAX_QUESTION_LENGTH
from bot.stored_answer import dump_with_messages, serialize_answer, serialize_verdicts
from bot.telegram import recheck
from bot.worker.rate_limits import format_rate_limit
from bot.worker.streaming import ProgressView
from rag_core.conversation.small_talk import detect_talk
from rag_core.errors import RagError
from rag_core.retrieval.post_search import list_posts
from rag_core.storage import channels, questions, visible_posts
from rag_core.storage.readers import narrow_to_channel_set
from rag_core.types import Answer, Question, Viewer
from rag_core.verification import Verification

log = logging.getLogger(__name__)

Show = Callable[[str, JsonObject], Awaitable[None]]  # takes the name of an event, and what it tells


class ReaderApplication:
    """Application in the name of one reader; `turns` are shared by all, so that one reader cannot take them all."""

    def __init__(self, context: AppContext, turns: SearchQueue, user_id: int) -> None:
        self._context, self._turns, self._user_id = context, turns, user_id
        self._reader = access.Reader(user_id, user_id, private=True)

    async def ask(self, question: str, show: Show | None = None) -> JsonObject:
        """Answer a question, as in a private chat, or reply to small talk.

        `show` is told each "stage" that begins and a "draft": the posts' own words, until the model has written.
        """
        words = self._choose_words(question)
        async with self._explain_errors(words):
            _check_length(question, "ask-too-long", words)
            if detect_talk(question):
                self._count_command(words)
                viewer = await self._build_viewer(words)
                asked = Question(question, words.lang, datetime.now(UTC), viewer, self._user_id)
                if (reply := await reply_to_talk(asked, self._context.archive)) is not None:
                    await self._recheck(recheck.ShownContent(counted=viewer.channels))
                    return present_answer(reply, words.lang)
            return await self._find(question, "ask", words, show)

    async def verify(self, text: str) -> JsonObject:
        """Check what a text claims, as in a private chat."""
        words = self._choose_words(text)
        async with self._explain_errors(words):
            return await self._find(text, "verify", words)

    async def search(self, query: str, page: int) -> JsonObject:
        """Find posts, as /search does: nothing of it is stored."""
        words, archive = self._choose_words(query), self._context.archive
        async with self._explain_errors(words):
            _check_length(query, "search-too-long", words)
            self._count_command(words)
            async with self._turns.wait_turn(self._user_id, words), self._turns.running:
                viewer = await self._build_viewer(words)
                text, viewer = await narrow_to_channel_set(archive, [self._user_id], query, viewer)
                if not viewer.channels:
                    refusal = access.describe_shortfalls(viewer, words) or words("sets-nothing-readable")
                    raise RequestRefused(refusal)
                zone = await self._context.load_zone(self._user_id)
                listing = await list_posts(Question(text, words.lang, datetime.now(zone), viewer), self._context.rag)
            shown = listing.found[(page - 1) * RESULTS_PER_PAGE : page * RESULTS_PER_PAGE]
            copies = frozenset(key.chat_id for one in shown for key in one.copies)
            content = recheck.collect_content_of_posts(one.post for one in shown)
            await self._recheck(content | recheck.ShownContent((), copies, viewer.channels))
            return present_search(describe_search(listing, page), words.lang)

    async def list_channels(self) -> JsonObject:
        """List the channels that this reader may read now."""
        words = get_translator(self._context.settings.bot.language)
        async with self._explain_errors(words):
            self._count_command(words)
            viewer = await self._build_viewer(words)
            known = await channels.load_channels(self._context.archive)
            readable = viewer.select_readable(known)
            found = await describe_channels(readable, self._context.archive)
            await self._recheck(recheck.ShownContent(counted=viewer.channels))
            return present_channels(found)

    async def _find(self, text: str, kind: str, words: Translator, show: Show | None = None) -> JsonObject:
        """Answer or verify: counted before, recorded after, and checked again between."""
        archive, worker = self._context.archive, self._context.worker
        asked = questions.QuestionRow(
            bot_id=0, update_id=-randbits(62), chat_id=self._user_id, message_id=0, user_id=self._user_id, text=text,
            lang=words.lang, asked_at=datetime.now(UTC), private=True, kind=kind, mode=questions.PROGRAM_MODE,
        )  # fmt: skip
        async with self._turns.wait_turn(self._user_id, words):
            async with worker.limits.hold_count(self._user_id, self._user_id, words, program=True):
                number = await questions.queue_question(archive, asked)
            assert number is not None  # its update id was drawn
            logs.log_question(number, text)
            with worker.meter.turn(asked):
                try:
                    async with self._show_progress(words, show) as live:
                        found = await worker.find_answer(asked, live)
                    shown, stored = ({}, {}) if isinstance(found, Text) else await self._present(found, words.lang)
                except Exception:
                    worker.meter.count_question("trouble")
                    raise
            await questions.finish_question(archive, number, state="answered", answer=dump_with_messages(stored, ()))
        if isinstance(found, Text):  # they may read nothing
            raise RequestRefused(found.render()[0])
        return shown

    async def _present(
        self, found: Answer | Verification, lang: str, max_age_s: float = 0.0
    ) -> tuple[JsonObject, JsonObject]:
        """Present an answer or verdicts, checked again, and serialize them for the archive."""
        archive = self._context.archive
        if isinstance(found, Verification):
            posts = await visible_posts.fetch_posts(archive, found.posts())
            await self._recheck(recheck.collect_content_of_verdicts(found, posts))
            return present_verdicts(describe_verdicts(found, posts, lang), lang), serialize_verdicts(found, posts)
        named = (*found.list_named_posts(), *(passage.key for passage in found.nearest))
        posts = await visible_posts.fetch_posts(archive, named)
        await self._recheck(recheck.collect_content_of_answer(found, posts), max_age_s)
        return present_answer(describe_answer(found, posts, lang), lang), serialize_answer(found, posts)

    async def _recheck(self, content: recheck.ShownContent, max_age_s: float = 0.0) -> None:
        await recheck.recheck_shown_content(content, self._reader, self._context.admins, max_age_s=max_age_s)

    @asynccontextmanager
    async def _show_progress(self, words: Translator, show: Show | None) -> AsyncIterator[ProgressView]:
        live = ProgressView(words)

        async def relay(show: Show) -> None:
            drafted = None
            while True:
                await live.news.wait()
                live.news.clear()
                if live.extract is None or live.extract is drafted:
                    await show("stage", {"stage": live.stage})
                    continue
                drafted = live.extract
                with suppress(RagError):  # a draft that does not hold is not shown
                    draft, _ = await self._present(drafted, words.lang, recheck.DRAFT_MEMBERSHIP_MAX_AGE_SECONDS)
                    await show("draft", draft)

        task = asyncio.create_task(relay(show)) if show else None
        try:
            yield live
        finally:
            if task:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _build_viewer(self, words: Translator) -> Viewer:
        """Build the viewer of this reader. Raises RequestRefused where they may read no channel."""
        viewer = await access.build_viewer(self._context.admins, self._reader)
        if not viewer.channels:
            raise RequestRefused(await access.format_no_access(self._context.admins, words, self._reader, viewer))
        return viewer

    def _choose_words(self, text: str) -> Translator:
        return get_translator(detect_question_language(text, self._context.settings.bot.language))

    def _count_command(self, words: Translator) -> None:
        wait = self._context.worker.limits.count_command(self._user_id, self._user_id, program=True)
        if wait:
            raise RequestRefused(format_rate_limit(wait, words), 429)

    @asynccontextmanager
    async def _explain_errors(self, words: Translator) -> AsyncIterator[None]:
        """Turn every error into the sentence that a reader would see in the chat; the log says more."""
        try:
            yield
        except RequestRefused:
            raise
        except access.Refusal as exc:  # of the limits
            raise RequestRefused(str(exc), 429) from exc
        except Exception as exc:
            log.error("a program's request failed: %s", exc, exc_info=None if isinstance(exc, RagError) else exc)
            raise RequestRefused(errors.format_error(exc, words, admin=False), 503) from exc


def _check_length(text: str, refusal: str, words: Translator) -> None:
    if len(text) > MAX_QUESTION_LENGTH:
        raise RequestRefused(words(refusal, limit=MAX_QUESTION_LENGTH, length=len(text)))
