"""Bot API session: back-off of sending, retries, neutralized links, and the command menu.

Telegram's flood waits, which every call obeys, and pauses of chats after failed messages are kept in memory: after a
restart a refused call or two teach them again. That a reader blocked the bot is in the archive.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from aiogram import Bot, exceptions, methods, types
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.session.base import DEFAULT_TIMEOUT, BaseSession
from aiogram.client.session.middlewares.base import BaseRequestMiddleware, NextRequestMiddlewareType
from aiogram.client.telegram import TelegramAPIServer
from aiogram.methods import Response, TelegramMethod
from aiogram.methods.base import TelegramType
from aiohttp import ClientConnectorError

from bot.background import cancel_tasks
from bot.i18n import LANGUAGES, get_translator
from bot.settings import BotSettings
from bot.telegram.recheck import ContentWithdrawn, QuestionErased, RecheckUnavailable, set_in_block
from bot.telegram.updates import UNREAD_FIELDS
from bot.views.format import neutralize_entities
from rag_core.errors import SettingsWrong
from rag_core.storage.raw_updates import split_updates


async def respond(message: types.Message, text: str, **more: Any) -> types.Message:
    """Send a response to a message, as a reply to it; without, where a reader's message stands right above."""
    above = message.chat.type == "private" and not (message.from_user and message.from_user.is_bot)
    return await (message.answer if above else message.reply)(text, **more)


# A later attempt would fail as well: the reader blocked the bot, the group is gone.
PERMANENT_ERRORS = (
    exceptions.TelegramForbiddenError,
    exceptions.TelegramBadRequest,
    exceptions.TelegramNotFound,
    exceptions.TelegramMigrateToChat,
    exceptions.TelegramEntityTooLarge,
)

# A server that knows no rich messages, or refuses this one: the plain form is sent.
RICH_REFUSALS = (exceptions.TelegramBadRequest, exceptions.TelegramNotFound)

# First and longest pause in seconds, which doubles with each failure in a row: of a chat, of a chat that refuses
# (its admins may give the bot its rights back), of all chats where several fail one after the other.
_CHAT_PAUSE, _REFUSED_PAUSE, _BOT_PAUSE = (20.0, 600.0), (3600.0, 86_400.0), (60.0, 600.0)
_PROBE_SECONDS = 30.0  # that all chats are in a flood wait is inferred from two: one answer in this time tries it
_CONCURRENT_MESSAGES = 3  # in the background; at 0.1 s a message this is Telegram's limit of 30 a second
_MAX_CHATS = 20  # served side by side
_ROUND_SECONDS = 1.0  # until other chats are looked for
_MAX_KEPT = 10_000  # chats; pauses that have ended are dropped above this

Names = tuple[str, ...]
Target = int | str  # a chat, or the name of a method that has no chat
_ALL: Target = ""


class SendingBackoff:
    """Back-off of chats and of the bot. One per session; times are those of `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots = asyncio.Semaphore(_CONCURRENT_MESSAGES)
        self._clock = clock
        self._floods: dict[Target, float] = {}  # when the wait that Telegram asked for ends
        self._pauses: dict[Target, tuple[float, float]] = {}  # when the pause ends, and how long it is
        self._last_flood: Target = _ALL  # last chat that had to wait, or failed, with no success since; "": none
        self._last_failure: Target = _ALL
        self._probed_at = float("-inf")

    def get_wait(self, chat: Target, *, background: bool = True) -> float:
        """Seconds until a message may be sent to a chat; 0: now. Answers to people wait for floods alone."""
        ends = [self._floods.get(chat, 0.0), self._floods.get(_ALL, 0.0)]
        if background:
            ends += [self._pauses.get(one, (0.0, 0.0))[0] for one in (chat, _ALL)]
        return max(0.0, max(ends) - self._clock())

    def try_answer(self, chat: Target) -> float:
        """Seconds until an answer may be sent, as `get_wait`; now and then one may try whether a flood has ended."""
        now = self._clock()
        wait = self.get_wait(chat, background=False)
        if wait and self._floods.get(chat, 0.0) <= now and now - self._probed_at >= _PROBE_SECONDS:
            self._probed_at = now
            return 0.0
        return wait

    def record_success(self, chat: Target) -> None:
        """Record that a message was accepted: nothing is wrong with this chat, nor with all of them."""
        if isinstance(chat, str):
            return
        self._pauses.pop(chat, None)
        self._pauses.pop(_ALL, None)
        self._floods.pop(_ALL, None)
        self._last_flood = self._last_failure = _ALL

    def record_failure(self, chat: Target, exc: Exception, *, background: bool) -> None:
        """Record what Telegram, or the way there, said to a message; who writes to the bot is not paused."""
        if isinstance(exc, exceptions.TelegramRetryAfter):
            self._extend_flood(chat, exc.retry_after)
            if isinstance(chat, str):  # a method without a chat, such as setMyCommands, has a limit of its own
                return
            if self._last_flood not in (_ALL, chat):
                self._extend_flood(_ALL, exc.retry_after)
                self._pause(_ALL, *_BOT_PAUSE)
                self._probed_at = self._clock()
            self._last_flood = chat
        elif background and isinstance(exc, PERMANENT_ERRORS):
            self._pause(chat, *_REFUSED_PAUSE)
        elif background:
            self._pause(chat, *_CHAT_PAUSE)
            if self._last_failure not in (_ALL, chat):
                self._pause(_ALL, *_BOT_PAUSE)
            self._last_failure = chat

    def was_refused_before(self, chat: Target) -> bool:
        """Whether a chat refused its last message as well, an hour or more ago."""
        return self._pauses.get(chat, (0.0, 0.0))[1] > _REFUSED_PAUSE[0]

    def _extend_flood(self, target: Target, seconds: float) -> None:
        now = self._clock()
        if len(self._floods) >= _MAX_KEPT:
            self._floods = {one: end for one, end in self._floods.items() if end > now}
        self._floods[target] = max(self._floods.get(target, 0.0), now + seconds)

    def _pause(self, target: Target, first: float, longest: float) -> None:
        now = self._clock()
        if len(self._pauses) >= _MAX_KEPT:
            self._pauses = {one: kept for one, kept in self._pauses.items() if kept[0] > now}
        end, last = self._pauses.get(target, (0.0, 0.0))
        if end <= now:  # another message that was under way at the same time is no second failure
            last = min(max(first, 2 * last), longest)
        self._pauses[target] = max(end, now + last), last


_IN_BACKGROUND: ContextVar[bool] = ContextVar("send_in_background", default=False)


def send_in_background() -> AbstractContextManager[None]:
    """Send what no reader waits for: each message is tried once, and only where its chat and the bot are not paused.

    Otherwise, and where it fails, the error of aiogram is raised: the sender comes back when `get_wait` says so.
    """
    return set_in_block(_IN_BACKGROUND, True)


_BACKOFFS: WeakKeyDictionary[BaseSession, SendingBackoff] = WeakKeyDictionary()


def get_backoff(bot: Bot) -> SendingBackoff:
    """Back-off of the bot's session, which all its senders share."""
    return _BACKOFFS.setdefault(bot.session, SendingBackoff())


class ChatTasks:
    """Tasks that send to chats side by side, one for each chat: one that is slow delays no other."""

    def __init__(self) -> None:
        self._running: dict[int, asyncio.Task[None]] = {}

    async def run(self, work: Mapping[int, Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Start the work of each chat, unless its last one still runs, and wait a little. Raises the first error."""
        for chat_id in [*work.keys() - self._running.keys()][: _MAX_CHATS - len(self._running)]:
            self._running[chat_id] = asyncio.create_task(work[chat_id]())
        if self._running:
            await asyncio.wait(self._running.values(), timeout=_ROUND_SECONDS)
        ended = [self._running.pop(chat_id) for chat_id, task in [*self._running.items()] if task.done()]
        for exc in filter(None, (task.exception() for task in ended)):
            raise exc

    async def stop(self) -> None:
        """Cancel the tasks that run."""
        await cancel_tasks(self._running.values())


# These have their own back-off, or show for seconds only.
_UNRETRIED_METHODS = {
    "getUpdates", "sendChatAction", "sendMessageDraft", "sendRichMessageDraft", "setMessageReaction"
}  # fmt: skip
_TRANSIENT_ERRORS = (
    exceptions.TelegramRetryAfter,
    exceptions.TelegramServerError,
    exceptions.TelegramNetworkError,
    exceptions.ClientDecodeError,
)
_MAX_RETRY_AFTER_SECONDS = 120  # longer waits that Telegram asks for are not made: the reader has left by then

PROXY_ERROR = "The setting BOT__PROXY cannot be used: write socks5://user:password@host:port or http://host:port."

log = logging.getLogger(__name__)


async def neutralize_call(
    make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
) -> Response[TelegramType]:
    """Middleware: set as code all text that Telegram would link, except this bot's commands.

    Views neutralize the names and words of others; this catches what a view overlooks.
    """
    request: Any = method
    for text, entities in (("text", "entities"), ("caption", "caption_entities")):
        content = getattr(request, text, None)
        if content and hasattr(request, entities):
            known = getattr(request, entities) or []
            marks = neutralize_entities(content, known)
            if len(marks) != len(known):
                request = request.model_copy(update={entities: marks, "parse_mode": None})
    return await make_request(bot, request)


class SendOnce(methods.SendMessage):
    """Message that must not be sent twice: it is sent again only where it cannot have arrived."""


class SendRichOnce(methods.SendRichMessage):
    """Rich message that must not be sent twice."""


class SendRichWithoutRetry(methods.SendRichMessage):
    """Rich message without retries."""


class SendWithoutRetry(methods.SendMessage):
    """Message without retries: the next edit makes up for a lost one."""


class EditWithoutRetry(methods.EditMessageText):
    """Edit without retries: the next edit makes up for a lost one."""


_UNRETRIED_CLASSES = (SendWithoutRetry, SendRichWithoutRetry, EditWithoutRetry)


def _drop_unread_fields(found: dict[str, Any]) -> dict[str, Any]:
    """Drop the fields that are too expensive for aiogram's models, wherever they are."""
    return {name: value for name, value in found.items() if name not in UNREAD_FIELDS}


@cache
def _keep_reply_model(kind: Any) -> Any:
    """Keep the model of a reply: pydantic forgets a generic one that nobody holds, and building it anew takes long."""
    return Response[kind]


class TelegramSession(AiohttpSession):
    """aiogram session that leaves updates raw for `InboxMiddleware`, which must be among its middlewares."""

    def __init__(self, **options: Any) -> None:
        super().__init__(json_loads=partial(json.loads, object_hook=_drop_unread_fields), **options)

    def check_response(
        self, bot: Bot, method: TelegramMethod[TelegramType], status_code: int, content: str
    ) -> Response[TelegramType]:
        """Check the response; the result of getUpdates becomes a list of `RawUpdate`."""
        if isinstance(method, methods.GetUpdates) and (raws := split_updates(content)) is not None:
            return Response.model_construct(ok=True, result=raws)  # type: ignore[arg-type]
        _keep_reply_model(method.__returning__)
        try:
            return super().check_response(bot, method, status_code, content)
        except exceptions.TelegramBadRequest as exc:
            # after a time without the bot; what the press did is done, and its client waits no more
            if isinstance(method, methods.AnswerCallbackQuery) and "query is too old" in exc.message:
                return Response.model_construct(ok=True, result=True)  # type: ignore[arg-type]
            raise

    async def close(self) -> None:
        """Close the connections, without aiogram's sleep for TLS: aiohttp waits for it itself since 3.12."""
        if self._session is not None:
            await self._session.close()


def create_session(settings: BotSettings, timeout: float = DEFAULT_TIMEOUT) -> TelegramSession:
    """Create a session with the Bot API server, through the proxy if one is set. Raises SettingsWrong for the proxy."""
    try:
        proxy = settings.proxy.get_secret_value() or None
        return TelegramSession(proxy=proxy, api=TelegramAPIServer.from_base(settings.api), timeout=timeout)
    except ValueError:  # its message may contain the password
        raise SettingsWrong(PROXY_ERROR) from None


class RetryMiddleware(BaseRequestMiddleware):
    """Retry middleware: repeats a call on flood control, server and network errors, and when access cannot be checked.

    getUpdates has aiogram's own back-off; temporary displays (drafts, "typing") and what is sent in the background are
    not retried. During a flood wait that is known nothing is asked.
    """

    def __init__(self, tries: int = 6, pause: float = 0.5) -> None:
        self.tries, self.pause = tries, pause

    async def __call__(
        self, make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType]
    ) -> Response[TelegramType]:
        """Make the request, at most `tries` times; the pause between doubles."""
        name, chat = method.__api_method__, getattr(method, "chat_id", None) or method.__api_method__
        if isinstance(method, methods.CopyMessage):  # a look whether a post is still there: its limit is no chat's
            chat = name
        if name == methods.GetUpdates.__api_method__:
            return await make_request(bot, method)
        backoff, asks = get_backoff(bot), name.startswith("get")
        if _IN_BACKGROUND.get() and not asks:
            async with backoff.slots:
                _check_wait(method, backoff.get_wait(chat), 0)
                return await _make_recorded_request(make_request, bot, method, chat)
        once = name in _UNRETRIED_METHODS or isinstance(method, _UNRETRIED_CLASSES)
        for attempt in range(1, self.tries + 1):
            if not asks and (wait := backoff.try_answer(chat)):
                _check_wait(method, wait, 0 if once else _MAX_RETRY_AFTER_SECONDS)
                await asyncio.sleep(wait)
            try:
                if asks or name in _UNRETRIED_METHODS:  # they have limits of their own
                    return await make_request(bot, method)
                return await _make_recorded_request(make_request, bot, method, chat)
            except (*_TRANSIENT_ERRORS, RecheckUnavailable) as exc:
                pause = compute_retry_delay(exc, self.pause * 2 ** (attempt - 1))
                repeats = isinstance(exc, RecheckUnavailable) or may_have_arrived(exc)
                twice = repeats and isinstance(method, SendOnce | SendRichOnce)
                if once or twice or attempt == self.tries or pause is None:
                    raise
                log.warning("%s: %s; again in %.1f s", name, type(exc).__name__, pause)
            await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises


async def _make_recorded_request(
    make_request: NextRequestMiddlewareType[TelegramType], bot: Bot, method: TelegramMethod[TelegramType], chat: Target
) -> Response[TelegramType]:
    """Make a request and record in the back-off what became of it."""
    backoff, background = get_backoff(bot), _IN_BACKGROUND.get()
    try:
        response = await make_request(bot, method)
    except (ContentWithdrawn, QuestionErased):  # nothing was asked of Telegram
        raise
    except Exception as exc:
        # What is wrong with an earlier message, which is edited, or with its form, says nothing of its chat.
        if isinstance(method, methods.SendRichMessage) and isinstance(exc, RICH_REFUSALS):
            raise
        if isinstance(exc, (*_TRANSIENT_ERRORS, RecheckUnavailable)) or method.__api_method__.startswith("send"):
            backoff.record_failure(chat, exc, background=background)
        raise
    backoff.record_success(chat)
    return response


def _check_wait(method: TelegramMethod[TelegramType], wait: float, longest: float) -> None:
    """Raise TelegramRetryAfter, without asking Telegram, for a longer wait than this."""
    if wait > longest:
        raise exceptions.TelegramRetryAfter(method, "This chat, or the bot, must wait.", retry_after=math.ceil(wait))


def may_have_arrived(exc: Exception) -> bool:
    """Check whether Telegram may have accepted a message despite the error."""
    if isinstance(exc, exceptions.ClientDecodeError):
        return not isinstance(exc.data, str)  # a string is a proxy's page instead of Telegram's answer
    refused = isinstance(exc, exceptions.TelegramEntityTooLarge) or isinstance(exc.__cause__, ClientConnectorError)
    return isinstance(exc, exceptions.TelegramNetworkError) and not refused


def compute_retry_delay(exc: Exception, pause: float) -> float | None:
    """Seconds until the next try; None where another try cannot help or would send the message twice."""
    if isinstance(exc, exceptions.TelegramRetryAfter):
        return exc.retry_after if exc.retry_after <= _MAX_RETRY_AFTER_SECONDS else None
    # An answer that aiogram cannot parse means that the call went through.
    done = isinstance(exc, exceptions.ClientDecodeError) and may_have_arrived(exc)
    return None if done or isinstance(exc, exceptions.TelegramEntityTooLarge) else pause


_READER_COMMANDS = ("ask", "search", "verify", "new", "help")
_HIDDEN_COMMANDS = ("search", "verify", "why", "sources", "new", "help")  # in groups nobody else sees them
_HIDDEN_ADMIN_COMMANDS = (*_HIDDEN_COMMANDS, "settings")
# /ask is seen as well as its answer, unless the group's admins choose otherwise
_GROUP_COMMANDS, _GROUP_ADMIN_COMMANDS = ("ask", *_HIDDEN_COMMANDS), ("ask", *_HIDDEN_ADMIN_COMMANDS)
_ADMIN_COMMANDS = tuple(
    "channels import unanswered synonyms plan delete check media reindex models stats grant revoke token".split()
)


async def publish_menu(bot: Bot, admins: Iterable[int]) -> None:
    """Publish the command menu by language and scope; it is no authorisation, so that failures are only logged."""
    await _set_menu(bot, types.BotCommandScopeAllPrivateChats(), _READER_COMMANDS)
    for admin in admins:
        await publish_admin_menu(bot, admin)
    await _set_menu(bot, types.BotCommandScopeAllGroupChats(), _GROUP_COMMANDS, _HIDDEN_COMMANDS)
    leaders = types.BotCommandScopeAllChatAdministrators()
    await _set_menu(bot, leaders, _GROUP_ADMIN_COMMANDS, _HIDDEN_ADMIN_COMMANDS)


async def publish_admin_menu(bot: Bot, user_id: int, *, admin: bool = True) -> None:
    """Publish the menu of an admin, or withdraw it: then the readers' menu is shown again."""
    names = (*_READER_COMMANDS, *_ADMIN_COMMANDS) if admin else ()
    await _set_menu(bot, types.BotCommandScopeChat(chat_id=user_id), names)


async def publish_group_menu(bot: Bot, group_id: int, *, hide_questions: bool) -> None:
    """Publish the menu of a group in which nobody else sees a question, or withdraw it."""
    everybody, admins = (_GROUP_COMMANDS, _GROUP_ADMIN_COMMANDS) if hide_questions else ((), ())
    await _set_menu(bot, types.BotCommandScopeChat(chat_id=group_id), everybody, everybody)
    await _set_menu(bot, types.BotCommandScopeChatAdministrators(chat_id=group_id), admins, admins)


async def _set_menu(bot: Bot, scope: types.BotCommandScopeUnion, names: Names, hidden: Names = ()) -> None:
    """Set the menu of a scope; the messages of `hidden` commands are ephemeral."""
    for lang in LANGUAGES:
        code = None if lang == "en" else lang  # English is the default for all other languages
        words = get_translator(lang)
        commands = [
            types.BotCommand(command=name, description=words("menu", command=name), is_ephemeral=name in hidden or None)
            for name in names
        ]
        try:
            if commands:
                await bot.set_my_commands(commands, scope=scope, language_code=code)
            else:
                await bot.delete_my_commands(scope=scope, language_code=code)
        except (exceptions.TelegramAPIError, exceptions.ClientDecodeError) as exc:
            # of an admin who never wrote to the bot
            log.info("the menu of commands was not set for %s: %s", scope, exc)
