"""Streaming of answers: a draft in private chats, one message that is edited in groups.

Drafts exist in private chats only and disappear after 30 seconds
(https://core.telegram.org/bots/api#sendmessagedraft). A group takes about 20 messages a minute.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramRetryAfter
from aiogram.methods import SendMessageDraft, SendRichMessageDraft
from aiogram.types import ReplyParameters
from aiogram.utils.formatting import BlockQuote, Text, as_list

from bot.background import run_in_background, wait_for_event
from bot.i18n import Translator, get_translator
from bot.telegram import recheck
from bot.telegram.ephemeral import get_answer_address, send_to_asker
from bot.telegram.session import EditWithoutRetry, SendRichWithoutRetry, SendWithoutRetry
from bot.views.answer import link_author, render_sentences
from bot.views.format import neutralize_links, split_pages
from bot.views.keyboards import Press, build_keyboard
from bot.views.rich import Progress, build_rich_message
from bot.views.text import format_caveat, strip_control_characters
from rag_core.errors import RagError
from rag_core.storage import Archive, questions, readers
from rag_core.types import Answer, Certainty, Sentence

log = logging.getLogger(__name__)


class DraftScreen:
    """Screen in a private chat: a draft of the answer. It may be lost, as the answer comes as a message."""

    every, lasts = 1.0, 20.0  # seconds between two changes, and until it disappears

    def __init__(self, bot: Bot, asked: questions.QuestionRow, archive: Archive) -> None:
        self._bot, self._asked, self._archive, self._closed = bot, asked, archive, False
        self.message_id: int | None = None

    async def update(self, text: Text) -> float:
        """Replace the text shown before; returns the seconds that Telegram asks to wait."""
        if self._closed:
            return self.lasts
        asked = self._asked
        content = await _build_content(text, asked.chat_id, self._archive, draft=True)
        draft = SendRichMessageDraft if "rich_message" in content else SendMessageDraft
        content |= {"chat_id": asked.chat_id, "draft_id": asked.id, "message_thread_id": asked.thread}
        return await call_best_effort(draft(**content, can_stop=True).as_(self._bot))

    async def close(self) -> None:
        """Stop showing: the answer is sent now."""
        self._closed = True


class MessageScreen:
    """Screen in a group: a message that becomes the answer. It survives a restart."""

    # 20 messages a minute and group: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
    every, lasts = 3.0, 3600.0

    def __init__(self, bot: Bot, asked: questions.QuestionRow, archive: Archive) -> None:
        self._bot, self._asked, self._archive = bot, asked, archive
        self._closed = asked.mode == "fuller"  # which is shown only if it says more than the answer to the group
        self.message_id = asked.shown_in
        self._lock = asyncio.Lock()

    async def update(self, text: Text) -> float:
        """Replace the text shown before. Calls are serialized: an older text must not replace a newer one."""

        async def put_in_order() -> float:
            async with self._lock:
                with send_to_asker(get_answer_address(self._asked)):
                    return 0.0 if self._closed else await call_best_effort(self._send_or_edit(text))

        # After a cancelled call it would be unknown whether the text is shown, and in which message.
        self._running_call = asyncio.ensure_future(put_in_order())
        return await asyncio.shield(self._running_call)

    async def _send_or_edit(self, text: Text) -> None:
        asked = self._asked
        stop = get_translator(asked.lang)("button-halt"), Press(to="stop", number=asked.id)
        content = await _build_content(text, asked.chat_id, self._archive)
        shown = content | {"reply_markup": build_keyboard([stop])}
        if self.message_id is not None:
            await self._bot(EditWithoutRetry(chat_id=asked.chat_id, message_id=self.message_id, **shown))
            return
        reply = ReplyParameters(message_id=asked.message_id) if asked.message_id else None
        send = SendRichWithoutRetry if "rich_message" in content else SendWithoutRetry
        call = send(chat_id=asked.chat_id, message_thread_id=asked.thread, reply_parameters=reply, **shown)
        self.message_id = (await self._bot(call)).message_id
        with suppress(RagError):  # a restart then creates another message
            await questions.set_shown_message(self._archive, asked.id, self.message_id)

    async def close(self) -> None:
        """Stop showing: the answer is sent now. Waits for a running edit."""
        self._closed = True
        async with self._lock:
            pass


async def _build_content(text: Text, chat_id: int, archive: Archive, *, draft: bool = False) -> dict[str, Any]:
    """Build the arguments of a method for a text in the form that its chat chose; of a long one the first page."""
    with suppress(RagError):
        if await readers.is_rich_chat(archive, chat_id) and (rich := build_rich_message(text, draft=draft)):
            return {"rich_message": rich}
    return split_pages(text)[0].as_kwargs() | {"parse_mode": None}


async def call_best_effort(call: Awaitable[object]) -> float:
    """Await a call whose effect is temporary, ignoring failures; returns the seconds that Telegram asks to wait."""
    try:
        await call
    except TelegramRetryAfter as exc:
        return float(exc.retry_after)
    except (TelegramAPIError, ClientDecodeError) as exc:
        log.debug("something that passes was not shown: %s", exc)
    return 0.0


_FIRST_UPDATE_SECONDS = 0.8  # no progress is shown before this: the answer itself may come first
_TYPING_INTERVAL_SECONDS = 4.0  # "typing" shows for five seconds: https://core.telegram.org/bots/api#sendchataction
# Stages shown to the reader; the others are parts of them.
_SHOWN_STAGES = {"plan", "search", "rerank", "hyde", "write", "read", "calculate", "check"}
# Steps and tools of `react`, and stages of other recipes, as the stage that the reader is told.
_TOLD_AS = {"step": "plan", "tool.calculate": "calculate", "parts": "check", "judge": "check", "map": "read",
            "predict": "read", "tool.open": "read"}  # fmt: skip


class ProgressView:
    """Progress of one answer, filled by the callbacks of `answer_question`; each of them sets `news`."""

    def __init__(self, words: Translator) -> None:
        self.words = words
        self.extract: Answer | None = None
        self.sentences: list[Sentence] = []
        self.place = 0
        self.stage = "search"
        self.news = asyncio.Event()
        self.waits: Callable[[], None] = lambda: None  # called when the question waits for a model
        self.worth = asyncio.Event()  # set when there is more to show than the current stage

    def callbacks(self) -> dict[str, Any]:
        """Callbacks for `answer_question`."""
        return {"on_extract": self.show_extract, "on_sentence": self.add_sentence, "on_place": self.show_position,
                "on_stage": self.show_stage}  # fmt: skip

    def show_extract(self, answer: Answer) -> None:
        """Show an extract: the posts' best sentences."""
        self.waits()
        self.extract = answer
        self.news.set()
        self.worth.set()

    def add_sentence(self, sentence: Sentence) -> None:
        """Add a sentence written by the model."""
        self.sentences.append(sentence)
        self.news.set()
        self.worth.set()

    def show_position(self, place: int) -> None:
        """Show the number of questions before this one."""
        self.waits()
        self.place = place
        self.news.set()
        if place:
            self.worth.set()

    def show_stage(self, stage: str) -> None:
        """Show the stage that has begun."""
        stage = _TOLD_AS.get(stage, "search" if stage.startswith("tool.") else stage)
        if stage in _SHOWN_STAGES and stage != self.stage:
            self.stage = stage
            self.news.set()

    def so_far(self, model: str | None) -> Answer | None:
        """Partial answer: the model's sentences, else the extract; None where there is neither."""
        if self.extract is None or not self.sentences:
            return self.extract
        return replace(self.extract, sentences=tuple(self.sentences), model=model)

    def render(self, *, with_posts: bool = True) -> recheck.View:
        """View that the reader sees now; without posts, only the current stage."""
        now = self.words("live-place", count=self.place) if self.place else self.words("live-stage", stage=self.stage)
        stage, extract = Text(Progress(now)), self.extract if with_posts else None
        if extract is None:
            return recheck.View(stage)
        if self.sentences:
            written = replace(extract, sentences=tuple(self.sentences), model="")
            content = recheck.collect_content_of_draft(written.sentences, ())
            return recheck.View(as_list(render_sentences(written), stage, sep="\n\n"), content)
        first = extract.sentences[0]
        key = first.citations[0].post
        author = link_author(key, extract.channels.get(key.chat_id), None, self.words)
        unsure = [format_caveat(extract.confidence, self.words)] if extract.certainty is Certainty.PROBABLE else []
        quote = as_list(*unsure, BlockQuote(neutralize_links(strip_control_characters(first.text))), author)
        content = recheck.collect_content_of_draft([first], extract.channels)
        return recheck.View(as_list(quote, stage, sep="\n\n"), content)


Screen = DraftScreen | MessageScreen
RecheckFactory = Callable[..., AbstractContextManager[None]]

_FAILED_TEXT = "an answer could not be shown while it was made"


@asynccontextmanager
async def show_progress(
    live: ProgressView, screen: Screen, bot: Bot, asked: questions.QuestionRow, checking: RecheckFactory
) -> AsyncIterator[None]:
    """Show progress and "typing" until the block ends.

    `checking` is `recheck_before_sending` for its reader: posts that are no longer open to them are not shown.
    """
    async with run_in_background(_update_screen(live, screen, checking), _show_typing(bot, asked), failed=_FAILED_TEXT):
        yield


# A reply to an ephemeral message must come within 15 seconds: https://core.telegram.org/bots/api#replyparameters
_FIRST_ANSWER_SECONDS = 10.0


@asynccontextmanager
async def show_first_answer(
    live: ProgressView, screen: Screen, render: Callable[[Answer], Awaitable[recheck.View]], checking: RecheckFactory
) -> AsyncIterator[None]:
    """Show the answer without a model to who alone will see the answer, as soon as it is there, until the block ends.

    It stays where a later one cannot replace it. After ten seconds without one the stage is shown.
    """

    async def show() -> None:
        await wait_for_event(live.worth, _FIRST_ANSWER_SECONDS)
        view = await render(live.extract) if live.extract else live.render()
        with suppress(recheck.SendingRefused), checking(view.content):
            await screen.update(view.text)

    async with run_in_background(show(), failed=_FAILED_TEXT):
        yield


async def _update_screen(live: ProgressView, screen: Screen, checking: RecheckFactory) -> None:
    await wait_for_event(live.worth, _FIRST_UPDATE_SECONDS)
    while True:
        live.news.clear()
        try:
            view = live.render()
            with checking(view.content, max_age_s=recheck.DRAFT_MEMBERSHIP_MAX_AGE_SECONDS):
                pause = await screen.update(view.text)
        except recheck.SendingRefused:
            pause = await screen.update(live.render(with_posts=False).text)
        await asyncio.sleep(max(pause, screen.every))
        await wait_for_event(live.news, screen.lasts)


async def _show_typing(bot: Bot, asked: questions.QuestionRow) -> None:
    while True:
        await call_best_effort(bot.send_chat_action(asked.chat_id, "typing", message_thread_id=asked.thread))
        await asyncio.sleep(_TYPING_INTERVAL_SECONDS)
