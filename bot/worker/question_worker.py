"""Question queue: workers take a question, answer it for what its asker may read, render the answer and deliver it.

A question is a row from the moment it is asked, and its answer is saved before it is sent: a worker that dies leaves
its row to the next start. A semaphore lets two questions search at a time; one that waits for the model gives its slot
back.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import tzinfo
from functools import partial

from aiogram import Bot
from aiogram.types import InlineKeyboardMarkup
from aiogram.utils.formatting import Bold, Italic, Text, as_list

from bot import access, stored_answer
from bot.access import AdminRegistry, get_question_reader
from bot.background import cancel_tasks
from bot.handlers import errors
from bot.i18n import Translator, detect_question_language, get_translator
from bot.indexing import BotObserver
from bot.jobs import JobLog
from bot.metrics import Meter
from bot.settings import BotSettings, find_time_zone
from bot.stored_answer import JsonObject
from bot.telegram import recheck
from bot.telegram.ephemeral import get_answer_address, send_to_asker
from bot.telegram.session import EditWithoutRetry
from bot.views import keyboards
from bot.views.answer import apply_group_rules, get_answer_translator, render_answer
from bot.views.format import neutralize_links, split_pages
from bot.views.results import render_verdicts
from bot.views.rich import Progress, build_rich_message
from bot.views.text import RenderContext
from bot.worker import delivery, streaming
from bot.worker.known_answers import QuestionSuggester, answer_from_pin
from bot.worker.rate_limits import RateLimiter
from rag_core.answer import answer_question
from rag_core.conversation.small_talk import strip_courtesies
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.storage import Archive, questions, readers, visible_posts
from rag_core.storage.questions import PROGRAM_MODE, DeliveryMessage, QuestionRow, fetch_previous_answer
from rag_core.storage.readers import narrow_to_channel_set
from rag_core.types import Answer, Certainty, PostKey, Question, Shortfall, Viewer
from rag_core.verification import Verification
from rag_core.verification.verify import verify_text

# Searching is CPU-bound, and Python uses one core. Of verifications one runs at a time: a slot stays for questions.
_MAX_CONCURRENT_SEARCHES = 2

_UPDATE_INTERVAL_SECONDS = 1.0
_CALL_SPACING_SECONDS = 0.05  # Telegram accepts about 30 calls a second
_MAX_POSITIONS = 500  # questions further back are shown their position when they come nearer
_GROUP_INTERVAL_SECONDS = 10.0  # a group's message is changed less often: others write there as well

log = logging.getLogger(__name__)


class QueuePositions:
    """Queue positions shown to waiting readers, with the screen of each question, which its answer then uses."""

    def __init__(self, bot: Bot, archive: Archive, running: Callable[[], int]) -> None:
        self._bot, self._archive, self._count_running = bot, archive, running
        self._screens: dict[int, streaming.Screen] = {}
        # question id -> position shown, and when it may be shown again
        self._shown_positions: dict[int, tuple[int, float]] = {}
        self._taken: set[int] = set()  # since the positions of this round were read
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Wake the loop: the queue has changed."""
        self._changed.set()

    def screen(self, asked: QuestionRow) -> streaming.Screen:
        """Screen of this question, created on first use: a draft in a private chat, a message in a group."""
        new: streaming.Screen
        new = (streaming.DraftScreen if asked.private else streaming.MessageScreen)(self._bot, asked, self._archive)
        return self._screens.setdefault(asked.id, new)

    def note_taken(self, asked: QuestionRow) -> None:
        """Note that a question waits no more: its position must not be shown after its answer."""
        self._taken.add(asked.id)

    def forget(self, asked: QuestionRow) -> None:
        """Drop the screen of this question."""
        self.note_taken(asked)
        self._screens.pop(asked.id, None)
        self._shown_positions.pop(asked.id, None)

    async def remove(self, asked: QuestionRow) -> None:
        """Close the screen of a cancelled question; a message that showed its position says that it was stopped."""
        screen = self.screen(asked)
        await screen.close()
        self.forget(asked)
        if screen.message_id is not None:
            text = get_translator(asked.lang)("stopped-nothing")
            edit = EditWithoutRetry(chat_id=asked.chat_id, message_id=screen.message_id, text=text)
            with send_to_asker(get_answer_address(asked)):
                await streaming.call_best_effort(edit.as_(self._bot))

    async def run(self) -> None:
        """Show positions until cancelled. A question that is answered at once never shows one."""
        seen: set[int] = set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(_UPDATE_INTERVAL_SECONDS)
            self._taken.clear()
            try:
                waiting = await questions.list_waiting_questions(self._archive, _MAX_POSITIONS)
            except RagError as exc:
                log.warning("places are not told: %s", exc)
                continue
            for place, asked in enumerate(waiting, self._count_running()):
                # they have only just come, or are about to be taken, or were
                if not place or asked.id not in seen or asked.id in self._taken:
                    continue
                shown, due = self._shown_positions.get(asked.id, (None, 0.0))
                screen, late = self.screen(asked), time.monotonic() >= due
                changed = shown != place
                if (changed or late) if asked.private else (changed and late):  # a draft fades: it is sent again
                    pause = screen.lasts if asked.private else _GROUP_INTERVAL_SECONDS
                    self._shown_positions[asked.id] = place, time.monotonic() + pause
                    await screen.update(Progress(get_translator(asked.lang)("live-place", count=place)))
                    await asyncio.sleep(_CALL_SPACING_SECONDS)
            seen = {asked.id for asked in waiting}
            if waiting:
                self._changed.set()  # a draft must be sent again before it fades


_DEEP_ROUNDS = 2
_DEEP_PASSAGES = 80  # passages kept of both legs: twice as many as usual


_WORKER_COUNT = 16  # most of them only wait for the model, with an extract already shown: `_searches` limits the others
# A question that was interrupted this often is answered with an apology instead.
_MAX_ATTEMPTS = 10
_LOOK_UP_SECONDS = 1.0  # the longest that an answer waits until it is known what its asker may read beside the group
_DRAIN_SECONDS = 5.0  # time for running questions to finish after the bot was told to stop


class QuestionWorker:
    """Question worker: `start` and `stop` with the bot, `wake` after queueing, `halt` to stop questions."""

    def __init__(
        self,
        bot: Bot,
        rag: Engine,
        settings: BotSettings,
        rights: AdminRegistry,
        job_log: JobLog,
        meter: Meter,
        watch: BotObserver | None,
    ) -> None:
        self._bot, self._rag, self._settings, self._rights, self._watch = bot, rag, settings, rights, watch
        self._job_log, self.meter = job_log, meter
        self.suggestions = QuestionSuggester(rag)
        # looks whether posts are still in their channels; True where an answer must be made anew
        self.confirm_posts: Callable[[Iterable[PostKey]], Awaitable[bool]] | None = None
        self.limits = RateLimiter(rag.archive, settings, rights)

        self._searches = asyncio.Semaphore(_MAX_CONCURRENT_SEARCHES)
        self._verifications = asyncio.Semaphore(_MAX_CONCURRENT_SEARCHES - 1)
        self._running: dict[int, tuple[QuestionRow, asyncio.Task[tuple[Text, JsonObject]]]] = {}
        self._stopped_by_reader: set[int] = set()
        self._positions = QueuePositions(bot, rag.archive, lambda: len(self._running))
        self._wakeups = [asyncio.Event() for _ in range(_WORKER_COUNT)]
        self._free = set(self._wakeups)  # of the workers that have no question
        self._tasks: list[asyncio.Task[None]] = []
        self._outbox = delivery.Outbox(bot, rag.archive, rights, self._job_log, self.wake)
        self._closing = False

    def wake(self) -> None:
        """Wake one free worker, which wakes the next if it takes a question: the queue has changed."""
        self._positions.wake()
        for bell in self._free:
            if not bell.is_set():
                bell.set()
                return

    async def start(self) -> None:
        """Queue the interrupted questions of the last process again, then start the workers."""
        if left := await questions.requeue_questions(self._rag.archive):
            log.info("%d unanswered questions are queued again", left)
        self._tasks = [asyncio.create_task(self._work(bell)) for bell in self._wakeups]
        self._positions_task = asyncio.create_task(self._positions.run())
        self.wake()

    async def stop(self, drain: float = _DRAIN_SECONDS) -> None:
        """Stop the workers; running questions have `drain` seconds to finish, the others are queued again."""
        self._closing = True
        for bell in self._wakeups:
            bell.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=drain)
            await cancel_tasks((*self._tasks, self._positions_task))
        await self._outbox.stop()
        await questions.requeue_questions(self._rag.archive)

    async def halt(self, chat_id: int, reader: int, question: int | None = None) -> tuple[int, int]:
        """Stop this reader's questions in a chat, or one of them; returns how many were running and how many waited."""
        meant = [
            (asked, task)
            for asked, task in self._running.values()
            if (asked.chat_id, asked.user_id) == (chat_id, reader) and question in {None, asked.id}
        ]
        for asked, task in meant:
            self._stopped_by_reader.add(asked.id)
            task.cancel()
        left = await questions.cancel_waiting_questions(self._rag.archive, chat_id, reader, question)
        for asked in left:
            await self._positions.remove(asked)
        return len(meant), sum(asked.mode != "fuller" for asked in left)  # nobody asked for fuller ones

    async def _work(self, bell: asyncio.Event) -> None:
        while True:
            await bell.wait()
            if self._closing:
                return
            bell.clear()
            try:
                asked = await questions.take_next_question(self._rag.archive)
                if asked is None:
                    continue
                self._positions.note_taken(asked)
                self._free.discard(bell)
                self.wake()  # there may be more
                started = asyncio.get_running_loop().time()
                with self.meter.turn(asked), ExitStack() as stack:
                    queueing = asyncio.create_task(self._queue_fuller_answer(asked))
                    stack.callback(queueing.cancel)
                    try:
                        waiting, stored = await self._prepare_delivery(asked)
                    except Exception:
                        requeue = partial(questions.requeue_questions, self._rag.archive, asked.id)
                        await delivery.retry_until_saved(requeue, self._job_log)
                        raise
                    self._positions.forget(asked)
                    await asyncio.wait([queueing], timeout=_LOOK_UP_SECONDS)
                    await self._outbox.send(asked, waiting, stored)
                    await queueing
                self._job_log.record_success(delivery.ANSWERS_JOB, asyncio.get_running_loop().time() - started)
            except Exception as exc:  # the worker itself must not die
                self._job_log.record_failure(delivery.ANSWERS_JOB, exc)
                self._free.discard(bell)  # questions that come during the pause wake others
                await asyncio.sleep(delivery.FAILURE_PAUSE_SECONDS)
            self._free.add(bell)
            bell.set()  # the next question of the same reader may run now

    async def _prepare_delivery(self, asked: QuestionRow) -> tuple[list[DeliveryMessage], str | None]:
        """Answer a question, or take what an earlier run left: the messages and the stored answer."""
        waiting, stored = await questions.load_delivery(self._rag.archive, asked.id)
        if waiting:
            try:
                content = delivery.load_shown_content(stored)
                await recheck.recheck_shown_content(content, get_question_reader(asked), self._rights)
            except recheck.ContentWithdrawn:
                await questions.save_delivery(self._rag.archive, asked.id, [], None)  # it is answered again
                waiting = []
            except recheck.RecheckUnavailable:  # the outbox checks before it sends, and waits as long as that fails
                log.info("question %d: its answer of an earlier life is checked later", asked.id)
        if not waiting:
            screen = self._positions.screen(asked)
            text, answer_json = await self._answer_or_error(asked)
            await screen.close()
            if asked.mode == "fuller":  # worth sending only where it cites more than all of the group may read
                group = replace(get_question_reader(asked), alone=False)
                shared = await access.get_readable_channels(self._rights, group)
                if all(chat in shared for chat, *_ in (answer_json or {}).get("cited", ())):
                    return [], None
            if not (answer_json or asked.private or asked.asker_only) and screen.message_id is not None:
                await streaming.call_best_effort(self._bot.delete_message(asked.chat_id, screen.message_id))
                screen.message_id = None  # why there is no answer is for the asker
            buttons = await self._build_buttons(asked, answer_json)
            waiting = delivery.build_delivery_messages(split_pages(text), buttons, screen.message_id)
            stored = None if answer_json is None else json.dumps(answer_json, ensure_ascii=False)
        return waiting, stored

    async def _queue_fuller_answer(self, asked: QuestionRow) -> None:
        """Queue a question to a group again, for the asker alone, where closed channels are open to this one only."""
        if asked.private or asked.asker_only or asked.mode or asked.user_id <= 0:
            return
        group, alone = get_question_reader(asked), replace(get_question_reader(asked), alone=True)
        try:
            shared = await access.get_readable_channels(self._rights, group)
            if (await access.get_readable_channels(self._rights, alone)).keys() - shared.keys():
                again = replace(asked, update_id=-asked.update_id, mode="fuller", asker_only=True)
                await questions.queue_question(self._rag.archive, again)  # a repeated one is ignored
        except RagError as exc:
            log.warning("question %d: it is not asked again for its asker: %s", asked.id, exc)

    async def _build_buttons(self, asked: QuestionRow, found: JsonObject | None) -> InlineKeyboardMarkup | None:
        words, given = get_translator(asked.lang), stored_answer.parse_stored_answer(found or {})
        if asked.kind == "verify":
            return keyboards.build_quote_keyboard(given, self._rag.archive, words)
        if not found:
            return None
        rows = []
        sure = given.certainty is Certainty.SURE and given.cited  # a question beside a doubtful answer distracts
        if asked.private and sure:
            viewer = Viewer(asked.user_id, frozenset(one.key.chat_id for one in given.cited))
            if next_one := await self.suggestions.suggest(viewer, asked.lang, {one.key for one in given.cited}):
                self.suggestions.note_offered(asked.user_id, next_one.text)
                found["basis"]["posts"].append({"key": next_one.post, "mark": next_one.mark})
                token = self.suggestions.make_token(next_one)
                rows.append(keyboards.build_row(keyboards.make_row(next_one.text, "suggestion", token)))
        return keyboards.build_answer_keyboard(asked, given, words, *rows)

    async def _answer_or_error(self, asked: QuestionRow) -> tuple[Text, JsonObject | None]:
        """Text to send and answer to store; after a failure, an error sentence and None."""
        try:
            if asked.attempts > _MAX_ATTEMPTS:
                raise RuntimeError(f"question {asked.id} was interrupted {asked.attempts - 1} times")
            live = streaming.ProgressView(await get_answer_translator(asked, self._rag.archive))
            checking = partial(recheck.recheck_before_sending, reader=get_question_reader(asked), rights=self._rights)
            screen = self._positions.screen(asked)
            if asked.asker_only:
                render = partial(self._render_first, asked, live.words)
                progress = streaming.show_first_answer(live, screen, render, checking)
            else:
                progress = streaming.show_progress(live, screen, self._bot, asked, checking)
            async with progress:
                work = asyncio.create_task(self._answer(asked, live))
                self._running[asked.id] = asked, work
                try:
                    return await work
                except asyncio.CancelledError:
                    me = asyncio.current_task()
                    if asked.id not in self._stopped_by_reader or (me and me.cancelling()):
                        raise
                    # Partial answer of a question that its reader stopped
                    found = live.so_far(self._rag.writer.name if self._rag.writer else None)
                    self.meter.count_question("stopped", found)
                    if found is None:
                        return Text(live.words("stopped-nothing")), {}
                    stopped = replace(found, shortfalls=(*found.shortfalls, Shortfall("stopped", "")))
                    return await self._render(asked, stopped, live.words)
                finally:
                    del self._running[asked.id]
                    self._stopped_by_reader.discard(asked.id)
        except Exception as exc:
            self.meter.count_question("trouble")
            bug = None if isinstance(exc, RagError) else exc  # only a bug needs a traceback
            log.error("question %d failed: %s", asked.id, exc, exc_info=bug)
            admin = asked.private and asked.user_id in self._rights
            return Text(errors.format_error(exc, get_translator(asked.lang), admin=admin)), None

    async def _answer(self, asked: QuestionRow, live: streaming.ProgressView) -> tuple[Text, JsonObject]:
        found = await self.find_answer(asked, live)
        if isinstance(found, Text):
            return found, {}
        if isinstance(found, Verification):
            named = await visible_posts.fetch_posts(self._rag.archive, found.posts())
            shown = RenderContext(live.words, await self.load_zone(asked.chat_id), group=not asked.private)
            text, content = render_verdicts(found, named, shown), recheck.collect_content_of_verdicts(found, named)
            stored = stored_answer.serialize_verdicts(found, named)
            return text, await self._add_form(asked, text, stored, content, content)
        if self._watch and not asked.asker_only:  # what all in the group see
            self._watch.show_answer(asked.chat_id, asked.message_id, found)
        return await self._render(asked, found, live.words)

    async def find_answer(self, asked: QuestionRow, live: streaming.ProgressView) -> Answer | Verification | Text:
        """Find the answer to a question, or verify its text, in what its asker may read now; else say why not.

        A question of a program stands alone: it neither follows those of the chat nor comes before them.
        """
        archive = self._rag.archive
        viewer = await access.build_viewer(self._rights, get_question_reader(asked))
        if not viewer.channels:
            self.meter.count_question("refused")
            return Text(await access.format_no_access(self._rights, live.words, get_question_reader(asked), viewer))
        zone = await self.load_zone(asked.chat_id)  # "yesterday" is a day of the reader's
        text, viewer = await narrow_to_channel_set(archive, [asked.chat_id], asked.text, viewer)
        if not viewer.channels:
            self.meter.count_question("refused")
            return Text(access.describe_shortfalls(viewer, live.words) or live.words("sets-nothing-readable"))
        text = text if asked.kind == "verify" else strip_courtesies(text)
        chat, thread = (0, None) if asked.mode == PROGRAM_MODE else (asked.chat_id, asked.talk)
        question = Question(text, asked.lang, asked.asked_at.astimezone(zone), viewer, chat, thread)
        if asked.kind == "verify":
            question = replace(question, lang=detect_question_language(asked.text, asked.lang))
            async with self._verifications, self._searches:
                verified = await verify_text(question, self._rag)
                if self.confirm_posts and await self.confirm_posts(verified.posts()):
                    verified = await verify_text(question, self._rag)
            self.meter.count_question("answered")
            return verified
        found = await self._find_answer(asked, question, live)
        if self.confirm_posts and await self.confirm_posts(found.list_named_posts()):
            found = await self._find_answer(asked, question, live)
        found = await apply_group_rules(asked, found, archive)
        self.meter.count_question("answered", found)
        return found

    async def _find_answer(self, asked: QuestionRow, question: Question, live: streaming.ProgressView) -> Answer:
        other = asked.mode == keyboards.OTHER_MODE
        if not (other or asked.mode == keyboards.DEEP_MODE) and (pinned := await answer_from_pin(question, self._rag)):
            return pinned
        await self._searches.acquire()
        with ExitStack() as slot:
            slot.callback(self._searches.release)
            live.waits = slot.close  # released early where the question waits for a model
            rag = self._rag
            if asked.mode == keyboards.DEEP_MODE:
                longer = rag.settings.answer.model_copy(update={"sentences": keyboards.DEEP_SENTENCES})
                settings = rag.settings.model_copy(update={"answer": longer})
                rag = replace(rag, settings=settings, rounds=_DEEP_ROUNDS, keep=_DEEP_PASSAGES)
            if other:
                rag = replace(rag, passed=frozenset(await self._list_passed_posts(asked)))
            found = await answer_question(question, rag, **live.callbacks())
            if other and not rag.passed.isdisjoint(found.posts()):  # a count, a list: there is only this one
                found = Answer((), 0.0, found.recipe, trace_id=found.trace_id, channels=found.channels)
        return found

    async def _list_passed_posts(self, asked: QuestionRow) -> tuple[PostKey, ...]:
        """List the posts of the answers before this one to the same question, which its reader did not mean."""
        earlier = await fetch_previous_answer(self._rag.archive, asked)
        given = stored_answer.parse_stored_answer(earlier.answer) if earlier else stored_answer.StoredAnswer()
        return (*given.passed, *(one.key for one in given.cited))

    async def _render(self, asked: QuestionRow, found: Answer, words: Translator) -> tuple[Text, JsonObject]:
        named = (*found.list_named_posts(), *(passage.key for passage in found.nearest))
        cited = await visible_posts.fetch_posts(self._rag.archive, named)
        content = recheck.collect_content_of_answer(found, cited)
        # the notes of a rich message show more of a post than its quotes
        noted = recheck.collect_content_of_posts(cited[key] for key in found.posts() if key in cited)
        shown = RenderContext(words, await self.load_zone(asked.chat_id), group=not asked.private)
        text = render_answer(found, cited, shown)
        passed = list[PostKey]()
        if asked.mode == keyboards.OTHER_MODE:
            passed += await self._list_passed_posts(asked)
            text = Text(words("other-none")) if found.refused else text
        if asked.mode == keyboards.DEEP_MODE:  # with a line that says whether the deeper search found anything new
            earlier = await fetch_previous_answer(self._rag.archive, asked)
            known = {one.key for one in stored_answer.parse_stored_answer(earlier.answer).cited} if earlier else set()
            more = sum(key not in known for key in found.posts())
            text = as_list(text, Italic(words("deeper-note", count=more)), sep="\n\n")
        if asked.mode == "fuller":
            text = as_list(text, Italic(words("answer-alone")), sep="\n\n")
        if not (asked.asker_only or asked.message_id):  # nobody else has seen the question
            text = as_list(Bold(neutralize_links(asked.text)), text, sep="\n\n")
        stored = stored_answer.serialize_answer(found, cited) | {"passed": passed}
        return text, await self._add_form(asked, text, stored, content, noted)

    async def _add_form(
        self,
        asked: QuestionRow,
        text: Text,
        stored: JsonObject,
        content: recheck.ShownContent,
        noted: recheck.ShownContent,
    ) -> JsonObject:
        """Add the rich message where the chat chose that form, and the content of the form to what is stored."""
        if await readers.is_rich_chat(self._rag.archive, asked.chat_id) and (rich := build_rich_message(text)):
            content |= noted
            stored = stored | {"rich_message": rich.model_dump_json(exclude_none=True)}
        return stored | {"basis": content.as_json()}

    async def _render_first(self, asked: QuestionRow, words: Translator, found: Answer) -> recheck.View:
        found = await apply_group_rules(asked, found, self._rag.archive)
        text, stored = await self._render(asked, found, words)
        return recheck.View(text, recheck.parse_shown_content(stored["basis"]))

    async def load_zone(self, chat_id: int) -> tzinfo:
        """Load the time zone of a chat; the bot's where it chose none, or one that this machine no longer knows."""
        return find_time_zone(await readers.load_chat_zone(self._rag.archive, chat_id)) or self._settings.zone
