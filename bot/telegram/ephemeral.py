"""Ephemeral messages of groups: what concerns one member is sent to this member alone.

While `send_to_asker` is in force, `EphemeralMiddleware` turns every call to the group into one that only the asker
sees, whichever method of aiogram made it: a handler cannot forget it. Ids of ephemeral messages count for each chat and
member; within the block they stand for message ids. An administrator may send at any time, another bot only within 15
seconds after a press or an ephemeral message. What cannot be delivered so goes to the private chat, if the asker has
started it, else one public sentence says where to ask; it holds nothing of the message.
Source: https://core.telegram.org/bots/api#ephemeral-messages-and-commands
"""

import logging
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from aiogram import Bot, methods
from aiogram.client.session.middlewares.base import BaseRequestMiddleware
from aiogram.exceptions import TelegramAPIError, TelegramBadRequest, TelegramForbiddenError, TelegramNotFound
from aiogram.types import CallbackQuery, EphemeralMessageParameters, Message, ReplyParameters
from cachetools import TTLCache

from bot.access import Refusal
from bot.i18n import get_translator
from bot.telegram.recheck import send_without_content, set_in_block
from bot.telegram.session import SendWithoutRetry
from rag_core.storage.questions import QuestionRow

_REPLY_SECONDS = 15.0
_REMINDER_SECONDS = 600.0  # until the public sentence is said to the same member again
_MAX_REMEMBERED = 100_000  # pairs of a chat and a member
_SKIPPED_METHODS = frozenset({"setMessageReaction", "sendChatAction"})  # all would see them
_COUNTERPARTS: dict[type[methods.TelegramMethod[Any]], type[methods.TelegramMethod[Any]]] = {
    methods.EditMessageText: methods.EditEphemeralMessageText,
    methods.EditMessageReplyMarkup: methods.EditEphemeralMessageReplyMarkup,
    methods.DeleteMessage: methods.DeleteEphemeralMessage,
}
_REFUSALS = (TelegramBadRequest, TelegramForbiddenError, TelegramNotFound)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EphemeralAddress:
    """Address of a member: `incoming` is their ephemeral message, `shown` the bot's at which they `pressed` a button.

    `quiet`: what cannot be delivered is not mentioned in public.
    """

    chat_id: int
    receiver: int
    lang: str
    incoming: int | None = None
    written_at: datetime | None = None
    shown: int | None = None
    pressed: str | None = None
    quiet: bool = False


_ADDRESS: ContextVar[EphemeralAddress | None] = ContextVar("send_to_asker", default=None)


def send_to_asker(address: EphemeralAddress | None) -> AbstractContextManager[None]:
    """Send all that goes to this chat within the block to one member alone; None changes nothing."""
    return set_in_block(_ADDRESS, address or _ADDRESS.get())


def get_asker_address(event: Message | CallbackQuery, lang: str, *, always: bool = False) -> EphemeralAddress | None:
    """Address of who wrote, or pressed, in a group: for ephemeral messages, and with `always` for all of a person."""
    message, user = (event.message if isinstance(event, CallbackQuery) else event), event.from_user
    if message is None or message.chat.type == "private":
        return None
    number = getattr(message, "ephemeral_message_id", None)
    person = user is not None and not user.is_bot and not (isinstance(event, Message) and event.sender_chat)
    if number is None and not (always and person):
        return None
    address = EphemeralAddress(message.chat.id, user.id if user else 0, lang)
    if isinstance(event, CallbackQuery):
        return replace(address, shown=number, pressed=event.id)
    return replace(address, incoming=number, written_at=event.date)


def get_answer_address(asked: QuestionRow, *, always: bool = False) -> EphemeralAddress | None:
    """Address of the answer to a question: None where all see it; with `always` that of any question in a group."""
    if asked.private or not (asked.asker_only or (always and asked.user_id > 0)):
        return None
    address = EphemeralAddress(asked.chat_id, asked.user_id, asked.lang, asked.ephemeral_id, asked.asked_at)
    return replace(address, quiet=asked.mode == "fuller" or asked.shown_in is not None)


def identify_message(message: Message, reader: int) -> tuple[int, int | None]:
    """Identify a message within its chat: its id, or its ephemeral id and the `reader`, the member who sees it."""
    number = message.ephemeral_message_id
    return (message.message_id, None) if number is None else (number, reader)


class EphemeralMiddleware(BaseRequestMiddleware):
    """Middleware that sends to one member what `send_to_asker` says. Register it before `recheck_call`."""

    def __init__(self) -> None:
        self._known: bool | None = None  # whether the server knows ephemeral messages
        # The last public sentence and the last press of each chat and member.
        self._told: TTLCache[tuple[int, int], Message] = TTLCache(_MAX_REMEMBERED, _REMINDER_SECONDS)
        self._presses: TTLCache[tuple[int, int], str] = TTLCache(_MAX_REMEMBERED, _REPLY_SECONDS)

    async def __call__(self, make_request: Any, bot: Bot, method: methods.TelegramMethod[Any]) -> Any:
        """Make the request, or that which only the member sees."""
        address, name = _ADDRESS.get(), method.__api_method__
        if address is not None and address.pressed:
            self._presses[address.chat_id, address.receiver] = address.pressed
        if address is None or getattr(method, "chat_id", None) != address.chat_id or name.startswith("get"):
            return await make_request(bot, method)
        if name in _SKIPPED_METHODS:
            return True
        fields = type(method).model_fields
        if "ephemeral_message_parameters" in fields:
            return await self._send(make_request, bot, method, address)
        for ordinary, counterpart in _COUNTERPARTS.items():
            if isinstance(method, ordinary) and (number := getattr(method, "message_id", 0) or address.shown):
                known = {key: getattr(method, key) for key in counterpart.model_fields if key in fields}
                known |= {"receiver_user_id": address.receiver, "ephemeral_message_id": number}
                return await make_request(bot, counterpart(**known))
        raise TelegramBadRequest(method, f"{name} cannot be called for one member of a group.")

    async def _send(
        self, make_request: Any, bot: Bot, method: methods.TelegramMethod[Any], address: EphemeralAddress
    ) -> Message:
        failure: TelegramAPIError = TelegramBadRequest(method, "The server knows no ephemeral messages.")
        pressed = self._presses.get((address.chat_id, address.receiver))  # it gives the right to answer
        parameters = EphemeralMessageParameters(receiver_user_id=address.receiver, callback_query_id=pressed)
        own = {"ephemeral_message_parameters": parameters, "receiver_user_id": None, "callback_query_id": None}
        for reply in _list_replies(method, address) if await self._is_known(make_request, bot, address) else ():
            try:
                sent: Message = await make_request(bot, method.model_copy(update={**own, "reply_parameters": reply}))
            except _REFUSALS as exc:
                failure = exc
                continue
            if sent.ephemeral_message_id is not None:
                return sent.model_copy(update={"message_id": sent.ephemeral_message_id})
            log.error("the Bot API server showed a message to all of chat %d: it is deleted", address.chat_id)
            self._known = False
            with suppress(TelegramAPIError):
                await make_request(bot, methods.DeleteMessage(chat_id=address.chat_id, message_id=sent.message_id))
            break
        if isinstance(method, SendWithoutRetry):
            raise failure
        if isinstance(method, methods.SendRichMessage):  # the plain form is sent in its place
            raise TelegramBadRequest(method, failure.message)
        return await self._send_elsewhere(make_request, bot, method, address, failure)

    async def _is_known(self, make_request: Any, bot: Bot, address: EphemeralAddress) -> bool:
        """Whether the server knows ephemeral messages: one of an earlier version would send them to everybody."""
        if self._known is None and (address.incoming or address.shown) is not None:
            self._known = True
        if self._known is None:
            probe = methods.DeleteEphemeralMessage(
                chat_id=address.chat_id, receiver_user_id=address.receiver, ephemeral_message_id=0
            )
            try:
                await make_request(bot, probe)
            except TelegramNotFound:  # no such method
                self._known = False
            except (TelegramBadRequest, TelegramForbiddenError):  # no such message
                self._known = True
        return self._known is not False

    async def _send_elsewhere(
        self,
        make_request: Any,
        bot: Bot,
        method: methods.TelegramMethod[Any],
        address: EphemeralAddress,
        failure: TelegramAPIError,
    ) -> Message:
        """Send to the private chat instead, else say in public, or to who pressed, that a private chat is needed."""
        place = ("message_thread_id", "reply_parameters", "reply_markup", "ephemeral_message_parameters")
        private: dict[str, Any] = {"chat_id": address.receiver, **dict.fromkeys(place)}
        with suppress(*_REFUSALS):
            if address.receiver > 0:  # else who wrote as a chat
                sent: Message = await make_request(bot, method.model_copy(update=private))
                return sent.model_copy(update={"message_id": 0})
        said = get_translator(address.lang)("open-private-chat", bot=f"@{(await bot.me()).username}")
        if address.pressed:
            raise Refusal(said)
        if address.quiet:
            raise failure
        if (told := self._told.get((address.chat_id, address.receiver))) is None:
            given = getattr(method, "reply_parameters", None)
            reply = given if given and given.message_id and given.chat_id is None else None
            thread = getattr(method, "message_thread_id", None)
            call = methods.SendMessage(
                chat_id=address.chat_id, text=said, message_thread_id=thread, reply_parameters=reply
            )
            with send_without_content():
                sent = await make_request(bot, call)
            told = self._told[address.chat_id, address.receiver] = sent.model_copy(update={"message_id": 0})
        return told


def _list_replies(method: methods.TelegramMethod[Any], address: EphemeralAddress) -> list[ReplyParameters | None]:
    """List what a message may reply to, in the order of attempts: the asker's message, without quotes, or nothing."""
    given: ReplyParameters | None = getattr(method, "reply_parameters", None)
    number, wrote = address.incoming, address.written_at
    if number is not None and wrote and (datetime.now(UTC) - wrote).total_seconds() <= _REPLY_SECONDS:
        plain = {"allow_sending_without_reply": None, "quote_parse_mode": None}
        return [ReplyParameters(ephemeral_message_id=number, **plain), None]
    if number is None and address.shown is None and given and given.message_id and given.chat_id is None:
        return [ReplyParameters(message_id=given.message_id, quote_parse_mode=None)]
    return [None]
