"""Delivery of answers: saved before they are sent, retried until they arrive or a day has passed.

Where nobody knows whether a message arrived, a short message is sent and the text is edited into it: an edit can be
repeated, so that a reader sees an answer twice at most. Access is checked before each attempt; an answer whose posts
were changed, deleted or closed meanwhile is replaced by a sentence that says so.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError, TelegramBadRequest, TelegramMigrateToChat
from aiogram.methods import SendMessage
from aiogram.types import InlineKeyboardMarkup, InputRichMessage, MessageEntity, ReplyParameters
from pydantic import ConfigDict, TypeAdapter

from bot.access import AdminRegistry, get_question_reader
from bot.background import cancel_tasks, spawn
from bot.i18n import get_translator
from bot.jobs import JobLog
from bot.stored_answer import dump_with_messages
from bot.telegram import recheck, session
from bot.telegram.ephemeral import get_answer_address, send_to_asker
from bot.telegram.session import PERMANENT_ERRORS, SendOnce, SendRichOnce, may_have_arrived
from bot.views.format import Page
from rag_core.errors import RagError
from rag_core.storage import Archive, questions
from rag_core.storage.questions import DeliveryMessage, QuestionRow
from rag_core.storage.readers import forget_turns, move_group, save_rich_chat

log = logging.getLogger(__name__)

_ENTITIES = TypeAdapter(tuple[MessageEntity, ...], config=ConfigDict(defer_build=True))


def build_delivery_messages(
    pages: Sequence[Page], markup: InlineKeyboardMarkup | None = None, first: int | None = None
) -> list[DeliveryMessage]:
    """Build the messages of an answer: buttons under the last one; `first` is an existing message to edit."""
    buttons = markup.model_dump_json(exclude_none=True) if markup else None
    messages = []
    for n, page in enumerate(pages):
        entities = _ENTITIES.dump_json(page.entities, exclude_none=True).decode()
        under = buttons if n == len(pages) - 1 else None
        messages.append(DeliveryMessage(n, page.text, entities, under, message_id=None if n else first))
    return messages


@dataclass(slots=True)
class AnswerDelivery:
    """Delivery of one answer. `send` may be called again; messages that have arrived are not sent again.

    Where `whole` has a rich message, that is sent in place of all; where it is refused, the messages are, and the chat
    gets no rich ones any more. Where the archive cannot be written the answer is sent all the same: only a restart
    would not know the progress.
    """

    bot: Bot
    archive: Archive
    asked: QuestionRow
    messages: list[DeliveryMessage]
    whole: str | None = None  # the serialized answer
    begun: float = field(default_factory=time.monotonic)  # the question may be older, where it is asked again

    @property
    def is_notice(self) -> bool:
        """Whether it only says why there is no answer: to the asker alone, unless a message that all see becomes it."""
        begun = any(one.message_id is not None and not (one.tried or one.sent) for one in self.messages)
        return self.whole in {None, "{}"} and not begun

    async def keep(self, whole: str | None) -> None:
        """Save the messages until they have arrived, and `whole`, the serialized answer."""
        self.whole = whole
        with self.log_archive_errors():
            await questions.save_delivery(self.archive, self.asked.id, self.messages, whole)

    async def delete(self, *, begun: bool) -> None:
        """Delete the messages that have arrived; with `begun` also those that were to become the answer."""
        for message in self.messages:
            if message.message_id and (message.sent or begun):
                with suppress(TelegramAPIError, ClientDecodeError), send_to_asker(get_answer_address(self.asked)):
                    await self.bot.delete_message(self.asked.chat_id, message.message_id)

    async def replace(self, said: str) -> None:
        """Replace the answer by one sentence: nothing corrects the messages that have arrived."""
        await self.delete(begun=False)
        # In a group, or after a try with unknown outcome, a message already exists that is edited into the sentence.
        begun = next((message.message_id for message in self.messages if not message.sent), None)
        self.messages = [DeliveryMessage(0, said, "[]", message_id=begun)]
        await self.keep(None)

    async def send(self) -> list[int]:
        """Send the unsent messages and return the ids of all. Raises what Telegram refused, or connection errors."""
        address = get_answer_address(self.asked, always=self.is_notice)
        if address and any(message.message_id for message in self.messages):  # something is shown
            address = replace(address, quiet=True)
        with send_to_asker(address):
            kept = json.loads(self.whole or "{}")
            if "rich_message" not in kept:
                return await self._send_messages()
            rich = InputRichMessage.model_validate_json(kept.pop("rich_message"))
            first = self.messages[0]
            try:
                return [await self._deliver_message(first, rich)]
            except session.RICH_REFUSALS as exc:
                log.warning("question %d: its rich message was refused: %s", self.asked.id, exc)
            self.messages[0] = first
            await self.keep(json.dumps(kept, ensure_ascii=False))
            sent = await self._send_messages()
            if not self.asked.asker_only:  # what one member cannot be sent says nothing of the group
                with self.log_archive_errors():
                    await save_rich_chat(self.archive, self.asked.chat_id, rich=False)
            return sent

    async def _send_messages(self) -> list[int]:
        sent = []
        for message in [*self.messages]:
            message_id = message.message_id if message.sent else await self._deliver_message(message)
            assert message_id is not None
            sent.append(message_id)
            if not message.sent and len(self.messages) > 1:
                await self._save_state(replace(message, message_id=message_id, sent=True))
        return sent

    async def _deliver_message(self, message: DeliveryMessage, rich: InputRichMessage | None = None) -> int:
        under = self.messages[-1].markup if rich else message.markup
        content: dict[str, Any] = {"reply_markup": InlineKeyboardMarkup.model_validate_json(under) if under else None}
        if rich:
            content["rich_message"] = rich
        else:
            content |= {"text": message.text, "entities": [*_ENTITIES.validate_json(message.entities)]}
        if message.message_id is not None and await self._edit_message(content, message.message_id):
            return message.message_id
        first = message.message_id
        send = SendRichOnce if rich else SendOnce
        where: dict[str, Any] = {"chat_id": self.asked.chat_id, "message_thread_id": self.asked.thread}
        if not (self.asked.private or message.page) and self.asked.message_id:  # in private it stands right above
            where["reply_parameters"] = ReplyParameters(message_id=self.asked.message_id)
        if not message.tried:
            message = await self._save_state(replace(message, tried=True, message_id=None))
            try:
                return (await self.bot(send(**where, **content))).message_id
            except Exception as exc:
                if not rich and self.asked.asker_only and first is not None and isinstance(exc, PERMANENT_ERRORS):
                    return first  # it can be neither edited nor followed: the first answer stays
                if not may_have_arrived(exc):
                    await self._save_state(replace(message, tried=False))
                    raise
                log.warning("question %d: nobody knows whether message %d arrived", self.asked.id, message.page + 1)
        # Send a short message and edit the text into it: the reader may then see the text twice.
        notice = get_translator(self.asked.lang)("delivery-again")
        short = await self.bot(SendMessage(**where, text=notice))
        await self._save_state(replace(message, message_id=short.message_id))
        if short.message_id and await self._edit_message(content, short.message_id):
            return short.message_id
        return (await self.bot(send(**where, **content))).message_id  # in the private chat in place of the group

    async def _edit_message(self, content: dict[str, Any], message_id: int) -> bool:
        try:
            await self.bot.edit_message_text(chat_id=self.asked.chat_id, message_id=message_id, **content)
        except TelegramBadRequest as exc:
            return "not modified" in exc.message
        return True

    async def _save_state(self, message: DeliveryMessage) -> DeliveryMessage:
        self.messages[message.page] = message
        with self.log_archive_errors():
            await questions.update_delivery_message(self.archive, self.asked.id, message)
        return message

    @contextmanager
    def log_archive_errors(self) -> Iterator[None]:
        """Log errors of the archive within the block and go on."""
        try:
            yield
        except RagError as exc:
            log.warning("question %d: its delivery is not kept: %s", self.asked.id, exc)


ANSWERS_JOB = "answers"  # name in the job log
FAILURE_PAUSE_SECONDS = 1.0  # after a failure that no question caused: the archive is busy or broken
# After this time a worker turns to the next question: a group that must wait for minutes would hold up all of them.
_LONGEST_SENDING_SECONDS = 5.0
# An undelivered answer is tried again after this time, later as its chat's back-off says, for a day.
_RETRY_SECONDS = 5.0
_WAIT_CHECK_SECONDS = 60.0  # the back-off ends early where something else arrives in the chat
_MAX_TRYING_SECONDS = 86_400.0


@dataclass(slots=True)
class Outbox:
    """Sends answers and closes their questions; `closed` is called when a late answer's question has been closed."""

    bot: Bot
    archive: Archive
    rights: AdminRegistry
    job_log: JobLog
    closed: Callable[[], None]
    deliveries: set[asyncio.Task[None]] = field(default_factory=set)

    async def send(self, asked: QuestionRow, parcels: Sequence[DeliveryMessage], whole: str | None) -> None:
        """Save an answer, send it, and close its question; `whole` is the serialized answer, None for an apology.

        What takes longer than some seconds is sent in the background.
        """
        delivery = AnswerDelivery(self.bot, self.archive, asked, [*parcels])
        await delivery.keep(whole)
        task = spawn(self.deliveries, self._deliver(delivery))
        _, late = await asyncio.wait([task], timeout=_LONGEST_SENDING_SECONDS)
        if late:
            task.add_done_callback(lambda _: self.closed())

    async def stop(self) -> None:
        """Stop sending; undelivered answers are sent after the next start."""
        await cancel_tasks(self.deliveries)

    async def _try_to_send(self, delivery: AnswerDelivery) -> bool:
        """Send an answer and close its question; False where it has to be tried again later."""
        asked, sent = delivery.asked, list[int]()
        try:
            sent = await self._send_or_replace(delivery)
        except recheck.QuestionErased:
            log.info("question %d: it was erased, and its answer is not sent", asked.id)
            await delivery.delete(begun=True)
            return True
        except (TelegramAPIError, ClientDecodeError, recheck.RecheckUnavailable) as exc:
            log.warning("question %d: the answer was not delivered: %s", asked.id, exc)
            if isinstance(exc, TelegramMigrateToChat) and asked.chat_id != exc.migrate_to_chat_id:
                delivery.asked = replace(asked, chat_id=exc.migrate_to_chat_id)
                with delivery.log_archive_errors():
                    await move_group(self.archive, asked.chat_id, exc.migrate_to_chat_id)
                return False
            if not isinstance(exc, PERMANENT_ERRORS) and time.monotonic() - delivery.begun < _MAX_TRYING_SECONDS:
                return False
        except Exception as exc:  # a bug; the reader could ask nothing more while the question is open
            self.job_log.record_failure(ANSWERS_JOB, exc)
            with suppress(Exception):
                await delivery.replace(get_translator(asked.lang)("trouble-general"))
                await delivery.send()
        stored = delivery.whole
        own = asked.private or asked.asker_only or not delivery.is_notice  # else the ids are of ephemeral messages
        messages = sent if own else []
        final = dump_with_messages(json.loads(stored), messages) if sent and stored is not None else None
        state, first = "answered" if final else "failed", messages[0] if messages else None
        close = partial(questions.finish_question, self.archive, asked.id, state=state, answer=final, message_id=first)
        await retry_until_saved(close, self.job_log)
        return True

    async def _send_or_replace(self, delivery: AnswerDelivery) -> list[int]:
        """Send an answer, or where it does not hold any more a sentence that says so."""
        asked = delivery.asked
        checking = partial(recheck.recheck_before_sending, reader=get_question_reader(asked), rights=self.rights)
        try:
            with checking(load_shown_content(delivery.whole), question_id=asked.id):
                return await delivery.send()
        except recheck.ContentWithdrawn:
            log.info("question %d: the answer does not hold any more and is not sent", asked.id)
        await delivery.replace(get_translator(asked.lang)("answer-withdrawn"))
        try:  # a follow-up would repeat the names of the answer
            await forget_turns(self.archive, user=asked.user_id, chat=asked.chat_id, thread=asked.talk)
        except RagError as exc:
            log.warning("question %d: its talk is not forgotten: %s", asked.id, exc)
        with checking(recheck.ShownContent(), question_id=asked.id):
            return await delivery.send()

    async def _deliver(self, delivery: AnswerDelivery) -> None:
        """Try until the answer arrives. Meanwhile the question stays open, and the reader's next one waits."""
        if await self._try_to_send(delivery):
            return
        backoff = session.get_backoff(self.bot)
        with session.send_in_background():
            while True:
                wait = backoff.get_wait(delivery.asked.chat_id)
                await asyncio.sleep(min(max(wait, _RETRY_SECONDS), _WAIT_CHECK_SECONDS))
                if not backoff.get_wait(delivery.asked.chat_id) and await self._try_to_send(delivery):
                    return


async def retry_until_saved(save: Callable[[], Awaitable[object]], job_log: JobLog) -> None:
    """Save that a question no longer runs, retrying until it works: a running one blocks the reader's next question."""
    while True:
        try:
            await save()
            return
        except RagError as exc:
            job_log.record_failure(ANSWERS_JOB, exc)
            await asyncio.sleep(FAILURE_PAUSE_SECONDS)


def load_shown_content(whole: str | None) -> recheck.ShownContent:
    """Load the shown content of a stored answer; none where the message is only a sentence of the bot."""
    stored = json.loads(whole) if whole else None
    return recheck.parse_shown_content(stored["basis"]) if stored else recheck.ShownContent()
